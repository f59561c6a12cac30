"""Trains a small language model with DDP on a WAN in a box, over gloo and over treefold: time per step, and the losses.

    python -m bench.wan.train_ddp [NETWORK] [--steps 10]
    python -m bench.wan.train_ddp bench/wan/topologies/three-far.json --wire int8 --tls    # fewer bytes, encrypted

The training script (`train`, below) is the same for both; only the name of the backend differs. With `--wire` gradients
cross lines in that type, with error feedback; with `--tls` each worker has a certificate (gloo has neither). It needs
root for the box, and a Python with torch (`TORCH_PYTHON`, else .venv-torch). TRAIN_TEXT may name another file to learn
from.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 900.0
BATCH, LENGTH, WIDTH, LAYERS = 4, 64, 192, 3


def batches(rank: int, steps: int) -> Any:
    """Return random pieces of text as bytes of shape (steps, BATCH, LENGTH + 1); every rank gets others."""
    import torch

    path = os.environ.get("TRAIN_TEXT") or HERE.parents[1] / "LICENSE"
    text = torch.tensor(list(Path(path).read_bytes()))
    chosen = torch.Generator().manual_seed(1000 + rank)
    starts = torch.randint(0, len(text) - LENGTH - 1, (steps, BATCH, 1), generator=chosen)
    return text[starts + torch.arange(LENGTH + 1)]


def make_model() -> Any:
    """Return a causal transformer over bytes with about 1.5 million parameters."""
    from torch import nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.place = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, 6, 4 * WIDTH, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, LAYERS)
            self.out = nn.Linear(WIDTH, 256)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

        def forward(self, letters: Any) -> Any:
            state = self.embed(letters) + self.place.weight
            return self.out(self.layers(state, mask=self.mask, is_causal=True))

    return Model()


def train(backend: str, steps: int) -> None:
    """Train as one rank; rank 0 prints the results as JSON."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    if backend == "treefold":
        import treefold.torch  # noqa: F401  (torch 2.15 finds the backend without it)
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    torch.manual_seed(7)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    times, losses = [], []
    for letters in batches(dist.get_rank(), steps):
        start = time.perf_counter()
        loss = cross_entropy(model(letters[:, :-1]).flatten(0, 1), letters[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.detach())
    dist.all_reduce(mean := torch.stack(losses), dist.ReduceOp.AVG)
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    sums = [torch.empty(2, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, torch.stack([weights.double().sum(), weights.double().square().sum()]))
    if dist.get_rank() == 0:
        alike = all(each.equal(sums[0]) for each in sums)
        result = {
            "parameters": weights.numel(),
            "same_weights": alike,
            "weights": sums[0].tolist(),
            "version": torch.__version__,
        }
        print(json.dumps({**result, "step_s": times, "losses": mean.tolist()}), flush=True)
    dist.destroy_process_group()


def compare(topology: str, steps: int, wire: str | None, has_tls: bool) -> dict[str, Any]:
    """Train over each backend on one box, and return the results."""
    from bench.wan.rivals import launch
    from tools import wan_box
    from treefold import certificates

    script = [launch.python("TORCH_PYTHON", ".venv-torch", "torch numpy"), str(Path(__file__).resolve()), "--rank-of"]
    source = str(Path(topology).resolve()) if Path(topology).exists() else topology
    results: dict[str, Any] = {}
    with wan_box.up(topology, "train") as box, tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) if has_tls else None
        if keys is not None:
            certificates.make(box.workers, keys)
        for backend in ("gloo", "treefold"):
            environment = {"OMP_NUM_THREADS": "1", "TREEFOLD_TOPOLOGY": source}
            if wire is not None:
                environment |= {"TREEFOLD_WIRE": wire, "TREEFOLD_ERROR_FEEDBACK": "yes"}
            command = [*script, backend, "--steps", str(steps)]
            outcomes = box.run_all(command, environment, TIMEOUT_S, keys=keys)
            results[backend] = json.loads(outcomes[0].stdout.strip().splitlines()[-1])
    return results


def report(results: dict[str, Any]) -> None:
    """Print the losses side by side, and the time per step."""
    gloo, ours = results["gloo"], results["treefold"]
    print(f"{gloo['parameters'] * 4 / 1e6:.1f} MB of gradients a step, torch {gloo['version']}")
    print("step   loss, gloo  loss, treefold")
    for step, pair in enumerate(zip(gloo["losses"], ours["losses"], strict=True)):
        print(f"{step:4}   {pair[0]:10.6f}  {pair[1]:14.6f}")
    difference = max(abs(a - b) for a, b in zip(gloo["losses"], ours["losses"], strict=True))
    agree = gloo["same_weights"] and ours["same_weights"]
    print(f"largest difference {difference:.1e}; after each run the ranks' weights agree: {'yes' if agree else 'NO'}")
    middle = {name: statistics.median(each["step_s"][1:]) for name, each in results.items()}
    print(f"time per step (median): gloo {middle['gloo']:.2f} s, treefold {middle['treefold']:.2f} s", end="")
    print(f", {middle['gloo'] / middle['treefold']:.1f} times as fast")


def main() -> int:
    """Compare the two backends, or train as a rank."""
    parser = argparse.ArgumentParser(prog="python -m bench.wan.train_ddp", description=__doc__.partition("\n")[0])
    parser.add_argument("topology", nargs="?", default=str(HERE / "topologies" / "six-dense.json"))
    parser.add_argument("--steps", type=int, default=10, help="How many steps to train, by default 10.")
    parser.add_argument("--wire", help="The type in which treefold's gradients cross lines, for example int8.")
    parser.add_argument("--tls", action="store_true", help="Encrypt what treefold sends.")
    parser.add_argument("--rank-of", metavar="BACKEND", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.rank_of:
        train(wanted.rank_of, wanted.steps)
        return 0
    from treefold import TreefoldError

    try:
        report(compare(wanted.topology, wanted.steps, wanted.wire, wanted.tls))
    except TreefoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
