"""Computes bounds: the rates and times that no plan on a network can beat."""

from typing import TYPE_CHECKING

from treefold import checks
from treefold._core import CollectiveBounds, Limit, Plan, Topology, collective_bounds, parse_collective
from treefold.blocks import read as read_blocks
from treefold.blocks import size_or_default
from treefold.collectives import COLLECTIVES
from treefold.networks import as_network
from treefold.results import Bound, BoundReport, SizeBound
from treefold.text import some

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from treefold.blocks import Blocks

_SHOWN = 4


def bound(network: Topology | str) -> BoundReport:
    """Return bounds that no all-reduce can beat: rates for large vectors, and a latency for small ones.

    `bound_at` bounds other collectives, and says what limits a size. The bounds of a network are computed once and
    kept.

    Args:
        network: A `Topology`, a spec, or the path of a file.

    Raises:
        TreefoldError: If a spec or file does not describe a network.

    Example:
        >>> treefold.bound("ring:4").all_reduce.rate_Bps
        21333333333.333332

    """
    bounds = as_network(network).bounds()
    proven = {each.name: Bound(each.rate_Bps, each.is_exact, each.method) for each in bounds.rates}
    return BoundReport(latency_s=bounds.of_sizes.latency_s, **proven)


def bound_at(
    network: Topology | str,
    size_bytes: int | str | None = None,
    collective: str = "all-reduce",
    root: int = 0,
    blocks: "ArrayLike | str | None" = None,
) -> SizeBound:
    """Return the time that a collective takes at least for one size, and what limits it.

    Args:
        network: A `Topology`, a spec, or the path of a file.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`: of the whole result of an
            all-gather, of the whole input of a reduce-scatter. By default that of `treefold.plan`.
        collective: `all-reduce`, `all-gather`, `reduce-scatter`, `broadcast`, `reduce` or `all-to-all`.
        root: The rank that broadcasts or receives; other collectives refuse it.
        blocks: The sizes of the blocks of an all-to-all if they are unequal, as for `treefold.plan`; `size_bytes` is
            then that of the largest vector.

    Raises:
        TreefoldError: If a spec or file does not describe a network, the size or the collective is none, or the root
            is no rank.

    Example:
        >>> treefold.bound_at("torus:4x4", "64KiB", "all-gather").time_s
        1.11e-06

    """
    network = as_network(network)
    collective = parse_collective(collective)
    checks.root(root, network.ranks)
    sizes = read_blocks(blocks, collective, network.ranks)
    size = size_or_default(size_bytes, sizes)
    found = collective_bounds_of(network, collective, root, sizes)
    limit = found.limit(size)
    return SizeBound(
        network=network.name,
        collective=collective,
        size_bytes=size,
        time_s=found.seconds(size),
        limited_by=in_words(limit, collective, network),
        links=tuple(limit.links) if limit else (),
        shared=tuple(limit.shared) if limit else (),
        rate=Bound(found.rate.rate_Bps, found.rate.is_exact, found.rate.method),
        latency_s=found.latency_s,
    )


def in_words(limit: Limit | None, collective: str, network: Topology) -> str:
    """Say what limits a collective, as the end of a sentence; None stands for nothing."""
    if limit is None:
        return "nothing"
    if limit.kind == "latency":
        return "the latency of the farthest pair"
    if limit.kind == "rate":
        return _links(limit, network)
    verb = "sends to" if COLLECTIVES[collective].has_root or len(limit.sources) == 1 else "send to"
    return f"what {some(limit.sources, _SHOWN)} {verb} {some(limit.targets, _SHOWN)}"


def _links(limit: Limit, network: Topology) -> str:
    """Name what limits the rate of large vectors and, if it is a cut, the ranks on its sides."""
    sources, targets = limit.sources, limit.targets
    kinds = ((limit.links, ("link", "links")), (limit.shared, ("shared capacity", "shared capacities")))
    parts = [_several(names, *words) for names, words in kinds if names]
    if not parts:
        return "the rate of large vectors"
    if len(limit.links) == network.num_links and not limit.shared:
        return "the rate of all links together"
    which = f"the rate of {' and of '.join(parts)}"
    if not sources:
        return which
    verb = "sends to" if len(sources) == 1 else "send to"
    return f"{which}, over which {_side(sources, targets)} {verb} {_side(targets, sources)}"


def _several(names: list[str], one: str, many: str) -> str:
    """Name links or shared capacities, or count them and name the first two."""
    if len(names) > _SHOWN:
        return f"{len(names)} {many}, such as {' and '.join(names[:2])}"
    return f"the {one if len(names) == 1 else many} {some(names, _SHOWN)}"


def _side(ranks: list[str], others: list[str]) -> str:
    """Name the ranks on a side of a cut, unless they are many and all but a few."""
    return "all others" if len(ranks) > _SHOWN >= len(others) else some(ranks, _SHOWN)


def least_seconds(plan: Plan, size_bytes: int) -> float:
    """Return the seconds that the collective of a plan takes at least on its network."""
    return collective_bounds_of(plan.topology, plan.collective, plan.root or 0, plan.blocks).seconds(size_bytes)


def collective_bounds_of(
    network: Topology, collective: str, root: int, blocks: "Blocks | None" = None
) -> CollectiveBounds:
    """Return the bounds of a collective; `root` counts where it has one."""
    return collective_bounds(network, collective, root if COLLECTIVES[collective].has_root else 0, blocks)
