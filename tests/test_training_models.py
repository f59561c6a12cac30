"""Models to train: built-in ones against public shapes, files of layers against their schema."""

import json
from pathlib import Path

import jsonschema
import pytest

from commands import command
from treefold import TreefoldError
from treefold.training import MODELS, Window, convolution, linear, load, train

DATA = Path(__file__).parents[2] / "shared" / "data"
SCHEMA = json.loads((Path(__file__).parents[1] / "schema" / "model.schema.json").read_text(encoding="utf-8"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not here")


# Models


@needs_data
def test_the_papers_models_have_the_layers_that_scale_sim_has():
    listed = json.loads((DATA / "scalesim_layers.json").read_text(encoding="utf-8"))
    for name, model in listed.items():
        if name.endswith("_short"):
            continue
        expected = [
            convolution(
                "", each["ifmap"], Window(*each["filter"], stride=each["stride"]), each["in_ch"], each["out_ch"]
            )
            for each in model["layers"]
        ]
        built = load(f"{name.lower()}:paper")
        assert [layer._replace(name="") for layer in built.layers] == expected
        assert built.parameters == model["total_weights"]


@needs_data
@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("alexnet", "alexnet"),
        ("googlenet", "googlenet"),
        ("resnet50", "resnet50"),
        ("fasterrcnn", "fasterrcnn_resnet50_fpn"),
        ("bert-base", "bert-base"),
        ("bert-large", "bert-large"),
        ("megatron-345m", "megatron-345m (GPT2-medium shape)"),
    ],
)
def test_real_models_have_all_parameters(name, listed):
    tensors = json.loads((DATA / "model_gradients.json").read_text(encoding="utf-8"))[listed]
    assert load(name).parameters == sum(numbers for _, _, numbers in tensors)


@needs_data
def test_transformers_matrices_are_those_of_the_big_model():
    tensors = json.loads((DATA / "model_gradients.json").read_text(encoding="utf-8"))
    matrices = sum(numbers for _, _, numbers in tensors["transformer-big (computed, matrices only)"])
    layers = load("transformer").layers
    products = sum(layer.channels * layer.filters * layer.copies for layer in layers if layer.parameters)
    assert products + layers[0].parameters == matrices


@pytest.mark.parametrize(
    ("name", "parameters", "giga_macs"),
    [
        ("alexnet", 61_100_840, 0.714),
        ("googlenet", 6_624_904, 1.498),
        ("resnet50", 25_557_032, 4.089),
        ("ncf", 31_832_577, 0.0001),
    ],
)
def test_real_models_have_the_known_work(name, parameters, giga_macs):
    """Multiply-accumulates as torchvision lists them, NCF's parameters as MLPerf does."""
    model = load(name)
    assert model.parameters == parameters
    assert sum(layer.macs for layer in model.layers) == pytest.approx(giga_macs * 1e9, rel=0.1)


@pytest.mark.parametrize(("name", "billions"), [("1.2b", 1.2), ("2.5b", 2.5), ("4.2b", 4.2), ("8.3b", 8.3)])
def test_megatrons_sizes_are_what_they_are_called(name, billions):
    assert load(f"megatron-{name}").parameters == pytest.approx(billions * 1e9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "parameters", "width", "blocks"),
    [
        ("8b", 8_030_261_248, 4096, 32),
        ("70b", 70_553_706_496, 8192, 80),
        ("405b", 405_853_388_800, 16384, 126),
    ],
)
def test_llamas_have_the_published_parameters_and_the_products_that_follow(name, parameters, width, blocks):
    model = load(f"llama-3-{name}")
    assert model.parameters == parameters
    untouched = 128_256 * width + (2 * blocks + 1) * width  # the embedding and the norms multiply nothing
    attention = blocks * 2 * model.tokens * width  # each token's heads meet every token twice
    assert sum(layer.macs for layer in model.layers) == model.tokens * (parameters - untouched + attention)
    assert model.accelerator == "h100"


def test_llama_is_cut_among_gpus_as_far_as_its_heads_go():
    how = {"accelerator": "h200", "batch": 1}
    [whole] = train("llama-3-8b", "cluster:nodes=1,gpus=8", "multitree", **how, optimizer="sgd")
    [cut] = train("llama-3-8b", "cluster:nodes=1,gpus=8", "multitree", **how, optimizer="sgd", model_parallel=8)
    assert cut.compute_s == pytest.approx(whole.compute_s / 8, rel=0.3) and cut.memory_bytes < whole.memory_bytes / 4
    with pytest.raises(TreefoldError, match="64 ranks do not divide 32 heads"):
        train("llama-3-8b", "cluster:nodes=8,gpus=8", "multitree", **how, model_parallel=64)


def test_every_model_names_its_layers_apart():
    for name in MODELS:
        names = [layer.name for layer in load(name).layers]
        assert len(names) == len(set(names)), name


# Files

CSV = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1,224,224,11,11,3,96,4,
FC,1,1,1,1,9216,4096,1,
"""


def test_scale_sims_csv_is_read(tmp_path):
    file = tmp_path / "small.csv"
    file.write_text(CSV, encoding="utf-8")
    model = load(str(file))
    assert model.name == "small"
    expected = (convolution("Conv1", (224, 224), Window(11, 11, stride=4), 3, 96), linear("FC", 9216, 4096))
    assert model.layers == expected
    file.write_text(CSV.partition("\n")[2], encoding="utf-8")
    assert load(str(file)).layers == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Conv2,27,27,5,5,96,256", "line 3: stride of layer 'Conv2' is missing"),
        ("Conv2,27,27,5,5,,256,1", "line 3: channels of layer 'Conv2' is missing"),
        ("Conv2,27,27,5,5,-96,256,1", "line 3: channels of layer 'Conv2' is '-96'; it must be a whole number above 0"),
        ("Conv2,27,27,5,5,96,0,1", "line 3: filters of layer 'Conv2' is '0'"),
        ("Conv2,27,27,5,5,96,2.5,1", "line 3: filters of layer 'Conv2' is '2.5'"),
        (",27,27,5,5,96,256,1", "line 3: the layer's name is missing"),
        (f"Conv2,27,27,5,5,96,{'9' * 5001},1", "line 3: filters of layer 'Conv2' is '999"),
        ("Conv2,3,3,5,5,96,256,1", "line 3: layer Conv2: a filter of 5x5 does not fit into 3x3"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    file = tmp_path / "wrong.csv"
    file.write_text("\n".join([*CSV.splitlines()[:2], line]), encoding="utf-8")
    result = command("train", str(file), "torus:4x4")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert message in result.stderr


@pytest.mark.parametrize("line", ["c,x224,224,3,3,3,4,1", "c,,224,3,3,3,4,1", "c,-1,224", "c,,,,,,,", "c"])
def test_a_wrong_first_line_is_no_header(tmp_path, line):
    file = tmp_path / "wrong.csv"
    file.write_text(f"{line}\nfc,1,1,1,1,8,8,1\n", encoding="utf-8")
    with pytest.raises(TreefoldError, match="line 1: input"):
        load(str(file))


def test_layers_of_one_name_are_told_apart(tmp_path):
    file = tmp_path / "twice.csv"
    file.write_text("a,1,1,1,1,64,64,1\na,1,1,1,1,64,64,1\n", encoding="utf-8")
    [row] = train(str(file), "torus:4x4", "ring", accelerator="volta", batch=1)
    assert row.compute_s == pytest.approx(5 * 6e-6)


OWN = {
    "format": "treefold-model",
    "version": 1,
    "name": "mine",
    "sample": "image",
    "layers": [
        {"name": "conv", "input": [32, 32], "filter": [3, 3], "channels": 8, "filters": 16, "padding": 1, "groups": 2},
        {"name": "scores", "inputs": 64, "outputs": 64, "channels": 32, "filters": 64, "copies": 4, "parameters": 0},
        {"name": "norm", "elements": 4096, "kernels": 1, "parameters": 32},
        {"name": "fc", "inputs": 1, "channels": 256, "filters": 10, "split": "columns"},
    ],
}


def test_treefolds_own_json_is_read(tmp_path):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(OWN, SCHEMA)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(OWN), encoding="utf-8")
    conv, scores, norm, fc = load(str(file)).layers
    assert conv == convolution("conv", (32, 32), Window(3, 3, padding=1), 8, 16, groups=2)
    assert (scores.macs, scores.parameters) == (64 * 32 * 64 * 4, 0)
    assert (norm.macs, norm.parameters, norm.elements) == (0, 32, 4096)
    assert fc == linear("fc", 256, 10, split="columns")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, "the file is not a model"),
        ({"version": 2}, "version 2 is unknown"),
        ({"layers": []}, "the file has no layers"),
        ({"extra": 1}, "key 'extra' is unknown"),
        ({"tokens": -1}, '"tokens" is -1; it must be a whole number'),
        ({"layers": [{"inputs": 1}]}, 'layer 1: the layer has no "name"'),
        ({"layers": [{"name": "a", "stride": 1}]}, "layer 1 (a): key 'stride' is unknown"),
        ({"layers": [{"name": "a", "channels": -1}]}, 'layer 1 (a): "channels" is -1; it must be a whole number'),
        ({"layers": [{"name": "a", "window": 0}]}, '"window" is 0; it must be a whole number of at least 1'),
        ({"layers": [{"name": "a", "input": [3], "filter": [1, 1], "channels": 1, "filters": 1}]}, '"input" is [3]'),
        (
            {"layers": [{"name": "a", "input": [True, True], "filter": [1, 1], "channels": 1, "filters": 1}]},
            '"input" is [True, True]',
        ),
        ({"layers": [{"name": "a", "input": [3, 3], "filter": [1, 1], "filters": 1}]}, '"channels" is missing'),
        ({"layers": [{"name": "a", "inputs": 10**400}]}, "it must be a whole number of at least 0, of at most 12"),
        ({"layers": [{"name": "a", "operand": "clay"}]}, "\"operand\" is 'clay'; known are weights, frozen, data"),
        ({"layers": [{"name": "a", "split": "diagonal"}]}, "\"split\" is 'diagonal'; known are columns, rows, heads"),
        ({"layers": ["conv"]}, "layer 1: the layer is 'conv'"),
    ],
)
def test_schema_and_reader_refuse_the_same(tmp_path, change, message):
    content = OWN | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, SCHEMA)
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TreefoldError) as error:
        load(str(file))
    assert message in str(error.value)
