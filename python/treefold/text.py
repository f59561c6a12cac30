"""Text that people read is short, and nothing in it moves a terminal's cursor."""

from collections.abc import Iterable

_LONGEST_PROBLEM = 1000
_LONGEST_MESSAGE = 2000


def visible(text: str) -> str:
    r"""Return `text` on one line; characters that print nothing or move the cursor become `\n`, `\x1b` and so on."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def visible_lines(text: str) -> str:
    """Return `text` with the same lines; `visible` shows each of them."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: str, most: int = _LONGEST_MESSAGE) -> str:
    """Return `text`; a text that is too long to be read loses its middle."""
    return text if len(text) <= most else f"{text[: most // 2]} [...] {text[-(most // 2) :]}"


def message(where: str, problem: str) -> str:
    """Return `where: problem` on one line; a long problem is shortened, `where` never is."""
    return visible(f"{where}: {shortened(problem, _LONGEST_PROBLEM)}")


def some(words: Iterable[str], most: int = 3) -> str:
    """Return the first words, separated by commas, and an ellipsis if there are more."""
    listed = [*words]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
