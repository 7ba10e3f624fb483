"""Plants faults in an installed package, one at a time: the scenario that a fault names has to fail in each variant.

    python3 driver/plant.py START VARIANTS FAULTS WORK [FILTER]

FAULTS is a JSON file with `root`, the folder of the installed package (a pattern under WORK), and `faults`, each with its name (`fault`),
its `scenario`, and its `edits`: `[file, old, new]`, where `old` occurs once in the file. The scenario `traces` stands for all traces.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import traces
from play import play
from stage import scenarios


def replay(command):
    begin = time.monotonic()
    failed, _ = traces.play(command, enough=1)
    return "FAILED" if failed else "ok", time.monotonic() - begin, "".join(f"Error: trace {number}: {why}" for number, why in failed)


def main(start, variants, faults, work, wanted=""):
    table = json.loads(Path(faults).read_text())
    [root] = Path(work).glob(table["root"])
    missed = 0
    for fault in table["faults"]:
        if wanted not in fault["fault"] and wanted not in fault["scenario"]:
            continue
        texts = {}
        for file, old, new in fault["edits"]:
            text = texts.setdefault(file, (root / file).read_text())
            assert (root / file).read_text().count(old) == 1, f"{fault['fault']}: not once in {file}: {old}"
            (root / file).write_text((root / file).read_text().replace(old, new))
        try:
            for variant in Path(variants).read_text().split():
                name = fault["scenario"]
                command = [Path(start).resolve().with_name("replay" if name == "traces" else "start"), variant]
                subprocess.run(command, cwd=command[0].parent, input=b"", check=True)  # checks that it builds and runs
                result, took, said = replay(command) if name == "traces" else play(scenarios[name], command)
                found = result == "FAILED"
                why = next((line for line in said.splitlines() if "Error: " in line), "")
                print(f"{'found' if found else 'MISSED'}: {fault['fault']} ({variant}, {fault['scenario']}, {took:.1f} s) {why[:160]}", flush=True)
                missed += not found
        finally:
            for file, text in texts.items():
                (root / file).write_text(text)
    print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
