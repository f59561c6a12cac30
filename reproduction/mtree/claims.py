"""Tests what the MTree paper's text says of its figures 6 to 13 on our rows, network by network.

Means over trials are compared. A network's own stand-in is held to what the paper says of the network. The paper's
sentences are judged on `mtree` as it is published; what ours, with the quarter rule, comes to stands in brackets.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise, product

from reproduction.figures import Claim, Row, beside, display, near, networks_of, ours, series
from reproduction.tolerances import ABOUT, ALMOST, GAIN, NONE, is_gain

PUBLISHED, QUARTER = "mtree", "mtree, quarter rule"
_RIVALS = ("blink", "topoadopt", "plink", "psld")
_FLAT_FROM = {"b4": 4, "equinix-like": 5, "idn-like": 6}
_PAPERS_INSTANCE = "equinix-like"
"""The paper gives the times and the number of trees of this network's instance."""
_Make = Callable[[list[Row], str, str], list[Claim]]
"""Makes claims from the rows, a network and the variant of mtree."""


def _claims(rows: list[Row], makers: Sequence[_Make]) -> list[Claim]:
    """Collect the claims of every network, judged on the published algorithm."""
    return [claim for network in networks_of(rows) for make in makers for claim in _of_both(rows, network, make)]


def _of_both(rows: list[Row], network: str, make: _Make) -> list[Claim]:
    pairs = zip(make(rows, network, PUBLISHED), make(rows, network, QUARTER), strict=True)
    return [beside(published, quarter, "quarter rule") for published, quarter in pairs]


def _ratios(rows: list[Row], measure: str, network: str, above: str, below: str) -> list[float]:
    """Return what `above` has for each of `below`'s, skewness by skewness."""
    over, under = (series(rows, "skew", measure, network=network, algorithm=name) for name in (above, below))
    return [over[skew] / under[skew] for skew in over if skew in under and under[skew] > 0]


def _span(values: Sequence[float], digits: int = 2) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def fig6(rows: list[Row]) -> list[Claim]:
    """Judge throughputs, and who is ahead."""
    return _claims(rows, (_high, _steady, _ahead, _trends, _rivals, _packing_above)) + _topoadopt_across(rows)


def _high(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    best = max(series(rows, "skew", "throughput", network=network, algorithm=mtree).values())
    return [Claim(f"{display(network)}: mtree's highest throughput", "> 0.8", "none", f"{best:.3f}", best > 0.8)]


def _steady(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    change, skews = _change(rows, network, mtree)
    claim = f"{display(network)}: mtree's throughput does not fall from skewness {skews}"
    return [Claim(claim, "not significantly", f"{NONE:.0%} less", f"{change:+.1%}", change >= -NONE)]


def _change(rows: list[Row], network: str, algorithm: str) -> tuple[float, str]:
    """Return by which part the throughput changes from the least skewness to the most, and these two."""
    means = series(rows, "skew", "throughput", network=network, algorithm=algorithm)
    return means[max(means)] / means[min(means)] - 1, f"{min(means)} to {max(means)}"


def _ahead(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    claims = []
    for rival in ("blink", "topoadopt"):
        ratios = _ratios(rows, "throughput", network, mtree, rival)
        claim = f"{display(network)}: mtree's throughput over {rival}'s at every skewness"
        if rival == "blink":
            claims.append(Claim(claim, "significantly above 1", f"{NONE:.0%}", _span(ratios), min(ratios) > 1 + NONE))
        else:
            claims.append(Claim(claim, "above 1", "none", _span(ratios), min(ratios) > 1))
    return claims


def _rivals(rows: list[Row], network: str, _: str) -> list[Claim]:
    if network == "idn-like":
        return []
    ratios = _ratios(rows, "throughput", network, "blink", "topoadopt")
    claim = f"{display(network)}: blink's throughput over topoadopt's at every skewness"
    return [Claim(claim, "above 1", "none", _span(ratios), min(ratios) > 1)]


def _trends(rows: list[Row], network: str, _: str) -> list[Claim]:
    falls, skews = _change(rows, network, "topoadopt")
    rises, _ = _change(rows, network, "blink")
    where, least = f"{display(network)}: {{}}'s throughput from skewness {skews}", f"at least {NONE:.0%}"
    return [
        Claim(where.format("topoadopt"), "falls significantly", least, f"{falls:+.1%}", falls <= -NONE),
        Claim(
            where.format("blink"),
            "rises slightly" if network == "idn-like" else "rises",
            "none",
            f"{rises:+.1%}",
            rises > 0,
        ),
    ]


def _packing_above(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    ratios = _ratios(rows, "throughput", network, "packing", mtree)
    claim = f"{display(network)}: packing's throughput over mtree's, planned for the time of 1 GB"
    return [ours(Claim(claim, "at least 1", "0.1%", _span(ratios, 3), min(ratios) >= 1 - 0.001))]


def _topoadopt_across(rows: list[Row]) -> list[Claim]:
    means = {
        name: series(rows, "skew", "throughput", network=name, algorithm="topoadopt") for name in networks_of(rows)
    }
    claims = []
    for other in [name for name in means if name != "b4" and "b4" in means]:
        ratio = sum(means["b4"].values()) / sum(means[other].values())
        is_between = 2 * (1 - ALMOST) <= ratio <= 3 * (1 + ALMOST)
        claim = f"topoadopt's throughput on b4 over that on {display(other)}"
        claims.append(Claim(claim, "almost 2 to 3", f"{ALMOST:.0%}", f"{ratio:.2f}", is_between))
    return claims


def fig7(rows: list[Row]) -> list[Claim]:
    """Judge heights and fanouts."""
    return _claims(rows, (_heights, _fanouts))


def _heights(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    claims = []
    for rival in ("topoadopt", "blink"):
        ratios = _ratios(rows, "mean_height", network, mtree, rival)
        mean = sum(ratios) / len(ratios)
        claim = f"{display(network)}: mtree's mean height over {rival}'s, mean over skewness"
        if rival == "blink" and network != "idn-like":
            is_equal = abs(mean - 1) <= ALMOST
            claims.append(Claim(claim, "almost equal", f"{ALMOST:.0%}", f"{mean:.2f}", is_equal))
        else:
            claims.append(Claim(claim, "below 1", "none", f"{mean:.2f}", mean < 1))
    return claims


def _fanouts(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    by_name = {
        name: series(rows, "skew", "mean_max_fanout", network=network, algorithm=name)
        for name in (mtree, "blink", "topoadopt")
    }
    skews = [skew for skew in by_name[mtree] if skew >= 0.2]
    fanouts = [{name: means[skew] for name, means in by_name.items()} for skew in skews]
    if network == "b4":
        gap = max(max(own.values()) - min(own.values()) for own in fanouts)
        claim = f"{network}: largest gap between mean largest fanouts, skewness 0.2 and more"
        return [Claim(claim, "at most 1", "none", f"{gap:.2f}", gap <= 1)]
    wins = sum(own[mtree] <= min(own.values()) for own in fanouts)
    claim = f"{display(network)}: mtree has the smallest mean largest fanout, skewness 0.2 and more"
    return [Claim(claim, "always", "none", f"{wins} of {len(skews)}", wins == len(skews))]


def fig8(rows: list[Row]) -> list[Claim]:
    """Judge speed-ups."""
    return [*_claims(rows, (_unpipelined, _packing_faster)), _pipelined(rows), *_largest(rows)]


def _unpiped(algorithm: str) -> str:
    return f"{algorithm} --no-pipeline"


def _pipelined(rows: list[Row]) -> Claim:
    """Judge the reduction, which the paper's figure shows; its text speaks of the all-reduce and names no network."""

    def speedups(measure: str, mtree: str) -> list[float]:
        pairs = product(networks_of(rows), _RIVALS)
        return [ratio for name, rival in pairs for ratio in _ratios(rows, measure, name, _unpiped(rival), mtree)]

    def judged(mtree: str) -> Claim:
        reduce = speedups("reduce_s", mtree)
        are_near = abs(min(reduce) / 2.0 - 1) <= ABOUT and abs(max(reduce) / 12.4 - 1) <= ABOUT
        measured = f"{_span(reduce, 1)}; all-reduce {_span(speedups('all_reduce_s', mtree), 1)}"
        return Claim(claim, "about 2.0 to 12.4", f"{ABOUT:.0%} of each", measured, are_near)

    claim = "mtree's speed-ups over rivals that do not pipeline, least and largest of all networks"
    return beside(judged(PUBLISHED), judged(QUARTER), "quarter rule")


def _unpipelined_speedups(rows: list[Row], network: str, mtree: str, rival: str) -> list[float]:
    return _ratios(rows, "reduce_s", network, _unpiped(rival), _unpiped(mtree))


def _unpipelined(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    claims = []
    for rival in ("topoadopt", "blink"):
        speedups = _unpipelined_speedups(rows, network, mtree, rival)
        mean = sum(speedups) / len(speedups)
        claim = f"{display(network)}: speed-up of mtree without pipelining over {rival}, mean over skewness"
        claims.append(Claim(claim, "above 1", "none", f"{mean:.2f}", mean > 1))
    return claims


def _largest(rows: list[Row]) -> list[Claim]:
    """Judge the largest speed-ups, for which the paper names no network."""
    where = "" if len(networks_of(rows)) > 1 else f"{display(networks_of(rows)[0])}: "

    def judged(mtree: str, rival: str, factor: float) -> Claim:
        largest = max(max(_unpipelined_speedups(rows, network, mtree, rival)) for network in networks_of(rows))
        claim = f"{where}the largest speed-up of mtree without pipelining over {rival}"
        return Claim(claim, f"about {factor}", GAIN, f"{largest:.2f}", is_gain(largest - 1, factor - 1))

    said = (("topoadopt", 6.0), ("blink", 3.8))
    return [beside(judged(PUBLISHED, *each), judged(QUARTER, *each), "quarter rule") for each in said]


def _packing_faster(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    ratios = _ratios(rows, "all_reduce_s", network, mtree, "packing")
    claim = f"{display(network)}, all-reduce: packing's speed-up over mtree"
    return [ours(Claim(claim, "at least 1", "none", _span(ratios), min(ratios) >= 1))]


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge whether each tree has its own best number of chunks."""
    return _claims(rows, (_counts,))


def _counts(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    own = [row for row in rows if (row["network"], row["algorithm"]) == (network, mtree)]
    best = {row["tree"]: row["best_chunks"] for row in own}
    least = {row["tree"]: row["least_at_chunks"] for row in own}
    where, distinct = f"{display(network)}, skewness 0.7", len(set(best.values()))
    apart = max(abs(best[tree] - least[tree]) for tree in best)
    formula = f"{where}: chunks between the formula's optimum and the least of the model's curve"
    return [
        *([near(f"{where}: trees", 9, [len(best)], ABOUT, "{:.0f}")] if network == _PAPERS_INSTANCE else []),
        ours(Claim(f"{where}: different best numbers of chunks", "various", "2 or more", str(distinct), distinct > 1)),
        ours(Claim(formula, "0", "none", str(apart), apart == 0)),
    ]


def fig10(rows: list[Row]) -> list[Claim]:
    """Judge whether the simulated optimum is the model's."""
    return _claims(rows, (_least_at_zero, _rises, _as_modelled, _times))


def _least_at_zero(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    """Judge the reduction, which the paper simulates; tell the all-reduce."""
    reduce, all_reduce = (_best_offset(rows, measure, network, mtree) for measure in ("reduce_s", "all_reduce_s"))
    claim = f"{display(network)}, reduce: offset of the least time, and how far offset 0 lies above it"
    measured = "; all-reduce ".join(f"{at:+d}, {over:.2%}" for at, over in (reduce, all_reduce))
    return [Claim(claim, "0", "1% of the time", measured, reduce[1] <= 0.01)]


def _best_offset(rows: list[Row], measure: str, network: str, mtree: str) -> tuple[int, float]:
    means = _offsets(rows, measure, network, mtree)
    at = min(means, key=lambda offset: means[offset])
    return at, means[0] / means[at] - 1


def _rises(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    means = _offsets(rows, "reduce_s", network, mtree)
    below, above = ([means[at] for at in sorted(means, key=abs) if at * sign >= 0] for sign in (-1, 1))
    falls = max((1 - after / before for side in (below, above) for before, after in pairwise(side)), default=0.0)
    claim = f"{display(network)}, reduce: time on both sides of offset 0, the largest fall on the way out"
    return [Claim(claim, "rises", "1% of the time", f"{max(falls, 0):.1%}", falls <= 0.01)]


def _as_modelled(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    """Judge whether simulated times depart from that at offset 0 as those of the model, which Fig. 9 shows, do."""
    simulated, modelled = (_offsets(rows, measure, network, mtree) for measure in ("reduce_s", "reduce_model_s"))
    ratios = [simulated[at] / simulated[0] / (modelled[at] / modelled[0]) for at in simulated]
    claim = f"{display(network)}, reduce: increase of the simulated time over that of the model, at every offset"
    is_right = all(abs(ratio - 1) <= ALMOST for ratio in ratios)
    return [Claim(claim, "consistent", f"{ALMOST:.0%}", _span(ratios), is_right)]


def _times(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    if network != _PAPERS_INSTANCE:
        return []
    means = series(rows, "offset", "reduce_s", network=network, algorithm=mtree)
    where = f"{display(network)}, reduce"
    of_fig8 = [means[0] / means["Fig. 8, pipelined"], means["one chunk"] / means["Fig. 8, unpipelined"]]
    are_equal = all(abs(ratio - 1) <= ALMOST for ratio in of_fig8)
    told = " and ".join(f"{ratio:.2f}" for ratio in of_fig8)
    claim = f"{where}: offset 0 over Fig. 8's pipelined time, and one chunk over its unpipelined one"
    return [
        near(f"{where}: seconds at offset 0", 20, [means[0]], ABOUT, "{:.1f}"),
        near(f"{where}: seconds with one chunk a tree", 43, [means["one chunk"]], ABOUT, "{:.1f}"),
        Claim(claim, "consistent", f"{ALMOST:.0%}", told, are_equal),
    ]


def _offsets(rows: list[Row], measure: str, network: str, mtree: str) -> dict[int, float]:
    means = series(rows, "offset", measure, network=network, algorithm=mtree)
    return {at: mean for at, mean in means.items() if isinstance(at, int)}


def fig11(rows: list[Row]) -> list[Claim]:
    """Judge whether trees are few, and no more of them beyond some H."""
    return _claims(rows, (_few_trees,))


def _few_trees(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    means = series(rows, "height", "trees", network=network, algorithm=mtree)
    most, last = max(means.values()), means[max(means)]
    first, flat = min(means), means[_FLAT_FROM[network]]
    least, highest, paper = (5, 6, "5 to 6") if network == "b4" else (0, 10, "10 or fewer")
    is_few = least - 0.5 <= most <= highest + 0.5
    claim = f"{display(network)}: trees at H = {first}, {_FLAT_FROM[network]} and {max(means)}"
    is_right = flat > means[first] and abs(last - flat) <= ALMOST * last
    measured = f"{means[first]:.1f}, {flat:.1f}, {last:.1f}"
    return [
        Claim(f"{display(network)}: most trees (mean)", paper, "half a tree", f"{most:.1f}", is_few),
        Claim(claim, "more, then almost as many", f"{ALMOST:.0%}", measured, is_right),
    ]


def fig12(rows: list[Row]) -> list[Claim]:
    """Judge whether throughput is flat beyond some H."""
    return _claims(rows, (_flat,))


def _flat(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    means = series(rows, "height", "throughput", network=network, algorithm=mtree)
    at = _FLAT_FROM[network]
    part = means[at] / max(means.values())
    rise = means[at] / means[at - 1] if means[at - 1] else float("inf")
    highest = f"{display(network)}: throughput at H = {at} over the highest at any H"
    before = f"{display(network)}: throughput at H = {at} over that at H = {at - 1}"
    return [
        Claim(highest, "hardly less", f"{NONE:.0%}", f"{part:.3f}", part >= 1 - NONE),
        Claim(before, "rises until then", f"more than {NONE:.0%}", f"{rise:.2f}", rise > 1 + NONE),
    ]


def fig13(rows: list[Row]) -> list[Claim]:
    """Judge whether ten trees are enough."""
    return _claims(rows, (_ten_trees,))


def _ten_trees(rows: list[Row], network: str, mtree: str) -> list[Claim]:
    means = series(rows, "tree_limit", "throughput", network=network, algorithm=mtree)
    falls = [limit for before, limit in pairwise(sorted(means)) if means[limit] < means[before] * 0.99]
    rise = means[10] / means[1] - 1
    measured = f"falls at K = {', '.join(map(str, falls))}" if falls else f"never falls; {rise:+.0%} from K = 1 to 10"
    is_between = 0.70 - 0.05 <= means[10] <= 0.85 + 0.05
    claim, rule = f"{display(network)}: throughput with K = 10", f"{NONE:.0%} from 1 to 10, no fall of 1%"
    return [
        Claim(claim, "0.70 to 0.85", "0.05", f"{means[10]:.3f}", is_between),
        Claim(f"{display(network)}: throughput as K rises", "rises", rule, measured, not falls and rise > NONE),
    ]
