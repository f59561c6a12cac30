"""The runs that TE-CCL, TACCL and SCCL have published: how long their plans take, and how long solvers took.

TE-CCL (Liu et al., "Rethinking Machine Learning Collective Communication as a Multi-Commodity Flow Problem", SIGCOMM
2024): the 154 runs under `teccl/examples/experiments/output_provided` of github.com/microsoft/TE-CCL at c128bf2 (MIT),
of which finish time and Gurobi's time are written down here. TACCL (Shah et al., NSDI 2023): its runs on two NDv2 in
the same repository; it found no plan for 16 MB. SCCL (Cai et al., PPoPP 2021): points of its Pareto frontier of a
DGX-1, as steps, rounds, and chunks of each rank; those of all-reduces are quoted from memory.
"""

from typing import NamedTuple

SIZES = (*(10**3 * 4**power for power in range(5)), *(10**6 * 4**power for power in range(5)), 10**9)
"""The sizes of all runs, from 1 KB to 1 GB, in decimal bytes: the vector of an all-gather is its whole result."""


def label(size_bytes: int) -> str:
    """Return a size as the published tables write it: 64KB."""
    unit, name = next(
        (unit, name) for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")) if size_bytes >= unit
    )
    return f"{size_bytes / unit:g}{name}"


class Run(NamedTuple):
    """A published run."""

    source: str
    network: str
    collective: str
    mode: str
    """How the solver was set: TE-CCL's epochs last as long as a chunk on the fastest link or on the slowest one."""
    size_bytes: int
    time_s: float
    solver_s: float | None
    """The seconds that the solver took; None where they are not published with the run."""


class Point(NamedTuple):
    """A point of SCCL's frontier on a DGX-1."""

    collective: str
    steps: int
    rounds: int
    chunks: int
    """The chunks of each rank."""

    def time_s(self, size_bytes: int) -> float:
        """Return what SCCL's model says: each step has a latency, and each round takes a chunk over one NVLink."""
        return self.steps * 0.7e-6 + self.rounds / self.chunks * size_bytes / 8 / 25e9


POINTS = (
    Point("all-gather", 2, 3, 2),
    Point("all-gather", 3, 7, 6),
    Point("all-reduce", 4, 6, 2),
    Point("all-reduce", 6, 14, 6),
)
"""The all-reduces are (C, S, R) = (16, 4, 6) and (48, 6, 14) in SCCL's table, which counts chunks of all ranks."""


class _Runs(NamedTuple):
    """The runs of all sizes, in their order; a dash stands where no plan was found."""

    times_us: str
    solver_s: str

    def of_sizes(self) -> list[tuple[int, float, float]]:
        """Return size, seconds and the solver's seconds of each run."""
        columns = zip(SIZES, self.times_us.split(), self.solver_s.split(), strict=True)
        return [(size, float(time) / 1e6, float(solver)) for size, time, solver in columns if time != "-"]


_TACCL = _Runs(
    "10.15875 11.85 12.68 13.08 25.26 62.15 216.5 - 3133.2 12494.6 53766.7",
    "3.017 4.298 6.336 3.665 11.17 62.65 8.367 - 8.269 6.557 7.011",
)
_TECCL = {
    ("ndv2x2", "all-gather", "fast"): _Runs(
        "4.137 4.185 4.44 6.08 14.72 48.75 190 700 2800 11200 43750",
        "573.8 773 184 68.86 39.52 47.01 40.53 44.7 43.39 33.86 43.42",
    ),
    ("ndv2x2", "all-gather", "fast early stop"): _Runs(
        "4.137 4.205 4.52 6.72 17.92 70 210 800 3200 12800 50000",
        "556.8 407.9 96.37 26.16 17.99 24.01 22.89 22.1 22.05 11.21 22.27",
    ),
    ("ndv2x2", "all-gather", "slow"): _Runs(
        "4.135 4.24 4.8 7.68 19.2 70 200 800 3200 12800 50000",
        "624.3 118.6 32.23 9.002 6.897 5.362 4.478 4.511 4.495 4.704 4.58",
    ),
    ("ndv2x2", "all-to-all", "fast"): _Runs(
        "4.2385 4.6 7.94 21.68 77.12 290 1155 4540 18160 72640 283750",
        "652.8 1450 1393 1476 1507 1515 1529 1507 1538 1532 1482",
    ),
    ("ndv2x2", "all-to-all", "fast early stop"): _Runs(
        "4.2385 4.6 7.94 21.68 77.12 290 1155 4540 18160 72640 283750",
        "662.6 1373 1390 1486 1525 1487 1520 1508 1498 1509 1487",
    ),
    ("ndv2x2", "all-to-all", "slow"): _Runs(
        "4.24 4.66 8.24 23.36 81.92 315 1180 4720 18880 75520 295000",
        "482.3 477 479.4 462.2 472.9 476.9 491.3 476.4 498.2 465.3 471",
    ),
    ("ndv2x4", "all-gather", "fast"): _Runs(
        "5.4495 5.516 5.81 8.32 20.96 69.375 317.5 1170 4240 16960 66250",
        "7560 9039 3031 2273 17240 9510 17070 26550 30850 30870 30850",
    ),
    ("ndv2x4", "all-gather", "fast early stop"): _Runs(
        "5.46 8.827 5.82 8.32 25.6 79.375 352.5 1290 5600 22400 87500",
        "3244 3304 1438 571.3 1873 1694 7356 7357 7356 7355 7356",
    ),
    ("ndv2x4", "all-gather", "slow"): _Runs(
        "5.4495 5.53 6.04 9.12 23.04 75 280 1040 4160 16640 65000",
        "7562 1800 458.6 227.8 187.3 142.2 208 237 216.1 220.6 221.5",
    ),
    ("dgx2x2", "all-gather", "fast"): _Runs(
        "4.006 4.032 4.084 4.32 5.376 10.75 33 124 496 1984 7750",
        "18420 3038 2923 634 170.4 8181 1137 1262 279.5 2694 2700",
    ),
    ("dgx2x2", "all-gather", "fast early stop"): _Runs(
        "4.012 4.056 4.264 4.64 7.936 19.5 66 344 1376 5504 21500",
        "1388 328.4 345.9 102.5 1172 576.9 81.81 1703 6421 6410 6394",
    ),
    ("dgx2x2", "all-gather", "slow"): _Runs(
        "4.015 4.03 4.16 5.12 7.68 22.5 40 160 640 2560 10000",
        "1504 1073 179.9 67.97 23.48 19.45 12.14 11.98 11.7 11.69 11.79",
    ),
    ("dgx2x2", "all-to-all", "fast"): _Runs(
        "4.06 4.21 4.704 8.464 24 84.25 327 1292 5168 20608 80500",
        "1338 1014 1307 1206 1169 1204 1221 1465 1448 1413 1590",
    ),
    ("dgx2x2", "all-to-all", "slow"): _Runs(
        "4.06 4.21 4.88 9.12 26.24 95 350 1360 5440 21760 85000",
        "1333 957.7 1233 828.8 658.2 504.6 600.2 605.7 604.4 593.4 600.5",
    ),
}
"""The runs of TE-CCL by network, collective and mode."""

_DOUBLE = ("dgx2x2", "all-gather", "fast early stop")
"""These runs cut their vector into 16 chunks for 32 GPUs, so that it is twice as long as their label says."""


def runs() -> list[Run]:
    """Return all runs."""
    known = [("TE-CCL", *key, each) for key, each in _TECCL.items()]
    every = [*known, ("TACCL", "ndv2x2", "all-gather", "taccl", _TACCL)]
    return [
        Run(source, network, collective, mode, size * (2 if (network, collective, mode) == _DOUBLE else 1), *times)
        for source, network, collective, mode, each in every
        for size, *times in each.of_sizes()
    ]
