"""Runs a command among workers: it joins the others, or starts them on this machine. Only worker 0 prints."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from treefold import _core, environment, interrupts
from treefold.cli.app import as_known
from treefold.cli.terminal import notify, track
from treefold.errors import TreefoldError

if TYPE_CHECKING:
    from treefold.rendezvous import Rendezvous

_Result = TypeVar("_Result")

measuring = partial(track, description="measuring")

LONGEST_S = 1e7
"""The longest timeout, and the longest measurement."""

_LOOPBACK = "127.0.0.1"
_END_S = 5.0
_PROCESS_BYTES = 40 << 20
"""The least memory of a worker process."""


def seconds_option(help_text: str) -> Any:
    """Return an option for a time, whose value is in seconds."""
    return typer.Option(help=help_text, metavar="TIME", parser=_seconds)


def _seconds(text: str | float) -> float:
    """Return a time in seconds: a number of them, or a text with a unit."""
    with suppress(ValueError):
        return float(text)
    try:
        return _core.parse_time(str(text))
    except TreefoldError as error:
        raise typer.BadParameter(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of workers: where they meet, and how long they wait for each other."""

    local: Annotated[
        int | None,
        typer.Option(help="Start this many workers on this host, without a launcher.", rich_help_panel="Workers"),
    ] = None
    interface: Annotated[
        str | None,
        typer.Option(
            help="The interface to listen on, by name or address; by default what TREEFOLD_INTERFACE says, or else "
            "the interface towards MASTER_ADDR."
        ),
    ] = None
    port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|none",
            help="The port on which this worker listens for other workers, or none if it does not listen and calls "
            "all others; by default what TREEFOLD_PORT says, or else one that the system chooses.",
        ),
    ] = None
    timeout: Annotated[
        float,
        seconds_option(
            "The timeout of the rendezvous, in which workers exchange addresses, in seconds or with a unit (500ms)."
        ),
    ] = 60

    def check(self, least: int) -> None:
        """Refuse a bad timeout or port, a `--local` that is too small or large, or with `--interface` or `--port`."""
        from treefold.rendezvous import MOST_WORKERS
        from treefold.rendezvous.identity import listening_port

        if not 0 < self.timeout < LONGEST_S:
            raise TreefoldError(f"--timeout {self.timeout:g}: must be more than 0 and less than {LONGEST_S:g} seconds")
        if self.local is not None and not least <= self.local <= MOST_WORKERS:
            raise TreefoldError(
                f"--local {self.local}: it takes {least} to {MOST_WORKERS} workers; write for example --local 4"
            )
        if self.local is not None and self.interface is not None:
            raise TreefoldError(
                f"--interface {self.interface}: workers of --local meet on this machine; drop one of the two"
            )
        if self.port is not None:
            listening_port(self.port)
            if self.local is not None:
                raise TreefoldError(
                    f"--port {self.port}: workers of --local share this machine, and each needs a port of its own; "
                    "drop one of the two"
                )


def among_workers(
    work: Callable[["Rendezvous"], _Result], options: WorkerOptions, arguments: Sequence[str]
) -> _Result | None:
    """Do `work` as a worker, or with `--local` as worker 0 of processes that run treefold with `arguments`.

    Return the result in worker 0, and None in other workers.
    """
    from treefold import rendezvous

    with ExitStack() as stack:
        if options.local is None:
            joined = rendezvous.from_environment(options.timeout, options.interface, options.port)
        else:
            joined = stack.enter_context(_processes(options.local, options.timeout, arguments))
        stack.callback(joined.close)
        result = work(joined)
    return result if joined.rank == 0 else None


def without_local(arguments: Sequence[str]) -> list[str]:
    """Return the arguments for the processes that `--local` starts, which are all but `--local`."""
    kept = [each for each in arguments if not as_known(each).startswith("--local=")]
    names = [as_known(each) for each in kept]
    if "--local" in names:
        at = names.index("--local")
        del kept[at : at + 2]
    return kept


def stay_local() -> None:
    """Check the variables, and go on without those that do not count among workers of this machine alone."""
    environment.warn_of_unknown_variables()
    # Its workers are not of several sites, and only one of them could have the port.
    for name in ("TREEFOLD_TLS", "TREEFOLD_PORT"):
        if environment.value(name):
            notify(f"note: --local goes on without {name}, as nothing leaves this machine")
        environment.forget(name)


@contextmanager
def _processes(count: int, timeout_s: float, arguments: Sequence[str]) -> "Iterator[Rendezvous]":
    """Start the other workers of this machine as processes, which end with this one."""
    from treefold.perf import memory
    from treefold.rendezvous import from_master
    from treefold.rendezvous.sockets import free_port

    stay_local()
    memory.check(f"--local {count}: its processes take", count * _PROCESS_BYTES, "write a smaller number")
    port = free_port(_LOOPBACK)
    foreign = ("TORCHELASTIC_USE_AGENT_STORE", "TREEFOLD_NAME", "TREEFOLD_INTERFACE")
    job = secrets.token_hex()
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    variables |= {"WORLD_SIZE": str(count), "MASTER_ADDR": _LOOPBACK, "MASTER_PORT": str(port), "TREEFOLD_JOB": job}
    command = [sys.executable, "-m", "treefold", *arguments]
    started = []
    try:
        for rank in range(1, count):
            with _reported_failures(count):
                started.append(interrupts.start(command, variables | {"RANK": str(rank)}))
        yield from_master(0, count, _LOOPBACK, port, timeout_s, job=job)
    finally:
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
            process.wait()


@contextmanager
def _reported_failures(count: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreefoldError(f"--local {count}: no more processes can start ({error.strerror}); start fewer") from None
