"""The results of finding winners over networks and sizes: `treefold.winners` returns a `WinnerMap`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from treefold import checks
from treefold._core import algorithms, format_size, format_time
from treefold.records import Record, Table, hidden, keyed

TIE = 0.01
"""Algorithms tie whose times differ by at most this fraction of the shorter one."""
_EQUAL = 1e-9
"""Times are the same that differ by less than this fraction: sums in another order are rounded in another way."""


@dataclass(frozen=True, kw_only=True)
class Factors(Record):
    """How many times as long as the winner its rivals take; None for a rival that was not compared or does not fit.

    Attributes:
        ring: The factor of `ring`, which libraries without a plan for the network take for large vectors.
        nccl: The factor of `nccl`, what NVIDIA's library does.
        multitree: The factor of `multitree`, of the paper with which this work began.

    Example:
        >>> winner = treefold.winners("torus:4x4", "ring,multitree", sizes_bytes=["1MiB"])[0]
        >>> f"{winner.over.ring:.2f}", winner.over.nccl, winner.over.multitree
        ('3.00', None, 1.0)

    """

    ring: float | None
    nccl: float | None
    multitree: float | None


RIVALS = tuple(each.name for each in fields(Factors))
"""The algorithms to which the winners are compared."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Winner(Record):
    """The fastest algorithm on one network at one size.

    Attributes:
        network: The name of the network.
        collective: The collective.
        simulator: The simulator by which the times are predicted; `model` in dictionaries.
        link_model: The meaning of a link's latency.
        size_bytes: The size of the vector, in bytes.
        algorithm: The fastest algorithm, of equally fast ones the first of `treefold.algorithms()`; None if nothing
            takes time.
        time_s: The seconds that it takes.
        bound_s: The seconds that no plan of the collective can beat at this size.
        bound_fraction: The fraction `bound_s` / `time_s`; 1 is the best. It is None if nothing takes time.
        ties: The other algorithms that take at most 1 % longer, in the order of `treefold.algorithms()`.
        over: How many times as long the rivals take.
        times_s: The pairs of an algorithm and the seconds that it takes, the fastest first. Dictionaries leave them
            out.

    Example:
        >>> winner = treefold.winners("torus:4x4", "ring,bucket,swing", sizes_bytes=["1MiB"])[0]
        >>> winner.algorithm, [name for name, _ in winner.times_s]
        ('swing', ['swing', 'bucket', 'ring'])

    """

    network: str
    collective: str
    simulator: str = keyed("model")
    link_model: str
    size_bytes: int
    algorithm: str | None
    time_s: float
    bound_s: float
    bound_fraction: float | None
    ties: tuple[str, ...]
    over: Factors
    times_s: tuple[tuple[str, float], ...] = hidden()

    def __repr__(self) -> str:
        where = f"{self.network}, {self.collective} of {format_size(self.size_bytes)} by {self.simulator}"
        return f"Winner({where}: {self.algorithm or 'none'}, {format_time(self.time_s)})"


class WinnerMap(Table[Winner]):
    """The winners of several networks and sizes, network by network.

    Example:
        >>> found = treefold.winners(["ring:4", "torus:4x4"], "ring,swing", sizes_bytes=["1KiB", "16MiB"])
        >>> found
        WinnerMap(2 networks, sizes 1KiB, 16MiB)
        >>> [each.algorithm for each in found]
        ['swing', 'swing', 'swing', 'swing']

    """

    def networks(self) -> list[str]:
        """Return the names of the networks.

        Example:
            >>> treefold.winners(["ring:4", "full:4"], "ring", sizes_bytes=["1KiB"]).networks()
            ['ring:4', 'full:4']

        """
        return list(dict.fromkeys(each.network for each in self))

    def sizes(self) -> list[int]:
        """Return the sizes, in bytes.

        Example:
            >>> treefold.winners("ring:4", "ring", sizes_bytes=["1KiB", "1MiB"]).sizes()
            [1024, 1048576]

        """
        return list(dict.fromkeys(each.size_bytes for each in self))

    def at(self, network: str, size_bytes: int | str) -> Winner | None:
        """Return the winner on a network at a size; None if it was not looked for.

        Args:
            network: The name of the network.
            size_bytes: The size, in bytes or as a text with a unit such as `1MiB`.

        Raises:
            TreefoldError: If it is not a size.

        Example:
            >>> found = treefold.winners("ring:4", "ring", sizes_bytes=["1KiB"])
            >>> found.at("ring:4", "1KiB").algorithm, found.at("ring:4", "2KiB")
            ('ring', None)

        """
        size = checks.size(size_bytes)
        return next((each for each in self if (each.network, each.size_bytes) == (network, size)), None)

    def __repr__(self) -> str:
        count = len(self.networks())
        sizes = [format_size(size) for size in self.sizes()]
        return f"WinnerMap({count} network{'s' * (count != 1)}, sizes {', '.join(sizes)})"


def winner_of(
    times_s: Mapping[str, float],
    bound_s: float,
    *,
    network: str,
    collective: str,
    simulator: str,
    link_model: str,
    size_bytes: int,
) -> Winner:
    """Return the winner of algorithms whose times are known.

    Args:
        times_s: The seconds that each algorithm takes, by its name.
        bound_s: The seconds that no plan can beat.
        network: The name of the network.
        collective: The collective.
        simulator: The simulator that predicted the times.
        link_model: The meaning of a link's latency.
        size_bytes: The size of the vector, in bytes.

    Example:
        >>> from treefold.winner_results import winner_of
        >>> where = {"network": "x", "collective": "all-reduce", "simulator": "flow", "link_model": "propagation"}
        >>> winner_of({"ring": 2.0, "forest": 1.0, "packing": 1.01}, 1.0, size_bytes=1024, **where).ties
        ('packing',)

    """
    known = [each.name for each in algorithms()]
    # `auto` comes last, so that what it chose wins by its own name.
    ordered = sorted(times_s, key=lambda name: known.index(name) if name in known else len(known))
    least = min(times_s.values())
    first = next(name for name in ordered if times_s[name] <= least * (1 + _EQUAL))
    takes_time = least > 0
    time_s = times_s[first]
    ties = [name for name in ordered if takes_time and name != first and times_s[name] <= time_s * (1 + TIE)]
    ranked = sorted(ordered, key=lambda name: (name != first, times_s[name]))
    return Winner(
        network=network,
        collective=collective,
        simulator=simulator,
        link_model=link_model,
        size_bytes=size_bytes,
        algorithm=first if takes_time else None,
        time_s=time_s,
        bound_s=bound_s,
        bound_fraction=bound_s / time_s if takes_time else None,
        ties=tuple(ties),
        over=Factors(**{name: times_s[name] / time_s if takes_time and name in times_s else None for name in RIVALS}),
        times_s=tuple((name, times_s[name]) for name in ranked),
    )
