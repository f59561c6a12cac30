"""How a box speaks to the machine: iproute2, sysctls, the delay process, and the file that remembers what was made."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from treefold import TreefoldError

DELAY = Path(__file__).with_name("delay.py")
PACKET_BYTES = 1514
QUEUE_S = 0.05
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "iptables-legacy-restore": "iptables"}
BURST_BYTES = 28 << 10
"""The longest packet that a kernel hands to a cable. TBF cuts what exceeds its bucket into frames and wakes up for each
of them, which costs more processor time than all else on a box; a real cable's driver cuts for nothing."""
SETTINGS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    # Else a connection starts with what an earlier one to the same address found, cut or slow links included.
    "net/ipv4/tcp_no_metrics_save": "1",
}


def require(*programs: str) -> None:
    """Refuse to start without root or a program that the box needs; say what to do."""
    if os.geteuid() != 0:
        raise TreefoldError("a WAN in a box makes network namespaces: run it as root")
    for program in programs:
        if not shutil.which(program):
            package = PACKAGES[program]
            raise TreefoldError(f"{program} is not installed: install it, on Debian with `apt-get install {package}`")


def run(*arguments: str, stdin: str = "") -> str:
    """Run a program; its complaint becomes the error."""
    done = subprocess.run(arguments, input=stdin, capture_output=True, text=True)
    if done.returncode:
        complaint = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise TreefoldError(f"`{' '.join(arguments)}` failed: {complaint}")
    return done.stdout


def ip(lines: Iterable[str], namespace: str | None = None) -> None:
    """Run many `ip` commands at once."""
    run("ip", *(("-n", namespace) if namespace else ()), "-batch", "-", stdin="\n".join(lines) + "\n")


def tc(lines: Iterable[str], namespace: str) -> None:
    """Run many `tc` commands at once."""
    run("tc", "-n", namespace, "-batch", "-", stdin="\n".join(lines) + "\n")


def configure(namespace: str, settings: dict[str, str]) -> None:
    """Write sysctls of a namespace; those that this kernel lacks are left out."""
    writes = (f"[ ! -e /proc/sys/{path} ] || echo {value} > /proc/sys/{path}" for path, value in settings.items())
    script = "; ".join(writes)
    run("ip", "netns", "exec", namespace, "sh", "-c", script)


def accepts(namespace: str, tool: str, command: str) -> bool:
    """Tell whether the kernel accepts an `ip` or `tc` command."""
    return subprocess.run([tool, "-n", namespace, *command.split()], capture_output=True).returncode == 0


def abilities(namespace: str) -> dict[str, str]:
    """Try in a namespace of ours what this kernel has: the device that holds an address, and what delays packets."""
    kinds = [kind for kind in ("bridge", "dummy") if accepts(namespace, "ip", f"link add try-{kind} type {kind}")]
    if not kinds:
        raise TreefoldError("this kernel has neither bridge nor dummy devices: nothing can hold a node's address")
    netem = accepts(namespace, "tc", f"qdisc add dev try-{kinds[0]} root netem delay 1ms")
    for kind in kinds:
        run("ip", "-n", namespace, "link", "del", f"try-{kind}")
    return {"device": kinds[0], "delays": "netem" if netem else "nfqueue"}


def congestion_control(namespace: str, wanted: str | None) -> str:
    """Set TCP's congestion control of a namespace to what was asked for, or to what the machine uses; return it."""
    path = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    name = wanted or path.read_text().strip()
    try:
        run("ip", "netns", "exec", namespace, "sh", "-c", f"echo {name} > {path}")
    except TreefoldError:
        # The kernel lets a namespace keep any, but choose only among the allowed ones.
        found = run("ip", "netns", "exec", namespace, "cat", str(path)).strip()
        if wanted not in (None, found):
            allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().strip()
            raise TreefoldError(f"congestion control {name!r} cannot be set: this kernel allows {allowed}") from None
        return found
    return name


def shape(device: str, bandwidth_Bps: float, latency_s: float, delays: str) -> list[str]:
    """Return the `tc` commands that give a device a rate, and with netem a delay."""
    rate = max(8, round(bandwidth_Bps * 8))
    lines = [f"qdisc replace dev {device} root handle 1: tbf rate {rate}bit burst 32kb latency 50ms"]
    if delays == "netem" and latency_s:
        packets = 100 + round(bandwidth_Bps * (latency_s + QUEUE_S) / PACKET_BYTES)
        delay = f"delay {round(latency_s * 1e6)}us limit {packets}"
        lines.append(f"qdisc replace dev {device} parent 1:1 handle 10: netem {delay}")
    return lines


def start_delays(queues: list[tuple[str, str, float]]) -> dict[str, int]:
    """Delay what arrives at devices, (namespace, device, seconds) each; return the process that does it."""
    numbered = [(namespace, number, delay) for number, (namespace, _, delay) in enumerate(queues)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, str(DELAY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdin and process.stdout
            with process.stdin, process.stdout:
                process.stdin.write(json.dumps(numbered))
                process.stdin.close()
                ready = process.stdout.readline()
        except BaseException:
            process.kill()
            raise
        if ready != "ready\n":
            log.seek(0)
            complaint = log.read().decode().strip().rpartition("\n")[2]
            raise TreefoldError(f"the process that delays packets did not start: {complaint}")
    return identity(process.pid)


def queue_arrivals(queues: list[tuple[str, str, float]]) -> None:
    """Send what arrives at devices to the delay process. It must run: a rule without a listener drops everything."""
    rules: dict[str, list[str]] = {}
    for number, (namespace, device, _) in enumerate(queues):
        rule = f"-A PREROUTING -i {device} -j NFQUEUE --queue-num {number}"
        rules.setdefault(namespace, []).append(rule)
    for namespace, lines in rules.items():
        text = "\n".join(["*mangle", *lines, "COMMIT\n"])
        run("ip", "netns", "exec", namespace, "iptables-legacy-restore", "-w", stdin=text)


def identity(pid: int) -> dict[str, int]:
    """Return a process's number and when it started: numbers are used again."""
    return {"pid": pid, "started": started(pid) or 0}


def started(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None when there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def end(process: dict[str, int]) -> None:
    """End a process that this tool started, and only that one."""
    if started(process["pid"]) != process["started"]:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process["pid"], signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process["pid"], 0)


def remove(namespace: str) -> None:
    """Remove a namespace of ours with its devices, and end what still runs in it."""
    if not Path("/var/run/netns", namespace).exists():
        return
    for pid in run("ip", "netns", "pids", namespace).split():
        end(identity(int(pid)))
    run("ip", "netns", "del", namespace)


def state_file(name: str) -> Path:
    """Return where a box of this name is remembered."""
    if not name or not all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name):
        raise TreefoldError(f"{name!r} cannot name a box: use letters, digits, - and _")
    run_directory = Path("/run")
    parent = run_directory if os.access(run_directory, os.W_OK) else Path(tempfile.gettempdir())
    return parent / "treefold-box" / f"{name}.json"


def load(name: str) -> dict:
    """Return what is remembered of a box."""
    path = state_file(name)
    if not path.exists():
        others = sorted(other.stem for other in path.parent.glob("*.json"))
        raise TreefoldError(f"no box {name!r} is up; up are: {', '.join(others) or 'none'}")
    return json.loads(path.read_text())


def claim(state: dict) -> None:
    """Remember a new box before anything of it exists, so that `down` finds even a half-made one."""
    path = state_file(state["name"])
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(state))
    try:
        # A link appears whole or not at all, and never over another's.
        os.link(fresh, path)
    except FileExistsError:
        raise TreefoldError(f"a box {state['name']!r} is up already: take it down or use another --name") from None
    finally:
        fresh.unlink()


def claimed(state: dict) -> bool:
    """Tell whether the box that is remembered is this one."""
    with contextlib.suppress(TreefoldError):
        return load(state["name"])["starter"] == state["starter"]
    return False


def save(state: dict) -> None:
    """Remember a change; readers see the old state or the new one."""
    path = state_file(state["name"])
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(state))
    fresh.replace(path)


def forget(name: str) -> None:
    """Remove the file, and its directory when it was the last."""
    state_file(name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        state_file(name).parent.rmdir()
