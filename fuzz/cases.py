"""What is fuzzed (a case), what may be wrong with it (a fault), and what a message must be."""

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
    """One input: the content of a file."""

    suffix: str
    """How the file's name ends, for example `.graphml`."""
    content: bytes

    @classmethod
    def of(cls, value: Any) -> "Case":
        """Return a case that is a JSON value."""
        return cls(".json", json.dumps(value, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "Case":
        """Return a case that was kept; its name ends with the case's suffix behind the first dot."""
        return cls("." + path.name.partition(".")[2], path.read_bytes())

    def write(self, stem: Path) -> Path:
        """Write it to `stem` with its suffix; return the file's path."""
        path = stem.with_name(stem.name + self.suffix)
        path.write_bytes(self.content)
        return path


@dataclass
class Fault(Exception):  # noqa: N818 (it is what treefold did, no error here)
    """Something that must not happen."""

    kind: str
    """`panic`, `traceback`, `signal`, `hang`, `memory`, `message` or `wrong`."""
    what: str
    """The fault in a line."""
    where: str = ""
    """The place in the code, as well as it is known. Faults of one kind at one place are the same fault."""
    trace: str = ""
    """Everything known, in many lines."""

    @property
    def signature(self) -> str:
        """What faults that are the same have in common."""
        return f"{self.kind} {self.where or re.sub('[^a-z ]+', '', self.what)}"

    def __str__(self) -> str:
        return f"{self.kind}: {self.what[:300]!a}" + (f" at {self.where}" if self.where else "")


def attempt(run: Callable[[Path], None], path: Path) -> Fault | None:
    """Run a case; return its fault."""
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
    trace = "".join(traceback.format_exception(error)) + said()
    return Fault(kind, f"{type(error).__name__}: {error}", place(trace), trace)


def place(trace: str) -> str:
    """Return the innermost place in treefold that a traceback or a panic names."""
    if found := re.findall(r"panicked at (\S+:\d+)", trace):
        return found[-1]
    # `faulthandler` begins where the others end.
    lines = trace.splitlines()
    if any("most recent call first" in line for line in lines):
        lines.reverse()
    found = [match for line in lines if (match := re.search(r'File ".*/(treefold/\S+)", line (\d+)', line))]
    return f"{found[-1][1]}:{found[-1][2]}" if found else ""


def said() -> str:
    """Return what this process has written to standard error, if that is a file."""
    try:
        return os.pread(2, 1 << 16, 0).decode(errors="replace")
    except OSError:
        return ""


def check_refusal(error: Exception, names: str = "") -> None:
    """Raise a fault unless an error's message is one line of printable text that names the file `names`."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    check_message(str(error), names, f"{frame.filename.rpartition('python/')[2]}:{frame.lineno}")


def check_message(message: str, names: str = "", where: str = "") -> None:
    """Raise a fault unless a message is one line of printable text that names the file `names`."""
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
    """Judge warnings as messages; only treefold's own may be given."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield
    for each in given:
        where = f"{each.filename.rpartition('python/')[2]}:{each.lineno}"
        if each.category.__name__ != "TopologyWarning":
            raise Fault("traceback", f"{each.category.__name__}: {each.message}", where)
        check_message(str(each.message), names, where)
