"""The options with which `run` measures the network first, instead of reading a file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefold import auto, checks
from treefold._core import is_spec, parse_size
from treefold.cli.groups import quantity
from treefold.cli.launch import LONGEST_S, measuring, seconds_option
from treefold.cli.terminal import notify
from treefold.errors import TreefoldError

if TYPE_CHECKING:
    from treefold.probe.keeping import Found
    from treefold.rendezvous import Rendezvous

_MOST_BYTES = (1 << 63) - 1


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
            "workers has a file of its own in ~/.cache/treefold. It takes the place of a network. More than 12 workers "
            "measure as with treefold probe --parallel.",
        ),
    ] = None
    probe_seconds: Annotated[
        float | None,
        seconds_option(
            "The approximate time that --discover measures, in seconds or with a unit (20s); by default each transfer "
            "takes 1 second, and tests of many pairs at once end after a minute."
        ),
    ] = None
    probe_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The maximum traffic of all workers together while --discover measures: that of treefold probe "
            "(64GiB) unless you say another one. Each transfer needs at least 1MiB.",
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
            if self.probe_bytes is not None:
                raise TreefoldError(f"--probe-bytes {self.probe_bytes}: only --discover measures; drop it")
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
        self._most_bytes()

    def _most_bytes(self) -> int | None:
        """Return the value of --probe-bytes, after checks; None if it is not given."""
        most = quantity("--probe-bytes", parse_size, self.probe_bytes)
        return None if most is None else checks.whole("--probe-bytes", int(most), 1, _MOST_BYTES)

    def found(self, joined: "Rendezvous") -> "Found":
        """Return the network between the workers, and its file; only worker 0 tells how it goes.

        The workers call this together.
        """
        from treefold.probe import Settings
        from treefold.probe.keeping import found
        from treefold.probe.settings import BudgetError

        settings = Settings(self.probe_seconds, self._most_bytes() or Settings.most_bytes)
        try:
            if joined.rank:
                return found(joined, self.file, settings, notify)
            return found(joined, self.file, settings, notify, notify, measuring)
        except BudgetError as error:
            flag = "--probe-seconds" if error.setting == "seconds" else "--probe-bytes"
            raise TreefoldError(f"{error.problem}; allow more with {flag}") from None
