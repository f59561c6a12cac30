"""Splits a DOT file into words, texts and signs."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from treefold.checks import shown
from treefold.files.problems import fail
from treefold.files.reading import Budget

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?![\w.]))"
    r"|(?P<sign>--|->|[{}\[\]=;,:+])|(?P<line>//|\#)|(?P<comment>/\*)|(?P<html><)"
    r"|\"(?P<plain>[^\"\\]*)\"|(?P<text>\")|(?P<end>\Z)|(?P<unknown>[\w.]+|.))"
)
_BRACKET = re.compile("[<>]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Token(NamedTuple):
    """A part of the file and its place; its kind is `word`, `text` (quoted), `html`, `sign` or `end`."""

    kind: str
    text: str
    place: int

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words; case does not matter."""
        return self.kind == "word" and self.text.lower() in words

    def is_sign(self, *signs: str) -> bool:
        """Tell whether it is one of these signs."""
        return self.kind == "sign" and self.text in signs

    def unescaped(self) -> str:
        """Return its text without escapes; a line break in a label becomes a space in a name."""
        return _ESCAPE.sub(_unescaped, self.text) if self.kind == "text" and "\\" in self.text else self.text

    def shown(self) -> str:
        """Return the token as an error shows it."""
        return "the file ends" if self.kind == "end" else f"{shown(self.text)} stands"


def tokenize(text: str, where: str) -> Iterator[Token]:
    """Yield the tokens of `text`, and then `end` for ever.

    Raises:
        TreefoldError: If something in the text is not a token.

    """
    budget, after = Budget(where), 0
    while True:
        budget.spend(1)
        found = _TOKEN.match(text, after)
        assert found is not None and found.lastgroup is not None  # the pattern matches every character
        token = Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
        after = found.end()
        if token.kind in ("word", "sign", "end"):
            yield token
        elif token.kind == "plain":
            yield token._replace(kind="text")
        elif token.kind in ("line", "comment"):
            after = _after_comment(text, token, where)
        elif token.kind == "unknown":
            raise error_at(text, token, where, f"{shown(token.text)} is not a name; write it in quotes")
        elif token.kind in ("text", "html"):
            after = (_after_text if token.kind == "text" else _after_html)(text, token, budget, where)
            yield _whole(text[token.place : after], token)


def error_at(text: str, token: Token, where: str, problem: str) -> Exception:
    """Return an error about a problem at the token."""
    line = text.count("\n", 0, token.place) + 1
    column = token.place - text.rfind("\n", 0, token.place)
    return fail(where, f"not valid DOT at line {line}, column {column}: {problem}")


def _whole(text: str, token: Token) -> Token:
    """Return a token with the text in its quotes; a backslash at the end of a line joins two lines."""
    return token._replace(text=text if token.kind == "html" else re.sub(r"\\\r?\n", "", text[1:-1]))


def _after_comment(text: str, token: Token, where: str) -> int:
    end = text.find("\n" if token.kind == "line" else "*/", token.place + len(token.text))
    if end < 0 and token.kind == "comment":
        raise error_at(text, token, where, "this comment never ends")
    return len(text) if end < 0 else end + (2 if token.kind == "comment" else 0)


def _after_text(text: str, token: Token, budget: Budget, where: str) -> int:
    """Return the place after the quoted text; a quote behind a backslash does not end it."""
    after, quote = token.place + 1, -1
    while True:
        quote = quote if quote >= after else text.find('"', after)
        if quote < 0:
            raise error_at(text, token, where, "this quoted text never ends")
        escape = text.find("\\", after, quote)
        if escape < 0:
            return quote + 1
        budget.spend(1)
        after = escape + 2


def _after_html(text: str, token: Token, budget: Budget, where: str) -> int:
    open_brackets = 0
    for found in _BRACKET.finditer(text, token.place):
        budget.spend(1)
        open_brackets += 1 if found[0] == "<" else -1
        if not open_brackets:
            return found.end()
    raise error_at(text, token, where, "this '<' is never closed")


def _unescaped(escape: re.Match[str]) -> str:
    return " " if escape[1] in "nlr" else escape[1]
