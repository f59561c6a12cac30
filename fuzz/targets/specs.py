"""Reads specs of networks, and short texts of the command line: sizes, bandwidths, times, ranks, regions."""

import json
from pathlib import Path
from random import Random
from typing import Any

import treefold
from fuzz.cases import Case, Fault, check_refusal
from fuzz.words import KINDS, spec, text
from treefold import _core
from treefold.checks import sizes
from treefold.cli.plans import parse_region

_READERS = {
    "size": _core.parse_size,
    "bandwidth": _core.parse_bandwidth,
    "time": _core.parse_time,
    "sizes": sizes,
    "region": parse_region,
    "collective": _core.parse_collective,
    "ranks": lambda text: treefold.topology("ring:5", ranks=text),
}


def corpus() -> None:
    """Return nothing, as texts are made from examples."""


def make(random: Random, _: None) -> Case:
    """Return a text and its kind."""
    if random.random() < 0.4:
        kind = random.choice(list(KINDS))
        return Case.of({"kind": kind, "text": text(kind, random)})
    value = {"kind": "spec", "text": spec(random, random.choice((3, 8, 30, 100)))}
    for option in ("bandwidth", "time", "ranks"):
        if random.random() < 0.2:
            value[option] = text(option, random)
    return Case.of(value)


def run(path: Path) -> None:
    """Read the text; a network must be the same after it is written and read."""
    value = json.loads(path.read_bytes())
    try:
        if value["kind"] == "spec":
            _check_network(_network(value))
        else:
            _READERS[value["kind"]](value["text"])
    except treefold.TreefoldError as error:
        check_refusal(error)


def _network(value: dict[str, Any]) -> treefold.Topology:
    bandwidth = _core.parse_bandwidth(value["bandwidth"]) if "bandwidth" in value else None
    latency = _core.parse_time(value["time"]) if "time" in value else None
    return treefold.topology(value["text"], bandwidth_Bps=bandwidth, latency_s=latency, ranks=value.get("ranks"))


def _check_network(network: treefold.Topology) -> None:
    if network.num_links > 10_000:
        return
    if treefold.Topology.from_json(network.to_json()) != network:
        raise Fault("wrong", "a spec's network is not the same after it is written and read")
    treefold.describe(network)
