#!/usr/bin/env python3
"""Doctors a sound history: writes it once for each fault below, with that one fault in it, for the checkers to find.

    doctor.py HISTORY FOLDER

A fault that the history has no place for is named, and left out.
"""

import json
import sys
from pathlib import Path

MS = 1000
FAULTS = {}


class NoPlace(Exception):
    """The history has nothing that this fault could be made of."""


def fault(function):
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


def content(value, name):
    """What {"Name": content} has, or None."""
    return value.get(name) if isinstance(value, dict) else None


def acquire(owner, lease=200, block=None, once=False, session=False, max_hold=None, room="Plain"):
    return {"Acquire": dict(owner=owner, lease=lease, block=block, once=once, session=session, max_hold=max_hold, room=room)}


def granted(fence, holds=1, lease=200):
    return {"Granted": dict(fence=fence, holds=holds, lease=lease)}


class History:
    def __init__(self, records):
        self.records = records
        self.client = max(r["client"] for r in records)
        self.end = max(r["received"] or r["sent"] for r in records) + 1_000_000
        self.fences = {content(r["reply"], "Granted")["fence"] for r in records if content(r["reply"], "Granted")}

    def add(self, key, at, call, reply, took=200, client=None):
        """A record of what was asked then, and answered 0.2 ms later."""
        self.client += client is None
        record = dict(client=client or self.client, sent=at, received=at + took, key=key, call=call, reply=reply)
        self.records.append(record)
        return record

    def fence(self, at):
        while at in self.fences:
            at += 1
        self.fences.add(at)
        return at

    def first(self, wanted):
        for record in self.records:
            if record["received"] is not None and wanted(record):
                return record
        raise NoPlace

    def of(self, owner, key):
        return [r for r in self.records if r["key"] == key and owner in [c.get("owner") for c in calls(r)]]

    def alone(self, least=3 * MS, wanted=lambda ask, release: True):
        """A grant of one lock to one owner, and its release, with nothing else of that owner's: (ask, release)."""
        for ask in self.records:
            call, reply = content(ask["call"], "Acquire"), content(ask["reply"], "Granted")
            if not call or not reply or ask.get("with") or call["room"] != "Plain" or call["session"] or call["once"]:
                continue
            own = self.of(call["owner"], ask["key"])
            if len(own) != 2 or not content(own[1]["call"], "Release") or own[1]["reply"] != {"Number": 0} or own[1].get("with"):
                continue
            if sum(r["client"] == ask["client"] and r["sent"] == own[1]["sent"] for r in self.records) > 1:
                continue
            start, end = ask["received"], min(own[1]["sent"], reply["fence"] + reply["lease"] * MS)
            broken = any(r["key"] == ask["key"] and r["call"] == "Break" and r["sent"] < own[1]["received"] for r in self.records)
            if end - start >= least and not broken and own[1]["received"] < reply["fence"] + reply["lease"] * MS and wanted(*own):
                return ask, own[1]
        raise NoPlace


def calls(record):
    return [c for c in (content(record["call"], kind) for kind in ("Acquire", "Release", "Extend")) if c]


def middle(ask, release):
    return (ask["received"] + release["sent"]) // 2


@fault
def two_holders(h):
    ask, release = h.alone()
    at = middle(ask, release)
    h.add(ask["key"], at, acquire("intruder"), granted(h.fence(at + 100)))


@fault
def two_holders_after_a_wait(h):
    ask, release = h.alone()
    at = middle(ask, release)
    h.add(ask["key"], ask["received"], acquire("intruder", block=0), granted(h.fence(at)), took=at + 100 - ask["received"])


@fault
def a_hold_too_many(h):
    for at in range(3):
        time = h.end + at * MS
        h.add("fresh", time, acquire(f"o{at}", room={"Limit": 2}), granted(h.fence(time + 100)))


@fault
def a_reader_beside_a_writer(h):
    ask, release = h.alone()
    at = middle(ask, release)
    h.add(ask["key"], at, acquire("intruder", room="Shared"), granted(h.fence(at + 100)))


@fault
def granted_though_nobody_released(h):
    def followed(ask, release):
        end = content(ask["reply"], "Granted")["fence"] + content(ask["reply"], "Granted")["lease"] * MS
        return any(
            r["key"] == ask["key"] and content(r["reply"], "Granted") and content(r["call"], "Acquire")
            and content(r["reply"], "Granted")["holds"] == 1 and not content(r["call"], "Acquire")["once"]
            and release["sent"] < (r["received"] or 0) < end for r in h.records
        )
    _, release = h.alone(0, followed)
    h.records.remove(release)


@fault
def lapsed_early(h):
    h.add("fresh", h.end, acquire("a"), granted(h.fence(h.end + 100)))
    at = h.end + 150 * MS
    h.add("fresh", at, acquire("b"), granted(h.fence(at + 100)))


@fault
def extended_after_its_lapse(h):
    h.add("fresh", h.end, acquire("a"), granted(h.fence(h.end + 100)))
    h.add("fresh", h.end + 250 * MS, {"Extend": dict(owner="a", lease=200)}, {"Number": 200})


@fault
def extended_after_its_release(h):
    ask, release = h.alone(0)
    owner = content(ask["call"], "Acquire")["owner"]
    h.add(ask["key"], release["received"] + 500 * MS, {"Extend": dict(owner=owner, lease=200)}, {"Number": 200})


@fault
def extended_after_a_break(h):
    h.add("fresh", h.end, acquire("a"), granted(h.fence(h.end + 100)))
    h.add("fresh", h.end + 10 * MS, "Break", {"Number": 1})
    h.add("fresh", h.end + 20 * MS, {"Extend": dict(owner="a", lease=200)}, {"Number": 200})


@fault
def released_by_another_owner(h):
    ask, release = h.alone()
    h.add(ask["key"], middle(ask, release), {"Release": dict(owner="intruder", all=True)}, {"Number": 0})


@fault
def granted_by_another_owners_release(h):
    ask, release = h.alone()
    at = middle(ask, release)
    h.add(ask["key"], at, {"Release": dict(owner="intruder", all=True)}, {"Number": 0})
    h.add(ask["key"], at + 400, acquire("next"), granted(h.fence(at + 500)))


@fault
def extended_by_another_owner(h):
    ask, release = h.alone()
    h.add(ask["key"], middle(ask, release), {"Extend": dict(owner="intruder", lease=200)}, {"Number": 200})


@fault
def the_owner_is_refused(h):
    _, release = h.alone(0)
    release["reply"] = {"Refused": "NOTHELD"}


@fault
def a_fence_falls(h):
    at = h.end
    h.add("fresh", at, acquire("a"), granted(h.fence(at + 100)))
    h.add("fresh", at + 1 * MS, {"Release": dict(owner="a", all=True)}, {"Number": 0})
    h.add("fresh", at + 2 * MS, acquire("b"), granted(h.fence(at - 5000)))


@fault
def a_fence_falls_behind_that_of_another_lock(h):
    h.add("fresh", h.end, acquire("a"), granted(h.fence(h.end + 100)))
    h.add("fresher", h.end + MS, acquire("b"), granted(h.fence(h.end - 5000)))


@fault
def a_fence_is_given_twice(h):
    at = h.end
    h.add("fresh", at, acquire("a"), granted(at + 100))
    h.add("fresher", at + 1 * MS, acquire("b"), granted(at + 100))


@fault
def a_grant_is_not_shown(h):
    ask, release = h.alone()
    h.add(ask["key"], middle(ask, release), "Info", "Null")


@fault
def a_grant_is_shown_that_nobody_got(h):
    look = h.first(lambda r: r["call"] == "Info" and content(r["reply"], "Held") and content(r["reply"], "Held")["grants"])
    content(look["reply"], "Held")["grants"][0].update(owner="nobody", fence=h.fence(look["sent"] - 10 * MS))


def look_at_several(h):
    return h.first(lambda r: r["call"] == "Info" and content(r["reply"], "Held") and len(content(r["reply"], "Held")["grants"]) > 1)


@fault
def grants_are_shown_out_of_order(h):
    content(look_at_several(h)["reply"], "Held")["grants"].reverse()


@fault
def grants_are_shown_that_do_not_fit(h):
    content(look_at_several(h)["reply"], "Held")["grants"][0]["most"] = 1


@fault
def a_re_entry_adds_two_holds(h):
    h.add("fresh", h.end, acquire("a"), granted(fence := h.fence(h.end + 100)))
    h.add("fresh", h.end + MS, acquire("a"), granted(fence, holds=3))


@fault
def once_adds_a_hold(h):
    h.add("fresh", h.end, acquire("a"), granted(fence := h.fence(h.end + 100)))
    h.add("fresh", h.end + MS, acquire("a", once=True), granted(fence, holds=2))


@fault
def a_release_of_all_leaves_one(h):
    _, release = h.alone(0, lambda ask, release: content(release["call"], "Release")["all"])
    release["reply"] = {"Number": 1}


@fault
def a_lease_is_longer_than_asked_for(h):
    ask, _ = h.alone(0)
    content(ask["reply"], "Granted")["lease"] = content(ask["call"], "Acquire")["lease"] + 100


@fault
def a_lease_lasts_beyond_maxhold(h):
    h.add("fresh", h.end, acquire("a", max_hold=50), granted(h.fence(h.end + 100), lease=50))
    h.add("fresh", h.end + 30 * MS, {"Extend": dict(owner="a", lease=200)}, {"Number": 200})


@fault
def a_re_entry_shortens_the_lease(h):
    h.add("fresh", h.end, acquire("a"), granted(fence := h.fence(h.end + 100)))
    h.add("fresh", h.end + MS, acquire("a", lease=10), granted(fence, holds=2, lease=10))


@fault
def the_second_of_the_queue_is_served_first(h):
    at, holder = h.end, h.fence(h.end + 100)
    h.add("fresh", at, acquire("a"), granted(holder))
    first = h.add("fresh", at + MS, acquire("first", block=0), granted(h.fence(at + 12 * MS)), took=12 * MS)
    second = h.add("fresh", at + 2 * MS, acquire("second", block=0), granted(h.fence(at + 5 * MS + 100)), took=4 * MS)
    look = {"Held": dict(grants=[dict(owner="a", fence=holder, most=1)], queue=[first["client"], second["client"]])}
    h.add("fresh", at + 3 * MS, "Info", look)
    h.add("fresh", at + 5 * MS, {"Release": dict(owner="a", all=True)}, {"Number": 0})
    h.add("fresh", at + 8 * MS, {"Release": dict(owner="second", all=True)}, {"Number": 0})


@fault
def a_newcomer_is_served_before_the_queue(h):
    at, holder = h.end, h.fence(h.end + 100)
    h.add("fresh", at, acquire("a"), granted(holder))
    waiter = h.add("fresh", at + MS, acquire("w", block=0), granted(h.fence(at + 12 * MS)), took=12 * MS)
    look = {"Held": dict(grants=[dict(owner="a", fence=holder, most=1)], queue=[waiter["client"]])}
    h.add("fresh", at + 3 * MS, "Info", look)
    h.add("fresh", at + 5 * MS, {"Release": dict(owner="a", all=True)}, {"Number": 0})
    h.add("fresh", at + 6 * MS, acquire("newcomer"), granted(h.fence(at + 6 * MS + 100)))
    h.add("fresh", at + 8 * MS, {"Release": dict(owner="newcomer", all=True)}, {"Number": 0})


@fault
def one_of_several_locks_is_granted(h):
    h.add("fresh", h.end, acquire("a"), granted(h.fence(h.end + 100)))["with"] = ["fresh", "fresher"]
    h.add("fresher", h.end, acquire("a"), "Null", client=h.client)["with"] = ["fresh", "fresher"]


@fault
def one_command_has_two_fences(h):
    h.add("fresh", h.end, acquire("a"), granted(h.fence(h.end + 100)))["with"] = ["fresh", "fresher"]
    h.add("fresher", h.end, acquire("a"), granted(h.fence(h.end + 110)), client=h.client)["with"] = ["fresh", "fresher"]


@fault
def a_free_lock_is_refused(h):
    h.add("fresh", h.end, acquire("a"), "Null")


def wait_in_vain(h):
    return h.first(
        lambda r: r["reply"] == "Null" and content(r["call"], "Acquire") and (content(r["call"], "Acquire")["block"] or 0) > 0
        and sum(o["client"] == r["client"] and o["sent"] == r["sent"] for o in h.records) == 1
    )


@fault
def a_wait_ends_early(h):
    content(wait_in_vain(h)["call"], "Acquire")["block"] = 60_000


@fault
def a_wait_without_limit_ends(h):
    content(wait_in_vain(h)["call"], "Acquire")["block"] = 0


@fault
def nobody_is_told(h):
    h.add("fresh", h.end, acquire("a", block=0), "Waits").update(received=None)


@fault
def a_writer_beside_a_reader_by_an_upgrade(h):
    for at, owner in enumerate("ab"):
        h.add("fresh", h.end + at * MS, acquire(owner, room="Shared"), granted(fence := h.fence(h.end + at * MS + 100)))
    h.add("fresh", h.end + 3 * MS, acquire("b"), granted(fence, holds=2))


def main(path, folder):
    lines = Path(path).read_text().splitlines()
    left_out = []
    for name, doctor in FAULTS.items():
        history = History([json.loads(line) for line in lines])
        try:
            doctor(history)
        except NoPlace:
            left_out.append(name)
            continue
        text = "".join(json.dumps(record) + "\n" for record in history.records)
        (Path(folder) / f"{name}.jsonl").write_text(text)
    print(f"{len(FAULTS) - len(left_out)} doctored histories; no place for: {', '.join(left_out) or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
