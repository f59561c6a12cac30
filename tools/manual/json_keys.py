"""The page on JSON: the keys that each command prints with `--json`, from the documentation of the results."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from treefold import explanation_results, job_results, results, training, winner_results
from treefold.records import Record

RECORDS: dict[str, type[Record]] = {
    "topology": results.NetworkSummary,
    "plan": results.PlanSummary,
    "algorithms": results.Algorithm,
    "check": results.Verdict,
    "replan": results.Replanned,
    "explain": explanation_results.Explanation,
    "simulate": results.Prediction,
    "compare": results.Prediction,
    "train": training.TrainingIteration,
}
"""The results that commands print; a command that is not here prints only the keys below."""
TOGETHER = "simulate with several plans or --background"
WINNERS = "compare with several networks or --map"
_OTHER_USES: dict[str, type[Record]] = {TOGETHER: job_results.Interference, WINNERS: winner_results.Winner}
"""The uses of commands that print other results."""
LISTS = ("compare", WINNERS, "train", "run", "certificates")
"""The commands that print a list of objects."""

FURTHER: dict[str, dict[str, str]] = {
    "plan": {
        "choice": "The choice of `auto`: its simulator, size and candidates; only without `-a`.",
        "bound_Bps": "The rate that no set of trees exceeds; only from `packing` and `innet`.",
        "gap": "What the planner proved of its plan, as a fraction; only from planners that prove something.",
        "grown_trees": "The number of trees that `mtree` grew, before it chose among them.",
        "height_limit": "The limit of heights that `mtree` found.",
        "least_rate_Bps": "The minimum rate of a tree of `mtree`.",
        "wall_s": "The seconds that planning took.",
        "schedule_tables": "The schedule tables of all ranks; only with `--tables`.",
        "switch_tables": "The multicast tables of all switches; only with `--region`.",
    },
    "bound": {
        "reduce_scatter_all_gather_Bps": "The rate that no reduce-scatter and all-gather after it exceed.",
        "all_reduce_Bps": "The rate that no all-reduce exceeds in which switches only forward.",
        "in_network_Bps": "The rate that no all-reduce exceeds; only if switches can reduce or multicast.",
        "exact": "For each bound, whether it is tight: the best plan reaches it.",
        "method": "For each bound, the method that found it.",
        "latency_s": "The time that no all-reduce of any size can beat.",
    },
    "certificates": {
        "site": "The site.",
        "folder": "The folder with its certificate, its key and the certificate of the authority.",
        "valid_until": "The last day on which the certificate is valid, as YYYY-MM-DD.",
    },
    "run": {
        "size_bytes": "The size of the vector.",
        "count": "The number of its elements.",
        "type": "The data type of the elements.",
        "wire": "The type in which they crossed lines; null if they crossed as they are.",
        "redop": "The operator, or `none`.",
        "root": "The worker that is the root, or -1 if the collective has none.",
        "collective": "The collective.",
        "algorithm": "The algorithm that made the plan.",
        "transport": "The transport that carried the messages.",
        "ranks": "The number of ranks.",
        "time_s": "The mean time of a run.",
        "min_time_s": "The shortest time of a run.",
        "median_time_s": "The median time of the runs.",
        "algbw_Bps": "The size divided by the mean time.",
        "busbw_Bps": "The bandwidth `algbw_Bps` times the factor of nccl-tests for the collective.",
        "wrong": "The number of wrong elements in all results.",
        "bound_s": "The time that no all-reduce can beat; null if the network is not known.",
        "bound_fraction": "The fraction `bound_s` / `time_s`; null if the network is not known.",
        "predicted_s": "The time that the flow simulator predicts; null if the network is not known.",
        "iterations": "The number of measured runs.",
        "changes": "The changes of the network for which `--adapt` made a new plan, a line each.",
    },
    "probe": {
        "transfer_s": "The time of each transfer.",
        "transfer_most_bytes": "The most bytes of a transfer.",
        "nodes": "The workers: `name`, `address`, `egress_Bps` and `ingress_Bps` to and from all others at once, and "
        "whether these rates are caps (`capped`).",
        "links": "The pairs that were measured: `source`, `target`, `bandwidth_Bps`, `latency_s`, and `together_Bps`, "
        "the rate while all pairs sent at once.",
        "together": "The sum of the rates while all pairs sent at once (`rate_Bps`), and what pairs and nodes alone "
        "would allow (`expected_Bps`); null if there was only one pair.",
        "rounds": "The rounds of tests of many pairs at once: how many tests there were by then (`tests`), the rate of "
        "an all-reduce that the model promised (`promised_Bps`) and that was carried (`carried_Bps`), and the names of "
        "the shared capacities that were found (`learnt`) and given up (`dropped`). Empty with fewer than three "
        "workers, and with `--links`.",
        "tests": "How tests of many pairs at once ended: their number (`count`), the rate of the best all-reduce that "
        "the network carries as far as is known (`rate_Bps`), whether a test has offered this traffic as it is, and it "
        "was carried (`carried`), whether nothing faster is in sight (`proven`), and what had run out otherwise "
        "(`ended_by`): `seconds`, `bytes`, or the number of `tests`; or `workers`, if there are too many of them to "
        "test. Null with fewer than three workers, and with `--links`.",
        "shared": "The network's shared capacities: `name`, `bandwidth_Bps`, and the `pairs` that share it.",
        "notes": "Remarks on what makes the measurements less reliable than they seem.",
    },
}
"""Keys that stand in no record, and what they mean."""
_OTHERS = (
    "`treefold machine --json` prints the value of each option of the machine by its name, `treefold reproduce FIGURE "
    "--json` the figure's folder and claims, and `treefold algorithms --json` without a name an object as below by the "
    "name of each algorithm."
)


def page() -> str:
    """Return the page."""
    lists = ", ".join(f"`{name}`" for name in LISTS if name != WINNERS)
    head = (
        "# JSON\n\nMost commands take `--json` and then print one JSON value: an object, or for "
        f"{lists} a list of objects. Keys end with their unit: `_s` for seconds, "
        "`_bytes`, and `_Bps` for bytes per second. In Python, `.as_dict()` of a result has the same keys. A key such "
        f"as `link_utilization.mean` stands for the key `mean` of the object `link_utilization`.\n\n{_OTHERS}"
    )
    return "\n\n".join([head, *(_section(command) for command in sorted({*RECORDS, *FURTHER, *_OTHER_USES}))]) + "\n"


def keys(command: str) -> dict[str, str]:
    """Return the keys that a command may print, and their meanings."""
    record = (RECORDS | _OTHER_USES).get(command)
    found = {} if record is None else dict(_keys(record))
    found |= FURTHER.get(command, {})
    assert all(found.values()), f"{command}: nothing explains {[key for key, text in found.items() if not text]}"
    return found


def _section(command: str) -> str:
    rows = "\n".join(f"| `{key}` | {meaning} |" for key, meaning in keys(command).items())
    each = "each object of the list" if command in LISTS else "the object"
    return f"## treefold {command}\n\nThe keys of {each} are:\n\n| key | meaning |\n|---|---|\n{rows}"


def _keys(record: type[Record], prefix: str = "") -> Iterator[tuple[str, str]]:
    meanings, hints = _meanings(record), get_type_hints(record)
    for each in fields(record):  # type: ignore[arg-type]
        inner = _inner(hints[each.name])
        key = prefix + each.metadata.get("key", each.name)
        if each.metadata.get("is_inline"):
            assert inner is not None
            yield from _keys(inner, prefix)
        elif not each.metadata.get("is_hidden"):
            yield key, meanings.get(each.name, "")
            if inner is not None:
                yield from _keys(inner, f"{key}.")


def _inner(hint: Any) -> type[Record] | None:
    """Return the kind of record that a field holds, alone or in a tuple; None if it holds none."""
    parts = [hint, *get_args(hint)]
    return next((each for each in parts if inspect.isclass(each) and issubclass(each, Record)), None)


def _meanings(record: type[Record]) -> dict[str, str]:
    """Return what the docstrings of a class, and of those that it extends, say of its fields."""
    found: dict[str, str] = {}
    for each in reversed(record.__mro__):
        entries = re.findall(r"^    (\w+): ((?:.|\n(?!    \w+: |\n))*)", inspect.getdoc(each) or "", flags=re.MULTILINE)
        found |= {name: " ".join(text.split()) for name, text in entries}
    return found
