"""Replays the traces with the core of one language, variant by variant. Exit code 1: one differs.

    tests/clients/conformance/run python traces         all of them
    tests/clients/conformance/run python traces=17      this one, with its story
    REDISLOCK_TRACES=same cargo test -p redislock-rules traces      after a change of the Rust core that is meant, and for new lines
    REDISLOCK_TRACES=new cargo test -p redislock-rules traces       finds others
    REDISLOCK_TRACES=more cargo test -p redislock-rules traces      finds some for arrows that are missing

Each line of the files is a trace: what one client was told, with the times, and what the core of the Rust package did then. Those in
`found.jsonl` were recorded in a world of rules, network and clients; those in `written.jsonl` are by hand: of a new one, write what the core is
told. Each arrow of docs/protocol.md's table is in one of them, and nearly each pair of arrows that follow each other. `cargo test -p
redislock-rules arrows -- --nocapture` shows in which.

A trace is a list of lines `[ms, what, ...]`. Acquires and commands have numbers, from 1, in the order in which they began.

What the core is told:
    "subscribed"                    the subscription is confirmed, for the first time or anew
    "heard", message                a message of the channel
    "acquire", options              as in ../README.md; `owner` is a name that the caller chose, `fresh` one that the trace's core chose
    "extend", acquire, ms or null;  "check", acquire;  "release", acquire;  "cancel", acquire;  "close"
    "answer", command, reply        a number, null, "QUEUED", a list, {"error": text}, or {"no answer": "cut" or "silence"}: the
                                    connection was lost, or the patience is over
    "frozen", ms                    the process stands still until then: no clock looks

What the core does:
    "send", command, words          and "session", if it goes on that connection
    "acquired", acquire, fences, slot or null
    "believes", acquire, ms or null when the lease ends, as far as the holder knows
    "lost", acquire, outcome        the holder is told
    "refused", acquire, outcome     not acquired, cancelled, closed, deadlock, not confirmed, no module, too old, error, or unanswered: not
                                    acquired, and the last command had no answer
    "extended", acquire, ms;  "not extended", acquire, outcome;  "released", acquire;  "not released", acquire, outcome

This file sets the clock, gives each command the trace's answer, and compares. What is free:
- The order of options and of what happens in one millisecond; two milliseconds of any time.
- When something is told that need not wait for an answer: that a wait is over, or a lock is released.
- A second command for an acquire before the first one is answered (but an extension in those packages that say otherwise). It gets no answer, and from then on, the core may believe less than the
  trace (never more), and do other things: the replay ends there, counted as "in part".
- To claim a grant that comes in answer to a command when the wait is over (in part, too).
- To tell that a lock is released whose release has no answer: the first one, or until the lease is over.
- To look at the clock before a grant is doubted, or the locks are closed (in part: it is lost).
- To ask again only after TRY_AGAIN where the trace does at once, since the subscription was made anew before there was no answer (in part).
- To give up what a doubt without an answer may have been granted (in part).
- To send again what gives up a lock or a place, when there was no answer, for longer than the trace does; and to leave that out when the
  server has said that there is nothing, and to no other one of this name that there is a place.
There are no traces of what each package decides: a first subscription that fails, and silence for an acquire that does not wait.
"""

import contextlib
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path

TRACES = [Path(__file__).parent.parent / "traces" / name for name in ("written.jsonl", "found.jsonl")]
DONE = {"send", "acquired", "believes", "lost", "refused", "extended", "not extended", "released", "not released"}
NEAR = 2  # ms by which times may differ
PATIENCE = 20  # s that one step may take
ENOUGH = 10  # differences after which no more traces are replayed, since each may take so long
PARTING, TRY_AGAIN = 45, 102  # ms
LATE = {"refused", "released", "not released", "not extended"}  # results that come at once, or only with the server's answer
UNCLEAR = {"unanswered", "not acquired", "cancelled", "closed"}  # if several of these apply, packages may report any of them
SERIAL = {"go", "java", "ruby"}  # the packages whose extensions of one lock wait for each other
VALUES = {"OWNER": 1, "NOTIFY": 1, "START": 1, "PX": 1, "BLOCK": 1, "MAXHOLD": 1, "LIMIT": 1, "SLOT": 1, "LABEL": 1, "FENCE": 1, "SYNC": 2}


def all_traces():
    return [line for file in TRACES for line in file.read_text().splitlines()]


class Differs(Exception):
    pass


class Free(Exception):
    """Raised if the trace goes on in one of several allowed ways, and the program in another one."""


class Program:
    """The core of one language, in a process of its own."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.serial, self.begun = Path(command[0]).parent.name in SERIAL, math.inf
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Kills a core that does not answer in time: with a planted fault, it may loop for ever."""
        while self.process.poll() is None:
            time.sleep(1)
            if time.monotonic() > self.begun + PATIENCE:
                self.process.kill()

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()

    def told(self, line):
        """Converts a line of a trace to a command of the program."""
        if line == ["new"]:
            self.acquires, self.closed = 0, False
            return {"do": "open", "kind": "single", "at": 0}
        at, what, *given = line
        self.closed |= what == "close"
        if what == "acquire":
            self.acquires += 1
            return {"do": what, "at": at, "task": str(self.acquires), **{name: value for name, value in given[0].items() if name != "fresh"}}
        names = {"answer": ["command", "reply"], "heard": ["message"]}.get(what, ["task", "lease"])
        return {"do": what, "at": at, **dict(zip(names, [str(given[0]), *given[1:]] if names[0] == "task" and given else given))}

    def done(self, event):
        """Converts an event of the program to a line of a trace."""
        what, task = event["event"], int(event.get("task") or 0)
        if what == "sent":
            return [event["at"], "send", event["command"], event["words"], *["session"] * event["session"]]
        if what == "acquired":
            return [event["at"], what, task, event["fences"], event.get("slot")]
        if "what" in event:
            return [event["at"], event["what"], task, "closed" if self.closed and event["what"] == "lost" else what.replace("_", " ")]
        return [event["at"], what, task, *(event[name] for name in ("owner", "until", "lease") if name in event)]

    def step(self, line):
        """Returns what the core did, and when its next timer is due."""
        self.begun = time.monotonic()
        done = []
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(self.told(line)), file=self.process.stdin, flush=True)
        while text := self.process.stdout.readline():
            event = json.loads(text)
            if event["event"] == "next":
                self.begun = math.inf
                return sorted(done, key=lambda said: said[1] != "owner"), event["until"]
            if "task" in event or event["event"] == "sent":
                done.append(self.done(event))
        raise Differs(f"the program ended: exit code {self.process.wait()}")


def parts(text):
    """Splits a command into its verb, keys, owner and options, so that the order of options does not matter."""
    verb, *words = text.split(" ")
    keys, words = (words[1:1 + int(words[0])], words[1 + int(words[0]):]) if verb.startswith("LOCK.M") else (words[:1], words[1:])
    options = {} if verb.endswith("ACQUIRE") else {"OWNER": words.pop(0)}
    while words:
        word = words.pop(0)
        options[word] = tuple(words.pop(0) for _ in range(VALUES.get(word, 0)))
    owner = options.pop("OWNER")
    options.pop("NOTIFY", None)
    return verb, tuple(keys), owner if isinstance(owner, str) else owner[0], options


def same(one, other):
    """Whether two commands are the same. The rest of a wait may differ by some milliseconds."""
    if one[:3] != other[:3] or one[3].keys() != other[3].keys():
        return False
    return all(name == "BLOCK" and abs(int(value[0]) - int(other[3][name][0])) <= NEAR or value == other[3][name]
               for name, value in one[3].items())


class Replay:
    def __init__(self, program, lines):
        self.program, self.lines = program, lines
        self.story, self.next, self.now = [], None, 0
        self.owners = {}  # maps the trace's names of owners to the program's
        self.sent = {}  # maps the trace's commands to the program's
        self.wanted = [line for line in lines if line[1] in DONE and not self.is_over(line)]
        self.late = []  # answers to commands that the core has not sent yet
        self.frozen = 0
        self.early = self._early()
        self.answered = set()
        self.released = []
        self.loose = False  # the core has sent a command earlier than the trace: from then on, it may know less, and act differently

    def _early(self):
        """The earliest time of each command: a core may send a second command for an acquire before the first one is answered."""
        early, sent, answered = {}, {}, (0, 0, False)
        for line in self.lines:
            if line[1] == "send":
                sent[line[2]] = line
                at, before, said = answered
                again = line[0] - at <= TRY_AGAIN and said and "BLOCK" in parts(line[3])[3]
                waits = "BLOCK" in parts(line[3])[3]  # a waiting acquire is sent only after the command before it
                if before in sent and (at == line[0] and not waits or again) and parts(sent[before][3])[2] == parts(line[3])[2]:
                    early[line[2]] = at if again else early.get(before, sent[before][0])
            elif line[1] == "answer":
                answered = line[0], line[2], isinstance(line[3], dict) and "no answer" in line[3]
        return early

    def tell(self, line):
        self.story.append(line)
        if len(self.story) > 10 * len(self.lines) + 100:
            raise Differs("it never ends")
        self.now = line[0]
        done, self.next = self.program.step(line)
        for each in done:
            self.check(each)

    def check(self, done):
        self.story.append(["  it", *done])
        at, what, *said = done
        if self.is_over(done):
            return
        if what == "owner":
            if (mine := self.fresh.get(said[0])) is not None:
                self.owners[mine] = said[1]
            return
        if what == "send":
            theirs = parts(said[1])
            names = {its: mine for mine, its in self.owners.items()}
            said[1] = (*theirs[:2], names.get(theirs[2], theirs[2]), theirs[3])
            if "RELEASE" in theirs[0]:  # the later one of two releases gets NOTHELD
                lost = any(line[1] == "lost" and line[0] <= at + NEAR for line in self.lines)
                if said[1] in self.released and not lost and not self.is_said_again(said[1]):
                    raise Differs(f"{done}: again")
                self.released.append(said[1])
        for wanted in self.wanted:
            if wanted[1] == what and self.in_time(wanted, at, what) and self.fits(wanted, what, said):
                self.wanted.remove(wanted)
                self.loose |= what == "send" and at < wanted[0] - NEAR
                if what == "send":
                    self.sent[wanted[2]] = said[0]
                    for line in [line for line in self.late if line[2] == wanted[2]]:
                        self.late.remove(line)
                        self.answer(line)
                return
        if what == "believes" and said[1] is not None and isinstance(ends := self.ends(at, said[0]), int) and abs(said[1] - ends) <= NEAR:
            return
        if what == "send" and said[1][0].endswith("ACQUIRE") and "BLOCK" in said[1][3] and self.is_busy(said[1], "RELEASE"):
            raise Differs(f"{done}: a release is under way")
        if what == "send" and said[1][0].endswith("EXTEND") and self.program.serial and said[1][2] in self.fresh.values() and self.is_busy(said[1], "EXTEND"):
            raise Differs(f"{done}: an extension is under way")
        if what == "send" and self.is_busy(said[1]):
            self.loose = True
            return  # the extra command gets no answer
        if what == "send" and (said[1][0] == "LOCK.LEAVE" or "RELEASE" in said[1][0] and "FENCE" not in said[1][3]) and self.is_doubtful(said[1]):
            raise Free("there may be a grant without a known fence")
        if self.loose and (what != "believes" or self.is_within(at, *said)):
            raise Free("it knows less by now")
        if what == "send" and self.is_said_again(said[1]):
            return
        if what == "send" and said[1][0].endswith("ACQUIRE") and "BLOCK" in said[1][3] and any(line[1] == "answer" and line[3] is None for line in self.lines):
            raise Free("null before the end of the wait")
        if what == "send" and said[1][0].endswith("ACQUIRE") and "BLOCK" in said[1][3] and said[1][2] not in self.owners:
            raise Free("it asks again when another one of its owner has ended")
        if what == "send" and said[1][0].endswith("EXTEND") and "PX" not in said[1][3] and any("MAXHOLD" in str(line[3:]) for line in self.lines):
            raise Free("near its maximum age, it can't know the server's lease")
        if what == "released" and not any(line[1] in ("lost", "not released") and line[2] == said[0] for line in self.lines):
            return  # the trace ends before this
        if what == "extended" and any(line[1:3] == ["not extended", said[0]] for line in self.lines):
            return
        failed = [line for line in self.wanted if line[1:3] == ["not released", said[0]]]
        unheard = [line[2] for line in self.lines if line[1] == "answer" and line[2] in self.answered and "no answer" in str(line[3])]
        releases = [line[2] for line in self.lines if line[1] == "send" and "RELEASE" in line[3] and self.is_of(parts(line[3]), said[0])]
        over = failed and failed[0][0] > at + NEAR and not self.is_within(at, said[0], at + 2 * NEAR)
        if what == "released" and failed and (over or set(unheard) & set(releases)):
            self.wanted.remove(failed[0])
            return
        if what == "acquired" and any(line[1:3] == ["refused", said[0]] and line[3] in ("unanswered", "not acquired") for line in self.lines):
            raise Free("the wait was over, and the answer under way")
        # If a release gets NOTHELD, the core may tell of it twice.
        ends = [line for line in self.lines if line[1] == "not released" and line[2] == said[0] and abs(line[0] - at) <= NEAR]
        if what != "lost" or not ends:
            raise Differs(f"{done}: not in the trace")

    @staticmethod
    def is_over(line):
        """Whether the line reports a lease that ends at once, which a core need not report."""
        return line[1] == "believes" and line[3] is not None and line[3] <= line[0] + NEAR

    def is_within(self, at, task, until):
        """Whether the holder may rely on the lease until then: not for longer than in the trace."""
        ends = self.ends(at, task)
        return ends is not ... and (ends is None or until is not None and until <= ends + NEAR)

    def ends(self, at, task):
        """When the lease ends, as the trace's holder knows it at this time; `...` if it holds nothing."""
        return next((line[3] for line in reversed(self.lines) if line[1:3] == ["believes", task] and line[0] <= at + NEAR), ...)

    def is_busy(self, command, verb="LOCK"):
        """Whether an earlier command of this acquire has no answer yet."""
        sent = [line for line in self.lines if line[1] == "send" and line[2] in self.sent and verb in line[3]]
        mine = [line for line in sent if parts(line[3])[1:3] == command[1:3]]
        return any(line[2] not in self.answered for line in mine)

    def is_doubtful(self, command):
        """Whether this releases a grant that was doubted, and the doubt has no answer."""
        unheard = [line[2] for line in self.lines if line[1] == "answer" and isinstance(line[3], dict)]
        doubts = [parts(line[3]) for line in self.lines if line[1] == "send" and line[2] in unheard and line[2] in self.answered]
        return any(verb.endswith("ACQUIRE") and "BLOCK" not in options and owner == command[2] for verb, _, owner, options in doubts)

    def is_late(self, at, _, __, text, *___):
        """Whether this acquires again what is lost at that moment, or releases, at the close, a lock whose lease is over."""
        verb, _, _, options = parts(text)
        lost = [line for line in self.lines if line[:2] == [at, "lost"]]
        if "RELEASE" not in verb:
            return bool(lost) and "BLOCK" not in options
        return any(outcome == "closed" and not self.is_within(at, task, at + 2 * NEAR) for *_, task, outcome in lost)

    def is_known(self, wanted):
        """Whether this gives up something that does not exist any more, as an answer has said."""
        if wanted[1] == "send" and wanted[3].startswith("LOCK.LEAVE"):
            its = {line[2] for line in self.lines if line[1] == "send" and parts(line[3])[2] == parts(wanted[3])[2]}
            said = [line[3] for line in self.lines if line[1] == "answer" and line[2] in its and line[0] <= wanted[0]]
            # If several acquires share the owner's name, the place may belong to another one.
            return None in said and ("QUEUED" not in said or parts(wanted[3])[2] in self.fresh.values())
        if wanted[1] == "send" and "RELEASE" in wanted[3] and self.is_lost(wanted):
            command = parts(wanted[3])
            if command in self.released or self.is_said_again(command):
                return True
        fence = wanted[1] == "send" and wanted[3].startswith("LOCK.RELEASE") and parts(wanted[3])[3].get("FENCE")  # of several, some may be held
        return fence and any(line[1] == "heard" and line[2].startswith(f"lost {fence[0]} ") and line[0] <= wanted[0] for line in self.lines)

    def is_lost(self, wanted):
        """Whether the lock that this releases was lost before."""
        return any(line[1] in ("lost", "not released") and self.is_of(parts(wanted[3]), line[2]) and line[0] <= wanted[0] for line in self.lines)

    def is_of(self, command, task):
        """Whether this command names the grant of this acquire."""
        return any(line[1:3] == ["acquired", task] and str(line[3][0]) in command[3].get("FENCE", ()) for line in self.lines)

    def is_said_again(self, command):
        """Whether this repeats a command that gives something up and had no answer, or gives up what was lost meanwhile."""
        lines = [line for line in self.lines if line[1] == "send" and same(parts(line[3]), command)]
        unheard = [line[2] for line in self.lines if line[1] == "answer" and isinstance(line[3], dict)]
        return command[0] != "LOCK.ACQUIRE" and any(line[2] in unheard and line[2] in self.answered for line in lines)

    def in_time(self, wanted, at, what):
        if what == "send":
            return self.early.get(wanted[2], wanted[0]) - NEAR <= at <= wanted[0] + NEAR
        # Results may come at once, or with the server's answer.
        if what == "refused":
            return at >= wanted[0] - PARTING
        if what in LATE:
            return True
        return abs(wanted[0] - at) <= NEAR

    @staticmethod
    def fits(wanted, what, said):
        if what == "send":
            return same(parts(wanted[3]), said[1]) and wanted[4:] == said[2:]
        if what == "believes":
            ends = wanted[3], said[1]
            return wanted[2] == said[0] and (None in ends and ends[0] == ends[1] or None not in ends and abs(ends[0] - ends[1]) <= NEAR)
        if what == "refused" and wanted[3] in UNCLEAR:
            return wanted[2] == said[0] and said[1] in {"error", *UNCLEAR}
        if what == "not extended":
            return wanted[2] == said[0]
        return wanted[2:] == said

    def answer(self, line):
        _, what, command, reply = line
        self.answered.add(command)
        self.tell([max(self.now, line[0]), what, self.sent[command], reply])

    def pass_time(self, until):
        while self.next is not None and (at := max(self.next, self.frozen)) <= until:
            self.is_missing(at)
            self.tell([max(at, self.now), "time"])
        self.is_missing(until)

    def is_missing(self, until):
        missing = [wanted for wanted in self.wanted if wanted[0] < until - NEAR and not self.is_known(wanted) and wanted[1] != "not extended" and (wanted[1] not in LATE or until > self.lines[-1][0])]
        if missing and self.loose:
            raise Free("it knows less by now")
        if missing and missing[0][1] == "send" and self.is_late(*missing[0]):
            raise Free("it has looked at the clock before")
        if missing and missing[0][1] == "send" and self.early.get(missing[0][2]) == missing[0][0]:
            raise Free("it asks again after a pause")
        if missing:
            raise Differs(f"{missing[0]}: it does not do that")

    def run(self):
        self.program.step(["new"])
        acquires = [line[2] for line in self.lines if line[1] == "acquire"]
        self.fresh = {number: options.get("fresh") for number, options in enumerate(acquires, 1)}
        for line in self.lines:
            at, what, *said = line
            if what in DONE:
                continue
            self.pass_time(at - 1)
            if what == "frozen":
                self.frozen = said[0]
            elif what == "answer" and said[0] not in self.sent:
                self.late.append(line)
            elif what == "answer":
                self.answer(line)
            elif what == "heard":
                before, _, owner = said[0].rpartition(" ")
                self.tell([at, what, f"{before} {self.owners.get(owner, owner)}"])
            else:
                self.tell(line)
        self.pass_time(self.lines[-1][0] + 10 * NEAR)


def play(command, numbers=None, story=False, enough=None):
    """Replays these traces, until so many differ. Returns the numbers and reasons of these, and how many were replayed only in part."""
    traces = all_traces()
    program, failed, free = Program(command), [], 0
    for number in numbers or range(1, len(traces) + 1):
        one = Replay(program, json.loads(traces[number - 1]))
        try:
            one.run()
        except Free:
            free += 1
        except Differs as why:
            failed.append((number, why))
            print(f"{command[-1]}, trace {number}: {why}", flush=True)
            if len(failed) == enough:
                break
            if program.process.poll() is not None:
                program = Program(command)
        if story:
            print("\n".join(json.dumps(each) for each in one.story))
    program.end()
    return failed, free


def main(replay, variants, wanted=""):
    numbers = [int(wanted[1:])] if wanted else None
    count, status = len(numbers or all_traces()), 0
    for variant in Path(variants).read_text().split():
        begin = time.monotonic()
        failed, free = play([Path(replay).resolve(), variant], numbers, story=bool(wanted), enough=ENOUGH)
        status, took = status or bool(failed), time.monotonic() - begin
        print(f"{variant}: {count} traces, {free} of them in part, {len(failed)} differ{', and the rest was not replayed' * (len(failed) == ENOUGH)}, {took:.1f} s", flush=True)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
