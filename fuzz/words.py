"""Makes short texts that people write, right and wrong: specs, sizes, bandwidths, times, lists of ranks, regions."""

import re
from random import Random

from fuzz.mutations import NUMBERS, WORDS
from treefold import _core

_SIZES = ("64MiB", "1KiB", "4096", "1GB", "0", "1e18", "3B", "1.5KiB", "100PiB", "2TB", "1e3", "0.1KB")
_RATES = ("16GB/s", "100Gbit/s", "5Gbps", "1e-3B/s", "1e18B/s", "200 Mbit/s", "0.5kb/s")
_TIMES = ("150ns", "5ms", "0s", "0", "1e5s", "3us", "7µs", "1ps", "0.1ps")
_RANKS = ("0-2", "0,1", "2,0,1", "GPU0,GPU1", "0", "1-1", "0,0", "3-1", "0-7,12", "GPU0-GPU2", " 0 , 1 ")
_SIZE_LISTS = ("32KiB:1MiB", "1KiB,2KiB", "1:1", "1MiB:32KiB", "0:1", ":", ",", "1KiB:1e18")
_REGIONS = ("0x0:1MiB:0-7", "0x0:1MiB", "128:64KiB:0,1", "0b0:1KiB", "-0x80:1KiB", "0x0:0:0-1", "1::")
KINDS = {
    "size": _SIZES,
    "bandwidth": _RATES,
    "time": _TIMES,
    "ranks": _RANKS,
    "sizes": _SIZE_LISTS,
    "region": _REGIONS,
    "collective": ("all-reduce", "AllReduce", "all_gather", "reduce", "alltoall"),
}
"""Examples of each kind of text; some are wrong."""


def text(kind: str, random: Random) -> str:
    """Return a text of a kind, which may have typing errors."""
    return broken(random.choice(KINDS[kind]), random) if random.random() < 0.5 else random.choice(KINDS[kind])


def spec(random: Random, most: int) -> str:
    """Return a spec with random numbers, mostly up to `most`; it may have typing errors."""
    name, colon, rest = random.choice(_core.generators()).partition(":")
    numbers = (*range(most + 1), *range(most + 1), 10 * most)
    drawn = name + colon + re.sub(r"\d+", lambda _: str(random.choice(numbers)), rest)
    return broken(drawn, random) if random.random() < 0.4 else drawn


def broken(word: str, random: Random) -> str:
    """Return a text with some typing errors."""
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randint(0, len(word))
        match random.randrange(6):
            case 0:
                word = word[:at] + word[at + 1 :]
            case 1:
                word = word[:at] + random.choice(WORDS) + word[at:]
            case 2:
                word = word[:at] + random.choice("0123456789-+.,:x=e ") + word[at + 1 :]
            case 3:
                word = word[:at] + word[:at] + word[at:]
            case 4:
                word = re.sub(r"\d+", lambda _: str(random.choice(NUMBERS)), word, count=random.choice((0, 1)))
            case _:
                word = random.choice((word.upper(), word.lower(), word[::-1], f" {word} ", f"{word},{word}"))
    return word
