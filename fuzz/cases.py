"""Defines cases (inputs) and faults (failures), and checks that errors and warnings are one readable line."""

import json
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LONGEST_MESSAGE = 3000


class Case(NamedTuple):
    """An input, which is the content of a file."""

    suffix: str
    """The end of the file's name, for example `.graphml`."""
    content: bytes

    @classmethod
    def of(cls, value: Any) -> "Case":
        """Return a case that holds a JSON value."""
        return cls(".json", json.dumps(value, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "Case":
        """Return a kept case; its suffix begins at the first dot of the file's name."""
        return cls("." + path.name.partition(".")[2], path.read_bytes())

    def write(self, stem: Path) -> Path:
        """Write the case to `stem` with its suffix, and return the file's path."""
        path = stem.with_name(stem.name + self.suffix)
        path.write_bytes(self.content)
        return path


@dataclass
class Fault(Exception):  # noqa: N818 (it describes a failure of treefold, not an error of the fuzzer)
    """A failure of treefold."""

    kind: str
    """The kind: `panic`, `traceback`, `signal`, `exit`, `hang`, `memory`, `message` or `wrong`."""
    what: str
    """The fault in one line."""
    where: str = ""
    """The place in the code, if it is known. Faults of one kind at one place are the same fault."""
    trace: str = ""
    """The traceback and standard error."""

    @property
    def signature(self) -> str:
        """Return a text that is equal for faults of one kind at one place."""
        return f"{self.kind} {self.where or re.sub('[^a-z ]+', '', self.what)}"

    def __str__(self) -> str:
        return f"{self.kind}: {self.what[:300]!a}" + (f" at {self.where}" if self.where else "")


def attempt(run: Callable[[Path], None], path: Path) -> Fault | None:
    """Run a case, and return its fault."""
    crashes: list[BaseException] = []
    threading.excepthook = lambda crash: crashes.append(crash.exc_value or crash.exc_type())
    sys.unraisablehook = lambda crash: crashes.append(crash.exc_value or crash.exc_type())
    try:
        with judged_warnings():
            run(path)
        if crashes:
            raise crashes[0]
    except Fault as fault:
        return fault
    except MemoryError as error:
        return _crash("memory", error)
    except BaseException as error:  # a panic in Rust is no Exception
        return _crash("panic" if type(error).__name__ == "PanicException" else "traceback", error)
    return None


def _crash(kind: str, error: BaseException) -> Fault:
    trace = "".join(traceback.format_exception(error)) + _stderr()
    return Fault(kind, f"{type(error).__name__}: {error}", place(trace), trace)


def place(trace: str) -> str:
    """Return the innermost place in treefold that a traceback or a panic names."""
    if panics := re.findall(r"panicked at (\S+:\d+)", trace):
        return panics[-1]
    # `faulthandler` prints the innermost call first, tracebacks print it last.
    lines = trace.splitlines()
    if any("most recent call first" in line for line in lines):
        lines.reverse()
    calls = [match for line in lines if (match := re.search(r'File ".*/(treefold/\S+)", line (\d+)', line))]
    return f"{calls[-1][1]}:{calls[-1][2]}" if calls else ""


def _stderr() -> str:
    """Return the standard error of this process, if it is a file."""
    try:
        return os.pread(2, 1 << 16, 0).decode(errors="replace")
    except OSError:
        return ""


def check_refusal(error: Exception, names: str = "") -> None:
    """Raise a fault unless an error is one line of printable text that names the file `names`."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    check_message(str(error), names, f"{frame.filename.rpartition('python/')[2]}:{frame.lineno}")


def check_message(message: str, names: str = "", where: str = "") -> None:
    """Raise a fault unless a text is one line of printable characters that names the file `names`."""
    if not message.strip():
        problem = "says nothing"
    elif not message.isprintable():
        problem = "is not one line of printable text"
    elif len(message) > LONGEST_MESSAGE:
        problem = f"is longer than {LONGEST_MESSAGE} characters"
    elif names not in message:
        problem = "does not name the file"
    else:
        return
    raise Fault("message", f"a message {problem}: {message}", f"{where} ({problem})")


@contextmanager
def judged_warnings(names: str = "") -> Iterator[None]:
    """Check warnings as errors are checked, and refuse warnings that are not treefold's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        where = f"{each.filename.rpartition('python/')[2]}:{each.lineno}"
        if each.category.__name__ != "TopologyWarning":
            raise Fault("traceback", f"{each.category.__name__}: {each.message}", where)
        check_message(str(each.message), names, where)
