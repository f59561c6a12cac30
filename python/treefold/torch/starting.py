"""Starts planned operations: on tensors of the host or of a device, and with steps inside sites before and behind them.

Each operation is counted, and seen by the PyTorch profiler. Where ranks of several groups take part in it, one at each
site and one for each place at the sites, it fails in all of them if it fails in one.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from treefold._core import wire_bytes
from treefold.runtime.faults import RankLostError
from treefold.runtime.group import Group
from treefold.text import some
from treefold.torch import collectives, inside, pieces
from treefold.torch.planned import PlannedCalls
from treefold.torch.staging import Staging
from treefold.torch.work import OrderedExecutor, Work, bytes_of, in_profile, spans_of


def start(
    planned: PlannedCalls,
    executor: OrderedExecutor,
    collective: str,
    results: list[Any],
    *inputs: torch.Tensor,
    in_background: bool = True,
    **how: Any,
) -> Work:
    """Start a planned operation.

    Args:
        planned: The planned part of the process group.
        executor: What runs the operations of the process group.
        collective: A function of `collectives`, which `pieces` has, too.
        results: The tensors in which it leaves its results.
        inputs: The other tensors that it reads.
        in_background: Whether the caller does not wait for it.
        how: The function's arguments but the group.

    """
    end = _count(planned, collective, max(results, inputs, key=bytes_of), how.get("operator"))
    try:
        with in_profile(collective) as in_range:
            if (staging := planned.staging(results[0].device)) is not None:
                used, begin = [*results, *inputs], partial(staging.start, executor, planned.group, results, end)
                return in_range(_start_staged(planned, staging, collective, used, begin, how))
            run = partial(_on_host(planned, collective), planned.group, **how)
            return in_range(start_on_host(executor, run, results, inputs, in_background, end))
    except BaseException:
        end()
        raise


def _count(planned: PlannedCalls, collective: str, vector: Sequence[torch.Tensor], operator: Any) -> Callable[[], None]:
    """Count a call on a whole vector, which may be several tensors; return what is to be called when it is over."""
    wires = [planned.crossing.wire_of(each, operator) if planned.rounds else None for each in vector]
    pairs = zip(vector, wires, strict=True)
    crossing = sum(bytes_of(each) if wire is None else wire_bytes(wire, each.numel()) for each, wire in pairs)
    name, size = collective.removesuffix("_list"), bytes_of(vector)
    if planned.inside is None:
        return planned.counters.begin(name, size, crossing, 0)
    return planned.counters.begin(name, size, crossing // planned.inside.size, size)


def _start_staged(
    planned: PlannedCalls,
    staging: Staging,
    collective: str,
    used: Sequence[torch.Tensor],
    start_call: Callable[[pieces.Call], Work],
    how: dict[str, Any],
) -> Work:
    """Start a planned operation on tensors of a device; `used` are all of them."""
    cut, here = staging.cut(planned.group), planned.inside
    if here is None:
        return start_call(getattr(pieces, collective)(cut, **how))
    together = partial(_failing_together, planned, here)
    with together(), staging.aside(used):
        call = getattr(inside, f"staged_{collective}")(here, cut, **how)
        return start_call(call._replace(finish=together()(call.finish)))


def start_on_host(
    executor: OrderedExecutor,
    run: Callable[[], Iterator[None]],
    results: list[Any],
    inputs: Sequence[torch.Tensor] = (),
    in_background: bool = True,
    end: Callable[[], None] = lambda: None,
) -> Work:
    """Start a planned operation on tensors of the CPU.

    Args:
        executor: What runs the operations of the process group.
        run: A function whose generator begins the operation up to a yield, and waits for its end behind it.
        results: The tensors in which it leaves its results.
        inputs: The other tensors that it reads.
        in_background: Whether the caller does not wait for it.
        end: A function that is called once when it is over.

    """

    def operation() -> Generator[None, None, list[Any]]:
        try:
            yield from run()
        finally:
            end()
        return results

    return executor.start(Work("the operation"), operation, in_background, spans_of([*results, *inputs]))


def _on_host(planned: PlannedCalls, collective: str) -> Callable[..., Iterator[None]]:
    """Return the function of a group that runs a collective on tensors of the CPU."""
    if planned.inside is None:
        run: Callable[..., Iterator[None]] = getattr(collectives, collective)
        return run
    here = planned.inside

    def run_together(group: Group, **how: Any) -> Iterator[None]:
        with _failing_together(planned, here):
            yield from getattr(inside, collective)(here, group, **how)

    return run_together


@contextmanager
def _failing_together(planned: PlannedCalls, here: inside.Inside) -> Iterator[None]:
    """Let an operation fail for all ranks if it fails here: at this rank's site, and at its place of other sites."""
    try:
        yield
    except RankLostError as error:
        planned.give_up()
        ranks = [here.across[worker] for worker in error.workers]
        who = some([f"rank {rank}" for rank in ranks])
        raise RankLostError(f"{who} of the process group is lost: {error}", ranks) from None
    except Exception:
        planned.give_up()
        raise
