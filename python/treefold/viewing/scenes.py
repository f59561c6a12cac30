"""What a page knows of a plan at one size: how long it takes and why, its trees, its transfers, and busy links.

Times are whole ticks of a 2^30th of the plan's time: how long each transfer is sent and under way, and its gap after
the end of what it waited for. These are the same few numbers over and over, which compress well. If there are too many
transfers, a page has those of the first trees only; the busy shares of links count all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treefold._core import Plan, Samples, Trace
from treefold.bounds import bound_at
from treefold.explanation_results import Explanation
from treefold.results import Prediction
from treefold.viewing.explained import explained_document

Columns = dict[str, NDArray[Any]]

_TICKS = 1 << 30
MOST_TRANSFERS = 2_500_000
"""So many transfers take 2 to 10 MB in a page, and a second or two to read."""
_MOST_SHARES = 1 << 22
_WINDOWS = 256
"""The windows of the busy shares of links: this many, or fewer if links are very many."""
_SAMPLE_WINDOWS = 128
"""The windows of what the packet simulator samples: this many, or fewer if nodes or links are very many."""
_NONE = 0xFFFFFFFF
_LARGE_BYTES = 10**18
"""A size at which the rate of links bounds the time, and nothing else."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A plan and its trace, as a page shows them."""

    label: str
    plan: Plan
    trace: Trace
    prediction: Prediction | None
    """The prediction; None if the trace was given."""
    explained: Explanation | None = None
    changes: Sequence[str] = ()
    """In what the network differs from that of the scene before, in words."""

    @property
    def source(self) -> str:
        """The simulator that found the time, `measured`, or `trace` for a given trace that tells of no clocks.

        Only measured traces say how far clocks may have been apart, and no two clocks agree to the last digit.
        """
        if self.prediction is not None:
            return self.prediction.simulator
        return "measured" if self.trace.clock_uncertainty_s > 0 else "trace"

    @cached_property
    def columns(self) -> Columns:
        """The columns of the trace, which are copies: they are made once."""
        return self.trace.columns()

    @cached_property
    def path(self) -> NDArray[np.uint32]:
        """The transfers on the critical path."""
        return self.trace.critical_path()

    @cached_property
    def use(self) -> Columns:
        """The columns that say how busy links are, and what was sampled over time; no tree matters for them."""
        sampled = {f"series-{name}": _scaled(each.values) for name, each in _samples(self.trace).items()}
        return _use(self.trace) | sampled


def scene_document(scene: Scene, network: int, trees_here: int) -> dict[str, Any]:
    """Return the document of a scene; `viewer/src/data/format.ts` explains it.

    Args:
        scene: The scene.
        network: The number of its network in the page.
        trees_here: Of how many trees the page has the transfers.

    """
    plan, trace = scene.plan, scene.trace
    columns = scene.columns
    return {
        "label": scene.label,
        "network": network,
        "algorithm": plan.algorithm,
        "changes": list(scene.changes),
        "collective": plan.collective,
        "size_bytes": scene.trace.size_bytes,
        "simulator": scene.source,
        "time_s": trace.time_s,
        "clock_uncertainty_s": trace.clock_uncertainty_s,
        **_limit(scene),
        "shared_used": [each.full_rate_s / trace.time_s if trace.time_s > 0 else 0.0 for each in trace.shared()],
        "mean_utilization": trace.utilization.mean,
        "max_utilization": trace.utilization.max,
        "trees": plan.num_trees,
        "phases": int(columns["tree_phase"].max(initial=0)) + 1,
        "steps": int(columns["edge_step"].max(initial=0)),
        "path": _path(trace, len(columns["lane"])),
        "series": [_series(name, each) for name, each in _samples(trace).items()],
        "transfers": len(columns["lane"]),
        "trees_here": trees_here,
        "explained": None if scene.explained is None else explained_document(scene.explained, plan.topology),
    }


def _limit(scene: Scene) -> dict[str, Any]:
    """Return what bounds the time at this size, and the numbers of the links that bound large vectors."""
    plan = scene.plan
    asked = (plan.collective, plan.root or 0, plan.blocks)
    here = bound_at(plan.topology, scene.trace.size_bytes, *asked)
    large = bound_at(plan.topology, _LARGE_BYTES, *asked)
    shared = [link for each in plan.topology.shared() if each.name in large.shared for link in each.links]
    numbers: dict[str, list[int]] = {}
    for number, link in enumerate(plan.topology.links()):
        numbers.setdefault(f"{link.source} -> {link.target}", []).append(number)
    return {
        "bound_s": here.time_s,
        "limited_by": here.limited_by,
        "rate_limited_by": large.limited_by,
        "limit_rate_Bps": large.rate.rate_Bps,
        "limit_links": [number for name in large.links for number in numbers.get(name, [])] + shared,
    }


def _path(trace: Trace, transfers: int) -> dict[str, Any] | None:
    if not transfers:
        return None
    summary = trace.path_summary()
    names = ("transfers", "sending_s", "latency_s", "waiting_s")
    return {name: getattr(summary, name) for name in names}


def _windows(most: int, trace: Trace) -> int:
    """Return into how many windows the time is cut: `most`, or fewer if links are very many."""
    return max(min(most, _MOST_SHARES // max(trace.plan.topology.num_links, 1)), 8)


def _samples(trace: Trace) -> dict[str, Samples]:
    """Return what was sampled over time and ever happened, but for how busy links are, which all pages have."""
    found = trace.samples(_windows(_SAMPLE_WINDOWS, trace)).items()
    return {name: each for name, each in found if name != "busy" and each.values.max(initial=0.0) > 0}


def _series(name: str, samples: Samples) -> dict[str, Any]:
    values = samples.values
    return {
        "name": name,
        "title": samples.title,
        "unit": samples.unit,
        "of": samples.of,
        "windows": values.shape[1],
        "largest": _largest(values),
    }


def _largest(values: NDArray[np.float32]) -> float:
    return float(values.max(initial=0))


def trees_that_fit(scene: Scene, most_transfers: int = MOST_TRANSFERS) -> int:
    """Return of how many trees, from the first on, a page can have all transfers."""
    ends = _transfers_before(scene.columns)
    return int(np.searchsorted(ends[1:], most_transfers, side="right"))


def _transfers_before(columns: Columns) -> NDArray[np.int64]:
    """Return how many transfers the trees before each tree have, and the sum of all."""
    halves, first = columns["half_start"], columns["edge_transfer"]
    ends = np.where(first == _NONE, 0, first.astype(np.int64) + columns["edge_chunks"])
    reached = np.maximum.accumulate(np.concatenate([[0], ends]))
    return np.asarray(reached[halves[::2]], np.int64)


def transfers_of(scene: Scene, trees: Sequence[int]) -> int:
    """Return how many transfers the edges of some trees have."""
    return len(_kept(_edges(scene.columns, trees)))


def scene_columns(scene: Scene, trees: Sequence[int] | None = None) -> Columns:
    """Return the columns of a scene: its lanes, trees and busy links, and the edges and transfers of some trees.

    Args:
        scene: The scene.
        trees: The numbers of the trees; by default all of them.

    Returns:
        The columns by name. Those of what was sampled over time are called `series-` and its name.

    """
    columns = scene.columns
    edges = _edges(columns, trees)
    kept = _kept(edges)
    return {
        **{name: columns[name] for name in ("lane_source", "lane_target", "lane_start", "lane_links")},
        **{name: columns[name] for name in ("tree_root", "tree_phase", "tree_share")},
        **_renumbered(edges, kept),
        **_times(columns, kept, scene.trace.time_s),
        "path": _numbers(scene.path, kept),
        **scene.use,
    }


def _scaled(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return values as parts of the largest one, which is 65535."""
    scale = 65535 / (_largest(values) or 1.0)
    return np.rint(values.astype(np.float64) * scale).astype(np.uint16).reshape(-1)


def _edges(columns: Columns, trees: Sequence[int] | None) -> Columns:
    """Return the edges of some trees, or of all, tree by tree."""
    halves = columns["half_start"].astype(np.int64)
    wanted = np.arange(len(halves) // 2) if trees is None else np.asarray(trees, np.int64)
    half = (2 * wanted[:, None] + np.arange(2)).reshape(-1)
    lengths = halves[half + 1] - halves[half]
    places = _ranges(halves[half], lengths)
    half = np.repeat(half, lengths)
    return {
        "edge_tree": (half // 2).astype(np.uint32),
        "edge_reduces": (half % 2 == 0).astype(np.uint8),
        **{name: columns[name][places] for name in ("edge_lane", "edge_step", "edge_transfer", "edge_chunks")},
    }


def _kept(edges: Columns) -> NDArray[np.int64]:
    """Return the transfers of the edges, in their order."""
    has = edges["edge_transfer"] != _NONE
    first, chunks = edges["edge_transfer"][has].astype(np.int64), edges["edge_chunks"][has].astype(np.int64)
    starts, once = np.unique(first, return_index=True)
    return _ranges(starts, chunks[once])


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the whole numbers from each start on, as many as its length, one range after the other."""
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(starts, lengths) + offsets, np.int64)


def _renumbered(edges: Columns, kept: NDArray[np.int64]) -> Columns:
    """Return the edges with the numbers that their transfers have among those that are kept."""
    first = edges["edge_transfer"]
    found = np.searchsorted(kept, first).astype(np.uint32)
    return {**edges, "edge_transfer": np.where(first == _NONE, np.uint32(_NONE), found)}


def _times(columns: Columns, kept: NDArray[np.int64], time_s: float) -> Columns:
    """Return the bytes, times and causes of the transfers that are kept.

    A start is a gap: the ticks since the end of the cause, which are nearly always none, or since the beginning.
    """
    start, sent, received = (columns[name][kept] for name in ("start_s", "sent_s", "received_s"))
    back = _causes(columns["cause"], kept)
    cause = np.arange(len(kept)) - back
    lane = columns["lane"][kept]
    is_data = columns["lane_target"][lane[cause]] == columns["lane_source"][lane]
    ends = np.where(back != 0, np.where(is_data, received[cause], sent[cause]), 0.0)
    ticks = _TICKS / time_s if time_s > 0 else 0.0
    return {
        "bytes": columns["bytes"][kept],
        "gap": np.rint((start - ends) * ticks).astype(np.int32),
        "sending": np.rint((sent - start) * ticks).astype(np.uint32),
        "latency": np.rint((received - sent) * ticks).astype(np.uint32),
        "cause": back,
    }


def _causes(cause: NDArray[np.int32], kept: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return how far back the cause of each transfer is; 0 if there is none, or the page lacks it."""
    places, has = _found(cause[kept].astype(np.int64), kept)
    return np.where(has, np.arange(len(kept)) - places, 0).astype(np.int32)


def _numbers(transfers: NDArray[np.uint32], kept: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the numbers that those of some transfers have which are kept."""
    places, has = _found(transfers.astype(np.int64), kept)
    return places[has].astype(np.uint32)


def _found(wanted: NDArray[np.int64], kept: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the place of each wanted number among those that are kept, and whether it is there."""
    if not len(kept):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    places = np.minimum(np.searchsorted(kept, wanted), len(kept) - 1)
    return places.astype(np.int64), kept[places] == wanted


def _use(trace: Trace) -> Columns:
    links = trace.links()
    time_s = trace.time_s
    used = [link.full_rate_s / time_s if time_s > 0 else 0.0 for link in links]
    return {
        "busy_s": np.array([link.busy_s for link in links], np.float64),
        "used": np.array(used, np.float64),
        "heat": np.rint(np.clip(trace.busy(_windows(_WINDOWS, trace)), 0, 1) * 65535).astype(np.uint16).reshape(-1),
    }
