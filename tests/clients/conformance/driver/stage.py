"""The servers and programs of a scenario, and the list of scenarios."""

import os
from dataclasses import dataclass

import servers
from program import Program
from proxy import Proxy

SERVICE = "locks"


@dataclass
class Scenario:
    name: str
    run: object
    quick: bool
    alone: bool
    leases: tuple


scenarios = {}


def scenario(quick=True, alone=False, leases=()):
    """Adds a scenario under the name of its function. `quick`: takes about a second. `alone`: no other scenario runs in parallel. With leases,
    in ms, the function gets one: a busy machine can delay a package until it is too late to renew a short one, and then a longer one is tried."""

    def add(function):
        scenarios[function.__name__] = Scenario(function.__name__, function, quick, alone, leases)
        return function

    return add


class Stage:
    """The servers, proxies and programs of one scenario. All of them end with it."""

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.servers, self.proxies, self.programs = [], [], []

    def server(self, *options, **more):
        return self.start(self.folder / f"server-{len(self.servers)}", *options, **more)

    def start(self, folder, *options, **more):
        self.servers.append(servers.Server(folder, *options, **more))
        return self.servers[-1]

    def sentinels(self, first):
        return servers.sentinels(self.folder / f"sentinels-{len(self.servers)}", SERVICE, first, self.start)

    def cluster(self, count=3):
        return servers.cluster(self.folder / "cluster", self.start, count)

    def proxy(self, server):
        self.proxies.append(Proxy(server.port))
        return self.proxies[-1]

    def program(self, server, kind="single", **more):
        """Starts a program that opens this server, this proxy, or the nodes of this list."""
        program = Program(self.command, self.folder, dict(os.environ))
        self.programs.append(program)
        urls = [each.url for each in (server if isinstance(server, list) else [server])]
        return program.open(kind, urls, **({"service": SERVICE} if kind == "sentinel" else {}), **more)

    def both(self, **more):
        """Starts a server, and a program that opens it."""
        server = self.server()
        return server, self.program(server, **more)

    def behind_proxy(self):
        """Starts a server, a proxy before it, and a program that opens the proxy."""
        server = self.server()
        proxy = self.proxy(server)
        return server, proxy, self.program(proxy)

    def end(self):
        for program in self.programs:
            program.kill()
        for proxy in self.proxies:
            proxy.end()
        for server in self.servers:
            server.kill()

    def logs(self):
        for at, program in enumerate(self.programs):
            yield f"standard error of program {at}", program.log()
        for server in self.servers:
            yield f"log of the server on port {server.port}", server.log()
