"""The command line: python -m tools.wan_box run wan.json -- python train.py."""

import argparse
import os
import sys
from collections.abc import Callable

import treefold
from tools.wan_box import box as boxes
from tools.wan_box import checking, losses
from tools.wan_box.interrupts import ends_cleanly
from tools.wan_box.processes import Outcome, exit_code
from treefold import TreefoldError
from treefold._core import parse_bandwidth, parse_time

_ABOUT = """Make the network of a topology real on this machine, in network namespaces with shaped cables between them.

NETWORK is a topology file or a spec such as ring:6. A box needs Linux, root and iproute2; delays need netem in the
kernel, or else iptables."""

Wanted = argparse.Namespace


def run(wanted: Wanted) -> int:
    """Run a command on every worker of a box that is up only meanwhile."""
    command = _command_of(wanted)
    with boxes.up(*_box_of(wanted)) as box:
        for outcome in box.run_all(command, timeout_s=wanted.timeout):
            _show(outcome)
    return 0


def _show(outcome: Outcome) -> None:
    """Print what a worker's command printed, with the worker's name before each line."""
    for text, stream in ((outcome.stdout, sys.stdout), (outcome.stderr, sys.stderr)):
        for line in text.splitlines():
            print(f"{outcome.node}: {line}", file=stream)


def up(wanted: Wanted) -> int:
    """Build a box that stays up."""
    with ends_cleanly():
        box = boxes.start(*_box_of(wanted))
        print(box.describe())
    return 0


def down(wanted: Wanted) -> int:
    """Remove a box."""
    boxes.attach(wanted.name).down()
    return 0


def status(wanted: Wanted) -> int:
    """Show a box."""
    print(boxes.attach(wanted.name).describe())
    return 0


def execute(wanted: Wanted) -> int:
    """Become a command in a node."""
    command = _command_of(wanted)
    namespace = boxes.attach(wanted.name).namespace(wanted.node)
    os.execvp("ip", ["ip", "netns", "exec", namespace, *command])


def rate(wanted: Wanted) -> int:
    """Change a rate."""
    boxes.attach(wanted.name).rate(wanted.source, wanted.target, wanted.bandwidth, wanted.both)
    return 0


def cut(wanted: Wanted) -> int:
    """Cut a cable."""
    boxes.attach(wanted.name).cut(wanted.source, wanted.target, wanted.down, wanted.reroute)
    return 0


def mend(wanted: Wanted) -> int:
    """Mend one cable or all."""
    boxes.attach(wanted.name).mend(wanted.source, wanted.target)
    return 0


def firewall(wanted: Wanted) -> int:
    """Put a firewall between two nodes."""
    boxes.attach(wanted.name).firewall(wanted.source, wanted.target)
    return 0


def traffic(wanted: Wanted) -> int:
    """Send traffic between two nodes until the box goes down, or an interrupt."""
    times_s = parse_time(wanted.on), parse_time(wanted.off)
    with (
        ends_cleanly(),
        boxes.attach(wanted.name).traffic(wanted.source, wanted.target, wanted.rate, *times_s) as sender,
    ):
        sender.wait()
    return 0


def check(wanted: Wanted) -> int:
    """Measure what the cables of a box carry."""
    with boxes.up(*_box_of(wanted)) as box:
        rows = checking.measure(box, wanted.seconds)
    checking.show(rows, box.state.congestion_control, wanted.json)
    return 0


def _command_of(wanted: Wanted) -> list[str]:
    if not wanted.behind:
        raise TreefoldError("there is no command to run; write it behind --, for example: -- python train.py")
    return list(wanted.behind)


def _box_of(wanted: Wanted) -> tuple[treefold.Topology, str, bool, str | None, float | None]:
    """Return the arguments of `box.start`."""
    loss = None if wanted.loss is None else losses.parse(wanted.loss)
    return _topology_of(wanted), wanted.name, not wanted.no_delay, wanted.congestion, loss


def _topology_of(wanted: Wanted) -> treefold.Topology:
    return treefold.topology(
        wanted.topology,
        bandwidth_Bps=parse_bandwidth(wanted.bandwidth) if wanted.bandwidth else None,
        latency_s=parse_time(wanted.latency) if wanted.latency else None,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.wan_box", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, function: Callable[[Wanted], int], help: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help)
        command.set_defaults(function=function)
        command.add_argument("--name", default="box", help="The box's name, where several are up. By default box.")
        return command

    _add_building(add)
    _add_changing(add)
    return parser


def _add_building(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands that build, show and remove a box."""
    command = _with_topology(add("run", run, "Build a box, run a command on every worker, and take the box down."))
    command.add_argument("--timeout", type=float, default=600.0, help="Give up after so many seconds, by default 600.")
    command.usage = "%(prog)s [options] NETWORK -- COMMAND..."
    _with_topology(add("up", up, "Build a box that stays up until it is taken down."))
    add("down", down, "Take a box down: its processes, its delays and its namespaces.")
    add("status", status, "Show a box's nodes, addresses and cables.")
    command = add("exec", execute, "Run a command in one node of a box.")
    command.add_argument("node", help="The node's name in the topology.")
    command.usage = "%(prog)s [options] node -- COMMAND..."
    command = _with_topology(add("check", check, "Build a box and measure what TCP carries over each of its links."))
    command.add_argument("--seconds", type=float, default=4.0, help="Measure each rate for so long, by default 4.")
    command.add_argument("--json", action="store_true", help="Print one JSON value and nothing else.")


def _add_changing(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands that change the cables of a box while traffic flows."""
    command = _with_ends(add("rate", rate, "Change the rate of one direction of a cable."))
    command.add_argument("bandwidth", help="The new rate, such as 25Mbit/s.")
    command.add_argument("--both", action="store_true", help="Change the other direction, too.")
    command = _with_ends(add("cut", cut, "Lose every packet of a cable, both ways."))
    command.add_argument("--down", action="store_true", help="Set the cable's devices down as well.")
    command.add_argument("--reroute", action="store_true", help="Send packets another route.")
    _with_ends(add("mend", mend, "Mend a cable that was cut, or all, and take away firewalls."), nargs="?")
    _with_ends(add("firewall", firewall, "Keep the source from opening TCP connections to the target."))
    about = "Send traffic that is not ours from the source to the target, until Ctrl-C or the end of the box."
    command = _with_ends(add("traffic", traffic, about))
    command.add_argument("rate", help="The rate with headers, such as 20Mbit/s.")
    command.add_argument("--on", default="1s", help="Send for so long, by default 1s.")
    command.add_argument("--off", default="0s", help="Then send nothing for so long, by default 0s.")


def _with_topology(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("topology", metavar="NETWORK", help="A topology file or a spec.")
    bandwidth = "The bandwidth of a spec's links, or of a file's links that have none: 100Mbit/s."
    command.add_argument("--bandwidth", help=bandwidth)
    command.add_argument("--latency", help="The latency of the same links, one way: 5ms.")
    command.add_argument("--no-delay", action="store_true", help="Shape rates only, and delay nothing.")
    command.add_argument("--congestion", help="TCP's congestion control; by default the machine's.")
    command.add_argument("--loss", help=losses.HELP)
    return command


def _with_ends(command: argparse.ArgumentParser, **options: str) -> argparse.ArgumentParser:
    command.add_argument("source", help="The node at one end.", **options)  # type: ignore[arg-type]
    command.add_argument("target", help="The node at the other end.", **options)  # type: ignore[arg-type]
    return command


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; errors are printed, and the exit code is 2."""
    given = sys.argv[1:] if arguments is None else arguments
    place = given.index("--") if "--" in given else len(given)
    parser = _parser()
    wanted = parser.parse_args(given[:place])
    wanted.behind = given[place + 1 :]
    if wanted.behind and wanted.function not in (run, execute):
        parser.error("only run and exec take a command behind --")
    return exit_code(lambda: int(wanted.function(wanted)))


if __name__ == "__main__":
    sys.exit(main())
