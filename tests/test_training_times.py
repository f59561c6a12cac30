"""Training time: timelines against their definition, what goes to the network, and what collectives take."""

import random
from itertools import pairwise

import pytest

import treefold as package
from treefold.training import GPUS, Model, TrainingOptions, linear, load, train
from treefold.training.interpolation import times_of_sizes
from treefold.training.recipe import recipe_of
from treefold.training.steps import steps_of
from treefold.training.tensor_parallel import cut
from treefold.training.timeline import LANES, Compute, Send, Wait, build_timeline

# Timelines


def _in_ticks(steps, collective_s, compute_overhead, are_apart, tick=1e-3):
    """Follow the steps in small ticks: an oracle that knows nothing of closed forms."""
    queues, now, exposed, busy = {"data": [], "model": []}, 0.0, 0.0, 0.0
    waiting = set()

    def pass_time(compute):
        nonlocal now
        now += tick
        is_busy = any(queues.values())
        for queue in queues.values():
            if queue:
                queue[0][1] -= tick
                if queue[0][1] <= tick / 2:
                    waiting.discard(queue.pop(0)[0])
        return tick * (1 - compute_overhead) if compute and is_busy else tick

    def wait_while(condition):
        nonlocal exposed
        while condition():
            pass_time(False)
            exposed += tick

    for step in steps:
        if isinstance(step, Compute):
            left = step.seconds
            while left > tick / 2:
                left -= pass_time(True)
            busy += step.seconds
        elif isinstance(step, Send):
            queues[step.among if are_apart else "data"].append([step, collective_s[step.key]])
            waiting.add(step)
            wait_while(lambda sent=step: sent.waits and sent in waiting)
        else:
            wait_while(lambda until=step.until: waiting if until is None else until in waiting)
    wait_while(lambda: waiting)
    return now, exposed


def _random_steps(draw):
    """Yield steps; a wait is for one of the collectives before it, or for all."""
    sent = []
    for place in range(12):
        kind = draw.choice(["compute", "send", "send", "wait"])
        if kind == "compute":
            yield Compute("c", "backward", draw.randint(0, 300) / 100)
        elif kind == "send":
            among = draw.choice(["data", "model"])
            sent.append(Send(f"s{place}", "all-reduce", draw.randrange(4), draw.random() < 0.2, among))
            yield sent[-1]
        else:
            yield Wait(draw.choice([None, *sent]))


def test_timelines_agree_with_small_ticks():
    draw = random.Random(2)
    for _ in range(80):
        collective_s = {
            (among, "all-reduce", size): draw.randint(1, 300) / 100 for size in range(4) for among in ("data", "model")
        }
        steps, are_apart = list(_random_steps(draw)), draw.random() < 0.5
        overhead = draw.choice([0.0, 0.2, 0.5])
        timeline = build_timeline(steps, collective_s, overhead, are_apart=are_apart)
        whole, exposed = _in_ticks(steps, collective_s, overhead, are_apart)
        assert timeline.iteration_s == pytest.approx(whole, abs=0.06)
        assert timeline.exposed_s == pytest.approx(exposed, abs=0.06)
        parts = (*timeline.busy_s.values(), timeline.compute_overhead_s, timeline.exposed_s)
        assert timeline.iteration_s == pytest.approx(sum(parts))
        lanes = {lane: [each for each in timeline.activities if each.lane == lane] for lane in LANES}
        sent = [sum(each.end_s - each.start_s for each in lanes[lane]) for lane in LANES[1:]]
        # Both networks together are busy for as long as one of them at least, and as both one after the other at most.
        assert max(sent) - 1e-9 <= timeline.exposed_s + timeline.overlapped_s <= sum(sent) + 1e-9
        if not are_apart:
            assert timeline.exposed_s + timeline.overlapped_s == pytest.approx(sent[0])


def test_lanes_do_one_thing_at_a_time():
    steps = [Compute("f", "forward", 1.0), *[Compute("b", "backward", 0.5), Send("b", "all-reduce", 8)] * 4]
    for lane in ("compute", "network"):
        activities = build_timeline(steps, {("data", "all-reduce", 8): 0.9}, 0.3).activities
        of_lane = [each for each in activities if each.lane == lane]
        assert all(one.end_s <= other.start_s + 1e-12 for one, other in pairwise(of_lane))


# What goes to the network


def _recipe(**options):
    return recipe_of(TrainingOptions(accelerator="volta", **({"batch": 8} | options)), ranks=16)


@pytest.mark.parametrize("overlap", ["none", "layer", "bucket"])
@pytest.mark.parametrize("name", ["resnet50", "bert-base", "transformer:paper"])
def test_every_gradient_is_added_once_in_the_order_of_the_backward_pass(name, overlap):
    model = load(name)
    steps = steps_of(model, _recipe(overlap=overlap))
    sends = [step for step in steps if isinstance(step, Send)]
    assert sum(send.size_bytes for send in sends) == 2 * model.parameters
    with_gradients = sum(layer.parameters > 0 for layer in model.layers)
    assert len(sends) == {"none": 1, "layer": with_gradients}.get(overlap, len(sends))
    if overlap == "bucket":
        assert all(send.size_bytes >= 25 << 20 for send in sends[1:-1])
        # As DDP's, the first bucket is small.
        first = next(layer for layer in reversed(model.layers) if layer.parameters)
        assert sends[0].size_bytes >= 1 << 20
        assert sends[0].size_bytes < (1 << 20) + 2 * max(layer.parameters for layer in model.layers)
        assert sends[0].name.startswith(first.name)
    backward = [step.name for step in steps if isinstance(step, Compute) and step.kind == "backward"]
    assert backward == [layer.name for layer in reversed(model.layers)]
    for place, step in enumerate(steps):
        if isinstance(step, Send):
            ready = Compute(step.name.split(" to ")[-1], "backward", 0.0)[:2]
            assert ready in [earlier[:2] for earlier in steps[:place]]


def test_sharding_scatters_gradients_and_gathers_parameters():
    model = load("resnet50")
    steps = steps_of(model, _recipe(overlap="bucket", sharding="zero-2"))
    sends = [(step.collective, step.size_bytes) for step in steps if isinstance(step, Send)]
    scattered = sum(size for collective, size in sends if collective == "reduce-scatter")
    assert sends[-1] == ("all-gather", scattered) == ("all-gather", 2 * model.parameters)
    update = next(step.seconds for step in steps if isinstance(step, Compute) and step.kind == "optimizer")
    whole = next(
        step.seconds for step in steps_of(model, _recipe()) if isinstance(step, Compute) and step.kind == "optimizer"
    )
    assert update == pytest.approx(whole / 16, rel=1e-3)


def test_tensor_parallelism_adds_twice_in_each_pass_of_a_block():
    """The smallest Megatron on 16 GPUs adds about 8 MB at a time (in-network paper, VI-E)."""
    part = cut(load("megatron-345m"), 16)
    sends = [step for step in steps_of(part, _recipe(batch=4, model_parallel=16)) if isinstance(step, Send)]
    assert {send.size_bytes for send in sends} == {4 * 1024 * 1024 * 2}
    assert all(send.waits for send in sends)
    assert len(sends) == 24 * 4 + 2  # and once each for the embedding and the vocabulary
    assert sum(layer.macs for layer in part.layers) == pytest.approx(
        sum(layer.macs for layer in load("megatron-345m").layers) / 16, rel=0.01
    )


def test_behind_an_embedding_the_first_product_needs_its_inputs_gradient():
    for name, needed in (("resnet50", False), ("bert-base", True)):
        model = load(name)
        first = next(layer for layer in model.layers if layer.macs)
        steps = steps_of(model, _recipe())
        [backward] = [step for step in steps if isinstance(step, Compute) and step[:2] == (first.name, "backward")]
        assert backward.seconds == GPUS["volta"].layer_time(first, 8, needs_input_gradient=needed).backward_s


# Costs


def test_a_size_is_simulated_once_and_lines_are_exact_on_lines():
    asked = []

    def simulate(sizes):
        asked.extend(sizes)
        return {size: 1e-6 + size * 1e-11 for size in sizes}

    sizes = [100, 5000, 100, 1 << 20, 100 << 20, 100 << 20]
    times = times_of_sizes(sizes, simulate, 8192)
    assert len(asked) == len(set(asked))
    assert max(asked) < 1 << 20
    assert sum(asked) <= sum(set(sizes))
    assert times.seconds == pytest.approx({size: 1e-6 + size * 1e-11 for size in sizes})
    assert times.error == pytest.approx(0, abs=1e-9)
    assert times_of_sizes(sizes, simulate, None).error is None


def test_where_slopes_differ_more_is_simulated_but_never_more_than_was_asked_for():
    for sizes in ([200, 64 << 20], [1 << 20], [100_000, 200_000], [60 << 10]):
        asked = []

        def simulate(many, asked=asked):
            asked.extend(many)
            return {size: size * 1e-11 * (1 + 0.3 * (size.bit_length() % 2)) for size in many}  # never settles

        times = times_of_sizes(sizes, simulate, 8192)
        assert sum(asked) <= sum(sizes) and max(asked) <= max(sizes)
        assert (times.error is None) == (set(sizes) <= set(asked))
        assert times.error is None or times.error > 0.1


def test_a_slope_that_settles_slowly_is_followed():
    def seconds(size):
        return size * 1e-11 - 1e-5 * size / (size + (1 << 20))

    times = times_of_sizes([256 << 20], lambda many: {size: seconds(size) for size in many}, 8192)
    assert abs(times.seconds[256 << 20] / seconds(256 << 20) - 1) <= times.error


@pytest.mark.parametrize(
    ("spec", "algorithm", "most"),
    [("torus:4x4", "multitree", 0.02), ("torus:4x4", "ring2d", 0.05), ("dgx2", "ring", 0.03)],
)
def test_packets_are_interpolated_within_what_is_told(spec, algorithm, most):
    network = package.topology(spec)
    model = Model("one", (linear("fc", 1500, 1500),))
    [row] = train(model, network, algorithm, simulator="packet")
    plan = package.plan(network, algorithm, size_bytes=9_000_000, simulator="packet")
    exact = package.simulate(plan, size_bytes=9_000_000, simulator="packet").time_s
    assert row.interpolation_error <= most
    assert row.communication_s == pytest.approx(exact, rel=row.interpolation_error)
