"""Reads and writes files of plans."""

import os

from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.files.problems import fail
from treefold.files.reading import decode, read_bytes, says_format
from treefold.files.writing import check_writable_as, write_text_atomically

MOST_BYTES = 512 << 20
"""The largest file of a plan; it has room for four plans of MultiTree on a torus of 64x64."""


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Return the plan in a file that `treefold.save` or `treefold plan -o` has written.

    A plan from a file may be wrong, or forged. It is checked before its first use, which raises a `TreefoldError` if
    the plan is wrong; `treefold.check` says what is wrong with it.

    Args:
        path: The file.

    Raises:
        TreefoldError: If the file cannot be read or holds no plan; the error names the file.

    Example:
        >>> import treefold
        >>> treefold.save(treefold.plan("ring:4", "ring"), "plan.json")
        >>> treefold.check(treefold.load_plan("plan.json")).correct
        True

    """
    where = os.fspath(path)
    text = decode(read_bytes(where, MOST_BYTES), where)
    try:
        return Plan.from_json(text)
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan to a `.json` file, completely or not at all; `load_plan` reads an equal plan back.

    Args:
        plan: The plan.
        path: A file with the extension `.json`, or a stream such as /dev/stdout.

    Raises:
        TreefoldError: If the extension is another one, or the file cannot be written.

    """
    check_plan_writable(path)
    write_text_atomically(path, plan.to_json())


def is_plan_file(source: str) -> bool:
    """Tell whether `source` is a file whose first bytes say that it is a plan, as treefold writes them."""
    return says_format(source, "treefold-plan")


def check_plan_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path before planning if `save_plan` would refuse it afterwards, with the same error."""
    check_writable_as(path, ".json", "plans")
