"""Finds what the viewer's build has made: the page without its data, and the coasts of maps."""

from pathlib import Path

from treefold.errors import TreefoldError

_ASSETS = Path(__file__).with_name("assets")


def asset(name: str) -> str:
    """Return the text of a file that the viewer's build has made.

    Raises:
        TreefoldError: If it is missing, as in a checkout before `make setup`.

    """
    try:
        return (_ASSETS / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = f"the viewer is not built: {name} is missing"
        raise TreefoldError(f"{problem}; run `make viewer` in the checkout, or install treefold again") from None
