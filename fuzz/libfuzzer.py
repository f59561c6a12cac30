"""Fuzzes the core's readers with libFuzzer, which seeks input that reaches new code: `make fuzz-core`.

cargo-fuzz builds the targets in `fuzz/core` with stable Rust, with checks of arithmetic but without a sanitizer, as the
core has no unsafe code. Input that fails is kept in `fuzz/core/artifacts`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from fuzz import words
from fuzz.arguments import seconds
from fuzz.targets import files, plans
from treefold import _core

_CORE = Path(__file__).resolve().parent / "core"
_LIMITS = ("-timeout=10", "-rss_limit_mb=2048")


def _seeds() -> dict[str, list[bytes]]:
    """Return the first inputs of each target."""
    texts = [*_core.generators(), *(each for kind in words.KINDS.values() for each in kind)]
    documents = [content for content in files.corpus()[".json"] if b"treefold-topology" in content]
    return {
        "plan": [content for network in plans.corpus() for content in network],
        "topology": documents,
        "texts": [each.encode() for each in texts],
    }


def main() -> None:
    """Fuzz each target for a share of the time; the exit code is 1 if any fails."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.libfuzzer", description=__doc__)
    parser.add_argument(
        "--for",
        dest="most_s",
        type=seconds,
        default=60.0,
        help="The time for all targets: 90s, 10m, 2h; by default 60s.",
    )
    parser.add_argument("--seed", type=int, default=1, help="The seed, by default 1.")
    given = parser.parse_args()
    seeds = _seeds()
    failed = [name for name in seeds if not _fuzz(name, seeds[name], given.most_s / len(seeds), given.seed)]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _fuzz(target: str, seeds: list[bytes], most_s: float, seed: int) -> bool:
    corpus = _CORE / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(content)
    how = (f"-max_total_time={max(round(most_s), 1)}", f"-seed={seed}", *_LIMITS)
    command = ["cargo", "fuzz", "run", "--fuzz-dir", _CORE, "--sanitizer", "none", "--debug-assertions", target, corpus]
    return subprocess.run([*command, "--", *how]).returncode == 0


if __name__ == "__main__":
    main()
