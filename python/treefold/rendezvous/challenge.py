"""Proofs that both ends of a connection know a secret, which is never sent.

The caller says what it claims and a random number, the other end answers with a number of its own, and each sends an
HMAC of the claims and both numbers: mutual authentication by keyed hashes (ISO/IEC 9798-4, 5.2.2). The caller proves
first, so that a stranger who calls gets nothing at which to guess words. What a stranger has recorded is no proof for
another number, and no end's proof is one of the other end. It costs two round trips.
"""

import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Sequence
from typing import NamedTuple

from treefold.rendezvous.frames import FrameError, Header, receive_frame, send_frame

_CALLER, _ACCEPTOR, _KEY, _WORD = "caller", "acceptor", "key", "word"
_NUMBER_DIGITS = 32
_SCALARS = (str, int, float, bool, type(None))


class StrangerError(FrameError):
    """The other end does not prove that it knows the secret."""


class Challenge(NamedTuple):
    """A caller's claims, and the number to which its proof has to answer."""

    hello: Header
    number: str


def number() -> str:
    """Return a random number that nobody can guess, as a text."""
    return secrets.token_hex(_NUMBER_DIGITS // 2)


def is_number(value: object) -> bool:
    """Tell whether a value can be a random number of a worker."""
    return isinstance(value, str) and len(value) == _NUMBER_DIGITS and value.isascii() and value.isalnum()


def word_bytes(word: str) -> bytes:
    """Return a word that people know as a secret."""
    return word.encode(errors="surrogatepass")


def shared_key(secret: bytes, numbers: Sequence[str]) -> bytes:
    """Return a key of 32 bytes that all have who know the secret and the random numbers of all of them."""
    return _digest(secret, _KEY, list(numbers))


def digest_of_word(secret: bytes, numbers: Sequence[str]) -> str:
    """Return what tells whether workers have the same word, for these random numbers of all of them only."""
    return _digest(secret, _WORD, list(numbers)).hex()


def introduce(connection: socket.socket, hello: Header, secret: bytes) -> Header | None:
    """Call: claim what `hello` says and prove it. Return the error with which the other end refuses, None if it agrees.

    Raises:
        StrangerError: If the other end does not know the secret.
        FrameError: If it is no worker.
        EOFError: If it has closed the connection.

    """
    claims = hello | {"number": number()}
    send_frame(connection, claims)
    answer, _ = receive_frame(connection, 0)
    if "error" in answer:
        return answer
    if not is_number(answer.get("number")):
        raise FrameError("no challenge")
    asked = Challenge(claims, answer["number"])
    send_frame(connection, {"proof": _proof(secret, _CALLER, asked)})
    answer, _ = receive_frame(connection, 0)
    if "error" in answer:
        return answer
    if not _is_proof(answer, _proof(secret, _ACCEPTOR, asked)):
        raise StrangerError("a wrong proof")
    return None


def challenge(hello: Header) -> Challenge:
    """Return what to ask a caller with these claims, whose number is to be sent.

    Raises:
        FrameError: If it is no worker's hello.

    """
    # Claims without lists and objects are written as JSON in one way only, and never too deep to be written.
    if not is_number(hello.get("number")) or not all(isinstance(value, _SCALARS) for value in hello.values()):
        raise FrameError("this port speaks to workers of treefold only, which begin with a random number")
    return Challenge(hello, number())


def answer_to(asked: Challenge, answer: Header, secret: bytes) -> Header | None:
    """Return the proof of this end if the caller has proven its claims, else None."""
    is_proven = _is_proof(answer, _proof(secret, _CALLER, asked))
    return {"proof": _proof(secret, _ACCEPTOR, asked)} if is_proven else None


def _proof(secret: bytes, end: str, asked: Challenge) -> str:
    return _digest(secret, end, asked).hex()


def _is_proof(answer: Header, expected: str) -> bool:
    """Compare proofs in a time that does not tell how much of a guess is right."""
    given = answer.get("proof")
    return isinstance(given, str) and given.isascii() and hmac.compare_digest(given, expected)


def _digest(secret: bytes, purpose: str, what: object) -> bytes:
    text = json.dumps(["treefold", purpose, what], sort_keys=True).encode()
    return hmac.digest(secret, text, hashlib.sha256)
