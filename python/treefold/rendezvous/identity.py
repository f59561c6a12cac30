"""A worker's name, and the address on which the others reach it."""

import os
import socket
from contextlib import suppress

from treefold import environment
from treefold.errors import TreefoldError
from treefold.rendezvous import validation
from treefold.rendezvous.meeting import LOOPBACK, Rendezvous
from treefold.rendezvous.sockets import address_of, own_address_towards
from treefold.text import message, visible


def own_name() -> str | None:
    """Return this worker's name from TREEFOLD_NAME; None if it is not set.

    Raises:
        TreefoldError: If it cannot be printed.

    """
    name = environment.value("TREEFOLD_NAME")
    if not validation.is_name(name):
        shown = visible(name[:40])
        raise TreefoldError(
            f"TREEFOLD_NAME '{shown}' is not a name of at most 1000 printable characters; set it to one"
        )
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


def guessed_address(meeting: Rendezvous) -> str | None:
    """Return the address with which this worker reaches MASTER_ADDR, else the first worker on another machine.

    The address is None if these do not tell it, for example where host names resolve to loopback. All workers call
    this together.
    """
    machines = validation.read_texts(meeting.exchange(_machine().encode()))
    others = [machine.partition(" ")[0] for machine in machines if machine != machines[meeting.rank]]
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
