"""Times a rival's all-reduce on a box and prints one JSON line.

    python -m bench.wan.rivals.launch gloo|gloo-best|mpi NETWORK [--size 64MiB] [--iterations 3]

gloo needs a Python with torch (`TORCH_PYTHON`, else .venv-torch); MPI needs a Python with mpi4py and mpich
(`MPI_PYTHON`, else .venv-mpi).
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.wan.rivals import ring
from tools import wan_box
from tools.wan_box import DEVICE, Box
from treefold import TreefoldError
from treefold._core import parse_size

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]
WORKER = str(HERE / "worker.py")
TIMEOUT_S = 900.0
WARM_UPS = 1


def python(variable: str, environment: str, packages: str) -> str:
    """Return the path of Python in an optional environment; the error says how to make the environment."""
    path = Path(os.environ.get(variable) or CHECKOUT / environment / "bin" / "python")
    if not path.exists():
        install = f"`uv venv {environment} && uv pip install --python {environment} {packages}`"
        raise TreefoldError(f"{path} does not exist; make it with {install}, or set {variable}")
    return str(path)


def torch(
    box: Box,
    backend: str,
    size_bytes: int,
    iterations: int,
    order: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    buckets: int = 1,
) -> dict[str, Any]:
    """Time a backend of torch.distributed, or treefold's runtime, with ranks in the topology's order or in `order`."""
    own = backend == "runtime"
    command = [sys.executable if own else python("TORCH_PYTHON", ".venv-torch", "torch numpy"), WORKER, backend]
    numbers = map(str, (size_bytes, iterations, WARM_UPS, buckets))
    outcomes = box.run_all([*command, *numbers], {"OMP_NUM_THREADS": "1", **(env or {})}, TIMEOUT_S, order)
    return {"order": list(order or box.workers), **json.loads(outcomes[0].stdout)}


def gloo_best(box: Box, size_bytes: int, iterations: int, buckets: int = 1) -> dict[str, Any]:
    """Time gloo with ranks in the order of the fastest ring."""
    order, predicted_s = ring.best_order(box.network, size_bytes)
    return {**torch(box, "gloo", size_bytes, iterations, order, buckets=buckets), "predicted_s": predicted_s}


def gloo(box: Box, size_bytes: int, iterations: int, buckets: int = 1) -> dict[str, Any]:
    """Time gloo in rank order."""
    timed = torch(box, "gloo", size_bytes, iterations, buckets=buckets)
    return {**timed, "predicted_s": ring.rank_order_s(box.network, size_bytes)}


def mpi(box: Box, size_bytes: int, iterations: int, buckets: int = 1) -> dict[str, Any]:
    """Time MPICH. Its launcher runs at rank 0 and uses the box's links, too, but sends little."""
    interpreter = python("MPI_PYTHON", ".venv-mpi", "mpi4py mpich numpy")
    hosts = ",".join(map(box.address, box.workers))
    launcher = ["-launcher", "ssh", "-launcher-exec", str(HERE / "enter"), "-hosts", hosts, "-ppn", "1"]
    program = [interpreter, WORKER, "mpi", *map(str, (size_bytes, iterations, WARM_UPS, buckets))]
    command = [str(Path(interpreter).with_name("mpiexec")), *launcher, "-iface", DEVICE, *program]
    engine = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": DEVICE}
    engine["TREEFOLD_BOX"] = box.state.name
    process = box.popen(box.workers[0], command, engine, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise TreefoldError(f"MPI was not done within {TIMEOUT_S:.0f} s") from None
    finally:
        box.end([process])
    if process.returncode:
        raise TreefoldError(f"MPI failed: {(errors or output).strip()[-2000:]}")
    return dict(json.loads(output.strip().splitlines()[-1]))


RIVALS: dict[str, Callable[..., dict[str, Any]]] = {
    "gloo": gloo,
    "gloo-best": gloo_best,
    "mpi": mpi,
}


def main() -> int:
    """Read the command line, and time one rival on a box."""
    parser = argparse.ArgumentParser(prog="python -m bench.wan.rivals.launch", description=__doc__.partition("\n")[0])
    parser.add_argument("rival", choices=RIVALS, help="The rival to time.")
    parser.add_argument("topology", help="A topology file or a spec.")
    parser.add_argument("--size", default="64MiB", help="The size of the vector, by default 64MiB.")
    parser.add_argument(
        "--iterations", type=int, default=3, help="How often it is timed after a warm-up, by default 3."
    )
    wanted = parser.parse_args()
    return wan_box.exit_code(lambda: launch(wanted))


def launch(wanted: argparse.Namespace) -> int:
    """Time a rival on a new box, and print the result."""
    size = parse_size(wanted.size)
    with wan_box.up(wanted.topology, "rival") as box:
        result = RIVALS[wanted.rival](box, size, wanted.iterations)
        control = box.state.congestion_control
    print(json.dumps({"rival": wanted.rival, "size_bytes": size, **result, "congestion_control": control}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
