"""Times all-reduces between 4 processes of this machine: treefold over TCP and MPI, gloo, and MPICH.

    python -m bench.loopback [--rounds 3]

The entries take turns for several rounds, and the least time counts, as the machine is never quiet. It needs the Python
environments that bench/wan/rivals/launch.py names.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.wan.rivals import launch
from tools.wan_box import exit_code
from treefold import TreefoldError
from treefold._core import format_size
from treefold.rendezvous.sockets import free_port

RANKS = 4
LOOPBACK = "127.0.0.1"
SIZES = {1 << 10: 300, 64 << 20: 10}
"""The number of iterations for each size."""
TIMEOUT_S = 300
TREEFOLD = Path(sys.executable).with_name("treefold")


def output(command: list[str]) -> str:
    """Return the output of a command.

    Raises:
        TreefoldError: If the command fails.

    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise TreefoldError(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout


def least_time_s(command: list[str], size: int, iterations: int) -> float:
    """Return the least time of `treefold run`, whose command line begins with `command`."""
    [row] = json.loads(output([*command, "--size", str(size), "--iters", str(iterations), "--json"]))
    return float(row["min_time_s"])


def treefold(transport: str, size: int, iterations: int) -> float:
    """Time `treefold run --local`."""
    command = [str(TREEFOLD), "run", "--local", str(RANKS), "--transport", transport]
    return least_time_s(command, size, iterations)


def mpiexec() -> list[str]:
    """Return the command line that starts ranks of a Python with mpi4py."""
    python = Path(launch.python("MPI_PYTHON", ".venv-mpi", "mpi4py mpich numpy"))
    return [str(python.with_name("mpiexec")), "-n", str(RANKS), str(python)]


def treefold_mpi(size: int, iterations: int) -> float:
    """Time `treefold run` under mpiexec."""
    return least_time_s([*mpiexec(), "-m", "treefold", "run"], size, iterations)


def mpich(size: int, iterations: int) -> float:
    """Time MPICH's all-reduce, through shared memory."""
    return float(json.loads(output([*mpiexec(), launch.WORKER, "mpi", str(size), str(iterations), "2"]))["time_s"])


def gloo(size: int, iterations: int) -> float:
    """Time gloo's all-reduce."""
    command = [launch.python("TORCH_PYTHON", ".venv-torch", "torch numpy"), launch.WORKER]
    command += ["gloo", str(size), str(iterations), "2"]
    port = str(free_port(LOOPBACK))
    env = os.environ | {"MASTER_ADDR": LOOPBACK, "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
    env |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen(command, env=env | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    try:
        outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return float(json.loads(outputs[0])["time_s"])


ENTRIES: dict[str, Callable[[int, int], float]] = {
    "treefold, threads": lambda size, iterations: treefold("threads", size, iterations),
    "treefold, TCP": lambda size, iterations: treefold("tcp", size, iterations),
    "treefold, MPI": treefold_mpi,
    "gloo": gloo,
    "MPICH": mpich,
}


def measure(rounds: int) -> dict[str, list[float]]:
    """Return each entry's least time for each size."""
    least = {name: [float("inf")] * len(SIZES) for name in ENTRIES}
    for _ in range(rounds):
        for name, entry in ENTRIES.items():
            print(name, file=sys.stderr)
            times = [entry(size, iterations) for size, iterations in SIZES.items()]
            least[name] = [min(pair) for pair in zip(least[name], times, strict=True)]
    return least


def show(rounds: int) -> int:
    """Measure, and print a table."""
    least = measure(rounds)
    table = Table(
        title=f"all-reduce of {RANKS} processes over loopback, least of {rounds} rounds", title_justify="left"
    )
    table.add_column("")
    for size in SIZES:
        table.add_column(f"{format_size(size)}, ms", justify="right")
        table.add_column("of gloo's", justify="right")
    for name, times in least.items():
        cells = [(f"{own * 1e3:.2f}", f"{own / gloos:.0%}") for own, gloos in zip(times, least["gloo"], strict=True)]
        table.add_row(name, *(cell for pair in cells for cell in pair))
    Console().print(table)
    return 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.loopback", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="How many rounds to run, by default 3.")
    wanted = parser.parse_args()
    return exit_code(lambda: show(wanted.rounds))


if __name__ == "__main__":
    sys.exit(main())
