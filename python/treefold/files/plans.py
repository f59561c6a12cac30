"""Reads and writes files of plans."""

import os

from treefold._core import Plan
from treefold.files import own
from treefold.files.reading import says_format


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
    with own.text_of(path) as text:
        return Plan.from_json(text)


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan to a `.json` file, completely or not at all; `load_plan` reads an equal plan back.

    Args:
        plan: The plan.
        path: A file with the extension `.json`, or a stream such as /dev/stdout.

    Raises:
        TreefoldError: If the extension is another one, or the file cannot be written.

    """
    own.write(plan, path)


def is_plan_file(source: str) -> bool:
    """Tell whether `source` is a file whose first bytes say that it is a plan, as treefold writes them."""
    return says_format(source, "treefold-plan")


def check_plan_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path before planning if `save_plan` would refuse it afterwards, with the same error."""
    own.check_writable(path, Plan)
