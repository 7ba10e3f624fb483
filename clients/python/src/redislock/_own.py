"""Connections of our own, with the settings of the user's client, because its pool may have one connection, or be busy."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from redis.backoff import NoBackoff

COMMANDS = 8  # connections for commands, shared by all tasks


def refuse_others(client: Any, module: Any) -> None:
    if not isinstance(client, (module.Redis, module.RedisCluster)):
        name = module.__name__
        raise TypeError(f"client must be a {name}.Redis or {name}.RedisCluster: {client!r}")


def settings(source: Any, retry: Any, name: str) -> dict[str, Any]:
    """The settings for a pool of our own, copied from the user's pool or cluster node; `name` is the cluster's node to connect to, if any.
    Replies come as bytes, and redis-py must not retry: the protocol says which commands are sent again."""
    wanted = {name: value for name, value in source.connection_kwargs.items() if name not in ("retry_on_error", "retry_on_timeout")}
    if name:
        host, _, port = name.rpartition(":")
        wanted |= {"host": host, "port": int(port)}
    wanted |= {"decode_responses": False, "retry": retry(NoBackoff(), 0), "connection_class": source.connection_class}
    return wanted


def made_of(client: Any, locks: Any, name: str, closing: Callable[[Any, Any], Any]) -> None:
    """Makes a call of the client's `close` end its locks. There is no other sign: a closed client opens again when it is used."""
    made = vars(client).setdefault("_redislock_made", weakref.WeakSet())
    made.add(locks)
    if name not in vars(client):
        me, method = weakref.ref(client), getattr(type(client), name)
        setattr(client, name, lambda *given, **named: closing(list(made), partial(method, me(), *given, **named)))
