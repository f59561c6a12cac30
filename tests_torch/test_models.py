"""PyTorch modules as models: traced on the meta device, without weights or a GPU."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from treefold import TreefoldError
from treefold.training import GPUS, Window, convolution, from_torch, load, train

EXAMPLE = Path(__file__).parents[1] / "examples" / "03_your_model.py"


@pytest.fixture(autouse=True)
def found(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def by_name(model):
    return {layer.name: layer for layer in model.layers}


@pytest.mark.parametrize("source", ["my_models:words", "my_models:words_by_name"])
def test_a_transformer_has_all_its_parameters_and_products(source):
    import my_models

    model = load(source)
    module = my_models.Words()
    assert model.parameters == sum(each.numel() for each in module.parameters())
    layers = by_name(model)
    # Shared weights count where their gradient is complete last.
    assert (layers["embedding"].parameters, layers["vocabulary"].parameters) == (64_000, 0)
    assert layers["vocabulary"].macs == 16 * 64 * 1000
    # qkv, scores, context, output, and the perceptron, of two blocks.
    block = 16 * 64 * 192 + 2 * 4 * 16 * 16 * 16 + 16 * 64 * 64 + 2 * 16 * 64 * 128
    assert sum(layer.macs for layer in model.layers) == 2 * block + 16 * 64 * 1000


def test_convolutions_are_what_one_would_write_by_hand():
    layers = by_name(load("my_models:images", ["x=3x224x224"]))
    first = convolution("first", (224, 224), Window(7, 7, stride=2, padding=3), 3, 64)
    second = convolution("second", (112, 112), Window(3, 3, padding=1), 64, 128, groups=4, extra_parameters=128)
    assert layers["first"] == first
    assert layers["second"]._replace(elements=0, kernels=0) == second
    assert layers["norm"].parameters == 128 and layers["norm"].elements >= 2 * 112 * 112 * 64
    assert layers["frozen"].parameters == 0 and layers["frozen"].macs == 128 * 128
    assert layers["last"].parameters == 1290


def test_fused_functions_are_a_kernel():
    """On a GPU attention and dropout are one kernel each, and a recurrent network does not launch its steps."""
    layers = by_name(load("my_models:attention"))
    own = [layer for name, layer in layers.items() if name.startswith("Attention")]
    # Queries, keys, values and what comes out; and a copy brings heads together.
    assert sum(layer.kernels for layer in own) == 1 + 1
    assert sum(layer.elements for layer in own) == (4 + 2) * 64 * 128
    assert sum(layer.macs for layer in own) == 2 * 8 * 64 * 64 * 16
    assert {layer.operand for layer in own if layer.macs} == {"data"}
    assert all(layer.is_fused for layer in own if layer.macs)
    assert layers["dropout"].kernels == 1
    recurrent = load("my_models:recurrent")
    assert len(recurrent.layers) == 2
    assert sum(layer.macs for layer in recurrent.layers) == 50 * 4 * 64 * (32 + 64)


def test_what_is_frozen_learns_nothing():
    layers = load("my_models:frozen_below").layers
    assert [layer.operand for layer in layers] == ["frozen", "frozen", "weights"]
    gpu = GPUS["a100"]
    first = gpu.layer_time(layers[0], 4096, needs_input_gradient=False)
    second = gpu.layer_time(layers[1], 4096, needs_input_gradient=True)
    assert first.forward_s > 0 == first.backward_s
    assert second.backward_s == pytest.approx(second.forward_s)


def test_heads_as_wide_as_the_sequence_is_long_count_twice():
    [layer] = [layer for layer in load("my_models:square_attention").layers if layer.operand == "data"]
    assert layer.macs == 2 * 8 * 16 * 16 * 16


def test_weights_are_told_by_what_they_are_not_by_their_shape():
    [einsum] = load("my_models:by_einsum").layers
    assert (einsum.operand, einsum.parameters, einsum.macs) == ("weights", 64 * 32, 16 * 64 * 32)
    low_rank = load("my_models:low_rank").layers
    assert [layer.operand for layer in low_rank if layer.macs] == ["frozen", "weights", "weights"]


def test_dropout_that_drops_nothing_is_no_kernel():
    assert all(layer.kernels == 0 for layer in load("my_models:no_dropout").layers)


def test_tensors_that_are_no_buffers_come_along():
    assert load("my_models:masked").parameters == 16 + 4
    assert load("my_models:old_weight_norm").parameters == 4 * 4 + 4 + 4


def test_transposed_convolutions_multiply_where_their_input_is():
    [layer] = load("my_models:upsampled").layers
    assert layer.macs == 10 * 10 * 8 * 16 * 2 * 2


def test_a_norm_over_a_batch_of_one_is_traced():
    assert load("my_models:normed").parameters == 64 * 64 + 64 + 128


def test_a_module_of_ones_own_is_traced_and_stays_as_it_is():
    import torch

    import my_models

    module = my_models.Words()
    model = from_torch(module, torch.zeros(1, 16, dtype=torch.int64))
    assert model.name == "Words" and model.parameters == load("my_models:words").parameters
    assert next(module.parameters()).device.type == "cpu" and module.training
    with pytest.raises(TreefoldError, match="give a name, a Model, or"):
        train(module, "torus:4x4", "ring")


def test_what_a_module_prints_is_not_in_the_result(capsys):
    load("my_models:talkative")
    assert capsys.readouterr().out == ""


def test_a_module_trains_on_paper():
    [ring, multitree] = train("my_models:words", "torus:4x4", "ring,multitree", accelerator="h100", overlap="layer")
    assert multitree.iteration_s <= ring.iteration_s


@pytest.mark.parametrize(
    ("source", "inputs", "message"),
    [
        ("my_models:images", [], "nobody gave its input x; write an input as NAME=SHAPE"),
        ("my_models:images", ["y=3x4"], "unexpected keyword argument 'y'; its forward takes (x)"),
        ("my_models:images", ["x=3xx"], "input 'x=3xx' cannot be read"),
        ("my_models:images", ["x=3x4:int77"], "input 'x=3x4:int77' cannot be read"),
        ("my_models:images", ["x=4x224x224"], "its forward fails on the meta device: RuntimeError"),
        ("my_models:words_in_a_batch", [], "its first input has a batch of 8; give a batch of 1"),
        ("my_models:scripted", [], "it is scripted and cannot be traced"),
        ("my_models:scripted_inside", [], "its part 1 is scripted and cannot be traced"),
        ("my_models:lazy", [], "parameter weight has no shape yet; call the module once before"),
        ("my_models:locked", [], "cannot be copied without its weights: TypeError"),
        ("my_models:nested_batch", [], "its first input has a batch of 8"),
        ("my_models.py:words", [], "drop .py: my_models:words"),
        ("my_models:words", ["tokens=4:int64"], "multiple values for argument 'tokens'"),
        ("my_models:words_by_name", ["tokens=4:int64"], "input tokens is given twice"),
        ("my_models:frozen", [], "no parameter has a gradient"),
        ("my_models:number", [], "got int; it must be a torch.nn.Module"),
        ("my_models:broken", [], "broken() fails: RuntimeError: no such luck"),
        ("my_models:too_narrow", [], "its forward fails on the meta device"),
        ("my_models:nothing", [], "my_models has no 'nothing'"),
        ("my_models:not_a_function", [], "'not_a_function' is of type int; name a function"),
        ("no_such_module:build", [], "No module named 'no_such_module'"),
    ],
)
def test_what_cannot_be_traced_says_why(source, inputs, message):
    with pytest.raises(TreefoldError) as error:
        load(source, inputs)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_module_trains_on_a_gpu_of_today_and_tells_its_tokens():
    [row] = train("my_models:words", "ring:4", "ring")
    assert (row.accelerator, row.tokens) == ("h100", 16 * row.samples)
    [named] = train("my_models:words", "ring:4", "ring", accelerator="a100")
    assert named.accelerator == "a100"
    [images] = train("my_models:images", "ring:4", "ring", inputs="x=3x224x224")
    assert images.tokens is images.tokens_per_s is None


def test_the_example_prints_what_stands_beside_it(tmp_path):
    result = subprocess.run([sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == EXAMPLE.with_suffix(".out").read_text(encoding="utf-8")


def test_the_example_of_the_docstring_does_what_it_says():
    [example] = doctest.DocTestFinder(recurse=False).find(from_torch, "from_torch")
    assert example.examples and doctest.DocTestRunner().run(example).failed == 0


def test_pytorch_is_imported_only_for_modules():
    code = "import sys, treefold.training as t; t.load('resnet50'); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
