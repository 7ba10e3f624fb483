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


def play(scenario, command):
    """Plays a scenario. Returns (result, seconds, text to show)."""
    begin = time.monotonic()
    for left in reversed(range(TRIES)):
        result, said, late = _once(scenario, command)
        if late and left:
            print(f"{scenario.name}: once more: {late}", flush=True)
        else:
            return result, time.monotonic() - begin, said


def _once(scenario, command):
    """Plays it once. Returns (result, text to show, by how many seconds it was late if the machine was busy)."""
    stalls.longest, stalled = 0.0, stalls.total()
    stage, result, said, late = Stage(command, Path(tempfile.mkdtemp(prefix="conformance-"))), "ok", "", None
    try:
        scenario.run(stage)
    except Exception as failure:
        result, said, stalled = "FAILED", traceback.format_exc(), stalls.total() - stalled
        said += f"stalls meanwhile: {stalled:.3f} s, the longest since a scenario began {stalls.longest:.3f} s\n"
        said += "".join(f"--- {what}\n{_part(text)}\n--- end\n" for what, text in stage.logs())
        late = f"{failure}, {stalled:.3f} s since it began" if isinstance(failure, Late) and stalled >= BUSY else None
    finally:
        stage.end()
        shutil.rmtree(stage.folder, ignore_errors=True)
    return result, said, late


def _part(text):
    """The end of a log. If a server crashed, this is its report, with the reason and the stack, which may come long before the end."""
    crash = text.find("BUG REPORT START")
    return text[-5000:] if crash < 0 else text[max(0, crash - 1000):crash + 8000]
