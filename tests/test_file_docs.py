"""Every example in docs/files.md and docs/models.md is read as the file it stands for."""

import re
import warnings
from pathlib import Path

import pytest

import treefold
from treefold.importers import TopologyWarning

TEXT = (Path(__file__).parents[1] / "docs" / "files.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)( caps)?\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
NETWORKS = [(extension, content) for extension, caps, content in BLOCKS if not caps]
CAPS = [(extension, content) for extension, caps, content in BLOCKS if caps]


def written(folder, name, content):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def read(path, **arguments):
    """Reads with only those warnings muted that the document announces: values that are filled in."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", TopologyWarning)
        warnings.filterwarnings("ignore", "[^ ]*: [0-9]+ links? without latency", TopologyWarning)
        return treefold.topology(path, **arguments)


def test_every_format_has_an_example():
    assert [extension for extension, _ in NETWORKS] == [
        "csv",
        "csv",
        "csv",
        "json",
        "json",
        "dot",
        "gml",
        "graphml",
        "json",
        "json",
        "csv",
    ]
    assert [extension for extension, _ in CAPS] == ["csv", "json"]
    assert TEXT.count("```") == 2 * len(BLOCKS) and len(TEXT.split()) < 1470


@pytest.mark.parametrize("place", range(len(NETWORKS)))
def test_networks(tmp_path, place):
    extension, content = NETWORKS[place]
    network = read(written(tmp_path, f"net.{extension}", content))
    assert {"a", "b"} <= set(network.accelerator_names) and "tor" not in network.accelerator_names


@pytest.mark.parametrize(("extension", "content"), CAPS)
def test_caps(tmp_path, extension, content):
    path = written(tmp_path, "net.csv", "source,target,bandwidth,latency\na,b,10Gbit/s,5ms\n")
    network = read(path, node_cap=str(written(tmp_path, f"caps.{extension}", content)))
    assert network.accelerator_names == ["a", "b"]
    assert [(each.name, each.bandwidth_Bps) for each in network.shared()] == [
        ("a egress", 625e6),
        ("b egress", 875e6),
        ("b ingress", 875e6),
    ]


# docs/models.md

MODELS = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("extension", "content"), re.findall(r"^```(csv|json)\n(.*?)^```$", MODELS, re.DOTALL | re.MULTILINE)
)
def test_every_example_of_a_model_is_read(tmp_path, extension, content):
    model = treefold.training.load(str(written(tmp_path, f"model.{extension}", content)))
    assert model.parameters > 0


def test_the_python_of_the_models_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"^```python\n(.*?)^```$", MODELS, re.DOTALL | re.MULTILINE)
    exec(block, {})


def test_all_models_and_accelerators_are_in_the_document():
    from treefold.training import ACCELERATORS
    from treefold.training import MODELS as BUILT_IN

    for name in [*BUILT_IN, *ACCELERATORS]:
        assert f"`{name}`" in MODELS or (name.startswith("megatron") and f"`{name.removeprefix('megatron')}`" in MODELS)
