"""Connections of our own, with all settings of the user's client: it may have a pool of one, or be busy."""

from __future__ import annotations

from typing import Any

from redis.backoff import NoBackoff

COMMANDS = 8  # connections for commands; 1,000 tasks share them


def settings(client: Any, retry: Any) -> dict[str, Any]:
    """For a pool. Replies as bytes; and the protocol itself sends again what was lost."""
    pool = client.connection_pool
    wanted = {name: value for name, value in pool.connection_kwargs.items() if name not in ("retry_on_error", "retry_on_timeout")}
    wanted |= {"decode_responses": False, "retry": retry(NoBackoff(), 0), "connection_class": pool.connection_class}
    return wanted
