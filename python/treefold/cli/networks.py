"""The commands `topology` and `bound`."""

from typing import Annotated

import typer

from treefold import _core, bounds, networks
from treefold.cli.groups import expanded
from treefold.cli.options import Json, Network, NetworkFile, NetworkOptions
from treefold.cli.terminal import check_alone, show, working
from treefold.report import bound_table, network_table


@expanded
def topology(
    network: Network,
    output: NetworkFile = None,
    as_json: Json = False,
    *,
    all_links: Annotated[bool, typer.Option("--all", help="List all nodes and links, even many.")] = False,
    network_options: NetworkOptions,
) -> None:
    """Describe or convert a network."""
    from treefold import exporters

    check_alone(output, as_json)
    if output is not None:
        exporters.check_document_writable(output)
    loaded = network_options.load(network)
    if output is not None:
        exporters.save(loaded, output)
    summary = networks.describe(loaded).as_dict()
    show(summary, as_json, lambda: network_table(loaded, is_whole=all_links), written=output)


topology.__doc__ = f"""Describe or convert a network.

TOPOLOGY is a file (.json, .graphml, .gml, .dot, .csv) or one of {", ".join(_core.generators())}.

Examples:
treefold topology b4
treefold topology cities.graphml --latency 5ms -o cities.json
"""


@expanded
def bound(network: Network, as_json: Json = False, *, network_options: NetworkOptions) -> None:
    """Show bounds that no plan can beat: rates for large vectors, and a latency for small ones.

    Examples:
    treefold bound torus:8x8
    treefold bound wan.json --ranks Paris,Geneva,Milan

    """
    loaded = network_options.load(network)
    with working("bounding"):
        report = bounds.bound(loaded)
    show(report.as_dict(), as_json, lambda: bound_table(report))
