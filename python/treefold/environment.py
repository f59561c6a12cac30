"""The environment variables that treefold reads, and warnings about variables that look like one of them."""

import os
import warnings
from collections.abc import Mapping

from treefold.checks import guess
from treefold.text import visible

VARIABLES = {
    "TREEFOLD_NAME": "the name of this worker's accelerator in the network's file; unless all workers have names, they "
    "are ignored and worker r is rank r. PyTorch: or the name of its site, which workers share",
    "TREEFOLD_INTERFACE": "the interface to listen on, by name or address; if not set, the one towards MASTER_ADDR",
    "TREEFOLD_PORT": "the port on which this worker listens for other workers, or `none` if it does not listen; if not "
    "set, the system chooses one",
    "TREEFOLD_JOB": "a secret word that only the workers of one job share; a worker with another one gets an error",
    "TREEFOLD_STREAMS": "how many TCP streams side by side join two workers; if not set, as many as their line needs",
    "TREEFOLD_TLS": "the folder of this worker's site that `treefold certificates` has made: workers then encrypt what "
    "they send and show each other certificates; if not set, nothing is encrypted",
    "TREEFOLD_TOPOLOGY": "PyTorch: the network's file or spec, or `discover`, which measures it once and keeps it in a "
    "file (`discover:FILE` names that); each process group plans for its own part of it",
    "TREEFOLD_PROBE_SECONDS": "PyTorch: the approximate time for which `discover` measures, in seconds or with a unit",
    "TREEFOLD_PROBE_BYTES": "PyTorch: the maximum traffic of all ranks together while `discover` measures; 64GiB if "
    "not set",
    "TREEFOLD_PLAN": "PyTorch: the file of a plan for the group of all processes",
    "TREEFOLD_LEAST_SIZE": "PyTorch: smaller tensors go to the wrapped backend, unless TREEFOLD_TLS is set; 4KiB if "
    "not set",
    "TREEFOLD_TRANSPORT": "PyTorch: `tcp` (connections of treefold's own) or `torch` (gloo's); tcp if not set",
    "TREEFOLD_ADAPT": "PyTorch: `yes` lets plans follow links that change or die, `auto` by any algorithm; needs tcp",
    "TREEFOLD_WIRE": "PyTorch: the type in which sums of float32 and bfloat16 cross lines: `bfloat16`, `float16`, "
    "`float8` or `int8`; as they are if not set",
    "TREEFOLD_ERROR_FEEDBACK": "PyTorch: `yes` keeps what a wire type takes from gradients for the next step; needs "
    "TREEFOLD_WIRE",
    "TREEFOLD_WRAPS": "PyTorch: the backend that runs everything else: `gloo`, or by device `cpu:gloo,cuda:nccl`",
    "TREEFOLD_STAGING": "PyTorch: the maximum of pinned host memory through which a group copies the tensors of a GPU; "
    "64MiB if not set",
    "TREEFOLD_LOG": "PyTorch: the file to which each process appends what its groups have done: a line of JSON for "
    "each group every 10 s and in the end",
    "TREEFOLD_SUMMARY": "PyTorch: `yes` lets rank 0 print in the end what its groups have done",
    "TREEFOLD_PARENT": "the process that started this one; treefold sets it for the processes that it starts",
}
"""The meaning of each variable; the manual's page on the environment is made from this table."""

_SWITCHES = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)

_PREFIX = "TREEFOLD"
_SHORTEST_MISSPELT = 6
"""A shorter word, such as TREE, is a word of its own."""


def value(name: str) -> str:
    """Return the value of a variable of the table, without surrounding blanks; empty where it is not set."""
    assert name in VARIABLES, name
    return os.environ.get(name, "").strip()


def forget(name: str) -> None:
    """Go on as if a variable of the table were not set."""
    assert name in VARIABLES, name
    os.environ.pop(name, None)


def switch(text: str) -> bool | None:
    """Return what a text says: `1`, `true`, `yes` and `on` are True, their opposites False, and all others None."""
    return _SWITCHES.get(text.lower())


def unknown_variables(given: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each variable that is meant for treefold but unknown to it.

    These are warnings and not errors, because another version of treefold may know the variable.
    """
    names = sorted(set(os.environ if given is None else given) - set(VARIABLES))
    return [_warning(name, _meant(name)) for name in names if _is_for_treefold(name)]


def warn_of_unknown_variables() -> None:
    """Warn of each variable that is meant for treefold but unknown to it."""
    for warning in unknown_variables():
        warnings.warn(warning, stacklevel=2)


def _is_for_treefold(name: str) -> bool:
    """Tell whether a name begins with the prefix, or with a word that misspells one half of it."""
    word = name.partition("_")[0].upper()
    is_half_right = len(word) >= _SHORTEST_MISSPELT and (word.startswith("TREE") or word.endswith("FOLD"))
    return word.startswith(_PREFIX) or (is_half_right and guess(word, [_PREFIX]) is not None)


def _meant(name: str) -> str | None:
    """Return the variable whose name after the prefix is similar, if there is one."""
    words = {known.partition("_")[2]: known for known in VARIABLES}
    return words.get(guess(name.partition("_")[2] or name[len(_PREFIX) :], words) or "")


def _warning(name: str, meant: str | None) -> str:
    remedy = f"did you mean {meant}?" if meant else f"known are {', '.join(VARIABLES)}"
    return f"environment variable '{visible(name)}' is unknown and ignored; {remedy}"
