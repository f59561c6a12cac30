"""Says what more of a shared capacity is worth: a bound with 10 % more of it, where its price is not 0."""

from treefold import progress
from treefold.explaining.what_if import Task, fraction
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
        wider_Bps = rate_Bps
        if price * (growth - 1) * shared.bandwidth_Bps > rate_Bps * task.noise:
            wider = with_shared_bandwidths(network, {shared.name: growth * shared.bandwidth_Bps})
            wider_Bps = task.bounds_on(wider).rate.rate_Bps or 0.0
        gained = fraction(task, now, wider_Bps) or 1.0
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
    return tuple(sorted(found, key=lambda each: (-round(each.gain_fraction, 6), not each.is_limiting)))
