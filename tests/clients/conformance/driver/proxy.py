"""A proxy before a server. It can cut connections, refuse new ones, rewrite commands, and swallow replies."""

import socket
import threading


class Pair:
    """A client's connection, and the proxy's connection to the server for it. Its kind is "subscription" once the client has subscribed."""

    def __init__(self, client, server):
        self.client, self.server, self.kind, self.used, self.forgotten = client, server, "commands", False, False

    def cut(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Proxy:
    def __init__(self, port):
        self.target, self.pairs, self.refuses, self.ended = port, [], False, False
        self.rewritten, self.refusals = {}, []
        self.swallowed = ()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def cut(self, *kinds):
        """Closes the connections of these kinds, or all connections."""
        for pair in list(self.pairs):
            if not kinds or pair.kind in kinds:
                pair.cut()

    def refuse(self, refuses=True):
        """From now on, new connections are closed at once."""
        self.refuses = refuses
        if refuses:
            self.cut()

    def forget(self, *kinds):
        """Drops all data of the existing connections silently, as a network can. New connections work."""
        for pair in self.pairs:
            pair.forgotten |= not kinds or pair.kind in kinds

    def rewrite(self, old, new):
        """From now on, replaces these words in commands by others of the same length."""
        self.rewritten[old.encode()] = new.encode()

    def swallow(self, *kinds):
        """From now on, drops what the server sends over connections of these kinds, or over all, once the client has subscribed or sent a
        command of the module: a library can connect and ask for the slots."""
        self.swallowed = kinds or ("commands", "subscription")

    def cut_swallowed(self):
        """Closes the connections that get no replies. New ones get theirs, also one that is made while this runs."""
        kinds = self.swallowed
        self.forget(*kinds)
        self.swallowed = ()
        self.cut(*kinds)

    def end(self):
        self.ended = True
        self.listener.close()
        self.cut()

    def _accept(self):
        while not self.ended:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self.refuses:
                    raise OSError("refused")
                pair = Pair(client, socket.create_connection(("127.0.0.1", self.target)))
            except OSError:
                client.close()
                continue
            for end in (pair.client, pair.server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append(pair)
            for work in (self._to_server, self._to_client):
                threading.Thread(target=work, args=(pair,), daemon=True).start()

    def _to_server(self, pair):
        try:
            while data := pair.client.recv(65536):
                if pair.forgotten:
                    continue
                if b"SUBSCRIBE" in data.upper():
                    pair.kind = "subscription"
                pair.used |= pair.kind == "subscription" or b"LOCK." in data.upper()
                for old, new in self.rewritten.items():
                    data = data.replace(old, new)
                pair.server.sendall(data)
        except OSError:
            pass
        self._close(pair)

    def _to_client(self, pair):
        try:
            while data := pair.server.recv(65536):
                if data.startswith(b"-"):
                    self.refusals.append(data)
                if not (pair.used and pair.kind in self.swallowed or pair.forgotten):
                    pair.client.sendall(data)
        except OSError:
            pass
        self._close(pair)

    def _close(self, pair):
        pair.cut()
        if pair in self.pairs:
            self.pairs.remove(pair)
