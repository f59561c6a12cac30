"""Changes texts of any format, and JSON values, at random."""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    *(0, -0.0, 1, -1, 2, 3, 7, 255, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63),
    *(2**64 - 1, 2**64, 10**18, 10**30, 0.5, 1e-9, 1e-300, 5e-324, 1e9, 1e18, 1e300, 1.7976931348623157e308, 1 << 40),
)
"""Numbers at which arithmetic often fails."""

WORDS = (
    *("", " ", "\t", "\n", "\r\n", "\0", "\x1b[31m", "\x07", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "é", "😀"),
    *("nan", "inf", "-inf", "1e999", "9" * 5000, "-" + "1" * 400, "0x10", "1_000", "٣", "²", "½", "1,5", "1e-400"),
    *("true", "null", "None", "10Gbit/s", "5ms", "-5ms", "1e400GB/s", "16GB/s16GB/s", "/", "//", "%s", "{}", "$("),
    *("'", '"', "\\", "\\n", "\\u001b", "\\ud800", "&lt;", "&#0;", "&#x1b;", "<!--", "<![CDATA[", "/*", "#", ";", ","),
    *("a", "b", "GPU0", "x" * 300, "a\nb", 'a"b', "a,b", "a:b"),
)
"""Texts at which readers often fail."""

_ENCODINGS = ("utf-16", "utf-16-le", "utf-8-sig", "latin-1", "utf-32", "utf-7", "cp1252")


def change_text(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Change `content` in one to a few places, perhaps with parts of `others`."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        content = random.choices(_TEXT_CHANGES, _TEXT_WEIGHTS)[0](content, others, random)
    return content


def _span(content: bytes, random: Random) -> tuple[int, int]:
    """Return the start and end of a random part: some bytes, a token, or lines."""
    kind = random.random()
    if kind < 0.3:
        start = random.randint(0, len(content))
        return start, min(start + random.choice((0, 1, 2, 5, 30)), len(content))
    pattern = rb"[\w.+-]+|[^\w\s]" if kind < 0.8 else rb"[^\n]*\n?"
    parts = [found.span() for found in re.finditer(pattern, content)]
    if not parts:
        return 0, 0
    first = random.randrange(len(parts))
    last = first if kind < 0.8 else min(first + random.choice((0, 0, 1, 3)), len(parts) - 1)
    return parts[first][0], parts[last][1]


def _flip(content: bytes, _: Sequence[bytes], random: Random) -> bytes:
    if not content:
        return content
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]


def _replace(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = _span(content, random)
    return content[:start] + _material(content, others, random) + content[end:]


def _insert(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    at = _span(content, random)[0]
    return content[:at] + _material(content, others, random) + content[at:]


def _delete(content: bytes, _: Sequence[bytes], random: Random) -> bytes:
    start, end = _span(content, random)
    return content[:start] + content[end:]


def _repeat(content: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Repeat a part a few times, rarely up to a megabyte; numbers in the copies may count up."""
    start, end = _span(content, random)
    part = content[start:end] or b"\n"
    times = max(int(2 ** min(random.expovariate(0.35), 20) / len(part)), 1)
    if random.random() < 0.5:
        return content[:end] + part * times + content[end:]
    copies = (re.sub(rb"\d+", str(number).encode(), part) for number in range(min(times, 20_000)))
    return content[:end] + b"".join(copies) + content[end:]


def _nest(content: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Put a part, which may be empty, into many brackets of one kind."""
    start, end = _span(content, random)
    opening, closing = random.choice(((b"[", b"]"), (b"{", b"}"), (b"<a>", b"</a>"), (b"{a ", b"}"), (b'{"a":', b"}")))
    depth = int(2 ** random.uniform(0, 12))
    return content[:start] + opening * depth + content[start:end] + closing * depth + content[end:]


def _swap(content: bytes, _: Sequence[bytes], random: Random) -> bytes:
    (a, b), (c, d) = sorted((_span(content, random), _span(content, random)))
    return content if c < b else content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _cut(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Keep the beginning, perhaps with another file after it."""
    rest = random.choice((b"", b"", random.choice(others)))
    return content[: random.randint(0, len(content))] + rest


def _encode(content: bytes, _: Sequence[bytes], random: Random) -> bytes:
    text = content.decode(errors="replace")
    return random.choice((text, text.replace("\n", "\r"))).encode(random.choice(_ENCODINGS), errors="replace")


_TEXT_CHANGES: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    *(_flip, _replace, _insert, _delete, _repeat, _nest, _swap, _cut, _encode),
)
_TEXT_WEIGHTS = (3, 10, 5, 4, 2, 0.5, 2, 0.7, 0.3)


def _material(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Return a text to insert."""
    kind = random.random()
    if kind < 0.4:
        source = content if random.random() < 0.5 else random.choice(others)
        start, end = _span(source, random)
        return source[start:end]
    if kind < 0.65:
        return str(random.choice(NUMBERS)).encode()
    if kind < 0.95:
        return random.choice(WORDS).encode()
    return random.randbytes(random.choice((1, 2, 8)))


def change_json(value: Any, random: Random) -> None:
    """Change one place in a JSON value that is an object or a list."""
    places = list(_places(value))
    if places:
        holder, key = random.choice(places)
        _change_at(holder, key, places, random)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key or index of each value inside `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield value, key
        yield from _places(each)


def _change_at(holder: Any, key: Any, places: list[tuple[Any, Any]], random: Random) -> None:
    match random.randrange(7):
        case 0:
            del holder[key]
        case 1:
            other, other_key = random.choice(places)
            holder[key] = deepcopy(other[other_key])
        case 2 if isinstance(holder, list):
            holder[key:key] = [deepcopy(holder[key]) for _ in range(random.choice((1, 1, 2, 10)))]
        case 3 if isinstance(holder, list):
            other_key = random.randrange(len(holder))
            holder[key], holder[other_key] = holder[other_key], holder[key]
        case 3:
            holder[random.choice(WORDS)] = holder.pop(key)
        case 4 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] += random.choice((1, -1, 0.5))
        case _:
            holder[key] = some_value(random)


def some_value(random: Random) -> Any:
    """Return a JSON value of any kind."""
    kind = random.random()
    if kind < 0.6:
        return random.choice(NUMBERS)
    if kind < 0.8:
        return random.choice(WORDS)
    return random.choice((None, True, False, [], {}, [[]], [None], {"": 0}, [1, 2], float("nan"), float("inf")))
