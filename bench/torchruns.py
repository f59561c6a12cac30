"""Counts how torchruns of a small DDP training end, over treefold and over gloo, with several at once as load.

    python -m bench.torchruns [--runs 200] [--at-once 3]

The two backends take turns; every other run of each ends without destroy_process_group. Each run prints a line and is
added to a file, with its last output if it failed; the script resumes from that file. It needs a Python with torch
(`TORCH_PYTHON`, else .venv-torch).
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BACKENDS = ("treefold", "gloo")
RANKS, STEPS = 2, 40
TIMEOUT_S, END_S = 900.0, 60.0
TAIL_LINES = 40
TOLERANCE = 1e-5
"""How far apart losses may be, as sums in another order round differently."""


def leaves(number: int) -> bool:
    """Tell whether the ranks of a run end without destroy_process_group."""
    return number % 2 == 1


def train(backend: str, leave: bool) -> None:
    """Train as one rank; rank 0 prints the losses as JSON."""
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    dist.init_process_group(backend)
    torch.manual_seed(7)
    layers = nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.05)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        data = torch.randn(32, 64)
        loss = nn.functional.mse_loss(model(data), data[:, :3].sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    dist.all_reduce(mean := torch.stack(losses), dist.ReduceOp.AVG)
    if dist.get_rank() == 0:
        print(json.dumps({"losses": mean.tolist()}), flush=True)
    if not leave:
        dist.destroy_process_group()


def run(backend: str, number: int) -> dict[str, Any]:
    """Train once under torchrun, and return how it ended."""
    from bench.wan.rivals.launch import python

    torchrun = Path(python("TORCH_PYTHON", ".venv-torch", "torch numpy")).with_name("torchrun")
    command = [str(torchrun), "--standalone", "--nproc-per-node", str(RANKS), str(Path(__file__).resolve())]
    command += ["--rank-of", backend, *(["--leave"] if leaves(number) else [])]
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TREEFOLD_TOPOLOGY": f"full:{RANKS}"}
    begun = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        code = _end_of(process)
        log.seek(0)
        output = log.read().decode(errors="replace")
    outcome = {"backend": backend, "number": number, "wall_s": time.monotonic() - begun}
    losses = re.search(r'^\{"losses": .*\}$', output, re.MULTILINE)
    outcome |= json.loads(losses[0]) if losses else {"losses": []}
    outcome["end"] = _kind(code, output, outcome["losses"])
    return outcome if outcome["end"] == "well" else outcome | {"tail": output.splitlines()[-TAIL_LINES:]}


def _end_of(process: "subprocess.Popen[bytes]") -> int | None:
    """Return torchrun's exit code; None if it took too long and was ended, with its workers."""
    try:
        return process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # makes torchrun end its workers, which have their own sessions
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
        process.wait()
        return None


def _kind(code: int | None, output: str, losses: list[float]) -> str:
    """Describe in a few words how a run ended."""
    if code is None:
        return f"hung for {TIMEOUT_S:.0f} s"
    if code == 0:
        return "well" if len(losses) == STEPS else "no losses"
    workers = re.findall(r"exitcode\s*: (-?\d+)", output) or [f"{code} of torchrun"]
    reasons = re.findall(r"^.*(?:terminate called.*|Error: .*)$", output, re.MULTILINE)
    reason = re.sub(r"\[.*?\]|\d+", "", reasons[0]).strip()[:100] if reasons else "no message"
    return f"exit code {workers[0]}, losses {'printed' if losses else 'missing'}: {reason}"


def measure(runs: int, at_once: int, file: Path) -> list[dict[str, Any]]:
    """Do the runs that the file does not hold yet, and return all runs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    held = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    outcomes = [each for each in held if each["number"] < runs]
    done = {(each["backend"], each["number"]) for each in outcomes}
    lock = threading.Lock()

    def one(backend: str, number: int) -> None:
        outcome = run(backend, number)
        with lock, file.open("a") as lines:
            outcomes.append(outcome)
            lines.write(json.dumps(outcome) + "\n")
            print(f"{backend} {number + 1}: {outcome['end']} ({outcome['wall_s']:.0f} s)", flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        turns = [(backend, number) for number in range(runs) for backend in BACKENDS]
        list(pool.map(lambda turn: one(*turn), [turn for turn in turns if turn not in done]))
    return outcomes


def report(outcomes: list[dict[str, Any]]) -> None:
    """Print how the runs of each backend ended, and how far apart the losses are."""
    from rich.console import Console
    from rich.table import Table

    columns = [(backend, left) for left in (False, True) for backend in BACKENDS]
    heads = [f"{backend}, {'left' if left else 'destroyed'}" for backend, left in columns]
    table = Table("end", *heads, title=f"ends of torchruns of {RANKS} ranks, {STEPS} steps", title_justify="left")
    ends = Counter((each["end"], each["backend"], leaves(each["number"])) for each in outcomes)
    for end in sorted({end for end, *_ in ends}, key=lambda end: (end != "well", end)):
        table.add_row(end, *(str(ends[(end, *column)]) for column in columns))
    Console(width=160).print(table)
    full = [each["losses"] for each in outcomes if len(each["losses"]) == STEPS]
    apart = max((abs(a - b) for losses in full for a, b in zip(losses, full[0], strict=True)), default=0.0)
    print(f"losses of {len(full)} runs differ by {apart:.1e} at most: {'alike' if apart < TOLERANCE else 'NOT ALIKE'}")


def main() -> int:
    """Do and count the runs, or train as a rank."""
    parser = argparse.ArgumentParser(prog="python -m bench.torchruns", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="How many runs of each backend to do, by default 200.")
    parser.add_argument("--at-once", type=int, default=3, help="How many runs at the same time, by default 3.")
    parser.add_argument(
        "--results", type=Path, default=HERE.parent / "target" / "torchruns.jsonl", help="The file of runs."
    )
    parser.add_argument("--rank-of", metavar="BACKEND", help=argparse.SUPPRESS)
    parser.add_argument("--leave", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.rank_of:
        train(wanted.rank_of, wanted.leave)
        return 0
    from tools.wan_box import exit_code

    def show() -> int:
        report(measure(wanted.runs, wanted.at_once, wanted.results))
        return 0

    return exit_code(show)


if __name__ == "__main__":
    sys.exit(main())
