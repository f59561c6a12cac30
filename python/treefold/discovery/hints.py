"""Groups that hints suggest before anything was tested together."""
import numpy as np
from treefold.discovery.explain import Candidate
from treefold.discovery.observations import Evidence


def of_latencies(evidence: Evidence, latency_s, tolerance: float = 0.02) -> list[Candidate]:
    """Return a group for each pair that leads over no other worker, with all pairs that lead over it.

    Where d(u, w) = d(u, v) + d(v, w), the way from u to w leads over v.
    """
    ranks = evidence.ranks
    d = np.full((ranks, ranks), np.inf)
    for pair in evidence.pairs:
        d[pair] = latency_s[pair]
    np.fill_diagonal(d, 0.0)
    via = np.isclose(d[:, :, None] + d[None, :, :], d[:, None, :].transpose(0, 1, 2) if False else (d[:, None, :]), rtol=tolerance, atol=0)
    for r in range(ranks):
        via[r, r, :] = False
        via[:, r, r] = False
    direct = [(u, w) for u, w in evidence.pairs if not via[u, :, w].any()]
    found = []
    for a, b in direct:
        members = [(u, w) for u, w in evidence.pairs
                   if abs((d[u, a] if u != a else 0) + d[a, b] + (d[b, w] if b != w else 0) - d[u, w]) <= tolerance * d[u, w]]
        mask = evidence.mask(members)
        mask[evidence.column[a, b]] = True
        if mask.sum() > 1:
            found.append(Candidate(mask, float(evidence.alone_Bps[evidence.column[a, b]])))
    return found
