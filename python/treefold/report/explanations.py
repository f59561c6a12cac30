"""Lays out the explanation of a network: its limit, its cables, its failures, and what limits on trees cost."""

from collections.abc import Iterator, Sequence

from treefold._core import format_bandwidth, format_size, format_time
from treefold.explanation_results import Answer, Explanation, Failure, LinkWorth, Outcome, SharedWorth, TreeLimit
from treefold.report.align import align, key_values
from treefold.text import some

_MOST_LINES = 20
"""A longer table is cut unless the whole is asked for."""
_MOST_NAMES = 6
_FAR_SHARE = 0.8
"""A plan below this share of its bound is far above it."""
_MOST_NAMED = 4
"""More links than these are not all named by what limits a rate."""


def explain_table(found: Explanation, is_whole: bool = False) -> str:
    """Return what `treefold.explain` has found as text.

    Args:
        found: The result of `treefold.explain`.
        is_whole: Whether to list each cable and each failure. By default those that cost the same share a line, and
            there are at most 20 lines of each.

    Example:
        >>> from treefold import report
        >>> text = report.explain_table(treefold.explain("ring:4", without="GPU0 - GPU1"))
        >>> text.splitlines()[-3]
        'the bound is 0.75 x that now, and the plan takes 1.34 x the time'

    """
    parts = [_now(found)]
    if found.answer is not None:
        parts.append(_answer(found.now, found.answer, found.size_bytes))
    if found.left_out:
        parts.append(f"# {found.left_out}")
    else:
        parts += [*_links(found, is_whole), _failures(found, is_whole), *_limits(found.limits)]
    return "\n\n".join(parts)


def _now(found: Explanation) -> str:
    ranks = f"{found.now.ranks} rank{'s' * (found.now.ranks != 1)}"
    what = {"network": f"{found.network}, {ranks}", "collective": found.collective}
    return key_values(what | dict(_outcome(found.now, found.size_bytes)))


def _outcome(outcome: Outcome, size_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield the names and values of what a collective reaches."""
    if outcome.rate_Bps is None or outcome.bound_s is None:
        yield "result", outcome.problem
        return
    yield "rate", f"{format_bandwidth(outcome.rate_Bps)} at most{'' if outcome.is_exact else ', perhaps less'}"
    yield "limited by", outcome.limited_by
    if len(outcome.links) > _MOST_NAMED:
        yield "over", some(_cables(outcome.links), _MOST_NAMES)
    if outcome.parts:
        yield "between", some([_part(part) for part in outcome.parts], _MOST_NAMES)
    size = format_size(size_bytes)
    if outcome.time_s is None:
        yield "time", outcome.problem
    else:
        share = f", {outcome.bound_s / outcome.time_s:.0%} of the bound" if outcome.time_s else ""
        yield "time", f"{format_time(outcome.time_s)} for {size}, planned by {outcome.algorithm}{share}"


def _cables(links: Sequence[str]) -> list[str]:
    """Return the names of links; the two directions of a cable share one."""
    listed = set(links)
    names: dict[str, str] = {}
    for link in links:
        parts = link.split(" -> ")  # names of nodes may have arrows, too
        splits = [(" -> ".join(parts[:at]), " -> ".join(parts[at:])) for at in range(1, len(parts))]
        both = [(source, target) for source, target in splits if f"{target} -> {source}" in listed]
        if both:
            names.setdefault(" - ".join(sorted(both[0])), " - ".join(both[0]))
        else:
            names[link] = link
    return [*names.values()]


def _part(ranks: Sequence[str]) -> str:
    """Name the ranks of a part."""
    return f"{{{_named(ranks)}}}"


def _answer(now: Outcome, answer: Answer, size_bytes: int) -> str:
    """Return the changes, and what they lead to."""
    lines = [f"with these changes:\n{_indented(answer.changes)}", key_values(dict(_outcome(answer.then, size_bytes)))]
    if answer.rate_fraction is not None:
        time = "" if answer.time_factor is None else f", and the plan takes {answer.time_factor:.2f} x the time"
        lines.append(f"the bound is {answer.rate_fraction:.2f} x that now{time}")
    return "\n\n".join(lines)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _links(found: Explanation, is_whole: bool) -> Iterator[str]:
    """Yield the tables of what gains something, and the names of the cables that do not matter."""
    useful = [each for each in found.links if each.gain_fraction > 0]
    if useful:
        header = ["link", "bandwidth", "rate then", "gain"]
        yield _cut("10 % more of one link:", header, [_link(each) for each in useful], 0, is_whole)
    elif found.together is None and any(each.gain_fraction > 0 for each in found.shared):
        yield "10 % more of one link gains nothing: what links share limits the rate"
    elif found.together is None:
        yield "10 % more of one link gains nothing, whichever it is: several limit the rate together"
    else:
        names, gain = found.together.links, found.together.gain_fraction
        both = "both" if len(names) == 2 else f"all {len(names)}"
        yield f"10 % more of one link alone gains nothing; of {both} of these, {gain:+.1%}: {_named(names, is_whole)}"
    if dear := [each for each in found.shared if each.gain_fraction > 0]:
        header = ["shared capacity", "bandwidth", "rate then", "gain"]
        yield _cut("10 % more of one shared capacity:", header, [_shared(each) for each in dear], 0, is_whole)
    elif found.shared:
        yield "10 % more of one shared capacity gains nothing, whichever it is"
    spare = found.spare
    yield f"links that do not matter, one at a time: {_named(spare, is_whole) or 'none'}"


def _link(each: LinkWorth) -> list[str]:
    rate = format_bandwidth(each.rate_Bps)
    return [each.link, format_bandwidth(each.bandwidth_Bps), rate, f"{each.gain_fraction:+.1%}"]


def _shared(each: SharedWorth) -> list[str]:
    rate = format_bandwidth(each.rate_Bps)
    return [each.name, format_bandwidth(each.bandwidth_Bps), rate, f"{each.gain_fraction:+.1%}"]


def _failures(found: Explanation, is_whole: bool) -> str:
    """Return the table of failures."""
    common = found.now.algorithm
    by = f"planned by {common}" if common else "without a plan"
    header = ["failure of", "", "rate then", "of now", "time then", "of now", ""]
    rows = [_failure(each, common) for each in found.failures]
    table = _cut(f"failures, the worst first ({by} for {format_size(found.size_bytes)}):", header, rows, 1, is_whole)
    return f"{table}{_shortfall(found)}"


def _shortfall(found: Explanation) -> str:
    """Say it if plans are far above their bounds, so that better ones would cost less."""
    now = found.now
    if now.bound_s is None or now.time_s is None or now.rate_Bps is None:
        return ""
    shares = [
        now.bound_s / each.time_s / each.rate_fraction for each in found.failures if each.time_s and each.rate_fraction
    ]
    least = min([now.bound_s / now.time_s if now.time_s else 1.0, *shares])
    if least >= _FAR_SHARE:
        return ""
    return f"\n# these quick plans reach {least:.0%} of their bounds at worst; -a auto plans better, but takes long"


def _failure(each: Failure, common: str | None) -> list[str]:
    rate = ["-", "-"] if each.rate_Bps is None else [format_bandwidth(each.rate_Bps), _share(each.rate_fraction)]
    time = ["-", "-"] if each.time_s is None else [format_time(each.time_s), f"{each.time_factor or 1:.2f} x"]
    remark = each.problem.split(":")[0] or ("" if each.algorithm == common else f"planned by {each.algorithm}")
    return [each.kind, each.name, *rate, *time, remark]


def _share(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction:.0%}"


def _limits(limits: Sequence[TreeLimit]) -> Iterator[str]:
    """Yield the table of limits on trees, if there are any."""
    if limits:
        header = ["at most", "", "rate", "of the bound"]
        table = align([header, *map(_limit, limits)], left={0})
        yield f"what limits on trees cost (planned by {limits[0].algorithm}; heights in hops):\n{table}"


def _limit(each: TreeLimit) -> list[str]:
    limit = ["no limit", ""] if each.value is None else [each.limit, str(each.value)]
    return [*limit, format_bandwidth(each.rate_Bps), f"{each.bound_fraction:.0%}"]


def _cut(title: str, header: list[str], rows: list[list[str]], column: int, is_whole: bool) -> str:
    """Return a table under a title; unless the whole is wanted, rows share a line that differ in one column only."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        alike.setdefault((*row[:column], *row[column + 1 :]), []).append(row[column])
    if not is_whole:
        rows = [[*rest[:column], _named(names), *rest[column:]] for rest, names in alike.items()]
    shown = rows if is_whole else rows[:_MOST_LINES]
    left = {0} | ({1, len(header) - 1} if column else set())
    table = f"{title}\n{align([header, *shown], left=left)}"
    rest = len(rows) - len(shown)
    return f"{table}\n# {rest} more are not listed; is_whole=True lists them" if rest else table


def _named(names: Sequence[str], is_whole: bool = False) -> str:
    """Name the first of several."""
    if is_whole or len(names) <= _MOST_NAMED:
        return ", ".join(names)
    return f"{some(names, _MOST_NAMED - 1)} {len(names)} in all"
