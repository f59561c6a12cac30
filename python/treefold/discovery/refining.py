"""The loop."""
import numpy as np
from dataclasses import dataclass, field
from treefold.discovery import explain as ex
from treefold.discovery import hints, mixtures
from treefold.discovery import planned as pl
from treefold.discovery.explain import Candidate
from treefold.discovery.observations import UNLIMITED, Evidence, Observation, Test

DEBUG = False

class Refinement:
    def __init__(self, alone, observations, latency_s=None, use_hints=True, budget=60, noise=0.02, seed=0):
        self.ev = Evidence(alone, noise)
        for o in observations: self.ev.add(o)
        self.slack = 2.5 * noise
        self.random = np.random.default_rng(seed)
        self.latency_s = latency_s
        self.caps = self._caps()
        self.groups = []   # list of dict(mask,c,confirmed)
        self.confirmed = []
        self.penalty = np.ones(len(self.ev.pairs))
        if use_hints and latency_s is not None:
            self.groups = [g for g in hints.of_latencies(self.ev, latency_s) if not self._refuted(g)]
        self.budget = budget; self.count = 0
        self.best = None; self.rounds = []; self.stopped = False
        self.order = self.ev.vector(latency_s) if latency_s is not None else -self.ev.alone_Bps

    def _caps(self):
        ev = self.ev; out = []
        for end in (ev.source, ev.target):
            for r in range(ev.ranks):
                m = end == r
                c = (ev.got_Bps @ m).max(initial=0)
                if 0 < c < 0.9 * ev.alone_Bps[m].sum(): out.append(Candidate(m, float(c)))
        return out

    def _refuted(self, g):
        return bool(((self.ev.got_Bps @ g.mask) > (1 + 1.6 * self.slack) * g.capacity_Bps).any())

    def known(self): return self.caps + self.groups

    def _model_plan(self):
        return pl.planned(self.ev, self.ev.alone_Bps * self.penalty, self.known(), self.order)

    def _offer(self, offered, why):
        self.count += 1
        return Test(offered, why)

    def _learn(self, obs):
        ev = self.ev; ev.add(obs)
        self.caps = self._caps()
        kept = []
        for g in self.groups:
            s = float((ev.got_Bps[-1] @ g.mask))
            if s > (1 + 1.6 * self.slack) * g.capacity_Bps: 
                if DEBUG: print("   refuted", sorted(ev.members(g.mask)), g.capacity_Bps, s)
                continue
            if s > (1 + self.slack * .5) * g.capacity_Bps: g = Candidate(g.mask, s / (1 + self.slack*.25))
            kept.append(g)
        self.groups = kept

    def _is_confirmed(self, g):
        return any(np.array_equal(m, g.mask) for m in self.confirmed)

    def _binding(self, plan):
        return [g for g in self.groups if not self._is_confirmed(g) and plan.loads_Bps @ g.mask >= 0.95 * g.capacity_Bps]

    def _bound(self):
        sure = self.caps + [g for g in self.groups if self._is_confirmed(g)]
        return pl.solve(self.ev, self.ev.alone_Bps, sure).rate_Bps

    def _update(self):
        hull, self.vector = mixtures.mixture(self.ev)
        if self.best is None or hull.rate_Bps > self.best.rate_Bps: self.best = hull

    def tests(self):
        ev = self.ev
        self._update()
        is_first = True
        while self.count < self.budget:
            bound = self._bound()
            plan = self._model_plan()
            if is_first and self.best.rate_Bps >= 0.95 * bound:
                plan = pl.planned(self.ev, self.ev.alone_Bps, self.caps, self.order)
            if DEBUG: print(f"{self.count}: bound {bound:.4g} model {plan.rate_Bps:.4g} best {self.best.rate_Bps:.4g} groups {len(self.groups)}")
            carried = self.best.rate_Bps >= 0.95 * plan.rate_Bps
            if not carried or is_first:
                offered = {p: float(x) * (1 - ev.noise) for p, x in zip(ev.pairs, plan.loads_Bps) if x > 1e-3 * plan.loads_Bps.max()}
                obs = yield self._offer(offered, "plan")
                o, g = ev.vector(obs.offered_Bps), ev.vector(obs.got_Bps)
                self._learn(obs)
                used = o > 0
                carried = (g[used] >= (1 - 3.5 * ev.noise) * o[used]).all() and g.sum() >= 0.97 * o.sum()
                if carried and (plan.rate_Bps > self.best.rate_Bps or is_first): self.best = plan
                self._update()
            is_first = False
            if self.best.rate_Bps >= 0.95 * self._bound(): self.stopped = True; return
            if carried:
                binding = self._binding(plan)
                if not binding:
                    if DEBUG: print("   nothing binding")
                    self.stopped = True; return
                refuted = False
                while binding:
                    batch, ends = [], set()
                    for g in binding:
                        e = {r for p in ev.members(g.mask) for r in p}
                        if not batch or not (e & ends): batch.append(g); ends |= e
                    binding = [g for g in binding if not any(g is b for b in batch)]
                    obs = yield self._offer({p: UNLIMITED for g in batch for p in ev.members(g.mask)}, "confirm")
                    self._learn(obs)
                    for g in batch:
                        if any(np.array_equal(g.mask, k.mask) and k.capacity_Bps <= 1.03 * g.capacity_Bps for k in self.groups): self.confirmed.append(g.mask)
                        else: refuted = True
                    if self.count >= self.budget: return
                if not refuted: self.stopped = True; return
                continue
            was_full = ex.full(ev.got_Bps, self.groups, self.slack)
            self.groups = [g for k, g in enumerate(self.groups) if self._is_confirmed(g) or (was_full[:, k] & (ev.short & g.mask).any(axis=1)).sum() >= 3]
            for _ in range(3):
                if self.count >= self.budget: break
                w = np.where(plan.loads_Bps > 1e-3 * plan.loads_Bps.max(), 3.0, 1.0)
                size = min(len(w), round(2.5 * ev.ranks))
                cols = self.random.choice(len(w), size, replace=False, p=w / w.sum())
                obs = yield self._offer({ev.pairs[c]: UNLIMITED for c in cols}, "random")
                self._learn(obs)
            self._update()
            new = ex.explain(ev, self.known(), self.slack)
            new = [g for g in new if not self._refuted(g)]
            if DEBUG: print("   new", [(int(g.mask.sum()), f"{g.capacity_Bps:.3g}") for g in new], "open", ex.unexplained(ev, self.known() + new, self.slack).sum(), "of", ev.short.sum())
            self.groups += new
            if not new:
                o, g = ev.vector(offered), None
                ratio = np.where(ev.offered_Bps[-4] > 0, ev.got_Bps[-4] / np.maximum(ev.offered_Bps[-4], 1e-9), 1)
                worst = int(ratio.argmin())
                self.penalty[worst] *= max(ratio[worst], .5)
