"""The command `probe`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treefold import _core, interrupts
from treefold.cli.groups import expanded
from treefold.cli.launch import LONGEST_S, WorkerOptions, among_workers, measuring
from treefold.cli.options import Json, NetworkFile
from treefold.cli.terminal import check_alone, notify, show
from treefold.errors import TreefoldError

if TYPE_CHECKING:
    from treefold.rendezvous import Rendezvous


@expanded
def probe(
    output: NetworkFile = None,
    links: Annotated[Path | None, typer.Option(help="Measure only the links of the network in this file.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="About how many seconds to measure; by default 1 for each transfer.")
    ] = None,
    most_bytes: Annotated[str, typer.Option("--bytes", help="The most that all workers send together.")] = "64GiB",
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Measure pairs without a common worker at the same time.")
    ] = False,
    as_json: Json = False,
    *,
    workers: WorkerOptions,
) -> None:
    """Measure the network between workers: latency and bandwidth of pairs, and caps of nodes.

    Start it in every worker: with torchrun, with mpiexec, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set.
    TREEFOLD_NAME names a worker. The options of rank 0 count for all; only rank 0 prints and writes.

    Examples:
    torchrun --nproc-per-node 1 --nnodes 4 --rdzv-endpoint HOST:29500 -m treefold probe -o wan.json
    treefold probe --local 4

    """
    with interrupts.at_once():
        from treefold import exporters
        from treefold.probe import LEAST_TIMEOUT_S, Settings, measure, read_links, report

    if seconds is not None and not 0 < seconds < LONGEST_S:
        raise TreefoldError(f"--seconds {seconds:g}: must be more than 0 and less than {LONGEST_S:g}")
    if workers.timeout < LEAST_TIMEOUT_S:
        raise TreefoldError(
            f"--timeout {workers.timeout:g}: it takes a while to notice dead connections; write 30 or more"
        )
    check_alone(output, as_json)
    if output is not None:
        exporters.check_document_writable(output)
    settings = Settings(seconds, _core.parse_size(most_bytes), parallel, None if links is None else read_links(links))

    def work(joined: "Rendezvous") -> dict[str, Any]:
        if joined.rank:
            return report.summary(measure(joined, settings))
        measured = measure(joined, settings, notify, measuring)
        if output is not None:
            exporters.write(report.document(measured, settings.links), output)
        return report.summary(measured)

    workers.check(2)
    probed = among_workers(work, workers, ["probe", "--timeout", str(workers.timeout)])
    if probed is not None:
        show(probed, as_json, lambda: _table(probed), written=output)


def _table(probed: dict[str, Any]) -> str:
    from treefold.report.measured import probe_table

    return probe_table(probed)
