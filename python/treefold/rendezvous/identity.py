"""A worker's name, and the address on which the others reach it."""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress

from treefold import environment
from treefold.checks import shown, whole_in
from treefold.errors import TreefoldError
from treefold.rendezvous import challenge, tls, validation
from treefold.rendezvous.meeting import LOOPBACK, Rendezvous, blame, leaving_together
from treefold.rendezvous.sockets import address_of, own_address_towards
from treefold.rendezvous.tls import Credentials
from treefold.rendezvous.variables import MOST_PORT
from treefold.text import message, some, visible

_HELLO: dict[str, validation.Schema] = {"error": str, "number": challenge.is_number, "machine": str}
"""The schema of what each worker says of its variables when it arrives."""


def introduce(meeting: Rendezvous, interface: str | None, own_port: int | str | None, name: str | None = None) -> None:
    """Give a new rendezvous its worker's name, address and port; all workers call this together.

    They exchange the same messages whatever variables they have, so that some may set TREEFOLD_INTERFACE and others
    not.

    Raises:
        TreefoldError: On every worker, if a variable of one of them cannot be used, or if their TREEFOLD_JOB differ.

    """
    error = ""
    try:
        meeting._credentials = tls.from_environment()
        meeting.name, meeting._address = own_name(meeting._credentials, name), listening_address(interface)
        meeting.port = listening_port(own_port)
    except TreefoldError as own:
        error = str(own)
    meeting._secret = challenge.word_bytes(environment.value("TREEFOLD_JOB"))
    hello = {"error": error, "number": challenge.number(), "machine": _machine()}
    hellos = validation.exchange(meeting.exchange, hello, _HELLO)
    # What tells words apart without telling them.
    digest = challenge.digest_of_word(meeting._secret, [each["number"] for each in hellos])
    digests = validation.exchange(meeting.exchange, digest, str)
    with leaving_together(meeting):
        if blamed := blame([each["error"] for each in hellos], "worker"):
            raise TreefoldError(blamed)
        _check_jobs(digests)
    if meeting._address is None:
        meeting._address = _guessed_address([visible(each["machine"]) for each in hellos], meeting.rank)


def _check_jobs(digests: Sequence[str]) -> None:
    """Refuse workers of several jobs."""
    if others := [worker for worker, digest in enumerate(digests) if digest != digests[0]]:
        plural, have = ("s", "have") if len(others) > 1 else ("", "has")
        raise TreefoldError(
            f"worker{plural} {some(map(str, others), 8)} {have} another TREEFOLD_JOB than worker 0, or only one of the "
            "two has one; give all workers of a job the same word, or none"
        )


def own_name(credentials: Credentials | None, given: str | None = None) -> str | None:
    """Return the name that this worker was given, else that of TREEFOLD_NAME, else the site of its certificate.

    It is None without any of them.

    Raises:
        TreefoldError: If it cannot be printed, or the certificate is not of the site to which it says that it belongs.

    """
    name = given or environment.value("TREEFOLD_NAME") or (credentials.site if credentials else "")
    if not validation.is_name(name):
        shown = visible(name[:40])
        raise TreefoldError(
            f"TREEFOLD_NAME '{shown}' is not a name of at most 1000 printable characters; set it to one"
        )
    if credentials is not None and not tls.is_of_site(name, credentials.site):
        raise TreefoldError(f"this worker {tls.not_of_site(name, credentials.site)}")
    return name or None


def listening_address(interface: str | None) -> str | None:
    """Return the address of `interface`, else that of TREEFOLD_INTERFACE; None if neither is given.

    Raises:
        TreefoldError: If there is no such interface.

    """
    if interface:
        return address_of(interface)
    if not (chosen := environment.value("TREEFOLD_INTERFACE")):
        return None
    try:
        return address_of(chosen)
    except TreefoldError as error:
        raise TreefoldError(message("TREEFOLD_INTERFACE", str(error))) from None


def listening_port(own_port: int | str | None) -> int | None:
    """Return the port on which a worker listens: `own_port`, else that of TREEFOLD_PORT, else 0 for any; None for none.

    Raises:
        TreefoldError: If that is neither a port nor `none`.

    """
    given = environment.value("TREEFOLD_PORT") if own_port is None else own_port
    text = str(given).strip().lower()
    if not text:
        return 0
    if text == "none":
        return None
    if (port := whole_in(text, 1, MOST_PORT)) is None:
        what = f"TREEFOLD_PORT {shown(given)}" if own_port is None else f"own_port={visible(str(given)[:40])}"
        raise TreefoldError(f"{what}: a worker listens on a port from 1 to {MOST_PORT}, or on none; give one of these")
    return port


def _guessed_address(machines: Sequence[str], rank: int) -> str | None:
    """Return the address with which this worker reaches MASTER_ADDR, else the first worker on another machine.

    The address is None if these do not tell it, for example where host names resolve to loopback.
    """
    others = [machine.partition(" ")[0] for machine in machines if machine != machines[rank]]
    if not others:
        return LOOPBACK
    with suppress(TreefoldError):
        found = own_address_towards(os.environ.get("MASTER_ADDR") or others[0])
        return None if found.startswith("127.") or found == "::1" else found
    return None


def _machine() -> str:
    """Return host and network namespace: workers that share both reach each other over loopback."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/net')}"
    return f"{socket.gethostname()} -"
