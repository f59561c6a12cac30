"""All-to-alls with unequal blocks: they are read, planned, proven, run and bounded, and mistakes are named."""

import json

import numpy as np
import pytest

import treefold
from commands import printed, refused
from treefold import blocks, runtime

SIZES = [[0, 3, 1, 0], [2, 2, 0, 0], [5, 0, 0, 40], [0, 0, 0, 0]]


def exchanged(arrays, sizes):
    """NumPy's own result: the blocks of all ranks for each rank."""
    ends = np.cumsum(sizes, axis=1)
    parts = [np.split(array, row[:-1]) for array, row in zip(arrays, ends, strict=True)]
    return [np.concatenate([row[rank] for row in parts]).tolist() for rank in range(len(sizes))]


def arrays_of(sizes, dtype=np.int64):
    return [np.arange(sum(row), dtype=dtype) + 1000 * rank for rank, row in enumerate(sizes)]


@pytest.mark.parametrize("spec", ["ring:4", "torus:2x2", "line:4", "cluster:nodes=2,gpus=2,rails=2"])
@pytest.mark.parametrize("algorithm", ["forest", "ring", "multitree", "packing", "halving-doubling"])
def test_plans_exchange_unequal_blocks(spec, algorithm):
    plan = treefold.plan(spec, algorithm, collective="all-to-all", blocks=SIZES)
    assert plan.size_bytes == 45 and plan.blocks.tolist() == SIZES
    assert treefold.check(plan)
    arrays = arrays_of(SIZES)
    assert [each.tolist() for each in treefold.run(plan, arrays)] == exchanged(arrays, SIZES)
    again = treefold.Plan.from_json(plan.to_json())
    assert again == plan and treefold.check(again)
    bound_s = treefold.bound_at(spec, "45MiB", "all-to-all", blocks=SIZES).time_s
    assert treefold.simulate(plan, size_bytes="45MiB", simulator="flow").time_s >= bound_s * (1 - 1e-9)


def test_one_huge_block_takes_all_ways():
    huge = np.zeros((5, 5), int)
    huge[0, 4] = 1 << 30
    plan = treefold.plan("ring:5", "forest", collective="all-to-all", blocks=huge)
    # Over the cable between them, and the long way round.
    assert plan.rate == pytest.approx(32e9, rel=0.01)
    least_s = treefold.bound_at("ring:5", None, "all-to-all", blocks=huge).time_s
    assert treefold.simulate(plan, simulator="flow").time_s == pytest.approx(least_s, rel=0.01)


def test_equal_blocks_need_no_matrix():
    equal = treefold.plan("ring:4", "forest", collective="all-to-all", blocks=np.full((4, 4), 1 << 20))
    assert equal.blocks is None and equal.size_bytes == 4 << 20
    assert equal == treefold.plan("ring:4", "forest", collective="all-to-all", size_bytes=4 << 20)


def test_other_blocks_go_along_the_same_trees():
    plan = treefold.plan("torus:2x2", "multitree", collective="all-to-all")
    changed = plan.with_blocks(SIZES)
    assert changed.blocks.tolist() == SIZES and treefold.check(changed)
    assert changed.fingerprint != plan.fingerprint
    with pytest.raises(treefold.TreefoldError, match="so it has no way between them; plan anew with these"):
        changed.with_blocks(np.ones((4, 4), int))
    with pytest.raises(treefold.TreefoldError, match="this is a plan of an all-reduce"):
        treefold.plan("torus:2x2").with_blocks(SIZES)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_groups_exchange_blocks_of_any_sizes(order):
    turned = np.array(SIZES)[np.ix_(order, order)].tolist()
    arrays = arrays_of(turned, np.float32)

    def work(group):
        own, sizes = arrays[group.worker], turned[group.worker]
        twice = [group.all_to_all(own, sizes=sizes).tolist() for _ in range(2)]
        empty = group.all_to_all(own[:0], sizes=[0] * 4).tolist()
        alone = group.all_to_all(own[:2], sizes=[min(own.size, 2) * (worker == group.worker) for worker in range(4)])
        return twice, empty, alone.tolist()

    expected = exchanged(arrays, turned)
    for rank, (twice, empty, alone) in enumerate(runtime.in_threads(4, work)):
        assert twice == [expected[rank]] * 2 and empty == [] and alone == arrays[rank][:2].tolist()


def test_sizes_of_a_group_have_to_fit_the_array():
    def work(group):
        for sizes, message in (
            ([1, 2], "they must add up to the 4 elements"),
            ([1, 1, 1], "they must add up to the 4 elements"),
            ([-1, 2, 3], "the size for worker 0 must be at least 0, got -1"),
            ([1, 1.5, 1.5], "the size for worker 1 must be a whole number, got 1.5"),
            (4, "sizes 4 are not a list"),
        ):
            with pytest.raises(treefold.TreefoldError, match=message):
                group.all_to_all(np.zeros(4), sizes=sizes)

    runtime.in_threads(3, work)


def test_arrays_of_a_run_have_the_lengths_of_their_blocks():
    plan = treefold.plan("ring:4", "forest", collective="all-to-all", blocks=SIZES)
    arrays = arrays_of(SIZES)
    arrays[1] = arrays[1][:3]
    with pytest.raises(treefold.TreefoldError, match="rank 1 has 3 elements; its blocks have 4 where the longest"):
        treefold.run(plan, arrays)


BAD = [
    ([[0, 1]], "blocks have 1 rows, but there are 2 ranks; give a row for each"),
    ([[0, 1], [2]], "blocks: row 1 has 1 sizes, but there are 2 ranks"),
    ([[0, -1], [2, 0]], "blocks, from rank 0 to 1: size -1"),
    (np.array([[0, -1], [2, 0]]), "size -1 is negative"),
    ([[0, 1.5], [2, 0]], "blocks, from rank 0 to 1: size 1.5"),
    ([[0, float("nan")], [2, 0]], "from rank 0 to 1: size nan"),
    ([[0, "many"], [2, 0]], "from rank 0 to 1: size 'many'"),
    ([[3, 0], [0, 3]], "the blocks of every rank for others are empty"),
    (np.zeros((2, 2), int), "the blocks of every rank for others are empty"),
    ([[0, 1 << 50], [3, 0]], "round them, for example to whole KiB"),
    (5, "blocks 5 are no matrix"),
    ({"a": 1}, "are no matrix"),
    ("nowhere.csv", "nowhere.csv: no such file"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_mistakes_are_named(given, message):
    with pytest.raises(treefold.TreefoldError) as caught:
        treefold.plan("line:2", collective="all-to-all", blocks=given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "broadcast"])
def test_other_collectives_have_no_blocks(collective):
    with pytest.raises(treefold.TreefoldError, match="in an all-to-all only"):
        treefold.plan("ring:4", collective=collective, blocks=SIZES)
    with pytest.raises(treefold.TreefoldError, match="in an all-to-all only"):
        treefold.bound_at("ring:4", 1, collective, blocks=SIZES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; write a row of sizes for each rank"),
        ("0,0\n0,3", "the blocks of every rank for others are empty"),
    ],
)
def test_mistakes_in_a_file_name_the_file(text, message, tmp_path):
    (tmp_path / "blocks.csv").write_text(text)
    with pytest.raises(treefold.TreefoldError, match=f"blocks.csv: {message}"):
        treefold.plan("ring:2", collective="all-to-all", blocks=tmp_path / "blocks.csv")


def test_files_hold_sizes_with_units(tmp_path):
    (tmp_path / "a.csv").write_text("# a comment\n0,4KiB\n\n1024,0\n")
    (tmp_path / "a.json").write_text(json.dumps([[0, "4KiB"], [1024, 0]]))
    for name in ("a.csv", "a.json"):
        assert blocks.matrix(tmp_path / name, 2).tolist() == [[0, 4096], [1024, 0]]
    (tmp_path / "a.txt").write_text("0")
    with pytest.raises(treefold.TreefoldError, match=r"write a matrix as \.csv or \.json"):
        blocks.matrix(tmp_path / "a.txt", 2)


def test_commands_take_a_file(tmp_path):
    file, plan = tmp_path / "blocks.json", tmp_path / "plan.json"
    file.write_text(json.dumps(SIZES))
    asked = ["ring:4", "--collective", "all-to-all", "--blocks", str(file)]
    assert "45B" in printed("bound", *asked)
    assert "forest" in printed("compare", *asked, "--sizes", "1MiB", "-a", "ring,forest")
    printed("plan", *asked, "-o", str(plan))
    assert treefold.load_plan(plan).blocks.tolist() == SIZES
    assert "add --collective all-to-all" in refused("plan", "ring:4", "--blocks", str(file))
    assert "already a plan; drop --blocks" in refused("simulate", str(plan), "--blocks", str(file))
