"""Commands that run in every worker: read arguments, join the others, print on rank 0 only."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from treefold import _core
from treefold._core import TreefoldError

if TYPE_CHECKING:
    from treefold.workers.rendezvous import Rendezvous

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")

_LOOPBACK = "127.0.0.1"
_END_S = 5.0


def probe(
    local: Annotated[
        int | None,
        typer.Option(help="Measure between so many processes of this machine, over loopback, without a launcher."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the network to this file: .json, .graphml, .dot.")
    ] = None,
    links: Annotated[
        Path | None, typer.Option(help="A network's file: measure only its links, and keep its shape.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="About how long all may take; by default a second a transfer.")
    ] = None,
    most_bytes: Annotated[str, typer.Option("--bytes", help="How much all workers together send at most.")] = "64GiB",
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Measure pairs without a common worker at the same time.")
    ] = False,
    interface: Annotated[
        str | None,
        typer.Option(help="Name or address of what to listen on; by default what leads to MASTER_ADDR."),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for other workers.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")] = False,
) -> None:
    """Measure the network between workers: latency and bandwidth of pairs, and caps of nodes.

    Start it in every worker: with torchrun, with mpiexec, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.
    TREEFOLD_NAME names a worker. Rank 0's options count, it alone prints and writes.
    """
    from treefold import exporters
    from treefold.workers import network
    from treefold.workers.probe import LEAST_TIMEOUT_S, Settings, measure

    if timeout < LEAST_TIMEOUT_S:
        raise TreefoldError(f"--timeout {timeout:g}: dead connections show only after a while; write 30 or more")
    if output is not None:
        exporters.check_writable(output)
    settings = Settings(seconds, _core.parse_size(most_bytes), parallel, None if links is None else _read(links))

    def work(joined: "Rendezvous") -> dict[str, Any]:
        if joined.rank:
            return network.summary(measure(joined, settings))
        found = measure(joined, settings, _tell, _track)
        if output is not None:
            exporters.write(network.document(found, settings.links), output)
        return network.summary(found)

    probed = _among_workers(work, local, interface, timeout)
    if probed is not None:
        typer.echo(json.dumps(probed) if as_json else _probe_table(probed))


def _probe_table(probed: dict[str, Any]) -> str:
    from treefold.report.measured import probe_table

    return probe_table(probed)


def _among_workers(
    work: Callable[["Rendezvous"], _Result], local: int | None, interface: str | None, timeout_s: float
) -> _Result | None:
    """Do `work` as one worker, with `local` as rank 0 of so many processes; on other ranks return None."""
    from treefold.workers import rendezvous

    with ExitStack() as stack:
        if local is None:
            joined = rendezvous.from_environment(timeout_s, interface)
        else:
            joined = stack.enter_context(_processes(local, timeout_s))
        stack.callback(joined.close)
        result = work(joined)
    return result if joined.rank == 0 else None


@contextmanager
def _processes(count: int, timeout_s: float) -> "Iterator[Rendezvous]":
    """Start the other workers of this machine as processes with this one's arguments; they end with it."""
    from treefold.workers.rendezvous import of_master
    from treefold.workers.sockets import listen

    if count < 2:
        raise TreefoldError(f"--local {count}: it takes 2 workers at least; write --local 2")
    with listen(_LOOPBACK) as listener:
        port = listener.getsockname()[1]
    foreign = ("TORCHELASTIC_USE_AGENT_STORE", "TREEFOLD_NAME", "TREEFOLD_INTERFACE")
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    variables |= {"WORLD_SIZE": str(count), "MASTER_ADDR": _LOOPBACK, "MASTER_PORT": str(port)}
    command = [sys.executable, "-m", "treefold", "probe", "--timeout", str(timeout_s)]
    started = [
        subprocess.Popen(
            command, env=variables | {"RANK": str(rank)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for rank in range(1, count)
    ]
    try:
        yield of_master(0, count, _LOOPBACK, port, timeout_s)
    finally:
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            process.kill()
            process.wait()


def _read(path: Path) -> dict[str, Any]:
    """Return a network whose links may lack what a probe measures."""
    from treefold import importers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", importers.TopologyWarning)
        return importers.read(path, bandwidth_Bps=1.0, latency_s=0.0)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _track(items: Sequence[_Item]) -> Iterable[_Item]:
    """Show a progress bar over `items` on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, description="measuring", console=Console(stderr=True), transient=True)
