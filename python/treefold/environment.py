"""The environment variables that treefold reads: their table, their values, and what looks like one of them."""

import os
import warnings
from collections.abc import Mapping

from treefold.text import nearest, visible

VARIABLES = {
    "TREEFOLD_NAME": "which accelerator of the network's file this worker is; without, rank r is the r-th",
    "TREEFOLD_INTERFACE": "name or address of the interface on which sockets listen; else the one towards MASTER_ADDR",
    "TREEFOLD_JOB": "a word that the workers of a job share and nobody else knows",
    "TREEFOLD_TOPOLOGY": "PyTorch: the network's file or spec, of which each process group plans its own part",
    "TREEFOLD_PLAN": "PyTorch: a plan's file, for the group of all ranks",
    "TREEFOLD_LEAST_SIZE": "PyTorch: smaller tensors go to the wrapped backend; 4KiB if not set",
    "TREEFOLD_TRANSPORT": "PyTorch: `tcp` (connections of treefold's own) or `torch` (gloo's); tcp if not set",
    "TREEFOLD_ADAPT": "PyTorch: 1 makes plans follow links that change, or die, in mid-run; over tcp",
    "TREEFOLD_WRAPS": "PyTorch: the backend that runs all else, `gloo` or by device `cpu:gloo,cuda:nccl`",
    "TREEFOLD_PARENT": "the process that started this one; treefold sets it for processes of its own",
}
"""What each variable says."""

_PREFIX = "TREEFOLD"


def value(name: str) -> str:
    """Return what a variable of the table says, without blanks around it; empty where it is not set."""
    assert name in VARIABLES, name
    return os.environ.get(name, "").strip()


def strangers(given: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each variable that is meant for treefold and that it does not know.

    Other versions may know them, so they are no errors.
    """
    names = sorted(set(os.environ if given is None else given) - set(VARIABLES))
    return [_sentence(name, _meant(name)) for name in names if _is_for_treefold(name)]


def warn_of_strangers() -> None:
    """Warn of each variable that is meant for treefold and that it does not know."""
    for sentence in strangers():
        warnings.warn(sentence, stacklevel=2)


def _is_for_treefold(name: str) -> bool:
    return name.upper().startswith(_PREFIX) or nearest(name.partition("_")[0], [_PREFIX]) is not None


def _meant(name: str) -> str | None:
    """Return the variable whose name behind the prefix is near, if there is one."""
    words = {known.partition("_")[2]: known for known in VARIABLES}
    return words.get(nearest(name.partition("_")[2] or name[len(_PREFIX) :], words) or "")


def _sentence(name: str, meant: str | None) -> str:
    remedy = f"did you mean {meant}?" if meant else f"known are {', '.join(VARIABLES)}"
    return f"environment variable '{visible(name)}' is unknown and ignored; {remedy}"
