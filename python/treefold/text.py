"""Text that people read: nothing in it moves a terminal's cursor, and a misspelt word is told from a strange one."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

# What moves the cursor, hides or reorders what stands beside it, as in the core; and halves of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST_WORD = 80


def visible(text: str) -> str:
    r"""Return `text` on one line, with its control characters as `\n` or `\x1b`."""
    return _CONTROL.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return `text` with its lines as they are, each as `visible` shows it."""
    return "\n".join(map(visible, text.split("\n")))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the one of the `known` words that is meant by a misspelt `word`, if any is near."""
    by_folded = {each.casefold(): each for each in known}
    folded = word.casefold()
    if len(word) > _LONGEST_WORD or folded in by_folded:
        return by_folded.get(folded)
    alike = [each for each in by_folded if abs(len(each) - len(folded)) <= len(folded) // 2]
    found = get_close_matches(folded, alike, n=1, cutoff=0.75)
    return by_folded[found[0]] if found else None
