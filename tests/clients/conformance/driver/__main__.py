"""Runs scenarios with the program of one language, in each of its variants. Exit code 1: a scenario failed.

    python3 driver START VARIANTS CANNOT quick|all [FILTER]
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from play import play
from stage import scenarios

SIDE_BY_SIDE = 4


def main(start, variants, cannot, form, wanted=""):
    chosen = [each for each in scenarios.values() if wanted in each.name and (form == "all" or each.quick)]
    excused = dict(line.split(None, 1) for line in Path(cannot).read_text().splitlines()) if Path(cannot).exists() else {}
    failed, count = 0, 0
    for variant in Path(variants).read_text().split():
        command = [Path(start).resolve(), variant]
        begin = time.monotonic()

        def show(scenario, outcome):
            nonlocal failed, count
            result, took, said = outcome
            failed, count = failed + (result == "FAILED"), count + (result == "ok")
            print(f"{variant} {scenario.name}: {result}, {took:.1f} s\n{said}", end="", flush=True)

        for each in [each for each in chosen if each.name in excused]:
            show(each, (f"can't: {excused[each.name]}", 0, ""))
        able = [each for each in chosen if each.name not in excused]
        alone = [(each, 0) for each in able if each.alone]  # with the number of times that it was played
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            played = [(each, pool.submit(play, each, command)) for each in able if not each.alone]
            for each, outcome in played:
                if outcome.result()[0]:
                    show(each, outcome.result())
                else:
                    alone.append((each, 1))
        for each, times in alone:
            while not (outcome := play(each, command, times))[0]:
                times += 1
            show(each, outcome)
        print(f"{variant}: {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{count} passed, {failed} failed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
