"""The program of the conformance scenarios for asyncio."""

import asyncio
import json
import sys
from contextlib import suppress

import redis.asyncio as redis
from redis.asyncio.sentinel import Sentinel
from redislock.asyncio import Locks

from words import Tells, acquired, connect, options, say, tell


class Task:
    def __init__(self, locks, command):
        self.name, self.over = command["task"], asyncio.Event()
        try:
            self.lock = locks.lock(*command["keys"], **options(command))
        except Exception as error:
            return tell(self.name, error)
        self.task = asyncio.ensure_future(self.run())

    async def run(self):
        try:
            async with self.lock as held:
                acquired(self.name, held)
                await self.over.wait()
            say("released", task=self.name)
        except asyncio.CancelledError:
            say("cancelled", task=self.name)
        except Exception as error:
            tell(self.name, error)

    async def release(self):
        """Called before the next command is read, so that the release has begun by then."""
        self.over.set()
        while self.lock._state == "held":
            await asyncio.sleep(0)

    async def extend(self, lease):
        try:
            say("extended", task=self.name, lease=round(1000 * await self.lock.extend(lease / 1000)))
        except Exception as error:
            tell(self.name, error)


async def main():
    tasks, locks, client, running = {}, None, None, set()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        command = json.loads(line)
        do = command["do"]
        if do == "open":
            client = connect(command, redis, Sentinel)
            locks = Locks(client, observer=Tells() if command.get("observe") else None)
            say("opened")
        elif do == "acquire":
            tasks[command["task"]] = Task(locks, command)
        elif do == "cancel":
            tasks[command["task"]].task.cancel()
        elif do == "release":
            await tasks[command["task"]].release()
        elif do == "close":
            await locks.close()
            say("closed")
        else:
            running.add(task := asyncio.ensure_future(tasks[command["task"]].extend(command["lease"])))
            task.add_done_callback(running.discard)
    with suppress(Exception):
        await client.aclose()


asyncio.run(main())
