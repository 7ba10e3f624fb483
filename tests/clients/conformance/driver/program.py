"""The conformance program of a language: the commands for it, and its events, as in README.md."""

import itertools
import json
import os
import signal
import subprocess
import threading
import time

numbers = itertools.count(1)
said = threading.Condition()  # notified when a program has written an event


class Stalls:
    """Measures for how many seconds in all the machine was busy with others: time limits leave this out."""

    def __init__(self):
        self.own = self.longest = 0.0
        threading.Thread(target=self._measure, daemon=True).start()

    def _measure(self):
        while True:
            begin = time.monotonic()
            time.sleep(0.002)
            stall = max(0.0, time.monotonic() - begin - 0.003)
            self.own, self.longest = self.own + stall, max(self.longest, stall)

    def total(self):
        """The pauses of our own thread show halts of the machine, but not waits of other programs for a processor: Linux may count these."""
        try:
            with open("/proc/pressure/cpu") as pressure:
                return self.own + int(pressure.readline().rpartition("total=")[2]) / 1e6
        except OSError:
            return self.own


stalls = Stalls()


class Late(AssertionError):
    """Raised if something was too late, by no more than the machine was busy with others meanwhile."""


HOLDUP = 1000  # ms: what is later than this is played again, even if the machine was busy all the time


class Watch:
    """Measures a time in ms, and for how much of it the machine was busy with others."""

    def __init__(self):
        self.begin, self.stalls = time.monotonic(), stalls.total()

    def within(self, least, most, what):
        took, stalled = (time.monotonic() - self.begin) * 1000, (stalls.total() - self.stalls) * 1000
        assert took >= least - 1, f"{what}: too soon, after {took:.0f} ms instead of {least}"
        if took > most + min(stalled, HOLDUP):
            kind = Late if took <= most + stalled else AssertionError
            raise kind(f"{what}: {took:.0f} ms instead of at most {most}, and {stalled:.0f} ms of stalls")


class Task:
    def __init__(self, program, name, events):
        self.program, self.name, self.events, self.lost = program, name, events, None

    def next(self, *names, seconds=60):
        """Returns the task's next event, which must be one of these."""
        event = self.program.await_event(self.events, f"{self.name}: {' or '.join(names)}", seconds)
        assert event["event"] in names, f"instead of {' or '.join(names)}: {event}"
        return event

    def silent(self):
        """Checks that the task has had no event."""
        assert not self.events, f"unexpected: {self.events}"
        return True

    def acquired(self, seconds=60):
        self.owner, self.fences = (event := self.next("acquired", seconds=seconds))["owner"], event["fences"]
        self.slot = event.get("slot")
        return self

    def release(self, *events):
        self.program.tell(do="release", task=self.name)
        return self.next(*events or ["released"])

    def cancel(self):
        self.program.tell(do="cancel", task=self.name)
        return self.next("cancelled")

    def extend(self, lease, *events):
        self.program.tell(do="extend", task=self.name, lease=lease)
        return self.next(*events or ["extended"])


class Program:
    def __init__(self, command, folder, environment):
        self.tasks, self.general, self.observed = {}, [], []
        self.errors = open(folder / f"program-{next(numbers)}.log", "w+")
        self.process = subprocess.Popen(command, cwd=command[0].parent, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            with said:
                task = self.tasks.get(event.get("task"))
                if event["event"] == "lost" and event.get("what") in ("lost", "not released"):
                    if task.lost not in (None, event["what"]):
                        continue  # a release finds the loss, and the package tells of it as well
                    task.lost = event["what"]
                (self.observed if event["event"] == "observed" else task.events if task else self.general).append(event)
                said.notify_all()
        with said:
            said.notify_all()

    def await_event(self, events, what, seconds):
        end = time.monotonic() + seconds
        with said:
            while not events:
                left = end - time.monotonic()
                assert left > 0, f"not within {seconds} s: {what}"
                assert self.process.poll() is None or left < seconds - 1, f"the program ended: {what}"
                said.wait(min(left, 0.5))
            return events.pop(0)

    def told(self, *wanted):
        """Checks that the observer's next events are these, in any order."""
        events = [self.await_event(self.observed, f"the observer is told: {', '.join(wanted)}", 20) for _ in wanted]
        assert sorted(event["what"] for event in events) == sorted(wanted), f"instead of {wanted}: {events}"
        return events

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def open(self, kind, urls, **more):
        self.tell(do="open", kind=kind, urls=urls, **more)
        event = self.await_event(self.general, "opened", 60)
        assert event["event"] == "opened", event
        return self

    def acquire(self, *keys, events=None, **options):
        """Makes a new task. Its events go to this list, or to one of its own."""
        task = Task(self, f"t{next(numbers)}", [] if events is None else events)
        self.tasks[task.name] = task
        self.tell(do="acquire", task=task.name, keys=list(keys), **options)
        return task

    def close(self):
        self.tell(do="close")
        event = self.await_event(self.general, "closed", 60)
        assert event["event"] == "closed", event
        self.process.stdin.close()
        assert self.process.wait(60) == 0, f"its exit code is {self.process.returncode}"

    def kill(self):
        """Kills the program, with the processes that it has started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def log(self):
        self.errors.seek(0)
        return self.errors.read()
