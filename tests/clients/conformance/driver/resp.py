"""A connection to a server, for the driver's own questions."""

import socket


class ReplyError(Exception):
    pass


class Connection:
    def __init__(self, port):
        self.port = port
        self._connect()

    def _connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        try:
            return self._ask(words)
        except ConnectionError:  # a server closes its connections when its role changes
            self.close()
            self._connect()
            return self._ask(words)

    def _ask(self, words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self._reply()

    def _reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        if kind == b"-":
            raise ReplyError(rest)
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if rest == "-1":
            return None
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode(errors="replace")
        replies = []
        for _ in range(int(rest)):
            try:
                replies.append(self._reply())
            except ReplyError as error:
                replies.append(error)
        return replies

    def fields(self, *words):
        """Converts a reply of names and values to a dict, or None."""
        reply = self(*words)
        return reply and dict(zip(reply[::2], reply[1::2]))

    def info(self, section):
        return dict(line.split(":", 1) for line in self("INFO", section).splitlines() if ":" in line)

    def close(self):
        self.file.close()
        self.socket.close()
