"""Recognizes paths of streams that this process has open: /dev/stdin, /dev/stdout, a shell's `<(command)`."""

import os
import re

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


def open_descriptor(path: str) -> int | None:
    """Return the descriptor of the open stream that `path` names; None for other paths."""
    numbered = _NUMBERED.fullmatch(path)
    return int(numbered[1]) if numbered else _STANDARD.get(path)


def is_standard_output(path: str | os.PathLike[str]) -> bool:
    """Tell whether `path` is the standard output."""
    return open_descriptor(os.fspath(path)) == _STANDARD["/dev/stdout"]
