"""Says what the library says in the words of the command line: options where the library names its parameters.

Errors and tables of the library name a parameter with its value, such as `overlap='bucket'`, because its callers write
Python. What they mean on the command line is `--overlap bucket`. A quantity gets its unit, as options take it.
"""

import re
from dataclasses import fields
from functools import cache

from treefold import _core
from treefold.training.options import TrainingOptions

_FLAGS = {
    "learn": "--learn",
    "adapt": "--adapt",
    "background_load": "--background",
    "bandwidth_Bps": "--bandwidth",
    "collective": "--collective",
    "discover": "--discover",
    "interface": "--interface",
    "iterations": "--iters",
    "latency_s": "--latency",
    "limit": "--limit",
    "loads": "--loads",
    "most_bytes": "--bytes",
    "node_cap": "--node-cap",
    "own_port": "--port",
    "parallel": "--parallel",
    "seconds": "--seconds",
    "streams": "--streams",
    "transport": "--transport",
    "warmup": "--warmup",
}
"""The options of parameters that are no field of `TrainingOptions`, which knows its own."""
_PHRASES = {
    r"\badapt=False\b": "--adapt no",
    r"\bis_whole=True\b": "--all",
    r"\bas_dict\(\)": "--json",
    r"\bset latency_s\b": "set --latency",
    r"\branks=LIST\b": "--ranks LIST",
    r"\branks='([^']*)'": r"--ranks \1",
    r"\bruntime\.local\((\w+)\)": r"--local \1",
    r"\btreefold\.Machine\((\w+=\w+)\)": r"--set \1",
}
"""What the library writes as a call, and what it is on the command line."""
_UNITS = {"Bps": _core.format_bandwidth, "bytes": lambda number: _core.format_size(int(number)), "s": _core.format_time}
"""The functions that write a quantity of each unit."""


@cache
def _training() -> dict[str, str]:
    return {each.name: each.metadata["flag"] or f"--{each.name.replace('_', '-')}" for each in fields(TrainingOptions)}


def in_options(text: str) -> str:
    """Return a text of the library that names options instead of parameters.

    Example:
        >>> in_options("bucket_bytes must be at least 1, got 0"), in_options("take overlap='bucket'")
        ('--bucket must be at least 1, got 0', 'take --overlap bucket')
        >>> in_options("give them one, such as bandwidth_Bps=1.25e9")
        'give them one, such as --bandwidth 1.25GB/s'

    """
    for phrase, option in _PHRASES.items():
        text = re.sub(phrase, option, text)
    flags = _FLAGS | _training()
    names = "|".join(flags)
    text = re.sub(
        rf"(?<![\w.'])({names})=('[^']*'|\w[\w.]*)", lambda found: _option(flags[found[1]], *found.groups()), text
    )
    # Without a value, only a name that is no word of English is surely a parameter, or one of which a rule is told.
    compound = "|".join(name for name in _training() if "_" in name)
    text = re.sub(rf"(?<![\w.'])({compound})(?![\w='])", lambda found: flags[found[1]], text)
    return re.sub(rf"^({names})(?= must be )", lambda found: flags[found[1]], text)


def _option(flag: str, name: str, value: str) -> str:
    unit = name.rpartition("_")[2]
    if unit in _UNITS and re.fullmatch(r"\d[\d.e]*", value):
        value = _UNITS[unit](float(value))
    return flag if value == "True" else f"{flag} {value.strip(chr(39))}"
