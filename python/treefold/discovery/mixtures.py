"""The best plan within what was measured at once: safe whatever the network is."""
import numpy as np
from treefold.discovery.observations import Evidence, Vector
from treefold.discovery.planned import Planned, solve


def mixture(evidence: Evidence, rounds: int = 12) -> tuple[Planned, Vector]:
    import standin
    r, lam, loads = standin.hull(evidence.ranks, evidence.pairs, evidence.got_Bps)
    return Planned(r, loads), lam @ evidence.got_Bps
