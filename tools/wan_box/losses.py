"""Has the cables of a box lose a share of what crosses them, by iptables' statistic module.

Each frame is lost or not whatever came of the others. The kernel hands packets of up to 28 KiB to a cable; to lose one
would be to lose a burst of 19 frames at once, which TCP takes for one loss. So the queues in which packets are delayed
cut them into frames (`delays.py`), and frames are lost behind it, before the node takes them in or passes them on. To
cut where packets are sent would be simpler, but the token buckets would wake up for each frame, and a machine of two
cores would carry a third of what it carries so.
"""

from tools.wan_box import system
from tools.wan_box.names import device
from tools.wan_box.state import State
from treefold import TreefoldError
from treefold.checks import shown as quoted

_MOST = 0.5
"""The largest share: a cable that loses more carries next to nothing over TCP."""
_LEAST = 1e-6
HELP = "Lose such a share of the frames on each cable: 0.1%%. With 0%% packets are only cut into frames, to compare."
"""The help of the option, for argparse."""


def parse(text: str) -> float:
    """Return the share of a text such as `0.1%` or `0.001`.

    Raises:
        TreefoldError: If it is none that a box can lose.

    """
    number = text.strip().removesuffix("%").rstrip()
    try:
        share = float(number) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        raise TreefoldError(f"loss {quoted(text)} is not a share; write for example 0.1%") from None
    check(share)
    return share


def check(loss: float | None, delay: bool = True) -> None:
    """Refuse a share that a box cannot lose, and losses without delays."""
    if loss is not None and not delay:
        raise TreefoldError("packets are cut into frames where they are delayed: drop --loss or --no-delay")
    if loss is not None and loss != 0 and not _LEAST <= loss <= _MOST:
        limits = f"{_LEAST:.4%} to {_MOST:.0%}"
        raise TreefoldError(f"loss {loss:g} is not a share that a box can lose; write 0%, or {limits}")


def shown(loss: float | None) -> str:
    """Return a share as people write it."""
    return "none" if loss is None else f"{loss * 100:g}% of frames"


def set_losses(state: State) -> None:
    """Have every cable lose its share of the frames, in both directions."""
    if not state.loss:
        return
    system.require("iptables-legacy-restore")
    for place in range(len(state.network.nodes)):
        arriving = sorted(device(a) for a, b in state.network.directions if b == place)
        chance = f"-m statistic --mode random --probability {state.loss:.9f} -j DROP"
        rules = [f"-A {chain} -i {each} {chance}" for each in arriving for chain in ("INPUT", "FORWARD")]
        text = "\n".join(["*mangle", *rules, "COMMIT\n"])
        system.run_inside(state.namespace(place), "iptables-legacy-restore", "-w", "-n", stdin=text)
