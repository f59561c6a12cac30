"""DiLoCo over four sites with torchft: one site is killed in the middle of a step, the others go on, and it comes back.

`python examples/04_across_sites.py` trains over loopback, with treefold[torchft] installed. From a clone of the
repository and as root, `python examples/04_across_sites.py --box` makes the network between the sites real: a WAN in a
box, with its rates and delays (`tools/wan_box`). Both print the same.
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

NETWORK = """source,target,bandwidth,latency_ms
oslo,paris,100Mbit/s,9
oslo,rome,40Mbit/s,18
oslo,turin,60Mbit/s,15
paris,rome,80Mbit/s,10
paris,turin,100Mbit/s,6
rome,turin,100Mbit/s,5
"""
SITES = ["oslo", "paris", "rome", "turin"]
LOST = "rome"
WIDTH, SYNC_EVERY, PORT = 256, 4, 29510
PATIENCE_S = 240


def serve() -> None:
    """Be the lighthouse: it tells the sites who is in each quorum."""
    from torchft.coordination import LighthouseServer

    times = {"join_timeout_ms": 20_000, "heartbeat_timeout_ms": 2000, "quorum_tick_ms": 50}
    lighthouse = LighthouseServer(bind=f"[::]:{PORT}", min_replicas=2, **times)
    print(json.dumps({"address": lighthouse.address()}), flush=True)
    signal.pause()


def train(site: str, address: str, lighthouse: str, network: str) -> None:
    """Train at a site, until a step that comes on standard input; a line of JSON tells of each step."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torchft.local_sgd import DiLoCo

    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))
    teacher = torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    torch.manual_seed(100 + SITES.index(site))  # each site has data of its own
    inner = torch.optim.AdamW(model.parameters(), 1e-3)
    outer = torch.optim.SGD(model.parameters(), 0.7, momentum=0.5, nesterov=True)
    store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False)
    group, manager = managed(site, store, lighthouse, network, {"model": model, "inner": inner})
    orders = obeyed(manager)
    with DiLoCo(manager, [model], inner, outer, SYNC_EVERY):
        while manager.current_step() < orders["last"]:
            for _ in range(SYNC_EVERY):
                given = torch.randn(32, WIDTH)
                loss = nn.functional.mse_loss(model(given), torch.relu(given @ teacher))
                inner.zero_grad()
                loss.backward()
                inner.step()
            told = {"step": manager.current_step(), "sites": manager.num_participants(), "loss": loss.item()}
            print(json.dumps(told), flush=True)
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    status = group.status()
    print(json.dumps({"weights": hashlib.sha256(weights).hexdigest(), "planned": not status.reason}), flush=True)
    manager.shutdown(wait=False)
    group.shutdown()


def managed(site: str, store: Any, lighthouse: str, network: str, parts: dict[str, Any]) -> tuple[Any, Any]:
    """Return treefold's process group, and the manager of torchft that uses it."""
    import torchft
    from torchft.checkpointing.http_transport import HTTPTransport

    import treefold.torch
    import treefold.torchft

    class Transport(HTTPTransport):
        """Tell others this site's address: the names of machines are not known in a box."""

        def metadata(self) -> str:
            return super().metadata().replace(socket.gethostname(), store.host)

    timeout = timedelta(seconds=30)
    group = treefold.torchft.ProcessGroupTreefold(timeout, treefold.torch.Options(topology=network))
    manager = torchft.Manager(
        group,
        lambda state: [parts[name].load_state_dict(state[name]) for name in parts],
        lambda: {name: part.state_dict() for name, part in parts.items()},
        min_replica_size=2,
        use_async_quorum=False,
        timeout=timeout,
        rank=0,
        world_size=1,
        store_addr=store.host,
        store_port=store.port,
        hostname=store.host,
        lighthouse_addr=lighthouse,
        replica_id=site,  # the name of a node of the network
        checkpoint_transport=Transport(timeout=timeout, num_chunks=0),
    )
    return group, manager


def obeyed(manager: Any) -> dict[str, Any]:
    """Return the orders from standard input; one to die is followed in the middle of a step, with a sum under way."""
    orders, reduce = {"last": 1 << 30, "dies": False}, manager.allreduce
    threading.Thread(target=lambda: [orders.update(json.loads(line)) for line in sys.stdin], daemon=True).start()

    def all_reduce(*arguments: Any, **options: Any) -> Any:
        work = reduce(*arguments, **options)
        if orders["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return work

    manager.allreduce = all_reduce
    return orders


class Process:
    """A process of this script, and what it has told."""

    def __init__(self, popen: Callable[..., subprocess.Popen[str]], *arguments: str) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.told: list[dict[str, Any]] = []
        self.process = popen(command, **pipes)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            with contextlib.suppress(json.JSONDecodeError):
                self.told.append(json.loads(line))

    def last(self, key: str) -> Any:
        """Return what the process has told last under a key."""
        return next((each[key] for each in reversed(self.told) if key in each), None)

    def order(self, **orders: Any) -> None:
        """Tell the process what to do."""
        assert self.process.stdin is not None
        print(json.dumps(orders), file=self.process.stdin, flush=True)


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing has happened for {PATIENCE_S} s")
        time.sleep(0.05)


Places = Callable[[str], tuple[str, Callable[..., subprocess.Popen[str]]]]
"""A function that returns a site's address, and what starts a process there."""


@contextlib.contextmanager
def loopback(_: str) -> Iterator[Places]:
    """Let all sites be on this machine."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    yield lambda site: ("127.0.0.1", subprocess.Popen)


@contextlib.contextmanager
def boxed(network: str) -> Iterator[Places]:
    """Build a WAN in a box, with a network namespace for each site."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tools import wan_box

    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TREEFOLD_INTERFACE"] = wan_box.DEVICE
    with wan_box.up(network, "sites") as box:
        yield lambda site: (box.address(site), lambda command, **pipes: box.popen(site, command, **pipes))


def main(places: Places, network: str) -> None:
    """Start the sites, kill one, start it again, and compare what all have in the end."""
    running: list[Process] = []

    def start(site: str) -> Process:
        address, popen = places(site)
        running.append(Process(popen, "--site", site, address, f"http://{places(SITES[0])[0]}:{PORT}", network))
        return running[-1]

    try:
        lighthouse = Process(places(SITES[0])[1], "--lighthouse")
        running.append(lighthouse)
        until(lambda: lighthouse.last("address"))
        sites = {site: start(site) for site in SITES}
        until(lambda: all(each.last("sites") == 4 for each in sites.values()))
        print("four sites train")
        first = sites["oslo"].told[0]["loss"]
        sites[LOST].order(dies=True)
        sites[LOST].process.wait(PATIENCE_S)
        print(f"{LOST} is killed in the middle of a step")
        until(lambda: all(each.last("sites") == 3 for site, each in sites.items() if site != LOST))
        print("three sites go on")
        sites[LOST] = start(LOST)
        until(lambda: all(each.last("sites") == 4 for each in sites.values()))
        print(f"{LOST} is back: four sites train")
        last = max(each.last("step") for each in sites.values()) + 20
        for each in sites.values():
            each.order(last=last)
        until(lambda: all(each.last("weights") for each in sites.values()))
        weights = {each.last("weights") for each in sites.values()}
        print(f"all have the same weights: {'yes' if len(weights) == 1 else 'NO'}")
        print(f"by a plan: {'yes' if all(each.last('planned') for each in sites.values()) else 'NO'}")
        print(f"the loss is less than half: {'yes' if sites['oslo'].last('loss') < first / 2 else 'NO'}")
    finally:
        for each in running:
            each.process.kill()
            each.process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--box", action="store_true", help="Train over a WAN in a box; needs root.")
    parser.add_argument("--lighthouse", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--site", nargs=4, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.lighthouse:
        serve()
    elif wanted.site:
        train(*wanted.site)
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "sites.csv"
            file.write_text(NETWORK)
            with (boxed if wanted.box else loopback)(str(file)) as found:
                main(found, str(file))
