"""Tests what the MTree paper's text says of its figures 6 to 13 on our rows, network by network.

Means over trials are compared. A network's own stand-in is held to what the paper says of the network; where the
paper gives no number for "generally" or "significantly", the tolerance is ours and says so.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from reproduction.figures import Claim, Row, display, networks_of, series

_RIVALS = ("blink", "topoadopt", "plink", "psld")
_FLAT_FROM = {"b4": 4, "equinix-like": 5, "idn-like": 6}
_MOST_TREES = {"b4": 6, "equinix-like": 10, "idn-like": 10}
_PAPERS_INSTANCE = "equinix-like"
"""The paper gives the times and the number of trees of this network's instance."""
_SMALL = 0.05
"""A change by at most this part counts as none."""


def _ratios(rows: list[Row], measure: str, network: str, above: str, below: str) -> list[float]:
    """Return what `above` has for each of `below`'s, skewness by skewness."""
    over, under = (series(rows, "skew", measure, network=network, algorithm=name) for name in (above, below))
    return [over[skew] / under[skew] for skew in over if skew in under and under[skew] > 0]


def _claims(rows: list[Row], of_network: Sequence[Callable[[list[Row], str], list[Claim]]]) -> list[Claim]:
    """Collect the claims of every network."""
    return [claim for network in networks_of(rows) for make in of_network for claim in make(rows, network)]


def fig6(rows: list[Row]) -> list[Claim]:
    """Judge throughputs, and who is ahead."""
    return _claims(rows, (_high, _steady, _ahead, _falling, _never_below)) + _topoadopt_across(rows)


def _high(rows: list[Row], network: str) -> list[Claim]:
    best = max(series(rows, "skew", "throughput", network=network, algorithm="mtree").values())
    claim = f"{display(network)}: mtree's highest throughput"
    return [Claim(claim, "> 0.8", "none", f"{best:.3f}", best > 0.8)]


def _steady(rows: list[Row], network: str) -> list[Claim]:
    means = series(rows, "skew", "throughput", network=network, algorithm="mtree")
    change = means[max(means)] / means[min(means)] - 1
    claim = f"{display(network)}: mtree's throughput does not fall from skewness {min(means)} to {max(means)}"
    return [Claim(claim, "not significantly", f"{_SMALL:.0%} less", f"{change:+.1%}", change >= -_SMALL)]


def _ahead(rows: list[Row], network: str) -> list[Claim]:
    claims = []
    for rival in ("blink", "topoadopt"):
        ratios = _ratios(rows, "throughput", network, "mtree", rival)
        claim = f"{display(network)}: mtree's throughput over {rival}'s at every skewness"
        measured = f"{min(ratios):.2f} to {max(ratios):.2f}"
        claims.append(Claim(claim, "above 1", "none", measured, min(ratios) > 1))
    return claims


def _falling(rows: list[Row], network: str) -> list[Claim]:
    claims = []
    for rival, says, falls in (("topoadopt", "falls significantly", True), ("blink", "rises", False)):
        means = series(rows, "skew", "throughput", network=network, algorithm=rival)
        change = means[max(means)] / means[min(means)] - 1
        reproduced = change <= -_SMALL if falls else change > 0
        claim = f"{display(network)}: {rival}'s throughput from skewness {min(means)} to {max(means)}"
        claims.append(Claim(claim, says, f"at least {_SMALL:.0%}" if falls else "none", f"{change:+.1%}", reproduced))
    return claims


def _never_below(rows: list[Row], network: str) -> list[Claim]:
    ratios = _ratios(rows, "throughput", network, "packing", "mtree")
    claim = f"{display(network)}: packing's throughput over mtree's, planned for the time of 1 GB (ours)"
    return [_at_least_one(claim, ratios, tolerance=0.001, digits=3)]


def _topoadopt_across(rows: list[Row]) -> list[Claim]:
    claims = []
    means = {
        name: series(rows, "skew", "throughput", network=name, algorithm="topoadopt") for name in networks_of(rows)
    }
    for other in [name for name in means if name != "b4" and "b4" in means]:
        ratio = sum(means["b4"].values()) / sum(means[other].values())
        claim = f"topoadopt's throughput on b4 over that on {display(other)}"
        claims.append(Claim(claim, "almost 2 to 3", "25%", f"{ratio:.2f}", 1.5 <= ratio <= 3.75))
    return claims


def fig7(rows: list[Row]) -> list[Claim]:
    """Judge heights and fanouts."""
    return _claims(rows, (_lower, _fanouts))


def _lower(rows: list[Row], network: str) -> list[Claim]:
    claims = []
    for rival in ("topoadopt", "blink"):
        ratios = _ratios(rows, "mean_height", network, "mtree", rival)
        mean = sum(ratios) / len(ratios)
        equal = rival == "blink" and network != "idn-like"
        claim = f"{display(network)}: mtree's mean height over {rival}'s"
        paper, tolerance = (
            ("almost equal", "at most 25% more") if equal else ("generally below 1", "mean over skewness")
        )
        claims.append(Claim(claim, paper, tolerance, f"{mean:.2f}", mean <= 1.25 if equal else mean < 1))
    return claims


def _fanouts(rows: list[Row], network: str) -> list[Claim]:
    by_name = {
        name: series(rows, "skew", "mean_max_fanout", network=network, algorithm=name)
        for name in ("mtree", "blink", "topoadopt")
    }
    skews = [skew for skew in by_name["mtree"] if skew >= 0.2]
    fanouts = [{name: means[skew] for name, means in by_name.items()} for skew in skews]
    if network == "b4":
        gap = max(max(own.values()) - min(own.values()) for own in fanouts)
        claim = f"{network}: largest gap between mean largest fanouts, skewness 0.2 and more"
        return [Claim(claim, "generally at most 1", "none", f"{gap:.2f}", gap <= 1)]
    wins = sum(own["mtree"] <= min(own.values()) for own in fanouts)
    claim = f"{display(network)}: mtree has the smallest mean largest fanout, skewness 0.2 and more"
    return [Claim(claim, "always", "none", f"{wins} of {len(skews)}", wins == len(skews))]


def fig8(rows: list[Row]) -> list[Claim]:
    """Judge speed-ups."""
    return _claims(rows, (_pipelined, _unpipelined, _ours))


def _pipelined(rows: list[Row], network: str) -> list[Claim]:
    claims = []
    for measure, name in (("reduce_s", "reduce"), ("all_reduce_s", "all-reduce")):
        rivals = [f"{rival} --no-pipeline" for rival in _RIVALS]
        speedups = [ratio for rival in rivals for ratio in _ratios(rows, measure, network, rival, "mtree")]
        claim = f"{display(network)}, {name}: mtree's speedup over unpipelined rivals"
        measured = f"{min(speedups):.1f} to {max(speedups):.1f}"
        claims.append(Claim(claim, "2.0 to 12.4", "least 2.0 - 10%, no upper limit", measured, min(speedups) >= 1.8))
    return claims


def _unpipelined(rows: list[Row], network: str) -> list[Claim]:
    claims = []
    for rival, most in (("topoadopt", 6.0), ("blink", 3.8)):
        speedups = _ratios(rows, "reduce_s", network, f"{rival} --no-pipeline", "mtree --no-pipeline")
        claim = f"{display(network)}, reduce: unpipelined mtree's speedup over {rival}, mean over skewness and most"
        mean = sum(speedups) / len(speedups)
        measured = f"{mean:.2f}, {max(speedups):.2f}"
        claims.append(Claim(claim, f"generally above 1, up to {most}", "mean above 1", measured, mean > 1))
    return claims


def _ours(rows: list[Row], network: str) -> list[Claim]:
    ratios = _ratios(rows, "all_reduce_s", network, "mtree", "packing")
    claim = f"{display(network)}, all-reduce: packing's speedup over mtree (ours)"
    return [_at_least_one(claim, ratios, tolerance=0.0, digits=2)]


def _at_least_one(claim: str, ratios: list[float], tolerance: float, digits: int) -> Claim:
    measured = f"{min(ratios):.{digits}f} to {max(ratios):.{digits}f}"
    return Claim(
        claim, "at least 1", f"{tolerance:.1%}" if tolerance else "none", measured, min(ratios) >= 1 - tolerance
    )


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge whether each tree has its own best number of chunks, where the formula says."""
    claims = []
    for network in networks_of(rows):
        best = {row["tree"]: row["best_chunks"] for row in rows if row["network"] == network}
        least = {row["tree"]: row["least_at_chunks"] for row in rows if row["network"] == network}
        where = f"{display(network)}, skewness 0.7"
        count, distinct = len(best), len(set(best.values()))
        if network == _PAPERS_INSTANCE:
            claims.append(Claim(f"{where}: trees", "9", "2", str(count), 7 <= count <= 11))
        claims.append(
            Claim(f"{where}: different best numbers of chunks", "various", "2 or more", str(distinct), distinct > 1)
        )
        apart = max(abs(best[tree] - least[tree]) for tree in best)
        claim = f"{where}: chunks between the formula's optimum and the curve's least"
        claims.append(Claim(claim, "0", "none", str(apart), apart == 0))
    return claims


def fig10(rows: list[Row]) -> list[Claim]:
    """Judge whether the simulated optimum is the model's."""
    return _claims(rows, (_least_at_zero, _times))


def _least_at_zero(rows: list[Row], network: str) -> list[Claim]:
    claims = []
    for measure, name in (("reduce_s", "reduce"), ("all_reduce_s", "all-reduce")):
        means = _offsets(rows, measure, network)
        at = min(means, key=lambda offset: means[offset])
        over = means[0] / means[at] - 1
        claim = f"{display(network)}, {name}: offset of the least time, and how far offset 0 lies above it"
        claims.append(Claim(claim, "0", "1% of the time", f"{at:+d}, {over:.2%}", over <= 0.01))
    return claims


def _times(rows: list[Row], network: str) -> list[Claim]:
    if network != _PAPERS_INSTANCE:
        return []
    least = _offsets(rows, "reduce_s", network)[0]
    one = series(rows, "offset", "reduce_s", network=network)[None]
    where = f"{display(network)}, reduce"
    return [
        Claim(f"{where}: time at offset 0", "about 20 s", "25%", f"{least:.1f} s", 15 <= least <= 25),
        Claim(f"{where}: time with one chunk a tree", "about 43 s", "25%", f"{one:.1f} s", 32.25 <= one <= 53.75),
        Claim(f"{where}: their ratio", "about 2.15", "25%", f"{one / least:.2f}", 1.61 <= one / least <= 2.69),
    ]


def _offsets(rows: list[Row], measure: str, network: str) -> dict[int, float]:
    return {at: mean for at, mean in series(rows, "offset", measure, network=network).items() if at is not None}


def fig11(rows: list[Row]) -> list[Claim]:
    """Judge whether trees are few, and no more of them beyond some H."""
    claims = []
    for network in networks_of(rows):
        means = series(rows, "height", "trees", network=network)
        most, last = max(means.values()), means[max(means)]
        flat = means[_FLAT_FROM[network] + 1]
        paper = "5 to 6" if network == "b4" else "10 or fewer"
        limit = 1.25 * _MOST_TREES[network]
        claims.append(Claim(f"{display(network)}: most trees (mean)", paper, "25% more", f"{most:.1f}", most <= limit))
        claim = f"{display(network)}: trees at H = {_FLAT_FROM[network] + 1} and at {max(means)}"
        close = abs(last - flat) <= 0.1 * last
        claims.append(Claim(claim, "as many", "10%", f"{flat:.1f}, {last:.1f}", close))
    return claims


def fig12(rows: list[Row]) -> list[Claim]:
    """Judge whether throughput is flat beyond some H."""
    claims = []
    for network in networks_of(rows):
        means = series(rows, "height", "throughput", network=network)
        at = _FLAT_FROM[network]
        part = means[at] / max(means.values())
        claim = f"{display(network)}: throughput at H = {at} over the highest at any H"
        claims.append(Claim(claim, "about 1", f"{_SMALL:.0%}", f"{part:.3f}", part >= 1 - _SMALL))
        rise = means[at] / means[at - 1] if means[at - 1] else float("inf")
        claim = f"{display(network)}: throughput at H = {at} over that at H = {at - 1}"
        claims.append(Claim(claim, "rises until then", "at least 1%", f"{rise:.2f}", rise >= 1.01))
    return claims


def fig13(rows: list[Row]) -> list[Claim]:
    """Judge whether ten trees are enough."""
    claims = []
    for network in networks_of(rows):
        means = series(rows, "tree_limit", "throughput", network=network)
        at_ten = means[10]
        claim = f"{display(network)}: throughput with K = 10"
        claims.append(Claim(claim, "0.70 to 0.85", "more is better", f"{at_ten:.3f}", at_ten >= 0.70))
        limits = sorted(means)
        falls = [k for before, k in pairwise(limits) if means[k] < means[before] * 0.99]
        measured = f"falls at K = {', '.join(map(str, falls))}" if falls else "never falls"
        claims.append(Claim(f"{display(network)}: throughput as K rises", "rises", "1%", measured, not falls))
    return claims
