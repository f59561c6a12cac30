"""The steps of a probe: which transfers happen at the same time, and how long and how large each may be."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treefold._core import format_size
from treefold.probe.results import SOURCE, TARGET, Measurements, Pair, expected_together, sent_bytes
from treefold.probe.settings import BudgetError, Settings

_TRANSFER_S = 1.0
_LEAST_TRANSFER_S, _MOST_TRANSFER_S = 0.1, 5.0
_ROUND_TRIPS_S = 0.3
"""How many seconds the round trips of a round take."""
_TRIPS_OF_SEVERAL = 20
"""A transfer over several streams takes so many round trips at least, as it takes them a while to share a line."""
_TRANSFERS_OF = {"trips": 0, "pair": 1, "egress": 2, "ingress": 2, "together": 1}
"""How many transfers, one after another, a step of each kind takes if each node looks capped and is measured again."""


class Step(NamedTuple):
    """Transfers that happen at the same time, as pairs (source, target) of workers."""

    kind: str
    """The measurement: `trips`, `pair`, `egress`, `ingress`, `together` or `offer`."""
    pairs: list[Pair]
    streams: int = 1
    """How many TCP streams a transfer of the kind `pair` has; the others have as many as each pair needs."""
    offered_Bps: Mapping[Pair, float] = {}
    """The rates that are offered to pairs in a step of the kind `offer`."""


class Budget(NamedTuple):
    """How long a transfer may take, and how many bytes it may send."""

    seconds: float
    most_bytes: int


def pairs_of(links: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of workers that links join, the lower worker first."""
    return sorted({(min(pair), max(pair)) for pair in links})


def matchings(pairs: Sequence[Pair], size: int, parallel: bool = True) -> list[list[Pair]]:
    """Return `pairs` in rounds in which no worker occurs twice; all pairs need about as many rounds as workers.

    Unless they go in parallel, each pair has a round of its own.
    """
    if not parallel:
        return [[pair] for pair in pairs]
    rounds: list[list[Pair]] = []
    for pair in sorted(pairs, key=lambda pair: (sum(pair) % size, pair)):
        free = next((each for each in rounds if not set(pair) & {rank for other in each for rank in other}), None)
        if free is None:
            rounds.append([pair])
        else:
            free.append(pair)
    return rounds


def steps_of(rounds: list[list[Pair]], links: list[Pair], size: int) -> list[Step]:
    """Return the steps that measure `links` between `size` workers, the pairs of each round at the same time."""
    steps = []
    for pairs in rounds:
        steps.append(Step("trips", pairs))
        for directed in (pairs, [pair[::-1] for pair in pairs]):
            if wanted := [pair for pair in directed if pair in links]:
                steps.append(Step("pair", wanted))
    for rank in range(size):
        # With one partner, a node's own cap is the pair's rate.
        for kind, end in (("egress", SOURCE), ("ingress", TARGET)):
            star = [pair for pair in links if pair[end] == rank]
            steps += [Step(kind, star)] if len(star) > 1 else []
    return [*steps, Step("together", links)] if len(links) > 1 else steps


def most_transfers(steps: list[Step]) -> int:
    """Return how many transfers happen one after another at most."""
    return sum(_TRANSFERS_OF[step.kind] for step in steps)


def budget(settings: Settings, steps: list[Step], tests: int) -> Budget:
    """Return what each transfer may take, if so many tests of many pairs at once are to follow the steps.

    Where the settings allow too few seconds or bytes for these tests, the steps get all of them.

    Raises:
        BudgetError: If the settings allow too few seconds or bytes for the steps.

    """
    count, trips_s = most_transfers(steps), _trips_s(steps)
    seconds = _TRANSFER_S if settings.seconds is None else (settings.seconds - trips_s) / (count + tests)
    if seconds < _LEAST_TRANSFER_S and settings.seconds is not None:
        seconds = (settings.seconds - trips_s) / count
    if seconds < _LEAST_TRANSFER_S:
        least_s = math.ceil(10 * (trips_s + _LEAST_TRANSFER_S * count)) / 10
        what = f"{count} transfers and the round trips, which take at least {least_s:.1f} s"
        problem = f"{settings.seconds:g} s are too short for {what}"
        faster = ["take parallel=True"] * (not settings.parallel) + ["list only the direct links"] * (
            not settings.links
        )
        raise BudgetError("seconds", problem, ", or ".join(["allow more seconds", *faster]))
    if settings.most_bytes < count << 20:
        problem = f"{settings.most_bytes} bytes are too few for {count} transfers, which need 1 MiB each"
        raise BudgetError("most_bytes", problem, f"allow at least most_bytes={count << 20}")
    most_bytes = max(settings.most_bytes // (count + tests), min(settings.most_bytes // count, 1 << 20))
    return Budget(min(seconds, _MOST_TRANSFER_S), most_bytes)


def cost(measured: Measurements, pairs: list[Pair], steps: list[Step], most_s: float) -> str:
    """Return a line that says what the steps will take, and the tests of many pairs at once behind them."""
    count = most_transfers(steps)
    total_s = count * measured.transfer_s + _trips_s(steps)
    each = f"{measured.transfer_s:.2g} s or {format_size(measured.most_transfer_bytes)}"
    pairs_text = f"{len(pairs)} pair{'s' if len(pairs) > 1 else ''}"
    transfers = f"{pairs_text}, at most {count} transfers of {each}: {total_s:.0f} s or less"
    then = f", then tests of many pairs at once, {most_s:.0f} s or less" if most_s else ""
    return f"{transfers}, and more for lines that one TCP stream does not fill{then}"


def _trips_s(steps: list[Step]) -> float:
    return _ROUND_TRIPS_S * sum(step.kind == "trips" for step in steps)


def limits(step: Step, measured: Measurements) -> Budget:
    """Return what each transfer of a step may take.

    Transfers that compete should end at the same time, so the limit of bytes becomes one of time, by the rate that is
    expected of them together.
    """
    seconds, most_bytes = measured.transfer_s, measured.most_transfer_bytes
    rate = 0.0
    if step.kind in ("egress", "ingress"):
        rates = [measured.rates[pair] for pair in step.pairs]
        rate = min(sum(rates), 2 * max(rates))
    elif step.kind == "together":
        rate = expected_together(measured)
    elif step.kind == "offer":
        rate = sum(min(offered, measured.rates[pair]) for pair, offered in step.offered_Bps.items())
    each = most_bytes // len(step.pairs)
    if step.kind == "pair":
        each = min(each - sent_bytes(measured, pair) for pair in step.pairs)
    if step.streams > 1 or step.kind == "offer":
        long_s = _TRIPS_OF_SEVERAL * max(measured.trips[min(pair), max(pair)].least_s for pair in step.pairs)
        seconds = max(seconds, min(long_s, _MOST_TRANSFER_S))
    return Budget(min(seconds, most_bytes / rate) if rate else seconds, each)
