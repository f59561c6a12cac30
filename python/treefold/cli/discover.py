"""The options with which `run` measures the network first, instead of reading a file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefold import auto, checks
from treefold._core import Topology, is_spec
from treefold.cli.launch import LONGEST_S, measuring, seconds_option
from treefold.cli.terminal import notify
from treefold.errors import TreefoldError

if TYPE_CHECKING:
    from treefold.rendezvous import Rendezvous


@dataclass(frozen=True, kw_only=True)
class DiscoverOptions:
    """The options of a network that nobody described."""

    discover: Annotated[
        str | None,
        typer.Option(
            "--discover",
            metavar="[cache|FILE]",
            help="Measure the network between the workers first, as treefold probe does, and keep it in this file of "
            "worker 0; if the file is there already, use it. By default (--discover or --discover cache) each set of "
            "workers has a file of its own in ~/.cache/treefold. It takes the place of a network.",
        ),
    ] = None
    probe_seconds: Annotated[
        float | None,
        seconds_option(
            "The approximate time that --discover measures, in seconds or with a unit (20s); by default each transfer "
            "takes 1 second."
        ),
    ] = None

    @property
    def is_on(self) -> bool:
        """Tell whether the workers measure, or use what they measured before."""
        return self.discover is not None

    @property
    def file(self) -> Path | None:
        """The network's file; None for the one that the workers have in the cache."""
        return None if self.discover in (None, "cache") else Path(str(self.discover))

    def check(self, source: str | None, network: Sequence[str], trace: Path | None, algorithm: str) -> None:
        """Refuse options that do not go together.

        Args:
            source: The plan or the network that is given, too.
            network: The options of a network's file that are given, too.
            trace: The file of a trace.
            algorithm: The algorithm of the plan that is made afterwards.

        """
        if self.discover is None:
            if self.probe_seconds is not None:
                raise TreefoldError(f"--probe-seconds {self.probe_seconds:g}: only --discover measures; drop it")
            return
        if source is not None:
            raise TreefoldError(f"--discover takes the place of {source}; drop one of the two")
        if not self.discover or (is_spec(self.discover) and not os.path.exists(self.discover)):
            raise TreefoldError(
                f"--discover '{self.discover}' is no file that keeps the network; name one, for example net.json"
            )
        if network:
            raise TreefoldError(f"--discover measures the network; drop {', '.join(network)}")
        if trace is not None and self.file is not None and os.path.realpath(trace) == os.path.realpath(self.file):
            raise TreefoldError(f"--trace {trace}: it is the file of the network; name another one")
        checks.name("algorithm", algorithm, auto.names())
        if self.probe_seconds is not None and not 0 < self.probe_seconds < LONGEST_S:
            raise TreefoldError(
                f"--probe-seconds {self.probe_seconds:g}: must be more than 0 and less than {LONGEST_S:g}"
            )

    def network(self, joined: "Rendezvous") -> Topology:
        """Return the network between the workers, who call this together; only worker 0 tells how it goes."""
        from treefold import probe

        settings = probe.Settings(self.probe_seconds)
        if joined.rank:
            return probe.discover(joined, self.file, settings)
        return probe.discover(joined, self.file, settings, notify, notify, measuring)
