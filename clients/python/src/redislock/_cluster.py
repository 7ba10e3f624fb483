"""In a cluster: which node serves which slot, and where to send a command again that a node refuses.

Commands use connections of our own. redis-py closes those of its cluster client whenever it reads the slots again, which would end places
and sessions. And it repeats a command whose answer was lost: the second release would get NOTHELD.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from redis import exceptions
from redis.crc import key_slot

from ._request import Key, Passing

if TYPE_CHECKING:
    from ._core import Core

SLOTS = 1 << 14
TAGS = 1 << 17  # each of the 16,384 slots has 8 of these tags on average
REDIRECTS = 5  # the most redirects that one command follows
AGAIN = 1.0  # s: after a failure, the pause before the slots are read again
PATIENCE = 1.0  # s: how long to wait for a node that is asked for the slots


class Nodes(Protocol):
    core: Core

    def line(self, name: str) -> Any: ...
    def seeds(self) -> Iterable[str]: ...
    def at(self, host: str, port: int) -> str: ...
    async def slots_of(self, name: str) -> Any: ...


class Slots:
    """Which node is the primary of each slot. A node's name is HOST:PORT."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.read_at = nodes, 0.0
        self.owners: list[str] = [""] * SLOTS

    def of(self, key: Key) -> str:
        owner = self.owners[key_slot(key.encode() if isinstance(key, str) else key)]
        return owner or next(name for name in [*self.owners, *self.nodes.seeds()] if name)  # any node: it will redirect

    def tag(self, name: str) -> int:
        tag = next((tag for tag in range(TAGS) if self.owners[key_slot(b"%d" % tag)] == name), None)
        if tag is None:
            raise exceptions.ClusterError(f"{name} has no slots")
        return tag

    def known(self) -> bool:
        return any(self.owners)

    async def read(self, first: str = "", last: str = "") -> None:
        """Asks one node after the other for the slots, until one answers. A node that was removed from the cluster knows of no slots."""
        self.read_at = monotonic()
        known = [name for name in [*self.owners, *self.nodes.seeds()] if name != last]
        for name in dict.fromkeys([first, *known, last]):
            if name:
                with suppress(Exception):
                    if told := await self.nodes.slots_of(name):
                        self._learn(told, name)
                        return

    def _learn(self, told: list[Any], asked: str) -> None:
        owners = [""] * SLOTS
        for begin, end, primary, *_ in told:
            host = primary[0].decode() if primary[0] else asked.rpartition(":")[0]
            owners[begin:end + 1] = [self.nodes.at(host, primary[1])] * (end + 1 - begin)
        self.owners = owners

    async def send(self, words: list[Any], session: bool) -> Any:
        name, asking, refusal = self.of(words[2 if words[0].startswith("LOCK.M") else 1]), False, ""
        for _ in range(REDIRECTS):
            try:
                return await self.nodes.line(name).send(words, session, asking)
            except exceptions.AskError as elsewhere:
                asking, refusal = not isinstance(elsewhere, exceptions.MovedError), str(elsewhere)
                name = self.nodes.at(elsewhere.host or name.rpartition(":")[0], elsewhere.port)
                if not asking:
                    self.owners[elsewhere.slot_id] = name
            except self.nodes.core.PASSING:
                if monotonic() > self.read_at + AGAIN:
                    await self.read(last=name)
                raise
        raise Passing(refusal)
