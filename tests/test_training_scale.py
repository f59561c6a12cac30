"""Training at scale: tiles and waves, parts of the peak, memory, sharding, micro-batches and groups of ranks."""

import random
import warnings
from itertools import pairwise

import pytest

import treefold as package
from treefold import TreefoldError
from treefold.training import ACCELERATORS, GPUS, Gpu, Model, TrainingOptions, linear, load, train
from treefold.training.groups import groups_of, use_other_links
from treefold.training.memory import activations, memory_of
from treefold.training.recipe import recipe_of
from treefold.training.steps import steps_of
from treefold.training.tensor_parallel import cut
from treefold.training.tiles import Product, ways
from treefold.training.timeline import COMPUTE, Compute, Send

SERVERS = "cluster:nodes=4,gpus=8,rails=8"


@pytest.fixture(autouse=True)
def quiet():
    """Small accelerators take large models here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not fit")
        yield


def _recipe(ranks=16, **options):
    return recipe_of(TrainingOptions(**({"accelerator": "h100", "batch": 2} | options)), ranks)


def _sends(model, recipe):
    return [step for step in steps_of(model, recipe) if isinstance(step, Send)]


def _bytes_of(sends, collective):
    return sum(send.size_bytes for send in sends if send.collective == collective)


# Tiles and waves


def _least_flops(product, multiprocessors):
    return min(work.flops for work in ways(Product(*product), multiprocessors))


def test_a_product_costs_whole_tiles_and_whole_waves():
    tile = 2 * 128 * 256 * 1024
    assert _least_flops((128, 256, 1024), 1) == tile
    assert _least_flops((128 * 80, 256, 1024), 80) == 80 * tile
    # A product that is a little larger takes another wave, though one in smaller tiles: less than a whole one.
    assert 80 * tile < _least_flops((128 * 80 + 1, 256, 1024), 80) <= 160 * tile
    # Tiles of 128 x 128 would halve the waste of 128 x 257, if they computed as fast.
    assert _least_flops((128, 257, 1024), 1) == pytest.approx(3 * tile / 2 / 0.75)


def test_a_product_of_few_tiles_is_cut_in_depth_and_adds_up_the_parts():
    whole, cut_up, *_ = ways(Product(128, 256, 80 * 1024), 80)
    assert whole.flops == pytest.approx(80 * cut_up.flops)
    assert (whole.partial_bytes, cut_up.partial_bytes) == (0, 80 * 8 * 128 * 256)


def test_no_product_is_faster_than_its_arithmetic_and_large_ones_are_nearly_as_fast():
    draw = random.Random(4)
    for _ in range(300):
        product = Product(*(draw.randint(1, 5000) for _ in range(3)), copies=draw.randint(1, 20))
        useful = 2 * product.rows * product.columns * product.depth * product.copies
        assert all(work.flops >= useful for work in ways(product, draw.randint(1, 300)))
    assert _least_flops((16384, 16384, 16384), 132) < 1.02 * 2 * 16384**3


def test_models_that_are_cut_small_compute_less_efficiently():
    gpu = GPUS["volta"]

    def efficiency(name, ranks):
        products = [layer for layer in cut(load(name), ranks).layers if layer.operand == "weights" and layer.macs]
        bare = [layer._replace(elements=0, kernels=0) for layer in products]
        seconds = sum(gpu.layer_time(layer, 4, needs_input_gradient=True).forward_s for layer in bare)
        return sum(2 * 4 * layer.macs for layer in bare) / (gpu.peak_flops * seconds)

    for name in ("megatron-345m", "megatron-1.2b", "megatron-8.3b"):
        assert efficiency(name, 16) < 0.85 * efficiency(name, 1) < 0.85 * gpu.attainable
    for ranks in (1, 2, 4, 8, 16):
        assert efficiency("megatron-345m", ranks) < efficiency("megatron-8.3b", ranks)


# Accelerators


@pytest.mark.parametrize(
    ("name", "peak", "fp8", "bandwidth", "gigabytes"),
    [
        ("a100", 312e12, None, 2039e9, 80),
        ("h100", 989e12, 1979e12, 3350e9, 80),
        ("h200", 989e12, 1979e12, 4800e9, 141),
        ("b200", 2250e12, 4500e12, 8000e9, 180),
        ("mi300x", 1307.4e12, 2614.9e12, 5300e9, 192),
        ("tpu-v5p", 459e12, None, 2765e9, 95),
    ],
)
def test_accelerators_have_the_figures_of_their_data_sheets(name, peak, fp8, bandwidth, gigabytes):
    gpu = GPUS[name]
    assert (gpu.peak_flops, gpu.memory_Bps, gpu.memory_bytes) == (peak, bandwidth, gigabytes * 10**9)
    if fp8 is None:
        with pytest.raises(TreefoldError, match=f"{name} has no peak for fp8"):
            gpu.computing_with("fp8")
    else:
        assert gpu.computing_with("fp8").peak_flops == fp8


def test_names_of_accelerators_ignore_case_and_numbers_change_the_peak():
    [row] = train("bert-base", "ring:4", "ring", accelerator="H100", batch=2)
    [wide] = train("bert-base", "ring:4", "ring", accelerator="TPU_v5p", batch=2)
    [exact] = train("bert-base", "ring:4", "ring", accelerator="H100", batch=2, numbers="TF32")
    assert (row.accelerator, wide.accelerator) == ("h100", "tpu-v5p")
    assert exact.peak_flops == 4 * 494e12 and exact.compute_s > row.compute_s
    assert exact.communication_s > row.communication_s  # numbers and gradients of 32 bits
    assert exact.parameters_bytes == 2 * row.parameters_bytes


# Parts of the peak, and tokens


def test_products_without_loss_reach_the_peak():
    gpu = Gpu(name="ideal", peak_flops=1e12, memory_Bps=1e18, attainable=1.0, launch_s=0.0)
    model = Model("two", (linear("a", 512, 512), linear("b", 512, 512)), tokens=7)
    [row] = train(model, "ring:1", "ring", accelerator=gpu, batch=8, accumulate=3, optimizer="none")
    # The first layer's input needs no gradient: 2 + 3 products.
    assert row.flops == 2 * 5 * 512 * 512 * 8 * 3
    assert row.mfu == pytest.approx(1, rel=1e-6)
    assert row.tokens_per_s == pytest.approx(7 * 24 / row.iteration_s)


def test_a_transformers_operations_are_six_for_each_parameter_and_token_and_its_attention():
    [row] = train("megatron-8.3b", SERVERS, "ring", accelerator="h100", batch=1)
    of_products = 6 * (12 * 72 * 3072**2 + 3072 * 50257) * 1024 * 32
    of_attention = 6 * 72 * 2 * 1024 * 3072 * 1024 * 32
    assert row.flops == pytest.approx(of_products + of_attention, rel=1e-3)
    assert row.tokens == 32 * 1024
    assert row.mfu == pytest.approx(row.flops / (32 * 989e12 * row.iteration_s))
    assert 0 < row.mfu < GPUS["h100"].attainable


def test_every_accelerator_tells_its_part_of_the_peak():
    for name in ACCELERATORS:
        [row] = train("resnet50", "ring:4", "ring", accelerator=name)
        assert 0 < row.mfu < 1 and row.tokens_per_s is None


# Memory


def test_mixed_precision_with_adam_takes_sixteen_bytes_a_parameter():
    model = load("megatron-1.2b")
    count = model.parameters

    def states(**options):
        return sum(memory_of(model, _recipe(**options))[:3])

    assert states() == states(numbers="fp32") == 16 * count
    assert states(optimizer="sgd") == 8 * count
    assert states(numbers="fp32", optimizer="sgd") == 8 * count
    assert states(sharding="zero-1") == 4 * count + 12 * count / 16
    # One bucket travels at a time; of FSDP's units, two are there.
    largest = max(layer.parameters for layer in model.layers)
    assert states(sharding="zero-2", overlap="layer") == 2 * count + 14 * count / 16 + 2 * largest
    assert states(sharding="zero-2") == states(sharding="zero-1")
    assert 16 * count / 16 + 4 * largest < states(sharding="fsdp") < 16 * count / 16 + 6 * largest
    assert states(sharding="fsdp", overlap="none") == 16 * count / 16 + 4 * largest
    whole = states(sharding="fsdp", accumulate=2) - states(sharding="fsdp")
    assert whole == 2 * count - 2 * count / 16 - 2 * largest


def test_a_blocks_activations_are_those_of_korthikanti_within_their_masks():
    width, heads, tokens = 3072, 32, 1024
    block = [layer for layer in load("megatron-8.3b").layers if layer.name.startswith("layer7.")]
    kept = 2 * sum(map(activations, block))
    assert kept == 32 * tokens * width + 5 * heads * tokens**2
    published = 34 * tokens * width + 5 * heads * tokens**2
    assert kept == pytest.approx(published, rel=0.03)
    scores, context = (layer._replace(is_fused=True) for layer in block[1:3])
    fused = sum(activations(layer._replace(elements=0)) for layer in (scores, context))
    assert fused == 4 * tokens * width  # queries, keys, values and what comes out


def test_fused_attention_moves_no_scores():
    gpu = Gpu(name="fast", peak_flops=1e18, memory_Bps=1e12, attainable_memory=1.0, launch_s=0.0)
    scores = next(layer for layer in load("bert-base").layers if layer.name.endswith("scores"))
    bare = scores._replace(elements=0, kernels=0, is_fused=True)
    assert gpu.layer_time(bare, 4, needs_input_gradient=False).forward_s == pytest.approx(
        4 * 12 * 2 * 2 * 512 * 64 / 1e12
    )


def test_activations_grow_with_a_micro_batch_and_nothing_else_does():
    model = load("bert-large")
    few, many = memory_of(model, _recipe(batch=2)), memory_of(model, _recipe(batch=6, accumulate=1))
    assert few[:3] == many[:3] and many.activations_bytes == 3 * few.activations_bytes
    assert memory_of(model, _recipe(batch=2, accumulate=3)) == few


def test_what_does_not_fit_is_said_with_what_helps():
    with pytest.warns(
        UserWarning, match="does not fit: a rank needs .* GB, and h100 has 80 GB; these reduce it:"
    ) as told:
        [row] = train("megatron-8.3b", "ring:8", "ring", accelerator="h100", batch=1)
    assert "sharding='fsdp', a larger model_parallel" in str(told[0].message)
    assert row.memory_bytes > row.accelerator_memory_bytes == 80 * 10**9
    parts = (row.parameters_bytes, row.gradients_bytes, row.optimizer_bytes, row.activations_bytes)
    assert row.memory_bytes == sum(parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train("megatron-8.3b", "ring:8", "ring", accelerator="h100", batch=1, sharding="fsdp")


# Sharding


@pytest.mark.parametrize("overlap", ["none", "layer", "bucket"])
def test_fsdp_sends_three_times_the_parameters(overlap):
    model = load("bert-base")
    sends = _sends(model, _recipe(ranks=4, sharding="fsdp", overlap=overlap))
    assert _bytes_of(sends, "all-gather") == 2 * 2 * model.parameters
    assert _bytes_of(sends, "reduce-scatter") == 2 * model.parameters
    network = package.topology("ring:4")
    sent = 0
    for send in sends:
        plan = package.plan(network, "ring", collective=send.collective)
        sent += package.trace(plan, size_bytes=send.size_bytes).transfers()["bytes"].sum()
    # Each of the four ranks sends (P - 1) / P of each.
    assert sent / 4 == pytest.approx(3 * 2 * model.parameters * 3 / 4, rel=1e-4)


def test_fsdp_computes_a_unit_after_its_gather_and_fetches_one_ahead():
    model = load("bert-base")
    [row] = train(model, "ring:4", "ring", accelerator="h100", batch=2, sharding="fsdp")
    gathered, units, done = {}, 0, []
    for each in row.timeline.activities:
        if each.kind == "all-gather":
            units += 1
            gathered[each.name] = each
            # The gather before the last one is in use; what was used before has been freed.
            assert len(done) < 2 or each.start_s >= done[-2]
        if each.lane == COMPUTE and each.kind == "forward" and each.name in gathered:
            assert each.start_s >= gathered[each.name].end_s - 1e-12
            done.append(each.start_s)
    assert units == 2 * sum(layer.parameters > 0 for layer in model.layers)


def test_buckets_make_fewer_units_of_fsdp():
    model = load("bert-base")

    def gathers(**options):
        return sum(send.collective == "all-gather" for send in _sends(model, _recipe(sharding="fsdp", **options)))

    assert gathers(overlap="bucket", bucket_bytes=10**18) == 2
    assert 2 < gathers(overlap="bucket") < gathers() == gathers(overlap="none")


def test_prefetching_hides_gathers():
    for network in ("ring:4", SERVERS):
        waiting, hiding = (
            train("bert-large", network, "ring", accelerator="h100", batch=4, sharding="fsdp", overlap=overlap)[0]
            for overlap in ("none", "layer")
        )
        assert waiting.overlapped_communication_s == 0 < hiding.overlapped_communication_s
        assert hiding.iteration_s < waiting.iteration_s


# Micro-batches


def test_gradients_travel_once_in_an_iteration_and_fsdp_gathers_in_each_micro_batch():
    model = load("bert-base")
    size = 2 * model.parameters
    for overlap in ("none", "layer", "bucket"):
        for sharding, sums, gathers in (
            ("none", 1, 0),
            ("zero-1", 1, 1),
            ("zero-2", 4, 1),  # there is no room for whole gradients
            ("fsdp", 1, 8),
        ):
            sends = _sends(model, _recipe(accumulate=4, sharding=sharding, overlap=overlap))
            assert _bytes_of(sends, "all-gather") == gathers * size
            assert _bytes_of(sends, "all-reduce") + _bytes_of(sends, "reduce-scatter") == sums * size


def test_micro_batches_multiply_compute_and_samples():
    [one] = train("bert-base", "ring:4", "ring", accelerator="h100", batch=4)
    [four] = train("bert-base", "ring:4", "ring", accelerator="h100", batch=4, accumulate=4)
    assert four.samples == 4 * one.samples and four.flops == 4 * one.flops
    assert four.compute_s == pytest.approx(4 * one.compute_s)
    assert four.communication_s == pytest.approx(one.communication_s)
    # Gradients of 2 bytes are read twice and written three times, for the second to the fourth micro-batch.
    added = 3 * 3 * 2 * one.parameters / (3350e9 * 0.9)
    assert four.local_aggregation_s == pytest.approx(added, rel=0.01)
    assert four.mfu > one.mfu


# Groups


def test_groups_are_neighbours_and_ranks_at_the_same_place():
    network = package.topology("torus:4x4", ranks="15,14,13,12,3,2,1,0")
    groups = groups_of(network, 4)
    assert [group.rank_names for group in groups.model] == [
        [f"GPU{place}" for place in places] for places in ((15, 14, 13, 12), (3, 2, 1, 0))
    ]
    assert [group.rank_names for group in groups.data] == [[f"GPU{15 - at}", f"GPU{3 - at}"] for at in range(4)]
    assert groups_of(network, 1) == ((network,), ()) and groups_of(network, 8) == ((), (network,))
    assert groups.ranks == 8


def test_hybrid_parallelism_is_between_its_ends():
    """Groups of 4 add sums among 4 ranks, and gradients of a quarter of the model among 8."""
    network, options = package.topology(SERVERS), {"accelerator": "h100", "batch": 4, "simulator": "flow"}
    [row] = train("megatron-345m", network, "ring", model_parallel=4, **options)
    part = cut(load("megatron-345m"), 4)
    assert row.parameters_per_rank == part.parameters and row.samples == 4 * 8
    groups = groups_of(network, 4)
    times = [
        [
            package.simulate(package.plan(group, "ring"), size_bytes=size, simulator="flow").time_s + 6e-6
            for group in kind
        ]
        for kind, size in ((groups.data, 2 * part.parameters), (groups.model, 2 * 4 * 1024 * 1024))
    ]
    assert row.communication_s >= max(times[0]) + (24 * 4 + 2) * max(times[1]) * (1 - 1e-9)
    assert row.exposed_communication_s == pytest.approx(row.communication_s)


def test_groups_whose_links_differ_send_at_the_same_time():
    network = package.topology(SERVERS)
    for size, are_apart in ((8, True), (16, False)):
        groups = groups_of(network, size)
        data, model = ([package.plan(group, "ring") for group in kind] for kind in groups)
        assert use_other_links(data, model) == are_apart
        [row] = train(
            "megatron-345m", network, "ring", accelerator="h100", batch=2, model_parallel=size, overlap="layer"
        )
        assert ("network of model parallelism" in {each.lane for each in row.timeline.activities}) == are_apart


def test_model_parallelism_of_one_rank_is_data_parallelism():
    [plain] = train("bert-base", "ring:4", "ring", accelerator="h100")
    [same] = train("bert-base", "ring:4", "ring", accelerator="h100", model_parallel=1)
    assert plain.iteration_s == same.iteration_s


# All together


def test_no_timeline_is_shorter_than_its_compute_or_its_communication():
    draw = random.Random(7)
    for _ in range(60):
        options = {
            "accelerator": draw.choice(["h100", "a100", "mi300x", "tpu-v5p"]),
            "batch": draw.randint(1, 4),
            "accumulate": draw.choice([1, 1, 2, 3]),
            "sharding": draw.choice(["none", "zero-1", "zero-2", "fsdp"]),
            "overlap": draw.choice(["none", "layer", "bucket"]),
            "model_parallel": draw.choice([1, 2, 4]),
        }
        network = draw.choice(["torus:4x4", "dgx2", "ring:8", "cluster:nodes=2,gpus=4"])
        [row] = train("transformer", network, "ring", **options)
        bars = row.timeline.activities
        assert row.iteration_s >= max(each.end_s for each in bars) - 1e-12
        for lane in {each.lane for each in bars}:
            of_lane = [each for each in bars if each.lane == lane]
            assert row.iteration_s >= sum(each.end_s - each.start_s for each in of_lane) - 1e-9
            assert all(one.end_s <= other.start_s + 1e-12 for one, other in pairwise(of_lane))
        work = sum(step.seconds for step in steps_of(cut_for(row), _recipe(row.ranks, **options)) if is_compute(step))
        assert row.iteration_s >= work - 1e-12
        assert row.samples == row.batch * row.accumulate * row.ranks // row.model_parallel
        assert row.memory_bytes > 0


def cut_for(row):
    """Return the model that a rank of a row trains."""
    model = load(row.model)
    return cut(model, row.model_parallel) if row.model_parallel > 1 else model


def is_compute(step):
    return isinstance(step, Compute)


def test_groups_that_share_links_take_from_each_other_but_in_the_analytic_simulator():
    """The ranks at one place of all groups are every fourth of a ring: their gradients cross all links."""
    how = {"accelerator": "h100", "model_parallel": 4, "batch": 1}
    [flow], [alone] = (
        train("megatron-345m", "ring:16", "ring", simulator=name, **how) for name in ("flow", "analytic")
    )
    assert flow.communication_s > 1.5 * alone.communication_s
    [flow], [alone] = (
        train("megatron-345m", "torus:4x4", "ring", simulator=name, **how) for name in ("flow", "analytic")
    )
    assert flow.communication_s == pytest.approx(alone.communication_s)
