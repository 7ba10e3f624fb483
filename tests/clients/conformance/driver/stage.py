"""What a scenario stands on, and the list of scenarios."""

import functools
import os
from dataclasses import dataclass

import servers
from program import Program, stalls
from proxy import Proxy

SERVICE = "locks"


@dataclass
class Scenario:
    name: str
    run: object
    quick: bool
    alone: bool


scenarios = {}


def scenario(quick=True, alone=False):
    """Names a scenario by its function. `quick`: a second or so. `alone`: nothing else runs beside it."""

    def add(function):
        scenarios[function.__name__] = Scenario(function.__name__, function, quick, alone)
        return function

    return add


def leases(*lengths):
    """Gives a scenario a lease, in ms. A busy machine can hold up the package until it is too late to renew a short one: so if the
    scenario fails, and others had the machine for a quarter of the lease meanwhile, it is played again, with the next length. So
    it is if a sentinel was held up, such as by the disk: then it does nothing for 30 s (TILT), and may never promote the replica."""

    def add(play):
        @functools.wraps(play)
        def run(stage):
            for lease in lengths:
                stalled = stalls.total()
                try:
                    return play(stage, lease)
                except (AssertionError, TypeError) as failure:  # the second if the lock is gone
                    stalled = round((stalls.total() - stalled) * 1000)
                    tilted = any(server.sentinel and "+tilt" in server.log() for server in stage.servers)
                    if lease == lengths[-1] or (stalled < lease / 4 and not tilted):
                        raise
                    why = f"{stalled} ms of stalls{' and a TILT' if tilted else ''}"
                    print(f"{play.__name__}: once more, after {why} with a lease of {lease}: {failure}", flush=True)

        return run

    return add


class Stage:
    """Servers, proxies and programs of one scenario. They end with it."""

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
        """A program that has opened that server, or a proxy, or the nodes in that list."""
        program = Program(self.command, self.folder, dict(os.environ))
        self.programs.append(program)
        urls = [each.url for each in (server if isinstance(server, list) else [server])]
        return program.open(kind, urls, **({"service": SERVICE} if kind == "sentinel" else {}), **more)

    def both(self, **more):
        """A server, and a program that has opened it."""
        server = self.server()
        return server, self.program(server, **more)

    def behind_proxy(self):
        """A server, a proxy before it, and a program that has opened the proxy."""
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
