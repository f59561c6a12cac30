"""Reads and writes files of traces."""

import os

from treefold import checks
from treefold._core import Plan, Trace
from treefold.files import own
from treefold.files.plans import is_plan_file
from treefold.files.problems import fail
from treefold.files.reading import says_format


def load_trace(path: str | os.PathLike[str], plan: Plan) -> Trace:
    """Return the trace in a file that `treefold run --trace` or `treefold.save` has written.

    Args:
        path: The file.
        plan: The plan that was run or simulated. A plan that sends the same will do, whatever its network's rates.

    Raises:
        TreefoldError: If the file cannot be read, holds no trace, or holds the trace of another plan; the error names
            the file.

    Example:
        >>> import treefold
        >>> plan = treefold.plan("ring:4", "ring")
        >>> treefold.save(treefold.trace(plan, size_bytes=4096), "trace.json")
        >>> treefold.load_trace("trace.json", plan).busiest_links
        ['GPU0 -> GPU1', 'GPU1 -> GPU2', 'GPU2 -> GPU3', 'GPU3 -> GPU0']

    """
    plan = checks.plan(plan)
    if is_plan_file(os.fspath(path)):
        raise fail(os.fspath(path), "it is a plan; give the file of a trace of it")
    with own.text_of(path) as text:
        return Trace.from_json(text, plan)


def is_trace_file(source: str) -> bool:
    """Tell whether `source` is a file whose first bytes say that it is a trace, as treefold writes them."""
    return says_format(source, "treefold-trace")


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace to a `.json` file, completely or not at all; `load_trace` reads an equal trace back.

    Args:
        trace: The trace.
        path: A file with the extension `.json`, or a stream such as /dev/stdout.

    Raises:
        TreefoldError: If the extension is another one, or the file cannot be written.

    """
    own.write(trace, path)


def check_trace_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path before a run if `save_trace` would refuse it afterwards, with the same error."""
    own.check_writable(path, Trace)
