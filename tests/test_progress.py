"""Progress: what takes long says how far it is, and says nothing where nobody listens."""

import pytest

import treefold
from treefold import progress


def heard(work):
    reports = []
    with progress.reported_to(reports.append):
        work()
    return reports


@pytest.mark.parametrize("simulator", ["flow", "packet"])
def test_a_long_simulation_reports_how_far_it_is(simulator):
    algorithm, size = ("multitree", 1 << 20) if simulator == "packet" else ("dbtree", 64 << 20)
    plan = treefold.plan("torus:16x16", algorithm)
    done = [each.done for each in heard(lambda: treefold.simulate(plan, size_bytes=size, simulator=simulator))]
    assert done == sorted(done) and all(0 <= each <= 1 for each in done)
    assert done and (len(done) < 3 or done[-1] > done[0])


def test_a_comparison_reports_each_algorithm_and_size_and_never_goes_back():
    reports = heard(
        lambda: treefold.compare("torus:4x4", "ring,multitree", sizes_bytes=[1024, 4096], simulator="packet")
    )
    tasks = ["1KiB (1 of 2): ring", "1KiB (1 of 2): multitree", "4KiB (2 of 2): ring", "4KiB (2 of 2): multitree"]
    assert [each.task for each in reports if each.task in tasks] == tasks
    done = [each.done for each in reports]
    assert done == sorted(done) and done[0] == 0 and done[-1] < 1


def test_nested_work_is_a_part_of_the_whole():
    def work():
        with progress.working_on("outer", 0.5, 0.5):
            progress.report("inner", 0.5)
            progress.report("unknown")

    assert heard(work) == [
        progress.Progress("outer", 0.5),
        progress.Progress("outer: inner", 0.75),
        progress.Progress("outer: unknown", 0.5),
    ]
    assert not progress.is_heard()
