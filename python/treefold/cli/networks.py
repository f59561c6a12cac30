"""The commands `topology` and `bound`."""

import warnings
from typing import Annotated

import typer

from treefold import bounds, networks
from treefold.cli.groups import expanded
from treefold.cli.options import CollectiveOptions, Json, Network, NetworkFile, NetworkOptions
from treefold.cli.terminal import check_alone, show, working
from treefold.errors import TreefoldError
from treefold.importers import EXTENSIONS
from treefold.report import bound_table, network_table, size_bound_table


@expanded
def topology(
    network: Network,
    output: NetworkFile = None,
    as_json: Json = False,
    *,
    all_links: Annotated[bool, typer.Option("--all", help="List all nodes and links, even if there are many.")] = False,
    network_options: NetworkOptions,
) -> None:
    """Describe or convert a network."""
    from treefold import exporters

    check_alone(output, as_json)
    if output is not None:
        exporters.check_document_writable(output)
    loaded, problem, _ = network_options.described(network)
    if problem is None:
        loaded = network_options.relayed(loaded)
    else:
        warnings.warn(f"collectives are planned for ranks that all reach each other: {problem}", stacklevel=1)
    if output is not None:
        exporters.save(loaded, output)
    summary = networks.describe(loaded).as_dict()
    show(summary, as_json, lambda: network_table(loaded, is_whole=all_links), written=output)


_SPECS = {
    "ring:8, line:8, full:8": "a ring, a line, or a complete graph",
    "torus:8x8, mesh:8x8": "a grid with wraparound links, or without",
    "twisted-torus:4x8": "a torus whose links around 4 are shifted by 4",
    "hypercube:6": "2^6 accelerators",
    "dgx1": "8 GPUs with 6 NVLinks each",
    "dgx2, dgx2:planes=6": "16 GPUs on 2 switches, or on 6 planes of 2",
    "fattree:8,2": "8^2 accelerators under 2 levels of switches",
    "fattree:radix=8,taper=2": "128 accelerators, half the links above leaves",
    "fattree128": "128 accelerators on 6 planes of 24 switches",
    "bigraph:4x8": "8 switches in 2 rows, each with 4 accelerators",
    "dragonfly:groups=9,routers=4": "9 groups of 4 routers with 2 accelerators each",
    "hammingmesh:boards=4x4": "meshes, and switches of their rows and columns",
    "cluster:nodes=4,gpus=8,rails=8": "4 servers of 8 GPUs and 8 network cards",
    "cluster:pods=2,spines=2": "2 pods of servers, whose rails 2 spines join",
    "nvl72:nodes=2": "2 racks of 72 GPUs and 72 network cards",
    "b4, equinix-like, idn-like": "wide-area networks of 12, 20 and 40 sites",
    "b4:skew=0.5,seed=1": "b4 with random bandwidths (skew: 0 to 1)",
    "random:n=20,links=60,seed=1": "20 sites, 60 two-way cables at random",
}
"""Specs of every kind, with numbers as examples, and what they mean."""


def _specs() -> str:
    """Return a line for each group of specs."""
    widest = max(map(len, _SPECS))
    return "\n".join(f"{spec:{widest}}  {meaning}" for spec, meaning in _SPECS.items())


topology.__doc__ = f"""Describe or convert a network.

NETWORK is a file ({", ".join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}), or a spec:

\b
{_specs()}

You choose the numbers. By default links have 16GB/s and 150ns. In dgx1 they have 25GB/s and 700ns. In dgx2:planes=6
and fattree128 they have 25GB/s and no latency, and each switch takes 150ns; in a dragonfly it takes 350ns. In a
hammingmesh they have 50GB/s and 150ns. In wide-area networks they have 25MB/s, which is the mean if there is a skew,
and 1ms. --bandwidth and --latency change them, but not those of a cluster, which are set in its spec: nvlink=450GB/s
(900GB/s in nvl72) and nvlink_latency=150ns are those between a GPU and its server's switch, and nic=50GB/s and
nic_latency=1us those of a network card's link to the switch of its rail, and of a rail's to a spine. With fewer cards
than GPUs, GPUs share a card, which is then a switch.

Examples:
treefold topology b4
treefold topology cities.graphml --latency 5ms -o cities.json
"""


@expanded
def bound(
    network: Network,
    size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Show the least time for this size, and what limits it.")
    ] = None,
    as_json: Json = False,
    *,
    what: CollectiveOptions,
    network_options: NetworkOptions,
) -> None:
    """Show the rates and times that no plan can beat.

    There is a rate for each kind of all-reduce: a reduce-scatter followed by an all-gather, any in which switches only
    forward, and any in which switches help. Rates limit large vectors, and the latency small ones. With --size or
    --collective, the least time of one collective is shown, and what limits it; the size is 64MiB by default.

    Examples:
    treefold bound torus:8x8
    treefold bound b4 --ranks 0,3,7 --bandwidth 100Gbit/s
    treefold bound b4 --collective all-gather --size 64KiB

    """
    if network_options.rank_order is not None:
        raise TreefoldError("--rank-order: a bound does not depend on the order of the ranks; drop it")
    asked = what.asked()
    loaded = network_options.load(network)
    if size is None and what.collective is None:
        with working("bounding"):
            report = bounds.bound(loaded)
        show(report.as_dict(), as_json, lambda: bound_table(report))
        return
    with working("bounding"):
        found = bounds.bound_at(loaded, size, **asked)
    show(found.as_dict(), as_json, lambda: size_bound_table(found))
