"""The command `probe`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treefold import _core, interrupts
from treefold.cli.groups import expanded
from treefold.cli.launch import LONGEST_S, WorkerOptions, among_workers, measuring, seconds_option
from treefold.cli.options import Json, NetworkFile
from treefold.cli.terminal import check_alone, notify, show
from treefold.errors import TreefoldError

if TYPE_CHECKING:
    from treefold.probe import Measurements, Settings
    from treefold.rendezvous import Rendezvous


@dataclass(frozen=True, kw_only=True)
class ProbeWorkers(WorkerOptions):
    """The options of workers, with a timeout that leaves time to notice dead connections."""

    timeout: Annotated[
        float,
        seconds_option(
            "How long a worker waits for others between measurements, in seconds or with a unit (90s); at least 30s."
        ),
    ] = 60


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The options of the measurements."""

    links: Annotated[
        Path | None,
        typer.Option(help="Measure only the links of the network in this file, each link in its own direction only."),
    ] = None
    seconds: Annotated[
        float | None,
        seconds_option(
            "The approximate time of the whole probe, in seconds or with a unit (20s). It is divided among the "
            "transfers, and each takes 0.1 to 5 seconds; by default each takes 1 second, and tests of many pairs at "
            "once end after a minute. Lines that one TCP stream does not fill take a few transfers more."
        ),
    ] = None
    most_bytes: Annotated[
        str,
        typer.Option(
            "--bytes",
            metavar="SIZE",
            help="The maximum traffic of all workers together; each transfer needs at least 1MiB. The number of "
            "transfers is printed before the first one.",
        ),
    ] = "64GiB"
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Measure pairs at the same time if they share no worker.")
    ] = False

    def settings(self) -> "Settings":
        """Return the settings of the probe.

        Raises:
            TreefoldError: If a value is not allowed, or the file of links cannot be read.

        """
        from treefold.probe import Settings, read_links

        if self.seconds is not None and not 0 < self.seconds < LONGEST_S:
            raise TreefoldError(f"--seconds {self.seconds:g}: must be more than 0 and less than {LONGEST_S:g}")
        links = None if self.links is None else read_links(self.links)
        return Settings(self.seconds, _core.parse_size(self.most_bytes), self.parallel, links)


@expanded
def probe(
    output: NetworkFile = None,
    as_json: Json = False,
    *,
    limits: Limits,
    workers: ProbeWorkers,
) -> None:
    """Measure latency, bandwidth and shared capacities.

    It measures the latency and the bandwidth of every pair of workers, and for each worker the total rate at which it
    can send and receive (its caps). A line that one TCP stream does not fill is measured with more; the network's file
    tells how many. "loaded" is the latency while a line is full, which the file does not have.

    Then it finds out what pairs share, without a list of cables. It plans with what it knows, and all workers offer the
    plan's traffic at once. Where some fall short, it looks for pairs that share a capacity, and plans again, until a
    plan is carried or the budget is used. A line tells what each round has learnt, and the last one whether nothing
    faster is in sight, or what had run out. Bytes or seconds that are too few for such tests leave the network of pairs
    and caps, and more than 40 workers do, too. With --links there is nothing to find, and what the file tells of shared
    capacities is kept. If the probe is interrupted, the file has the network as far as it is known.

    Start one process for each worker: with torchrun, with mpiexec, or with RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT set. Or start a single process with --local N, which starts N workers on this host. TREEFOLD_NAME names
    a worker. All workers use the options of worker 0, and only worker 0 prints and writes. In the examples, HOST is the
    host of worker 0.

    TREEFOLD_TLS names the folder of this worker's certificate (see treefold certificates), with which the workers meet;
    what they send to measure is not encrypted. TREEFOLD_JOB is a secret word that all workers of the job have.

    Examples:
    torchrun --nproc-per-node 1 --nnodes 4 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m treefold probe -o wan.json
    treefold probe --local 4

    """
    with interrupts.at_once():
        from treefold import exporters
        from treefold.probe import LEAST_TIMEOUT_S, measure, report

    if workers.timeout < LEAST_TIMEOUT_S:
        raise TreefoldError(
            f"--timeout {workers.timeout:g}: it takes a while to notice dead connections; write 30 or more"
        )
    check_alone(output, as_json)
    if output is not None:
        exporters.check_document_writable(output)
    settings = limits.settings()

    def work(joined: "Rendezvous") -> dict[str, Any]:
        if joined.rank:
            return report.summary(measure(joined, settings))

        def keep(measured: "Measurements") -> None:
            if output is not None:
                exporters.write(report.document(measured, settings.links), output)

        return report.summary(measure(joined, settings, notify, measuring, keep))

    workers.check(2)
    probed = among_workers(work, workers, ["probe", "--timeout", str(workers.timeout)])
    if probed is not None:
        show(probed, as_json, lambda: _table(probed), written=output)


def _table(probed: dict[str, Any]) -> str:
    from treefold.report.measured import probe_table

    return probe_table(probed)
