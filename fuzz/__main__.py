"""The command line of the fuzzers: `python -m fuzz --help`."""

import argparse
import os
import sys
from pathlib import Path

from fuzz.arguments import seconds

# Every process iterates over sets in the same order; no library starts threads, which a fork would lose; and memory
# that threads only reserve does not count as used.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}


def _arguments() -> argparse.Namespace:
    from fuzz.driver import TARGETS

    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz treefold; see fuzz/README.md.")
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"The targets: {', '.join(TARGETS)}; by default all."
    )
    parser.add_argument("--for", dest="most_s", type=seconds, help="The time for all targets together: 90s, 10m, 2h.")
    parser.add_argument("--cases", type=int, help="How many cases of each target to run.")
    parser.add_argument("--seed", type=int, default=1, help="The seed of the cases, by default 1.")
    parser.add_argument("--first", type=int, default=0, help="The number of the first case, by default 0.")
    parser.add_argument("--jobs", type=int, default=1, help="How many processes to use, by default 1.")
    parser.add_argument("--case", type=Path, help="Run only the case in this file, which an earlier run kept.")
    given = parser.parse_args()
    for target in given.targets:
        if target not in TARGETS:
            parser.error(f"target '{target}' is unknown; known are {', '.join(TARGETS)}")
    given.targets = given.targets or list(TARGETS)
    if given.case is not None and len(given.targets) != 1:
        parser.error("--case needs one target")
    if given.case is None and given.cases is None and given.most_s is None:
        parser.error("no limit is given; write --for 10m, or --cases 1000")
    return given


def _run_case(target: str, path: Path) -> bool:
    """Run a kept case and print its fault; return whether it has none."""
    from fuzz.batches import only
    from fuzz.cases import Case
    from fuzz.driver import runner

    fault = only(runner(target), Case.read(path))
    print("no fault" if fault is None else f"{fault.trace}\n{fault}")
    return fault is None


def _fuzz(given: argparse.Namespace) -> bool:
    """Fuzz all targets and print a table; return whether there is no fault."""
    from fuzz.driver import Tally, fuzz

    tallies = []
    share_s = float("inf") if given.most_s is None else given.most_s / len(given.targets)
    numbers = range(given.first, sys.maxsize if given.cases is None else given.first + given.cases)
    try:
        for target in given.targets:
            tallies.append(Tally(target, given.seed))
            fuzz(tallies[-1], numbers, share_s, given.jobs)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    form = "{:<9} {:>9} {:>8} {:>6} {:>9} {:>8} {:>9}"
    print(form.format("target", "cases", "cases/s", "faults", "kinds", "peak MB", "slowest s"))
    for each in tallies:
        faults, rate = sum(each.faults.values()), each.cases / max(each.wall_s, 1e-9)
        row = (f"{each.cases:,}", f"{rate:.0f}", faults, len(each.faults), each.peak_bytes >> 20)
        print(form.format(each.target, *row, f"{each.slowest_s:.2f}"), f"(case {each.slowest})")
    return not any(each.faults for each in tallies)


def main() -> None:
    """Fuzz; the exit code is 1 if there is a fault."""
    if os.environ | _ENVIRONMENT != os.environ:
        os.execve(sys.executable, [sys.executable, "-m", "fuzz", *sys.argv[1:]], os.environ | _ENVIRONMENT)
    given = _arguments()
    good = _fuzz(given) if given.case is None else _run_case(given.targets[0], given.case)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
