"""Plan files: their schema, the page that explains them, and what is said of a file with a fault."""

import copy
import json
import re
from pathlib import Path

import jsonschema
import pytest
from referencing import Registry, Resource

import treefold
from commands import command
from reading import put
from treefold import TreefoldError, load_plan

ROOT = Path(__file__).parents[1]
SCHEMA, NETWORKS = (
    json.loads((ROOT / "schema" / f"{name}.schema.json").read_text(encoding="utf-8")) for name in ("plan", "topology")
)
REGISTRY = Registry().with_resource("topology.schema.json", Resource.from_contents(NETWORKS))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, registry=REGISTRY)
PAGE = (ROOT / "docs" / "plan-files.md").read_text(encoding="utf-8")
[(_, EXAMPLE)] = re.findall(r'^```json title="([\w.]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
PLAN = json.loads(treefold.plan("ring:4", "multitree", size_bytes=1 << 20).to_json())


# The schema


def fields(schema):
    """Return the names of all fields that a schema describes."""
    found = set()
    if isinstance(schema, dict):
        found |= set(schema.get("properties", {}))
        schema = list(schema.values())
    return found.union(*map(fields, schema)) if isinstance(schema, list) else found


@pytest.mark.parametrize("algorithm", [*treefold.algorithms()])
def test_plans_of_every_algorithm_satisfy_the_schema(algorithm):
    fitting = {"hdrm": "bigraph:2x4", "hierarchical": "cluster:nodes=2,gpus=4,rails=4"}
    network = fitting.get(algorithm, "dgx2" if algorithm.startswith("innet") else "torus:4x4")
    VALIDATOR.validate(json.loads(treefold.plan(network, algorithm).to_json()))


def test_every_field_of_the_schema_is_described_and_stands_on_the_page():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert [name for name in fields(SCHEMA) if f"`{name}`" not in PAGE and f'"{name}":' not in PAGE] == []
    described = [each for part in (SCHEMA, *SCHEMA["$defs"].values()) for each in part.get("properties", {}).values()]
    assert len(described) > 15
    assert [each for each in described if not re.match("(A|An|The) ", each.get("description", ""))] == []


def test_the_example_of_the_page_is_right_and_optimal_in_steps(tmp_path):
    VALIDATOR.validate(json.loads(EXAMPLE))
    plan = load_plan(put(tmp_path, "ring.json", EXAMPLE))
    assert treefold.check(plan).correct
    ring = treefold.plan("ring:4", "ring", size_bytes=1 << 20)
    assert (plan.num_trees, plan.steps) == (ring.num_trees, ring.steps)
    assert treefold.simulate(plan, size_bytes=1 << 20).time_s == treefold.simulate(ring).time_s


# Files with a fault


def broken(change):
    document = copy.deepcopy(PLAN)
    [phase] = document["phases"]
    change(document, phase, phase["trees"][3])
    return document


def drop(holder, key):
    del holder[key]


FAULTS = [
    (lambda d, p, t: p.update(pace="step"), 'phase 0: pace must be a way in .* {"step": {}}.*, got "step"'),
    (lambda d, p, t: p.update(pace="steam"), 'phase 0: pace must be .* "stream", .*, got "steam"'),
    (lambda d, p, t: p.update(pace={"step": {"transfer_unit": 3}}), "'transfer_unit' is unknown; did you mean"),
    (
        lambda d, p, t: p.update(pace={"step": {"transfer_unit_Bps": "16GB/s"}}),
        'phase 0, pace, step: transfer_unit_Bps must be a bandwidth in bytes per second: .*, got "16GB/s"',
    ),
    (lambda d, p, t: p.update(pace={"step": {"transfer_unit_Bps": -1}}), "phase 0: bandwidth must be positive, got -1"),
    (lambda d, p, t: p.update(trees=[None]), "phase 0: tree 0 cannot be null; trees must be a list"),
    (lambda d, p, t: drop(t, "span"), "phase 0, tree 3: 'span' is missing; it must be a list of the first unit"),
    (lambda d, p, t: t.update(span=[0]), r"phase 0, tree 3: span must be a list of the first unit .*, got \[0\]"),
    (lambda d, p, t: t.update(span=[0, 1, 2]), r"phase 0, tree 3: span must be .*, got \[0, 1, 2\]"),
    (lambda d, p, t: t.update(span=[3, 0]), r"phase 0, tree 3: span must be .*, got \[3, 0\]"),
    (lambda d, p, t: t.update(root=9), "phase 0, tree 3: root must be .* of ring:4, from 0 to 3, got 9"),
    (lambda d, p, t: t.update(root="GPU1"), 'phase 0, tree 3: root must be the number of the node .*, got "GPU1"'),
    (lambda d, p, t: t.update(up="edges"), 'phase 0, tree 3: up must be the half that reduces: .*, got "edges"'),
    (lambda d, p, t: t.update(up={"lanes": []}), 'phase 0, tree 3: up must be .* "mirror" or "none", got {"lanes": '),
    (
        lambda d, p, t: t["down"]["edges"].update(lanes=[1, 2, 77]),
        "phase 0, tree 3: down has lane 77 at edge 2, but the plan lists 8 lanes; count them from 0",
    ),
    (
        lambda d, p, t: t["down"]["edges"].update(lanes=[1, 2, "x"]),
        'phase 0, tree 3, down, edge 2: lane cannot be "x"; lanes must be a list of ',
    ),
    (lambda d, p, t: t["down"]["edges"].update(steps=[1, 2, 70000]), "down, edge 2: step cannot be 70000; steps must"),
    (lambda d, p, t: t["down"]["edges"]["steps"].pop(), "phase 0, tree 3: down has 3 lanes but 2 steps; list both"),
    (lambda d, p, t: t.update(chunk="all"), 'phase 0, tree 3: chunk must be .* "best", "one", .*, got "all"'),
    (lambda d, p, t: t.update(chunk={"count": 0}), "phase 0, tree 3: chunk must have a count of 1 or more, got 0"),
    (lambda d, p, t: t.update(weight=1), "phase 0, tree 3: 'weight' is unknown; known are span, root, up, down, chunk"),
    (lambda d, p, t: d.update(algoritm="x"), "'algoritm' is unknown; did you mean algorithm?"),
    (lambda d, p, t: drop(d, "algorithm"), "'algorithm' is missing; it must be the name of the algorithm"),
    (lambda d, p, t: d.update(units=1.5), r"units must be the number of equal parts .*, got 1\.5"),
    (lambda d, p, t: d.update(units=0), "units must be from 1 to 281474976710656, got 0"),
    (lambda d, p, t: d.update(version="1"), 'the file needs "format": "treefold-plan" and "version": 1'),
    (lambda d, p, t: drop(d, "format"), 'the file needs "format": "treefold-plan" and "version": 1'),
    (lambda d, p, t: d["lanes"][1].update(links=3), "lane 1: links must be a list of the numbers .*, got 3"),
    (lambda d, p, t: drop(d["lanes"][1], "target"), "lane 1: 'target' is missing; it must be the number of the node"),
    (lambda d, p, t: d.update(size_bytes="1MiB"), 'size_bytes must be the size in bytes of the vector .*, got "1MiB"'),
    (lambda d, p, t: d.update(topology="ring:4"), 'topology must be a network as treefold writes it, .*, got "ring:4"'),
    (
        lambda d, p, t: d["topology"]["links"][3].update(bandwidth_Bps="16GB/s"),
        'topology, link 3: bandwidth_Bps cannot be "16GB/s"; topology must be a network as treefold writes it',
    ),
    (
        lambda d, p, t: drop(d["topology"]["links"][3], "bandwidth_Bps"),
        "topology, link 3: 'bandwidth_Bps' is missing; topology must be a network as treefold writes it",
    ),
    (lambda d, p, t: d["topology"]["links"][3].update(source="x"), "topology: link x -> .*: there is no node 'x'"),
]


@pytest.mark.parametrize(("change", "expected"), FAULTS, ids=[expected[:40] for _, expected in FAULTS])
def test_a_fault_is_told_with_its_place_its_value_and_what_must_be_there(change, expected, tmp_path):
    with pytest.raises(TreefoldError) as error:
        load_plan(put(tmp_path, "plan.json", broken(change)))
    message = str(error.value)
    assert re.search(expected, message), message
    assert message.startswith(f"{tmp_path}/plan.json: ") and message.isprintable() and len(message) < 500
    assert not re.search("variant|expected|u16|u32|u64|f64|`| column ", message), message


def test_a_fault_in_a_large_value_is_told_with_its_beginning(tmp_path):
    path = put(tmp_path, "plan.json", broken(lambda d, p, t: t.update(span=[0] * 10_000)))
    with pytest.raises(TreefoldError, match=r"span must be .*, got (\[0, 0, .*)\.\.\.$") as error:
        load_plan(path)
    assert len(str(error.value)) < 500


def test_a_key_that_stands_twice_and_a_file_that_ends_too_soon_are_told(tmp_path):
    text = json.dumps(PLAN)
    twice = text.replace('"root": 3,', '"root": 3, "root": 2,')
    with pytest.raises(TreefoldError, match="phase 0, tree 3: 'root' stands twice; keep one"):
        load_plan(put(tmp_path, "plan.json", twice))
    with pytest.raises(TreefoldError, match=r"not a whole treefold-plan file: .* line 1 column 500; is it complete\?"):
        load_plan(put(tmp_path, "plan.json", text[:500]))


def test_the_schema_refuses_what_the_reader_refuses_for_its_form():
    forms = [broken(change) for change, _ in FAULTS]
    assert sum(not VALIDATOR.is_valid(document) for document in forms) >= len(FAULTS) - 9


def test_a_plan_with_a_fault_that_only_the_proof_finds_is_wrong_and_no_error(tmp_path):
    path = put(tmp_path, "plan.json", broken(lambda d, p, t: d.update(phases=[])))
    assert command("check", path).returncode == 1
    assert "ends with" in treefold.check(load_plan(path)).reason
