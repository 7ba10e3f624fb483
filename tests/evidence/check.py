#!/usr/bin/env python3
"""Judges histories of locks by rules, each of which is one sentence of the pages. It searches nothing: a rule looks at a pair of
commands whose order is certain. Beside the model for Porcupine it is the second opinion.

    check.py [--failovers] HISTORY...

Prints a line for each history, and exits with 1 if one of them is refused.
"""

import bisect
import json
import sys
from collections import defaultdict

NEVER = 1 << 62
SLACK = 2000  # µs: the server counts in ms, and Redis 8 rounds up


def tagged(value):
    """What is either "Name" or {"Name": content}."""
    return (value, None) if isinstance(value, str) else next(iter(value.items()))


class Record:
    def __init__(self, line, data):
        self.line, self.client, self.sent, self.key = line, data["client"], data["sent"], data["key"]
        self.received, self.several = data["received"], data.get("with", [])
        self.kind, ask = tagged(data["call"])
        self.reply, self.answer = tagged(data["reply"])
        ask = ask if isinstance(ask, dict) else {"killed": ask}
        self.owner, self.lease, self.block = ask.get("owner"), ask.get("lease"), ask.get("block")
        self.once, self.session, self.all = ask.get("once"), ask.get("session"), ask.get("all")
        self.max_hold, self.killed = ask.get("max_hold"), ask.get("killed")
        name, most = tagged(ask.get("room", "Plain"))
        self.room = {"Plain": 1, "Shared": NEVER}.get(name, most)
        self.call = json.dumps(data["call"])
        self.answered = self.received is not None
        granted = self.kind == "Acquire" and self.reply == "Granted" and self.answered
        self.fence, self.holds, self.left = (
            (self.answer["fence"], self.answer["holds"], self.answer["lease"]) if granted else (None, None, None)
        )
        self.granted = granted
        self.new = granted and self.holds == 1 and (not self.once or self.fence >= self.sent)
        self.number = self.answer if self.reply == "Number" and self.answered else None
        self.not_held = self.reply == "Refused" and self.answer == "NOTHELD"

    def __str__(self):
        return f"line {self.line}"


class Hold:
    """An owner that holds the lock for certain, from an answer to the first thing that may end it."""

    def __init__(self, record, fence, room, start, end):
        self.owner, self.fence, self.room, self.start, self.end = record.owner, fence, room, start, end
        self.process = record.client // 1_000_000
        self.record = record


class Lock:
    """The records of one lock, and who holds it when."""

    def __init__(self, records, closed):
        self.records = sorted(records, key=lambda record: record.sent)
        self.owners = defaultdict(list)
        for record in self.records:
            if record.owner:
                self.owners[record.owner].append(record)
        self.breaks = [record for record in self.records if record.kind == "Break" and record.number != 0]
        self.sessions = {
            owner: [r.client for r in records if r.session] for owner, records in self.owners.items()
        }
        self.closed = closed
        self.holds = sorted(self.find_holds(), key=lambda hold: hold.start)
        self.longest = max((hold.end - hold.start for hold in self.holds), default=0)

    def find_holds(self):
        for owner, records in self.owners.items():
            fence = room = None
            for record in records:
                if record.granted:
                    if record.fence != fence:
                        room = NEVER
                    fence, room = record.fence, min(room, record.room)
                    began = max(record.sent, record.fence) if record.new and record.block is not None else record.sent
                    lease = record.left
                elif record.kind == "Extend" and record.number is not None and fence:
                    began, lease = record.sent, record.number
                else:
                    continue
                end = min(began + lease * 1000, self.may_end(owner, record))
                if end > record.received:
                    yield Hold(record, fence, room, record.received, end)

    def may_end(self, owner, since):
        """When at the earliest something that was not answered before `since` was asked may have ended that owner's grant."""
        ends = [NEVER]
        for record in self.owners[owner]:
            later = record is not since and (record.received or NEVER) >= since.sent
            if later and record.kind == "Release" and (record.number == 0 or not record.answered):
                ends.append(record.sent)
            # An extension may shorten the lease.
            if later and record.kind == "Extend" and (record.number is not None or not record.answered):
                ends.append(record.sent + record.lease * 1000)
        ends += [record.sent for record in self.breaks if (record.received or NEVER) >= since.sent]
        ends += [time for client in self.sessions[owner] for time in self.closed.get(client, []) if time >= since.sent]
        return min(ends)

    def during(self, start, end):
        """The holds that last from before `start` to after `end`."""
        first = bisect.bisect_left(self.holds, start - self.longest, key=lambda hold: hold.start)
        last = bisect.bisect_left(self.holds, start, key=lambda hold: hold.start)
        return [hold for hold in self.holds[first:last] if hold.end > end]


class History:
    def __init__(self, records, failovers):
        self.records, self.failovers, self.faults = records, failovers, []
        self.commands = defaultdict(list)
        self.closed = defaultdict(list)
        for record in records:
            self.commands[record.client, record.sent].append(record)
            if record.kind == "Close" or not record.answered:
                self.closed[record.client].append(record.sent)
            if record.kind == "Kill" and record.number != 0:
                self.closed[record.killed].append(record.sent)
        keys = defaultdict(list)
        for record in records:
            keys[record.key].append(record)
        self.locks = {key: Lock(found, self.closed) for key, found in keys.items() if key}

    def fault(self, rule, *where):
        self.faults.append(f"{rule}: {', '.join(map(str, where))}")

    def judge(self):
        self.fences()
        self.commands_for_several()
        for lock in self.locks.values():
            self.room(lock)
            self.nobody_elses(lock)
            self.ended(lock)
            self.told_of_no_end(lock)
            self.counted(lock)
            self.leases(lock)
            self.turns(lock)
            self.looks(lock)
            self.answers(lock)
        return self.faults

    def waits(self, record):
        """Inside MULTI, BLOCK has no effect."""
        if record.block is None:
            return False
        return len({(other.call, other.key if not other.several else "") for other in self.commands[record.client, record.sent]}) == 1

    def fences(self):
        """Each new grant has a fence greater than all earlier ones; a grant is one owner's."""
        new = [record for record in self.records if record.new]
        known = sorted(((record.received, record.fence, record) for record in new), key=lambda entry: entry[:2])
        highest, at, by, owners, first = 0, 0, None, {}, {}
        for record in sorted(new, key=lambda record: record.sent):
            while at < len(known) and known[at][0] < record.sent:
                if known[at][1] > highest:
                    highest, by = known[at][1], known[at][2]
                at += 1
            if record.fence <= highest:
                self.fault("a fence is not greater than an earlier one", by, record)
        for record in self.records:
            if record.granted:
                if owners.setdefault(record.fence, record.owner) != record.owner:
                    self.fault("two owners have one fence", record)
            if record.new:
                command = (record.client, record.sent)
                if first.setdefault(record.fence, command) != command:
                    self.fault("two grants have one fence", record)

    def commands_for_several(self):
        """A command for several locks is granted all of them, or none; its new grants have one fence."""
        for records in self.commands.values():
            asks = defaultdict(list)
            for record in records:
                if record.kind == "Acquire" and record.several:
                    asks[record.call].append(record)
            for ask in asks.values():
                if len({record.reply for record in ask}) > 1:
                    self.fault("neither all nor none", *ask)
                if len({record.fence for record in ask if record.new and not record.once}) > 1:
                    self.fault("one command has two fences", *ask)

    def room(self, lock):
        """There are never more holders than each of them has room for."""
        opened = []
        for hold in lock.holds:
            opened = [other for other in opened if other.end > hold.start] + [hold]
            rooms = {}
            for other in opened:
                rooms[other.fence] = min(other.room, rooms.get(other.fence, NEVER))
            if min(rooms.values()) < len(rooms):
                self.fault("more holders than there is room for", *(other.record for other in opened))
        # A grant is made at the time that its fence names, or at some time between question and answer.
        for record in lock.records:
            if record.new:
                start = max(record.sent, record.fence) if record.block is not None else record.sent
                others = [h for h in lock.during(start, record.received) if h.owner != record.owner]
                count = len({hold.fence for hold in others})
                if others and (record.room <= count or min(hold.room for hold in others) <= count):
                    self.fault("granted while others hold the lock", record, *(hold.record for hold in others))

    def nobody_elses(self, lock):
        """Only the owner releases or extends."""
        for record in lock.records:
            if record.kind in ("Release", "Extend") and record.number is not None:
                asks = [r for r in lock.owners[record.owner] if r.kind == "Acquire" and r.reply in ("Granted", "Gone")]
                if not any(ask.sent <= record.received for ask in asks):
                    self.fault("released or extended by one who never got the lock", record)

    def ended(self, lock):
        """A grant that has lapsed or was released can't be extended, re-entered or released again."""
        for owner, records in lock.owners.items():
            if any(not record.answered for record in records) or self.failovers:
                continue
            end, fence = 0, None
            session = bool(lock.sessions[owner])
            for record in records:
                if record.granted and record.fence != fence:
                    fence, end = record.fence, record.received + record.lease * 1000
                elif record.granted or record.kind == "Extend" and record.number is not None:
                    if record.sent > end + SLACK and not (session and end != 0):
                        self.fault("kept or re-entered after its end", record)
                    end = record.received + record.lease * 1000 if record.kind == "Extend" else max(end, record.received + record.lease * 1000)
                elif record.kind == "Release" and record.number is not None:
                    if record.sent > end + SLACK and not (session and end != 0):
                        self.fault("released after its end", record)
                    if record.number == 0:
                        end = 0
            broken = [b for b in lock.breaks if b.answered]
            for b in broken:
                for record in records:
                    held = record.kind in ("Release", "Extend") and record.number is not None
                    got = [r for r in records if r.granted and r.sent < record.received]
                    if held and b.sent < record.sent and b.received < record.sent and all(r.received < b.sent for r in got):
                        self.fault("released or extended although it was broken", b, record)

    def told_of_no_end(self, lock):
        """A grant stays until it is released, broken or lapses: no owner hears NOTHELD before."""
        for record in lock.records:
            if not (record.not_held and record.answered) or record.kind == "Extend" and len(record.several) > 1:
                continue
            for hold in lock.during(record.sent, record.received):
                if hold.owner == record.owner and self.same_server(hold, record):
                    self.fault("not held, though it had not ended", hold.record, record)

    def same_server(self, hold, record):
        return not self.failovers or hold.process == record.client // 1_000_000

    def counted(self, lock):
        """Each re-entry adds a hold, ONCE none; a release takes one, or all."""
        for owner, records in lock.owners.items():
            if self.failovers or any(not record.answered for record in records):
                continue
            if any(later.sent < earlier.received for earlier, later in zip(records, records[1:])):
                continue  # at the same time, or in one transaction
            holds = fence = None
            for record in records:
                if record.granted:
                    expected = 1 if record.fence != fence else holds + (0 if record.once else 1)
                    if record.holds != expected:
                        self.fault("the holds are not counted", record)
                    holds, fence = record.holds, record.fence
                elif record.kind == "Release" and record.number is not None and holds is not None:
                    if record.number != (0 if record.all else holds - 1):
                        self.fault("the holds are not counted", record)
                    holds = record.number

    def leases(self, lock):
        """No lease is longer than asked for, none lasts beyond MAXHOLD, and a re-entry never shortens one."""
        limits = {r.fence: r.fence + r.max_hold * 1000 for r in lock.records if r.new and r.max_hold is not None}
        for owner, records in lock.owners.items():
            fences = {record.fence for record in records if record.granted}
            sure = all(record.answered for record in records)
            for record in records:
                left = record.left if record.granted else record.number if record.kind == "Extend" else None
                if left is None:
                    continue
                if (record.new or record.kind == "Extend") and left > record.lease:
                    self.fault("a lease is longer than asked for", record)
                fence = record.fence if record.granted else fences.copy().pop() if len(fences) == 1 and sure else None
                if fence in limits and record.sent + left * 1000 > limits[fence] + SLACK:
                    self.fault("a lease lasts beyond MAXHOLD", record)
                if record.granted and not record.new and len(record.several) < 2:
                    shorter = record.received + left * 1000 + SLACK
                    for hold in lock.during(record.sent, shorter):
                        if hold.fence == record.fence and self.same_server(hold, record):
                            self.fault("a re-entry shortened the lease", hold.record, record)

    def turns(self, lock):
        """First come, first served."""
        wide, upgrades = {}, set()
        for record in lock.records:
            if record.kind == "Acquire":
                if wide.get(record.owner, 0) > record.room:
                    upgrades.add(record)
                wide[record.owner] = max(wide.get(record.owner, 0), record.room)
        waits = defaultdict(list)
        for record in lock.records:
            if record.kind == "Acquire" and record.block is not None:
                waits[record.client].append(record)

        def waiter(client, look):
            """The one that the look saw, if it can be no other, and it got a new grant later."""
            found = [w for w in waits[client] if w.sent < look.received and (w.received or NEVER) > look.sent]
            if len(found) == 1 and found[0].new and found[0] not in upgrades and found[0].fence >= found[0].sent:
                return found[0]
            return None

        new = sorted((r for r in lock.records if r.new and r not in upgrades), key=lambda r: r.fence)
        for look in lock.records:
            if look.kind != "Info" or look.reply != "Held" or not look.answered:
                continue
            line = [w for w in (waiter(client, look) for client in look.answer["queue"]) if w]
            for first, second in zip(line, line[1:]):
                if second.fence < first.fence:
                    self.fault("overtook one that stood before it", look, first, second)
            for first in line[:1]:
                after = bisect.bisect_right(new, look.received, key=lambda r: r.fence)
                for other in new[after:]:
                    if other.fence >= first.fence:
                        break
                    if other.sent > look.received and other.owner != first.owner and other.client // 1_000_000 == first.client // 1_000_000:
                        self.fault("came later, and was served first", look, first, other)

    def looks(self, lock):
        """LOCK.INFO shows each grant that has not ended, the oldest first, and no others."""
        for look in lock.records:
            if look.kind != "Info" or not look.answered or look.reply not in ("Held", "Null"):
                continue
            shown = look.answer["grants"] if look.reply == "Held" else []
            fences = [grant["fence"] for grant in shown]
            if fences != sorted(set(fences)):
                self.fault("grants are not shown in the order of their fences", look)
            if any(grant["most"] < len(shown) for grant in shown):
                self.fault("grants are shown together that don't fit", look)
            for grant in shown:
                asks = [r for r in lock.owners[grant["owner"]] if r.kind == "Acquire" and r.sent <= look.received]
                if not any(ask.reply == "Gone" or ask.fence == grant["fence"] for ask in asks) and not self.failovers:
                    self.fault("a grant is shown that nobody was given", look)
            for hold in lock.during(look.sent, look.received):
                if hold.fence not in fences and self.same_server(hold, look):
                    self.fault("a grant is not shown", hold.record, look)

    def answers(self, lock):
        """A wait without limit ends with the lock, one with a limit not before that; what is free, with nobody waiting, is granted."""
        held = [(h.start, h.end) for h in lock.holds]
        for record in lock.records:
            if record.reply == "Waits":
                self.fault("nobody answered, though the lock was free", record)
            if record.kind != "Acquire" or record.reply != "Null" or not record.answered:
                continue
            if self.waits(record):
                if record.block == 0 or record.received < record.sent + record.block * 1000:
                    self.fault("told null before its time was up", record)
            elif len(record.several) < 2 and not self.failovers and not self.in_the_way(lock, record):
                self.fault("told null, though the lock was free", record)

    def in_the_way(self, lock, record):
        for other in lock.records:
            if other is record or other.kind != "Acquire" or other.sent > record.received:
                continue
            if not other.answered:
                return True
            if other.block is not None and other.received >= record.sent:
                return True
            if other.granted and other.owner != record.owner:
                if lock.sessions[other.owner] or self.last_end(lock, other) >= record.sent:
                    return True
        return False

    def last_end(self, lock, grant):
        """When that owner's grant has ended at the latest."""
        end = grant.received + grant.lease * 1000 + SLACK
        for record in lock.owners[grant.owner]:
            if record.kind == "Extend" and record.number is not None and record.sent >= grant.sent:
                end = max(end, record.received + record.lease * 1000 + SLACK)
            if record.kind == "Release" and record.number == 0 and record.sent > grant.received:
                end = min(end, record.received)
        broken = [b.received for b in lock.breaks if b.answered and b.sent > grant.received]
        return min([end, *broken])


def read(path):
    with open(path) as lines:
        return [Record(number, json.loads(line)) for number, line in enumerate(lines, 1)]


def main(arguments):
    failovers = "--failovers" in arguments
    paths = [argument for argument in arguments if argument != "--failovers"]
    refused = not paths
    for path in paths:
        records = read(path)
        faults = History(records, failovers).judge()
        verdict = "refused" if faults else "sound"
        print(f"{verdict}: {path}: {len(records)} records: {len(faults)} faults {'; '.join(faults[:3])}")
        refused |= bool(faults)
    return int(refused)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
