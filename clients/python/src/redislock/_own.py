"""Connections of our own, with all settings of the user's client: it may have a pool of one, or be busy."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from redis.backoff import NoBackoff

COMMANDS = 8  # connections for commands; 1,000 tasks share them


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
    """A client opens again when it is used again, so only a call of its `close` tells that it was closed: that ends its locks."""
    made = vars(client).setdefault("_redislock_made", weakref.WeakSet())
    made.add(locks)
    if name not in vars(client):
        me, method = weakref.ref(client), getattr(type(client), name)
        setattr(client, name, lambda *given, **named: closing(list(made), partial(method, me(), *given, **named)))
