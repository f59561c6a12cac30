"""Text that people read: nothing in it moves a terminal's cursor, and a misspelt word is told from a strange one."""

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST_WORD = 80
_LONGEST_PROBLEM = 1000
_LONGEST_MESSAGE = 2000


def visible(text: str) -> str:
    r"""Return `text` on one line, with what prints nothing, or moves the cursor, as `\n` or `\x1b`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def visible_lines(text: str) -> str:
    """Return `text` with its lines as they are, each as `visible` shows it."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: str, most: int = _LONGEST_MESSAGE) -> str:
    """Return `text` without its middle where it is too long to be read."""
    return text if len(text) <= most else f"{text[: most // 2]} [...] {text[-(most // 2) :]}"


def message(where: str, problem: str) -> str:
    """Return `where: problem` on one line, with the whole of `where` however long the problem is."""
    return visible(f"{where}: {shortened(problem, _LONGEST_PROBLEM)}")


def some(words: Iterable[str], most: int = 3) -> str:
    """Return the first words with commas between, and an ellipsis where there are more."""
    listed = [*words]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the one of the `known` words that is meant by a misspelt `word`, if any is near."""
    by_folded = {each.casefold(): each for each in known}
    folded = word.casefold()
    if len(word) > _LONGEST_WORD or folded in by_folded:
        return by_folded.get(folded)
    alike = [each for each in by_folded if abs(len(each) - len(folded)) <= len(folded) // 2]
    found = get_close_matches(folded, alike, n=1, cutoff=0.75)
    return by_folded[found[0]] if found else None
