"""Plays one scenario, on servers and with programs of its own."""

import shutil
import tempfile
import time
import traceback
from pathlib import Path

import scenarios_kinds  # noqa: F401
import scenarios_losses  # noqa: F401
import scenarios_network  # noqa: F401
import scenarios_observer  # noqa: F401
import scenarios_shards  # noqa: F401
import scenarios_waits  # noqa: F401
from program import Late, stalls
from stage import Stage

TRIES = 3  # how often a scenario is played if it is too late on a busy machine; a slow package is too late each time
BUSY = 0.1  # s for which the machine was busy with others during the scenario


def play(scenario, command, played=0):
    """Plays a scenario that was played this often before. Returns (result, seconds, text to show). The result is None if the scenario was too
    late while the machine was busy, and may be played again."""
    begin = time.monotonic()
    tries = list(scenario.leases) or [None] * TRIES
    result, said, late = _once(scenario, command, tries[played])
    if late and played + 1 < len(tries):
        print(f"{scenario.name}: once more, alone: {late}", flush=True)
        result = None
    return result, time.monotonic() - begin, said


def _once(scenario, command, lease):
    """Plays it once. Returns (result, text to show, what went wrong if that may be because the machine was busy)."""
    stalls.longest, stalled = 0.0, stalls.total()
    stage, result, said, late = Stage(command, Path(tempfile.mkdtemp(prefix="conformance-"))), "ok", "", None
    try:
        scenario.run(stage, *([lease] if lease else []))
    except Exception as failure:
        result, said, stalled = "FAILED", traceback.format_exc(), stalls.total() - stalled
        said += f"stalls meanwhile: {stalled:.3f} s, the longest since a scenario began {stalls.longest:.3f} s\n"
        said += "".join(f"--- {what}\n{_part(text)}\n--- end\n" for what, text in stage.logs())
        # A sentinel that was delayed, for example by the disk, does nothing for 30 s, and may never promote the replica.
        tilted = any(server.sentinel and "+tilt" in server.log() for server in stage.servers)
        if lease and (tilted or stalled >= lease / 4000) or isinstance(failure, Late) and stalled >= BUSY:
            late = f"{failure}, {stalled:.3f} s since it began{', and a TILT' if tilted else ''}"
    finally:
        stage.end()
        shutil.rmtree(stage.folder, ignore_errors=True)
    return result, said, late


def _part(text):
    """The end of a log. If a server crashed, this is its report, with the reason and the stack, which may come long before the end."""
    crash = text.find("BUG REPORT START")
    return text[-5000:] if crash < 0 else text[max(0, crash - 1000):crash + 8000]
