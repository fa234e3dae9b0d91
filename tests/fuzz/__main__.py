"""Run mutants for some time, and print what went wrong: ``python -m tests.fuzz --minutes 30``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path


def main() -> int:
    """The exit status is 1 where something went wrong."""
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["MPLBACKEND"] = "agg"
    from tests.fuzz.mutants import mutant, samples, traces_in
    from tests.fuzz.runner import run, warm_up

    warm_up()
    originals = traces_in(options.originals) if options.originals else samples(small=not options.all)
    kinds = Counter[str]()
    until = time.monotonic() + 60 * options.minutes
    number, count = options.first, 0
    while time.monotonic() < until and (options.count is None or count < options.count):
        pair = (mutant(options.seed, each, originals) for each in (number, number + options.every))
        for find in run(*pair, options.share, options.keep):
            kinds[find.where] += 1
            if kinds[find.where] <= options.show:
                print(find, flush=True)
        number, count = number + options.every, count + 1
    print(f"{count} mutants of {len(originals)} traces, seed {options.seed}: {sum(kinds.values())} finds")
    for where, times in kinds.most_common():
        print(f"{times:6} {where}")
    return int(bool(kinds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--count", type=int, help="at most so many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--every", type=int, default=1, help="distance of numbers, for several runs side by side")
    parser.add_argument("--share", type=float, default=0.4, help="share of the uses that each mutant is put to")
    parser.add_argument("--all", action="store_true", help="mutants of all samples, not of the small ones")
    parser.add_argument("--originals", type=Path, help="mutants of the traces in this folder, not of the samples")
    parser.add_argument("--show", type=int, default=1, help="how many finds of one kind to print")
    parser.add_argument("--keep", type=Path, help="keep mutants with finds in this folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
