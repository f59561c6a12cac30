"""Delays packets by the kernel's netem, or on kernels without it by a process that holds what arrives.

With NFQUEUE a delay begins on arrival: a packet has then got through the sender's rate, as on a real wire. Where cables
lose frames, it also cuts packets into frames, and those of cables without latency go through a queue, too.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tools.wan_box import state as states
from tools.wan_box import system
from tools.wan_box.delay_process import QueueSpec
from tools.wan_box.names import device
from tools.wan_box.network import Pair
from tools.wan_box.shaping import shape
from tools.wan_box.state import State
from treefold import TreefoldError

_PROCESS = Path(__file__).with_name("delay_process.py")


def set_delays(state: State, means: str) -> None:
    """Delay what crosses the cables: by `netem` or by `nfqueue`."""
    state.delays = means
    if means == "netem":
        for pair in state.network.directions:
            shape(state, pair)
        return
    system.require("iptables-legacy-restore")
    delayed, queues = _queues(state)
    state.delay_process = _start(queues)
    states.save(state)
    _queue_arrivals(queues, [device(a) for a, _ in delayed])


def change_delays(state: State, pairs: list[Pair]) -> None:
    """Delay what crosses these cables as the network says now, while traffic flows; a few packets may be lost."""
    if state.delays == "netem":
        for pair in pairs:
            shape(state, pair)
    elif state.delay_process:
        system.end(state.delay_process)
        state.delay_process = _start(_queues(state)[1])


def _queues(state: State) -> tuple[list[Pair], list[QueueSpec]]:
    """Return the cables that delay packets, and the queue of each."""
    cuts = state.loss is not None
    directions = state.network.directions.items()
    delayed = {pair: direction.latency_s for pair, direction in directions if direction.latency_s or cuts}
    queues = [
        QueueSpec(state.namespace(b), number, latency_s, cuts)
        for number, ((_, b), latency_s) in enumerate(delayed.items())
    ]
    return list(delayed), queues


def _start(queues: list[QueueSpec]) -> system.ProcessIdentity:
    """Start the process that delays what its queues are given; return it once it is ready."""
    with tempfile.TemporaryFile() as log:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, str(_PROCESS)], stdin=pipe, stdout=pipe, stderr=log, text=True, start_new_session=True
        )
        try:
            assert process.stdin and process.stdout
            with process.stdin, process.stdout:
                process.stdin.write(json.dumps([asdict(queue) for queue in queues]))
                process.stdin.close()
                ready = process.stdout.readline()
        except BaseException:
            process.kill()
            raise
        if ready != "ready\n":
            log.seek(0)
            complaint = log.read().decode().strip().rpartition("\n")[2]
            raise TreefoldError(f"the process that delays packets did not start: {complaint}")
    return system.identity(process.pid)


def _queue_arrivals(queues: list[QueueSpec], devices: list[str]) -> None:
    """Send what arrives at devices to the delay process. It must run: a rule without a listener drops everything."""
    rules: dict[str, list[str]] = {}
    for queue, arriving in zip(queues, devices, strict=True):
        rule = f"-A PREROUTING -i {arriving} -j NFQUEUE --queue-num {queue.number}"
        rules.setdefault(queue.namespace, []).append(rule)
    for namespace, lines in rules.items():
        text = "\n".join(["*mangle", *lines, "COMMIT\n"])
        system.run_inside(namespace, "iptables-legacy-restore", "-w", "-n", stdin=text)
