"""Measures the network between workers: pairs, nodes under simultaneous transfers, and everything at once.

Every worker calls `measure` together. Rank 0's settings count for all. The work is a list of steps that all know;
after each step all exchange what they measured, so that steps do not overlap and an error on one reaches all.
"""

import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from treefold._core import format_size
from treefold.errors import TreefoldError
from treefold.importers import Document
from treefold.workers import said, transfers
from treefold.workers.mesh import Pair, agree, close_all, connect_pairs
from treefold.workers.rendezvous import Rendezvous
from treefold.workers.sockets import listen

_TRANSFER_S = 1.0
_LEAST_TRANSFER_S, _MOST_TRANSFER_S = 0.1, 5.0
_PARTS = 7
_ROUND_TRIPS_S = 0.3  # what a round needs besides its two transfers
_SILENCE_S = 20.0

LEAST_TIMEOUT_S = 30.0
"""Of a rendezvous: others wait that long while a pair finds out that its connection is dead."""

CAPPED = 0.85
"""A node is capped if its partners together get less than this of what each gets alone."""

Track = Callable[[Sequence["Step"]], Iterable["Step"]]

_INTRODUCTION: dict[str, said.Form] = {"named": bool, "name": said.is_name, "address": str, "port": said.is_port}
_DOCUMENT: said.Form = {
    "name": str,
    "nodes": [{"name": str, "kind": str}],
    "links": [{"source": str, "target": str, "both_ways": bool}],
}
_SETTINGS: dict[str, said.Form] = {
    "seconds": lambda value: value is None or said.is_amount(value),
    "most_bytes": said.is_count,
    "parallel": bool,
    "links": lambda value: value is None or said.fits(value, _DOCUMENT),
}


@dataclass(frozen=True)
class Settings:
    """What rank 0 asks for."""

    seconds: float | None = None
    """About how long it may take in all; by default one second a transfer."""
    most_bytes: int = 64 << 30
    """How much all workers together send at most."""
    parallel: bool = False
    """Whether pairs that share no worker are measured at the same time."""
    links: Document | None = None
    """A network whose links are measured, one way each; by default all pairs."""


class Step(NamedTuple):
    """Transfers at the same time, as pairs (source, target) of ranks."""

    kind: str
    """trips, pair, egress, ingress or together."""
    pairs: list[Pair]


@dataclass
class Measured:
    """What the workers found; pairs are (source, target) of ranks, rates in bytes a second."""

    workers: list[dict[str, Any]]
    """By rank: name and address."""
    transfer_s: float
    most_transfer_bytes: int
    rates: dict[Pair, float] = field(default_factory=dict)
    trips: dict[Pair, transfers.RoundTrips] = field(default_factory=dict)
    """Of unordered pairs, the lower rank first."""
    overheads_s: dict[Pair, float] = field(default_factory=dict)
    egress: dict[int, float] = field(default_factory=dict)
    """What a rank sends to all its partners at once."""
    ingress: dict[int, float] = field(default_factory=dict)
    together: dict[Pair, float] = field(default_factory=dict)
    """What each pair gets when all send at once."""


def measure(
    rendezvous: Rendezvous,
    settings: Settings,
    tell: Callable[[str], None] = lambda _: None,
    track: Track = lambda steps: steps,
) -> Measured:
    """Measure the network between the workers of `rendezvous`; all of them call this.

    Args:
        rendezvous: Of at least 2 workers.
        settings: Rank 0's count, the others' are ignored.
        tell: Is told before measuring what it will cost.
        track: May show how far the steps are.

    Raises:
        TreefoldError: On every worker, naming the worker that is not reached, lost, or the setting that does not fit.

    """
    if rendezvous.size < 2:
        raise TreefoldError("a probe measures between workers, and there is 1; start at least 2, or use --local 2")
    listener, error = _listener(rendezvous)
    with closing(listener):
        workers = agree(rendezvous, error, _INTRODUCTION, **_introduction(rendezvous, listener, settings))
        said.check("rank 0", workers[0], {"settings": _SETTINGS, "token": str})
        wanted, token = Settings(*(workers[0]["settings"][key] for key in _SETTINGS)), workers[0]["token"]
        _name_apart(workers)
        links = directed_links(wanted.links, workers)
        pairs = sorted({(min(pair), max(pair)) for pair in links})
        rounds = matchings(pairs, len(workers)) if wanted.parallel else [[pair] for pair in pairs]
        steps = _steps(rounds, links, len(workers))
        measured = Measured(workers, *_budget(wanted, steps))
        tell(_cost(measured, pairs, steps))
        connections = connect_pairs(rendezvous, listener, pairs, workers, token)
    try:
        for connection in connections.values():
            transfers.prepare(connection, _SILENCE_S)
        for step in track(steps):
            _take(step, rendezvous, connections, measured)
            if _looks_capped(step, measured):  # a busy moment looks the same: what shows twice is a cap
                _take(step, rendezvous, connections, measured)
    finally:
        close_all(connections)
    return measured


def _listener(rendezvous: Rendezvous) -> tuple[socket.socket, str | None]:
    """Return a listening socket; or one that does not listen, and why, which all workers should hear."""
    try:
        return listen(rendezvous.address, what=f"rank {rendezvous.rank}"), None
    except TreefoldError as error:
        return socket.socket(), str(error)


def _introduction(rendezvous: Rendezvous, listener: socket.socket, settings: Settings) -> dict[str, Any]:
    where = listener.getsockname()
    introduction = {"named": rendezvous.name is not None, "name": rendezvous.name or socket.gethostname()}
    introduction |= {"address": where[0], "port": where[1]}
    if rendezvous.rank == 0:
        introduction |= {"settings": asdict(settings), "token": secrets.token_hex(16)}
    return introduction


def _name_apart(workers: list[dict[str, Any]]) -> None:
    names = [worker["name"] for worker in workers]
    for rank, worker in enumerate(workers):
        if names.count(worker["name"]) > 1:
            worker["name"] = f"{worker['name']}#{rank}"


def directed_links(document: Document | None, workers: Sequence[dict[str, Any]]) -> list[Pair]:
    """Return the (source, target) ranks to measure: the links of `document`, else all pairs.

    Raises:
        TreefoldError: If the workers do not match the document's accelerators, or a link is not between two of them.

    """
    if document is None:
        return [(one, other) for one in range(len(workers)) for other in range(len(workers)) if one != other]
    ranks = {name: rank for rank, name in enumerate(link_names(document, workers))}
    found: list[Pair] = []
    for link in document["links"]:
        ends = link["source"], link["target"]
        if stranger := next((end for end in ends if end not in ranks), None):
            raise TreefoldError(
                f"link {ends[0]} -> {ends[1]}: '{stranger}' is no worker, and only links between two workers can be "
                "measured; leave the link out, or probe all pairs without --links"
            )
        pair = ranks[ends[0]], ranks[ends[1]]
        found += [pair, pair[::-1]] if link["both_ways"] else [pair]
    if twice := next((pair for pair in found if found.count(pair) > 1), None):
        one, other = (workers[rank]["name"] for rank in twice)
        raise TreefoldError(
            f"link {one} -> {other} stands twice, and parallel links look like one to a probe; keep one"
        )
    if not found:
        raise TreefoldError(f"network '{document['name']}' has no links to measure; list some, or drop --links")
    return found


def link_names(document: Document, workers: Sequence[dict[str, Any]]) -> list[str]:
    """Return the document's name of each worker: the same where workers were named, else by order."""
    names = document.get("ranks") or [node["name"] for node in document["nodes"] if node["kind"] == "accelerator"]
    own = [str(worker["name"]) for worker in workers]
    if len(names) != len(workers):
        problem = f"network '{document['name']}' has {len(names)} accelerators, but there are {len(workers)} workers"
        raise TreefoldError(f"{problem}; start one worker for each")
    if not all(worker["named"] for worker in workers):
        return list(names)
    if stranger := next((name for name in own if name not in names), None):
        problem = f"worker '{stranger}' is no accelerator of network '{document['name']}' ({', '.join(names[:8])})"
        raise TreefoldError(f"{problem}; set TREEFOLD_NAME to one of them, each to another")
    return own


def matchings(pairs: Sequence[Pair], size: int) -> list[list[Pair]]:
    """Return `pairs` in rounds in which no worker plays twice; of all pairs, about as many rounds as workers."""
    rounds: list[list[Pair]] = []
    for pair in sorted(pairs, key=lambda pair: (sum(pair) % size, pair)):
        free = next((played for played in rounds if not set(pair) & {rank for each in played for rank in each}), None)
        if free is None:
            rounds.append([pair])
        else:
            free.append(pair)
    return rounds


def _steps(rounds: list[list[Pair]], links: list[Pair], size: int) -> list[Step]:
    steps = []
    for played in rounds:
        steps.append(Step("trips", played))
        for way in (played, [pair[::-1] for pair in played]):
            if wanted := [pair for pair in way if pair in links]:
                steps.append(Step("pair", wanted))
    for rank in range(size):
        # With one partner, a node's own cap is the pair's rate.
        stars = [[pair for pair in links if pair[end] == rank] for end in (0, 1)]
        steps += [Step(kind, star) for kind, star in zip(("egress", "ingress"), stars, strict=True) if len(star) > 1]
    return [*steps, Step("together", links)] if len(links) > 1 else steps


def _most_transfers(steps: list[Step]) -> int:
    """Return how many transfers one after another there are, if each node looks capped and is measured again."""
    return sum({"trips": 0, "egress": 2, "ingress": 2}.get(step.kind, 1) for step in steps)


def _budget(settings: Settings, steps: list[Step]) -> tuple[float, int]:
    """Return how many seconds and bytes each transfer gets."""
    count = _most_transfers(steps)
    trips_s = _ROUND_TRIPS_S * sum(step.kind == "trips" for step in steps)
    seconds = _TRANSFER_S if settings.seconds is None else (settings.seconds - trips_s) / count
    if seconds < _LEAST_TRANSFER_S:
        least_s = trips_s + _LEAST_TRANSFER_S * count
        problem = f"{settings.seconds:g} s are too short for {count} transfers, which take at least {least_s:.0f} s"
        raise TreefoldError(f"{problem}; raise --seconds, or use --parallel, or --links with a file of the direct ones")
    if settings.most_bytes < count << 20:
        problem = f"{settings.most_bytes} bytes are too few for {count} transfers, which need 1 MiB each"
        raise TreefoldError(f"{problem}; raise --bytes to {count}MiB at least")
    return min(seconds, _MOST_TRANSFER_S), settings.most_bytes // count


def _cost(measured: Measured, pairs: list[Pair], steps: list[Step]) -> str:
    count = _most_transfers(steps)
    total_s = count * measured.transfer_s + _ROUND_TRIPS_S * sum(step.kind == "trips" for step in steps)
    each = f"{measured.transfer_s:.2g} s or {format_size(measured.most_transfer_bytes)}"
    pairs_text = f"{len(pairs)} pair{'s' if len(pairs) > 1 else ''}"
    return f"{pairs_text}, at most {count} transfers of {each}: {total_s:.0f} s or less"


def _take(step: Step, rendezvous: Rendezvous, connections: dict[int, socket.socket], measured: Measured) -> None:
    """Do this worker's part of a step, and add to `measured` what all workers found."""
    found, error = _own_part(step, rendezvous.rank, connections, measured)
    everyone = agree(
        rendezvous, error, {"found": [_is_found]}, found=[[*pair, *values] for pair, values in found.items()]
    )
    values = _values(step, everyone)
    if step.kind == "trips":
        for pair in step.pairs:
            least_s, median_s, forth_s, back_s = (
                max(ends) for ends in zip(values[pair], values[pair[::-1]], strict=True)
            )
            measured.trips[pair] = transfers.RoundTrips(least_s, median_s)
            measured.overheads_s |= {pair: forth_s, pair[::-1]: back_s}
        return
    if step.kind == "pair":
        measured.rates |= {pair: rest[0] for pair, rest in values.items()}
        return
    # In company no pair is faster than alone: what seems so is a busy receiver that reads late, then all at once.
    rates = {pair: min(rest[0], measured.rates[pair]) for pair, rest in values.items()}
    if step.kind == "together":
        measured.together |= rates
    else:
        rank, all_caps = _star(step, measured)
        all_caps[rank] = max(all_caps.get(rank, 0), sum(rates.values()))


def _is_found(value: Any) -> bool:
    """Whether this is a pair with what was measured between its ends."""
    return isinstance(value, list) and len(value) > 2 and all(map(said.is_amount, value))


def _values(step: Step, everyone: list[dict[str, Any]]) -> dict[Pair, list[float]]:
    """Return what all have measured, by pair: what each had to, and no more."""
    values: dict[Pair, list[float]] = {}
    tellers = {pair: pair[0] if step.kind == "trips" else pair[1] for pair in step.pairs}
    if step.kind == "trips":
        tellers |= {pair[::-1]: pair[1] for pair in step.pairs}
    for pair, teller in tellers.items():
        told = [rest for one, other, *rest in everyone[teller]["found"] if (one, other) == pair]
        if [len(rest) for rest in told] != [4 if step.kind == "trips" else 1]:
            raise said.nonsense(f"rank {teller}", f"no result of its transfers with rank {sum(pair) - teller}")
        values[pair] = told[0]
    return values


def _star(step: Step, measured: Measured) -> tuple[int, dict[int, float]]:
    """Return the node in the middle of a step, and where its rate belongs."""
    end = 0 if step.kind == "egress" else 1
    return step.pairs[0][end], (measured.egress, measured.ingress)[end]


def _looks_capped(step: Step, measured: Measured) -> bool:
    if step.kind not in ("egress", "ingress"):
        return False
    rank, all_caps = _star(step, measured)
    return all_caps[rank] < CAPPED * sum(measured.rates[pair] for pair in step.pairs)


def _own_part(
    step: Step, rank: int, connections: dict[int, socket.socket], measured: Measured
) -> tuple[dict[Pair, list[float]], str | None]:
    """Return what this worker measured, by pair, and its first error."""
    own = [pair for pair in step.pairs if rank in pair]
    seconds, most_bytes = _limits(step, measured)
    errors: list[str] = []

    def part(pair: Pair) -> list[float]:
        other = pair[1] if pair[0] == rank else pair[0]
        try:
            if step.kind == "trips":
                return _trips(connections[other], pair[0] == rank)
            if pair[0] == rank:
                transfers.send_stream(connections[other], seconds, most_bytes)
                return []
            samples = transfers.receive_stream(connections[other])
            round_trip_s = measured.trips[min(pair), max(pair)].least_s
            return [transfers.steady_rate(samples, seconds, round_trip_s, _PARTS if step.kind == "pair" else 1)]
        except (OSError, EOFError) as error:
            names = [f"rank {each} ({measured.workers[each]['name']})" for each in (rank, other)]
            errors.append(f"{names[0]} lost its connection to {names[1]}: {_reason(error)}; look at the other's output")
            return []

    if len(own) < 2:
        results = [part(pair) for pair in own]
    else:
        with ThreadPoolExecutor(len(own)) as pool:
            results = list(pool.map(part, own))
    by_pair = {_told(step, pair, rank): values for pair, values in zip(own, results, strict=True) if values}
    return by_pair, errors[0] if errors else None


def _reason(error: OSError | EOFError) -> str:
    if isinstance(error, BlockingIOError):
        return f"silent for {_SILENCE_S:g} s"
    return getattr(error, "strerror", None) or "closed by the other side"


def _told(step: Step, pair: Pair, rank: int) -> Pair:
    """Return the key under which a worker tells a value: both ends tell of round trips, own rank first."""
    return pair[::-1] if step.kind == "trips" and pair[0] != rank else pair


def _limits(step: Step, measured: Measured) -> tuple[float, int]:
    """Return seconds and bytes for each of a step's transfers.

    Transfers that compete should end at the same time, so what bytes limit is their time, by the rate that is expected.
    """
    seconds, most_bytes = measured.transfer_s, measured.most_transfer_bytes
    rate = 0.0
    if step.kind in ("egress", "ingress"):
        rates = [measured.rates[pair] for pair in step.pairs]
        rate = min(sum(rates), 2 * max(rates))
    elif step.kind == "together":
        rate = expected_together(measured)
    return min(seconds, most_bytes / rate) if rate else seconds, most_bytes // len(step.pairs)


def alone(measured: Measured, rank: int, end: int) -> list[float]:
    """Return the rates of the pairs whose source (end 0) or target (1) is `rank`."""
    return [rate for pair, rate in measured.rates.items() if pair[end] == rank]


def at_once(measured: Measured, rank: int, end: int) -> float:
    """Return what `rank` sends (end 0) or receives (1) at once; with one partner, what that pair carries.

    What it did when all sent at once it can do: so a moment's disturbance does not become a cap.
    """
    found = (measured.egress, measured.ingress)[end].get(rank, sum(alone(measured, rank, end)))
    return max(found, sum(rate for pair, rate in measured.together.items() if pair[end] == rank))


def expected_together(measured: Measured) -> float:
    """Return the rate of all pairs at once if nothing but the pairs and the nodes limits them."""
    ranks = range(len(measured.workers))
    return min(
        sum(min(at_once(measured, rank, end), sum(alone(measured, rank, end))) for rank in ranks) for end in (0, 1)
    )


def _trips(connection: socket.socket, first: bool) -> list[float]:
    """Return least and median round trip, and the time of a message in the pair's direction and back."""
    if first:
        trips = transfers.ping(connection)
        forth_s = transfers.send_messages(connection)
        back_s = transfers.receive_messages(connection)
        return [*trips, forth_s, back_s]
    transfers.answer_pings(connection)
    forth_s = transfers.receive_messages(connection)
    return [0.0, 0.0, forth_s, transfers.send_messages(connection)]
