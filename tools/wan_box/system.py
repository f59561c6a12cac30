"""Speaks to the machine: programs, iproute2, sysctls, and processes that are told apart even when numbers repeat."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from treefold import TreefoldError

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "iptables-legacy-restore": "iptables"}


def require(*programs: str) -> None:
    """Refuse to start without root or a program that the box needs; say what to do."""
    if os.geteuid() != 0:
        raise TreefoldError("a WAN in a box makes network namespaces: run it as root")
    for program in programs:
        if not shutil.which(program):
            package = _PACKAGES[program]
            raise TreefoldError(f"{program} is not installed: install it, on Debian with `apt-get install {package}`")


def run(*arguments: str, stdin: str = "") -> str:
    """Run a program; its complaint becomes the error."""
    done = subprocess.run(arguments, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise TreefoldError(f"`{' '.join(arguments)}` failed: {complaint}")
    return done.stdout


def run_inside(namespace: str, *arguments: str, stdin: str = "") -> str:
    """Run a program in a namespace."""
    return run("ip", "netns", "exec", namespace, *arguments, stdin=stdin)


def ip(lines: Iterable[str], namespace: str | None = None) -> None:
    """Run many `ip` commands at once."""
    run("ip", *(("-n", namespace) if namespace else ()), "-batch", "-", stdin="\n".join(lines) + "\n")


def tc(lines: Iterable[str], namespace: str) -> None:
    """Run many `tc` commands at once."""
    run("tc", "-n", namespace, "-batch", "-", stdin="\n".join(lines) + "\n")


def accepts(namespace: str, tool: str, command: str) -> bool:
    """Return whether the kernel accepts an `ip` or `tc` command."""
    arguments = [tool, "-n", namespace, *command.split()]
    return subprocess.run(arguments, capture_output=True, check=False).returncode == 0


def configure(namespace: str, settings: dict[str, str]) -> None:
    """Write sysctls of a namespace; those that this kernel lacks are left out."""
    writes = (f"[ ! -e /proc/sys/{path} ] || echo {value} > /proc/sys/{path}" for path, value in settings.items())
    run_inside(namespace, "sh", "-c", "; ".join(writes))


def set_congestion_control(namespace: str, wanted: str | None) -> str:
    """Set TCP's congestion control of a namespace to the wanted one, or to the machine's; return which it has."""
    path = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    name = wanted or path.read_text().strip()
    try:
        run_inside(namespace, "sh", "-c", f"echo {name} > {path}")
    except TreefoldError:
        # The kernel lets a namespace keep any, but choose only among the allowed ones.
        kept = run_inside(namespace, "cat", str(path)).strip()
        if wanted not in (None, kept):
            allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().strip()
            raise TreefoldError(f"congestion control {name!r} cannot be set: this kernel allows {allowed}") from None
        return kept
    return name


@dataclass(frozen=True)
class ProcessIdentity:
    """A process's number and when it started, in ticks since boot: numbers are used again."""

    pid: int
    started: int

    @property
    def is_running(self) -> bool:
        """Tell whether this very process still runs."""
        return _started(self.pid) == self.started


def identity(pid: int) -> ProcessIdentity:
    """Return which process has a number now."""
    return ProcessIdentity(pid, _started(pid) or 0)


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None when there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def end(process: ProcessIdentity) -> None:
    """End a process that this tool started, and only that one."""
    if not process.is_running:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, 0)


def remove(namespace: str) -> None:
    """Remove a namespace of ours with its devices, and end what still runs in it."""
    if not Path("/var/run/netns", namespace).exists():
        return
    for pid in run("ip", "netns", "pids", namespace).split():
        end(identity(int(pid)))
    run("ip", "netns", "del", namespace)
