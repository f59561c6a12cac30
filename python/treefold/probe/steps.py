"""The steps of a probe: which transfers happen at the same time, and how long and how large each may be."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treefold._core import format_size
from treefold.probe.results import SOURCE, TARGET, Measurements, Pair
from treefold.probe.settings import BudgetError, Settings

_TRANSFER_S = 1.0
_LEAST_TRANSFER_S, MOST_TRANSFER_S = 0.1, 5.0
_ROUNDING_S = 1e-6
_ROUND_TRIPS_S = 0.3
"""How many seconds the round trips of a round take."""
_MOST_TESTS_S, _LEAST_TESTS_S = 60.0, 30.0
_PROBE_S = 112.0
"""Unless the settings say so, tests of many pairs at once end when the probe has taken so long, or with their time."""
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
    most_bytes: int = 0
    """How many bytes a step of the kind `offer` sends at most; the others send as many as any transfer may."""


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

    Where the settings allow too few seconds or bytes for all, there are fewer tests, or none.

    Raises:
        BudgetError: If the settings allow too few seconds or bytes for the steps.

    """
    count, trips_s = most_transfers(steps), _trips_s(steps)
    seconds = _TRANSFER_S
    if settings.seconds is not None:
        least_s = trips_s + _LEAST_TRANSFER_S * count
        if settings.seconds < least_s - _ROUNDING_S:
            what = f"{count} transfers and the round trips, which take at least {math.ceil(10 * least_s) / 10:.1f} s"
            problem = f"{settings.seconds:g} s are too short for {what}"
            raise BudgetError("seconds", problem, _faster(settings))
        seconds = max((settings.seconds - trips_s) / (count + tests), _LEAST_TRANSFER_S)
    if settings.most_bytes < count << 20:
        given, needed = format_size(settings.most_bytes), format_size(count << 20)
        problem = f"{given} are too few for {count} transfers of 1MiB or more, {needed} in all"
        raise BudgetError("most_bytes", problem, f"allow at least most_bytes={count << 20}")
    most_bytes = max(settings.most_bytes // (count + tests), min(settings.most_bytes // count, 1 << 20))
    return Budget(min(seconds, MOST_TRANSFER_S), most_bytes)


def _faster(settings: Settings) -> str:
    """Return what makes seconds enough."""
    faster = ["take parallel=True"] * (not settings.parallel) + ["list only the direct links"] * (not settings.links)
    return ", or ".join(["allow more seconds", *faster])


def time_for_tests_s(settings: Settings, measured: Measurements, steps: list[Step]) -> float:
    """Return how long all tests of many pairs at once may take: what the steps leave, if it is enough for one."""
    if settings.seconds is None:
        return _MOST_TESTS_S
    left_s = settings.seconds - _steps_s(measured, steps)
    return left_s if left_s >= measured.transfer_s else 0.0


def time_left_s(settings: Settings, most_s: float, taken_s: float) -> float:
    """Return how much of the time for tests of many pairs at once is left behind steps that have taken so long."""
    if settings.seconds is not None:
        return most_s
    return min(most_s, max(_PROBE_S - taken_s, _LEAST_TESTS_S))


def cost(measured: Measurements, pairs: list[Pair], steps: list[Step], most_s: float) -> str:
    """Return a line that says what the steps will take, and the tests of many pairs at once behind them."""
    count = most_transfers(steps)
    total_s = _steps_s(measured, steps)
    each = f"{measured.transfer_s:.2g} s or {format_size(measured.most_transfer_bytes)}"
    pairs_text = f"{len(pairs)} pair{'s' if len(pairs) > 1 else ''}"
    transfers = f"{pairs_text}, at most {count} transfers of {each}: {total_s:.0f} s or less"
    then = f", then tests of many pairs at once, {most_s:.2g} s or less" if most_s else ""
    return f"{transfers}, and more for lines that one TCP stream does not fill{then}"


def _steps_s(measured: Measurements, steps: list[Step]) -> float:
    return most_transfers(steps) * measured.transfer_s + _trips_s(steps)


def _trips_s(steps: list[Step]) -> float:
    return _ROUND_TRIPS_S * sum(step.kind == "trips" for step in steps)
