"""The tolerances within which claims of all papers are judged, as reproduction/README.md explains them."""

ABOUT = 0.15
"""A value is about another if it differs by at most this part."""
ALMOST = 0.10
"""Values are almost equal if they differ by at most this part."""
NONE = 0.05
"""A change, or a cost, by at most this part counts as none."""
POINTS = 0.05
"""A measured part of a whole may be off by this much."""
GAIN_TOLERANCE = 0.25
"""A measured gain, a ratio less one, may be off by this part of the published one."""
GAIN = f"{GAIN_TOLERANCE:.0%} of the gain"


def is_gain(measured: float, published: float) -> bool:
    """Return whether two gains, each a ratio less one, agree."""
    return abs(measured / published - 1) <= GAIN_TOLERANCE
