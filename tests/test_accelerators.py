"""Accelerators: compute against the authors' cycles, an oracle and the roofline."""

import random

import pytest

from systolic_array import cycles_to_read, cycles_to_write
from treefold.training import GPUS, MODELS, Gpu, Layer, Systolic, linear, load
from treefold.training.systolic import _Array, _Product, _read, _rows_done, _write

# The systolic accelerator


def test_alexnets_cycles_are_the_authors():
    chip = Systolic()
    cycles = [chip.layer_cycles(layer, 16) for layer in load("alexnet:paper").layers]
    assert cycles == [
        (100219, 18213919, 104998),
        (24729631, 25728031, 24725431),
        (110623, 165919, 104575),
        (165919, 248863, 156847),
        (110623, 165919, 104575),
    ]


def test_reading_takes_as_long_as_in_an_array_stepped_row_by_row():
    draw = random.Random(1)
    for _ in range(500):
        rows, columns = draw.randint(1, 6), draw.randint(1, 6)
        outputs, terms, filters = draw.randint(1, 40), draw.randint(2, 30), draw.randint(1, 30)
        shape = (outputs, terms, filters, rows, columns)
        product, array = _Product(outputs, terms, filters), _Array(rows, columns)
        assert _read(product, array) == cycles_to_read(*shape, rows_only=False), shape
        assert _rows_done(product, array) == cycles_to_read(*shape, rows_only=True), shape


@pytest.mark.parametrize(
    ("name", "cycles"),
    [
        ("alexnet", 94_936_092),
        ("alphagozero", 1_248_766),
        ("fasterrcnn", 17_020_419),
        ("googlenet", 9_385_973),
        ("ncf", 1_449_914),
        ("resnet50", 17_409_635),
        ("transformer", 10_682_341),
    ],
)
def test_the_papers_models_take_these_cycles(name, cycles):
    """Return the cycles by the rules of the authors' model; AlexNet's layers are in the reference."""
    chip = Systolic()
    assert chip.cycles(load(f"{name}:paper").layers, 16) == cycles


def test_writing_goes_on_fold_by_fold():
    draw = random.Random(3)
    for _ in range(500):
        rows, columns = draw.randint(1, 6), draw.randint(1, 6)
        outputs, terms, filters = draw.randint(1, 40), draw.randint(1, 30), draw.randint(1, 30)
        for by_columns in (False, True):
            fill = min(columns, filters) if by_columns else min(rows, outputs)
            product, array = _Product(outputs, terms, filters), _Array(rows, columns)
            written = _write(product, array, fill, by_columns=by_columns)
            assert written == cycles_to_write(outputs, terms, filters, rows, columns, by_columns=by_columns)


def test_large_layers_take_no_time_to_price():
    assert Systolic().layer_cycles(linear("wide", 10**11, 10**11), 16).forward > 10**20


def test_no_array_computes_more_than_it_has_multipliers():
    chip = Systolic()
    for name in MODELS:
        for layer in load(name).layers:
            assert all(cycles * 1024 >= layer.macs for cycles in chip.layer_cycles(layer, 16)[::2]), (name, layer)


def test_samples_beyond_one_an_array_take_turns():
    chip, layer = Systolic(), linear("fc", 512, 512)
    assert chip.layer_cycles(layer, 48) == tuple(3 * each for each in chip.layer_cycles(layer, 16))


# GPUs


def _time(gpu, layer, batch, needs_input_gradient):
    return gpu.layer_time(layer, batch, needs_input_gradient=needs_input_gradient)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_gpus_keep_to_their_roofline(gpu):
    for name in ("resnet50", "transformer", "ncf"):
        for layer in load(name).layers:
            forward, backward = _time(gpu, layer, 8, True)
            assert forward >= 2 * 8 * layer.macs / gpu.peak_flops
            assert forward >= 8 * 2 * layer.elements / gpu.memory_Bps
            assert backward >= forward
            assert _time(gpu, layer, 16, True).forward_s >= forward


def test_a_small_kernel_takes_a_launch_for_each_gradient_that_is_needed():
    gpu, layer = GPUS["volta"], linear("fc", 8, 8)
    attention, frozen = layer._replace(operand="data", parameters=0), layer._replace(operand="frozen", parameters=0)
    assert _time(gpu, layer, 1, False) == (6e-6, 6e-6)
    assert _time(gpu, layer, 1, True) == (6e-6, 12e-6)
    assert _time(gpu, attention, 1, True) == (6e-6, 12e-6)
    assert _time(gpu, attention, 1, False) == _time(gpu, frozen, 1, False) == (6e-6, 0)
    assert _time(gpu, frozen, 1, True) == (6e-6, 6e-6)


def test_attention_reads_every_samples_keys():
    gpu = Gpu(name="fast", peak_flops=1e18, memory_Bps=1e12, attainable_memory=1.0, launch_s=0.0)
    scores = next(layer for layer in load("bert-base").layers if layer.name.endswith("scores"))
    moved = scores.copies * 2 * 32 * (2 * 512 * 64 + 512 * 512) + 32 * 2 * scores.elements
    assert _time(gpu, scores, 32, False).forward_s == pytest.approx(moved / 1e12)


def test_projected_gpus_gain_on_arithmetic_only():
    large, moved = linear("fc", 4096, 4096, positions=4096), Layer("norm", elements=10**9, kernels=1)
    volta, twice, four = (GPUS[name] for name in ("volta", "volta-2:1", "volta-4:1"))
    assert _time(volta, large, 8, False).forward_s == pytest.approx(2 * _time(twice, large, 8, False).forward_s)
    assert _time(volta, large, 8, False).forward_s == pytest.approx(4 * _time(four, large, 8, False).forward_s)
    assert _time(volta, moved, 8, False) == _time(four, moved, 8, False)
