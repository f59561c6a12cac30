"""Says what more of a shared capacity is worth: a bound with 10 % more of it, where its price is not 0."""

from functools import partial

from treefold import progress
from treefold.explaining.what_if import Task, by_worth, growth_of
from treefold.explaining.widths import with_shared_bandwidths
from treefold.explanation_results import Outcome, SharedWorth


def shared_worths(task: Task, now: Outcome, growth: float) -> tuple[SharedWorth, ...]:
    """Return the worth of each shared capacity, the most valuable first.

    Args:
        task: What is explained.
        now: What is reached now.
        growth: The bandwidth then, as a multiple of that now.

    """
    network, rate_Bps = task.network, now.rate_Bps or 0.0
    prices = task.bounds_on(network).prices()[network.num_links :].tolist()
    found = []
    for shared, price in zip(network.shared(), prices, strict=True):
        progress.report(shared.name)
        more = {shared.name: growth * shared.bandwidth_Bps}
        ceiling_Bps = price * (growth - 1) * shared.bandwidth_Bps
        gained = growth_of(task, now, ceiling_Bps, partial(with_shared_bandwidths, network, more))
        found.append(
            SharedWorth(
                name=shared.name,
                bandwidth_Bps=shared.bandwidth_Bps,
                links=len(shared.links),
                is_limiting=shared.name in now.shared,
                rate_Bps=rate_Bps * gained,
                gain_fraction=gained - 1,
            )
        )
    return by_worth(found)
