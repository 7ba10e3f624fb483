"""Plays one scenario, on servers and with programs of its own."""

import shutil
import tempfile
import time
import traceback
from pathlib import Path

import scenarios_kinds  # noqa: F401
import scenarios_losses  # noqa: F401
import scenarios_network  # noqa: F401
import scenarios_waits  # noqa: F401
from program import stalls
from stage import Skip, Stage


def play(scenario, command):
    """(result, seconds, what there is to read)"""
    stalls.longest, stalled = 0.0, stalls.total
    stage, begin, result, said = Stage(command, Path(tempfile.mkdtemp(prefix="conformance-"))), time.monotonic(), "ok", ""
    try:
        scenario.run(stage)
    except Skip as skip:
        result = f"skipped: {skip}"
    except Exception:
        result, said = "FAILED", traceback.format_exc()
        said += f"stalls meanwhile: {stalls.total - stalled:.3f} s, the longest since a scenario began {stalls.longest:.3f} s\n"
        said += "".join(f"--- {what}\n{_part(text)}\n--- end\n" for what, text in stage.logs())
    finally:
        stage.end()
        shutil.rmtree(stage.folder, ignore_errors=True)
    return result, time.monotonic() - begin, said


def _part(text):
    """Its end; of a server that crashed, why and where, which comes before much else."""
    crash = text.find("BUG REPORT START")
    return text[-5000:] if crash < 0 else text[max(0, crash - 1000):crash + 8000]
