"""Reads arguments of the fuzzers' command lines."""

import argparse
import re

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    """Return the seconds of a text such as `90s`, `10m` or `2h`."""
    found = re.fullmatch(r"(\d+)([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; write for example 90s, 10m or 2h")
    return float(int(found[1]) * _UNITS[found[2]])
