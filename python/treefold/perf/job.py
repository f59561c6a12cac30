"""The job of `treefold run`, with checks that refuse what no group can run."""

from dataclasses import dataclass

from treefold import _core
from treefold.collectives import COLLECTIVES
from treefold.errors import TreefoldError
from treefold.perf import memory
from treefold.perf.recorder import MOST_RUNS
from treefold.runtime.connections import Connections
from treefold.runtime.streams import asked_streams

SMALLER = "choose a smaller size, or fewer ranks"
"""The remedy where memory is too small."""

_MOST_ITERATIONS = 10**9


@dataclass(frozen=True)
class Job:
    """The measurements to make; they are the same on all workers."""

    sizes_bytes: tuple[int, ...]
    """The sizes of the vector: all blocks of it after all-gather, or before reduce-scatter."""
    collective: str = "all-reduce"
    op: str = "sum"
    type: str = "float32"
    wire: str | None = None
    """The type in which numbers cross lines; None if they cross as they are."""
    root: int = 0
    """The worker that broadcasts or receives; it is a rank of the plan only by the rank mapping."""
    iterations: int = 5
    warmup: int = 1
    transport: str = "tcp"
    blocks: tuple[tuple[int, ...], ...] | None = None
    """The sizes of the blocks of an all-to-all, a row for each rank of the plan; None if they are equal."""
    discover: bool = False
    """Whether the workers measure their network first, or use what they measured before."""
    trace: str | None = None
    """The file to which worker 0 writes when the messages left and came; None if that is not recorded."""
    adapt: bool | str = False
    """Whether the plan follows links that change or die, as `runtime.join` takes it."""
    learn: str | None = None
    """The file to which worker 0 writes what it learns about the network, as `runtime.join` takes it."""
    streams: int | None = None
    """How many TCP streams side by side join two workers; None for as many as their line needs."""

    @property
    def connections(self) -> Connections:
        """The connections of its workers."""
        return Connections(streams=self.streams)

    @property
    def operator(self) -> str:
        """The operator, `sum` for collectives that have none."""
        return self.op if COLLECTIVES[self.collective].reduces else "sum"

    @property
    def crossing(self) -> tuple[str, int] | None:
        """The type in which numbers cross lines, and the bytes of an element; None if they cross as they are."""
        if self.wire is None or _core.wire_type(self.wire, self.type) is None:
            return None
        return self.wire, _core.number_bytes(self.type, self.operator)

    def check(self) -> None:
        """Refuse what no group can run.

        Raises:
            TreefoldError: Naming the option and its value.

        """
        if self.adapt and self.transport != "tcp":
            raise TreefoldError(
                f"adapt=True works over tcp, not over {self.transport}; drop it or choose transport='tcp'"
            )
        if self.learn is not None and not self.adapt:
            raise TreefoldError(f"learn={self.learn!r}: only a run that adapts learns; add adapt=True, or drop it")
        if self.streams is not None and self.transport != "tcp":
            raise TreefoldError(f"streams={self.streams}: only tcp has streams, not {self.transport}; drop it")
        asked_streams(self.streams)
        if self.discover and self.transport == "threads":
            raise TreefoldError(
                "discover=True measures what is between processes, and threads are one; drop it or choose "
                "transport='tcp'"
            )
        self._check_trace()
        element = _core.number_bytes(self.type, self.operator)
        if self.wire is not None:
            _core.wire_type(self.wire, self.type)
        for name, value, least in (("iterations", self.iterations, 1), ("warmup", self.warmup, 0)):
            if value < least:
                raise TreefoldError(f"{name}={value}: must be at least {least}")
            if value > _MOST_ITERATIONS:
                raise TreefoldError(f"{name}={value}: must be at most {_MOST_ITERATIONS}")
        for size in self.sizes_bytes:
            if size < element:
                raise TreefoldError(
                    f"size {_core.format_size(size)} holds no {self.type} number; it takes {element} bytes at least"
                )

    def _check_trace(self) -> None:
        """Refuse to record what cannot be recorded, or would not be one trace."""
        if self.trace is None:
            return
        if self.transport not in ("tcp", "threads"):
            raise TreefoldError(
                f"{self.transport} does not tell when messages leave and come; drop the trace, or choose "
                "transport='tcp'"
            )
        if self.adapt:
            raise TreefoldError("a trace is of one plan, and adapt=True may change it; drop one of the two")
        if len(self.sizes_bytes) != 1:
            raise TreefoldError(f"a trace is of one size, and {len(self.sizes_bytes)} are given; give one")
        if self.iterations > MOST_RUNS:
            raise TreefoldError(f"iterations={self.iterations}: with a trace it must be at most {MOST_RUNS}")

    def check_memory(self, ranks: int) -> None:
        """Refuse vectors that do not fit into memory, where so many ranks have theirs on this machine.

        Raises:
            TreefoldError: Saying what they take and what is free.

        """
        has_copy = self.adapt or COLLECTIVES[self.collective].is_personalized
        size_bytes = max(self.sizes_bytes)
        who = f"{ranks} ranks" if ranks > 1 else "a rank"
        take = "take" if ranks > 1 else "takes"
        what = f"{_core.format_size(size_bytes)} for {who} on this machine {take}"
        remedy = f"{SMALLER}, or take adapt=False, which keeps no copies" if self.adapt else SMALLER
        memory.check(what, ranks * size_bytes * (2 if has_copy else 1), remedy)
