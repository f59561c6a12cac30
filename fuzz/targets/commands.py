"""Runs command lines with right and wrong options of every command, within this process.

The exit code must be 0, 1 (a plan is wrong), 2 (one line says what is wrong with the command line) or 130.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import typer

import treefold
from fuzz.cases import Case, Fault, check_message
from fuzz.mutations import NUMBERS, WORDS
from fuzz.words import broken, text
from treefold.cli import main as cli
from treefold.collectives import COLLECTIVES

_SPECS = ("ring:1", "ring:4", "line:3", "full:3", "torus:2x2", "mesh:2x3", "hypercube:2", "bigraph:1x2")
_SPECS += ("cluster:nodes=2,gpus=2,rails=2", "random:n=4,links=6,seed=1", "dgx2:planes=1")
_FILES = ("net.json", "net.graphml", "net.dot", "net.csv", "odd.json")
_BAD = ("torus:0x0", "tours:8x8", "ring", "ring:x", "", "ring:4\n", "missing.json", "folder.json", "zero.json")
_BAD += ("fifo.csv", "zero.csv", "empty.csv", "binary.json", "plan.json", "layers.json", "/dev/null")
_BAD += ("x" * 300 + ".json", "a\0b.json")
_NETWORKS = (*_SPECS * 6, *_FILES * 6, *_BAD)
_PLANS = (*("plan.json", "wrong.json", "one.json", "innet.json") * 4, "net.json", *_BAD)
_OUTPUTS = ("out.json", "out.graphml", "out.dot", "out.svg", "out.png", "out.xml", "out", "nowhere/out.json", ".", "")
_OUTPUTS += ("/dev/full", "/dev/stdout", "folder.json", "a\nb.json", "x" * 300 + ".json")
_MACHINES = (*("machine.toml", "lanes.toml") * 3, "broken.toml", "missing.toml", "net.json", "folder.json", "")
_MODELS = ("layers.csv", "layers.json", "layers.json", "bogus", "nowhere:build", "net.json", "")  # small ones

_POOLS: dict[str, tuple[Any, ...]] = {
    "network": _NETWORKS,
    "source": (*_NETWORKS, *_PLANS),
    "plan_file": _PLANS,
    "model": _MODELS,
    "output": _OUTPUTS,
    "plot": _OUTPUTS,
    "trace": _OUTPUTS,
    "algorithm": ("auto", "ring", "multitree", "packing", "mtree", "innet", "innet-push", "ring2d", "bogus", ""),
    "algorithms": ("ring", "ring,multitree", "auto", "packing,ps", "ring,ring", "ring2d", "bogus", ",", ""),
    "size": ("1KiB", "0", "1", "3B", "100KB", "64KiB"),  # even the packet simulator is done with these at once
    "sizes": ("1KiB,2KiB", "1KiB:8KiB", "0", "8KiB:1KiB"),
    "collective": list(COLLECTIVES),
    "simulator": ("analytic", "flow", "bogus"),
    "link_model": ("propagation", "hockney", "bogus"),
    "node_cap": ("5Gbit/s", "caps.csv", "caps.json", "missing.csv", "5"),
    "links": ("net.json", "missing.json", "plan.json"),
    "machine": _MACHINES,
    "file": _MACHINES,
    "setting": ("wave=4KiB", "virtual_channels=2", "switches=fabric", "bogus=1", "wave", "flit=0", "=", ""),
    "heights": ("hops", "latency", "bogus"),
    "tree_order": ("ascending", "remaining-height", "bogus"),
    "neighbor_order": ("listed", "reversed", "bogus"),
    "route_by": ("source", "address", "bogus"),
    "ranks": ("0-2", "0,1", "GPU0", "2,1,0", "9", "x"),
    "rank_order": ("2,1,0", "1,0", "0", "x"),
    "local": (1, 2, 3, 0, -1, 2**31, 10**30),
    "iters": (1, 2, 0, -1),
    "warmup": (0, 1, -1),
    "jobs": (1, 0, -1),
    "transport": ("threads", "tcp", "mpi", "torch", "bogus"),
    "type": ("float32", "int8", "bfloat16", "complex64", "bogus"),
    "number": ("float32", "int8", "bfloat16", "complex64", "bogus"),
    "op": ("sum", "max", "band", "bogus"),
    "timeout": (0.2, 0.5, 0, -1, "nan"),
    "seconds": (0.2, 0, -1, "nan", 1e-9),
    "name": ("mtree/fig99", "bogus", "", "mtree/", "/", "multitree/fig9/x"),
    "region": ("0x0:1MiB:0-7", "0x0:1KiB", "0x1:1KiB"),
    "accelerator": ("systolic", "volta", "h100", "bogus"),
    "overlap": ("none", "layer", "bucket", "bogus"),
    "sharding": ("none", "zero-1", "zero-2", "fsdp", "bogus"),
    "numbers": ("bf16", "fp8", "fp32", "bogus"),
    "model_parallel": (1, 2, 3, 0, -1),
    "accumulate": (1, 2, 0, -1, 10**9),
    "optimizer": ("adam", "sgd", "none", "bogus"),
    "inputs": ("x=3x4", "tokens=8:int64", "x", "=", ""),
    "interface": ("lo", "127.0.0.1", "bogus", ""),
}
"""The values for options and arguments, by their names; others get numbers and words."""
_TEXTS = {"bandwidth": "bandwidth", "latency": "time", "least_rate": "bandwidth", "bucket": "size", "region": "region"}
_FIXED = ("output", "plot", "trace", "machine", "file", "local", "network", "source", "plan_file", "model")
"""These get values of their pools only, as another word might be a file elsewhere, or take long."""
_RANKS = ("0", "1", "-1", "x", "9" * 5000)
_VARIABLES = {"RANK": _RANKS, "WORLD_SIZE": (*_RANKS, "2", "999999999999"), "MASTER_PORT": ("0", "99999", "x", "")}

_Command = list[dict[str, Any]]


# Typer takes longer to make the commands than most cases take, so each process does it once.
typer.main.get_command = lru_cache(typer.main.get_command)


@lru_cache
def corpus() -> dict[str, _Command]:
    """Return the parameters of every command."""
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    return {name: [_parameter(each) for each in command.params] for name, command in commands.items()}


def _parameter(parameter: Any) -> dict[str, Any]:
    is_option = parameter.param_type_name == "option"
    flags = [*parameter.opts, *parameter.secondary_opts] if is_option else []
    return {"name": parameter.name, "flags": flags, "has_value": not getattr(parameter, "is_flag", False)}


def make(random: Random, corpus: dict[str, _Command]) -> Case:
    """Return a command line and environment variables."""
    command = random.choice(list(corpus))
    arguments = [command]
    for parameter in corpus[command]:
        if not parameter["flags"]:
            arguments += [_value(parameter["name"], random)] * random.choices((1, 0, 2), (30, 1, 1))[0]
    # A few options are enough: with many of them, one is always wrong.
    options = [each for each in corpus[command] if each["flags"]]
    for parameter in random.sample(options, min(random.choice((0, 1, 1, 2, 2, 3, 5)), len(options))):
        arguments.append(random.choice(parameter["flags"]))
        if parameter["has_value"]:
            arguments.append(_value(parameter["name"], random))
    variables = {name: random.choice(pool) for name, pool in _VARIABLES.items() if random.random() < 0.2}
    return Case.of({"arguments": [*_quick(arguments), *_noise(random)], "variables": variables})


def _value(name: str, random: Random) -> str:
    """Return a value for an option or argument: mostly one of its pool, sometimes any word."""
    pool = _POOLS.get(name)
    if pool is not None and (random.random() < 0.9 or name in _FIXED):
        return str(random.choice(pool))
    if name in _TEXTS:
        return text(_TEXTS[name], random)
    if pool is not None:
        return broken(str(random.choice(pool)), random)
    return str(random.choice((1, 2, 4, 16, 0, -1, random.choice(NUMBERS), random.choice(WORDS))))


def _quick(arguments: list[str]) -> list[str]:
    """Add small sizes and short timeouts where the defaults would take long."""
    given = {argument for argument in arguments if argument.startswith("-")}
    command = arguments[0]
    if command in ("plan", "simulate", "run") and not given & {"--size", "--sizes"}:
        arguments += ["--size", "4KiB"]
    if command == "compare" and "--sizes" not in given:
        arguments += ["--sizes", "1KiB,16KiB"]
    if command in ("run", "probe") and "--timeout" not in given:
        arguments += ["--timeout", "0.3"]
    if command == "reproduce":
        arguments += ["--skews", "x"]
    return arguments


def _noise(random: Random) -> list[str]:
    if random.random() < 0.95:
        return []
    return [random.choice(("--bogus", "--help", "--version", "extra", "-", "--", "--json=1", "-o", *WORDS))]


def run(path: Path) -> None:
    """Run the command line in the folder of `path`, and check its exit code and output."""
    value = json.loads(path.read_bytes())
    variables = {name: text for name, text in value["variables"].items() if "\0" not in text}
    out, err = io.StringIO(), io.StringIO()
    with _furnished(path.parent), patch.dict(os.environ, variables), redirect_stdout(out), redirect_stderr(err):
        code = _exit_code([str(argument) for argument in value["arguments"]])
    _check_end(code, value["arguments"], out.getvalue(), err.getvalue())


def _exit_code(arguments: list[str]) -> Any:
    with patch.object(sys, "argv", ["treefold", *arguments]):
        try:
            cli.main()
        except SystemExit as end:
            return end.code or 0
    return 0


@contextmanager
def _furnished(folder: Path) -> Iterator[None]:
    """Work in a folder with files of all kinds."""
    if not (folder / "net.json").exists():
        _furnish(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _furnish(folder: Path) -> None:
    for name, content in _files().items():
        (folder / name).write_bytes(content)
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "fifo.csv")
    for name in ("zero.json", "zero.csv"):
        (folder / name).symlink_to("/dev/zero")


@lru_cache
def _files() -> dict[str, bytes]:
    plan = treefold.plan("ring:4", "ring").to_json()
    net = treefold.topology("random:n=4,links=6,seed=1").to_json()
    odd = net.replace("site0", "a\\u001b[31m\\nb").replace("site1", "a,b")
    return {
        "net.json": net.encode(),
        "odd.json": odd.encode(),
        "net.csv": b"source,target,bandwidth,latency\na,b,10Gbit/s,5ms\nb,c,1Gbit/s,\n",
        "net.graphml": b'<graphml><graph><node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>',
        "net.dot": b'graph { a -- b [bandwidth="1GB/s", latency="5ms"]; b -- c [bandwidth="1GB/s"] }',
        "caps.csv": b"name,egress,ingress\nGPU0,5Gbit/s,10Gbit/s\n",
        "caps.json": b'{"GPU0": {"egress": "5Gbit/s"}, "GPU1": "7Gbit/s"}',
        "plan.json": plan.encode(),
        "wrong.json": plan.replace('"span":[0,1]', '"span":[1,1]').encode(),
        "one.json": treefold.plan("ring:1", "ring").to_json().encode(),
        "innet.json": treefold.plan("bigraph:1x2", "multitree").to_json().encode(),
        "layers.csv": b"conv1,24,24,7,7,3,64,2\nfc,1,1,1,1,248,100,1\n",
        "layers.json": b'{"format": "treefold-model", "version": 1, "layers": [{"name": "a", "parameters": 12}]}',
        "machine.toml": b'wave = "4KiB"\nvirtual_channels = 2\n',
        "lanes.toml": b'lanes = "many"\nlans = 3\n',
        "broken.toml": b"payload = \n[",
        "empty.csv": b"",
        "binary.json": bytes(range(256)),
    }


def _check_end(code: Any, arguments: list[str], out: str, err: str) -> None:
    command = arguments[0]
    if code not in (0, 1, 2, 130) or (code == 1 and command not in ("check", "run")):
        raise Fault("wrong", f"{command} ends with exit code {code}", f"exit code of {command}")
    if code == 1 and command == "run" and "wrong.json" not in arguments:
        raise Fault("wrong", "run finds a wrong result", "results of run")
    lines = err.split("\n")[:-1]
    for line in lines:
        check_message(line, where=f"standard error of {command}")
    if [line for line in lines if line.startswith("error: ")] != lines[-1:] * (code == 2):
        raise Fault("message", f"exit code {code} with: {err}", f"standard error of {command}")
    if code == 0 and "--json" in arguments and not {"--help", "--version"} & set(arguments):
        _check_json(command, out)
    if not out.replace("\n", "").isprintable():
        raise Fault("message", f"what is printed is not printable: {out}", f"standard output of {command}")


def _check_json(command: str, out: str) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        json.loads(out, parse_constant=refuse)
    except ValueError as error:
        raise Fault("wrong", f"--json prints what is no JSON: {error}", f"--json of {command}") from None
