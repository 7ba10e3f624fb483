#!/usr/bin/env python3
"""Runs the trials with faults round after round, each with another seed, and adds up what they came to.

    rounds.py run SECONDS [PARTS [SERVER...]]    these parts of the trials, such as failovers,volume, or all of them: one after the
                                                 other, on these servers of tests/servers.conf in turn
    rounds.py sum                                what all rounds came to so far, as a table
    rounds.py save                               the same, written into docs/evidence.md

A round takes a few minutes and is kept in target/rounds.jsonl when it ends: a run that is ended early loses one round, and the next
one goes on from there. The log of a round that fails is kept beside it. A run goes on with the tests and the module that it began with,
whatever is built meanwhile. REDISLOCK_SO is the module, the released one by default.
"""

import datetime
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ROUNDS = TARGET / "rounds.jsonl"
PAGE = ROOT / "docs/evidence.md"
# The tests of each part, whether in their long form, and how many at a time: those of failovers mostly wait.
PARTS = {
    "failovers": (["failover::with", "failover::sync::", "failover::network::"], "1", 8),
    "volume": (["volume::"], "1", 1),
    "histories": (["history::soak_", "history::troubles::"], "0", 1),
}
BEGIN, END = "<!-- the table of tests/evidence/rounds.py -->\n", "<!-- end of that table -->\n"


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def servers(names):
    """(name, path) of those that can be had."""
    lines = [line for name in names or [None] for line in output("scripts/servers", *filter(None, [name])).splitlines()]
    return [tuple(line.split()[:2]) for line in lines if line.split()[1] != "-"]


def build():
    """The tests and the module, as they are now."""
    lines = output("cargo", "test", "--locked", "--test", "integration", "--no-run", "--message-format=json").splitlines()
    tests = next(path for line in lines if (path := json.loads(line).get("executable")))
    module = os.environ.get("REDISLOCK_SO")
    if not module:
        module = output("bash", "-c", '. scripts/lib.sh && build_module >&2 && echo "$module"')
    # Where the tests look for what they build: beside their own folder.
    kept = TARGET / "rounds/debug/deps"
    kept.mkdir(parents=True, exist_ok=True)
    return [str(shutil.copy2(path, kept)) for path in (tests, module)]


def one_round(part, name, server, program, module, commit):
    tests, long, at_once = PARTS[part]
    seed = random.getrandbits(32)
    began = time.monotonic()
    log = TARGET / f"round-{part}-{name}-{seed}.log"
    environment = dict(os.environ, REDISLOCK_SEED=str(seed), REDISLOCK_SOAK=long, REDISLOCK_SO=module, REDISLOCK_SERVER=server)
    command = [program, *tests, f"--test-threads={at_once}", "--nocapture"]
    with log.open("w") as file:
        passed = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode == 0
    tallies = defaultdict(int)
    for trial, what, count in re.findall(r"tally: (.+): ([^:]+): (\d+)$", log.read_text(errors="replace"), re.MULTILINE):
        tallies[f"{trial}: {what}"] += int(count)
    passed = passed and bool(tallies)
    if passed:
        log.unlink()
    version = re.search(r"v=(\S+)", output(server, "--version"))[1]
    return dict(
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(), commit=commit, server=f"{name} ({version})", seed=seed,
        seconds=round(time.monotonic() - began), passed=passed, part=part, tallies=tallies,
    )


def run(seconds, parts=None, *names):
    end = time.monotonic() + int(seconds)
    parts, found = parts.split(",") if parts else list(PARTS), servers(names)
    if not found or not set(parts) <= set(PARTS):
        sys.exit("error: no server to run on" if not found else f"error: the parts are {', '.join(PARTS)}")
    commit = output("git", "describe", "--always", "--dirty")
    program, module = build()
    failed = False
    while True:
        for (name, server), part in itertools.product(found, parts):
            if time.monotonic() >= end:
                return failed
            done = one_round(part, name, server, program, module, commit)
            with ROUNDS.open("a") as file:
                file.write(json.dumps(done) + "\n")
            failed = failed or not done["passed"]
            result = "passed" if done["passed"] else "FAILED"
            print(f"{part} on {done['server']}, seed {done['seed']}, {done['seconds']} s: {result}", flush=True)


def table():
    if not ROUNDS.exists():
        sys.exit("error: no rounds yet: rounds.py run SECONDS")
    rounds = [json.loads(line) for line in ROUNDS.read_text().splitlines()]
    rows = defaultdict(list)
    for done in rounds:
        for trial in dict.fromkeys(name.rpartition(": ")[0] for name in done["tallies"]):
            rows[trial].append(done)
    yield "| trial | rounds | of them failed | what was done, and found |"
    yield "|---|---|---|---|"
    for trial, of in sorted(rows.items()):
        totals = defaultdict(int)
        for done in of:
            for name, count in done["tallies"].items():
                if name.rpartition(": ")[0] == trial:
                    totals[name.rpartition(": ")[2]] += count
        done = ", ".join(f"{count:,} {what}" for what, count in totals.items())
        yield f"| {trial} | {len(of)} | {sum(not done['passed'] for done in of)} | {done} |"
    dates, commits, on = [sorted({done[name] for done in rounds}) for name in ("date", "commit", "server")]
    seeds = [str(done["seed"]) for done in rounds if not done["passed"]]
    yield ""
    yield (
        f"{len(rounds)} rounds in {sum(done['seconds'] for done in rounds):,} s, from {dates[0]} to {dates[-1]}, of {', '.join(commits)}, "
        f"on {', '.join(on)}; "
        f"{len(seeds)} failed{': seeds ' + ', '.join(seeds) if seeds else ''}."
    )


def save():
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(before + "\n".join(table()) + "\n" + after)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and sys.argv[2:]:
        sys.exit(run(*sys.argv[2:]))
    elif sys.argv[1:] == ["sum"]:
        print("\n".join(table()))
    elif sys.argv[1:] == ["save"]:
        save()
    else:
        sys.exit(__doc__)
