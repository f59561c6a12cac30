"""Packets pass what links share, and algorithms that do not plan around it say so."""

import warnings

import pytest

import treefold
from commands import command, output, refused
from reading import put

TUNNEL = "source,target,bandwidth,latency,shares\na,b,10GB/s,1us,tunnel=8GB/s\na,c,10GB/s,1us,\nb,c,10GB/s,1us,\n"
TUNNEL += "c,d,10GB/s,1us,tunnel\nb,d,10GB/s,1us,\n"
REMEDY = "planned without regard to what links share, such as 'tunnel', which is the limit here; packing, "
REMEDY += "forest and blink plan around it"


@pytest.fixture
def tunnel(tmp_path):
    return put(tmp_path, "tunnel.csv", TUNNEL)


def test_packets_pass_what_links_share(tunnel):
    plan = treefold.plan(tunnel, "packing")
    trace = treefold.trace(plan, size_bytes="256KiB", simulator="packet")
    (used,) = trace.shared()
    assert used.name == "tunnel" and 0 < used.full_rate_s <= used.busy_s <= trace.time_s
    shapes = {name: each.values.shape for name, each in trace.samples(7).items()}
    assert shapes == {"buffers": (4, 7), "credits": (10, 7), "contention": (10, 7)}
    assert len(trace.links()) == len(trace.buffer_peak_flits) == 10
    row = output("simulate", tunnel, "-a", "packing", "--size", "256KiB", "--simulator", "packet")
    assert row["time_s"] == pytest.approx(trace.time_s) and 0 < row["bound_fraction"] <= 1


def test_a_fabric_refuses_what_links_share(tunnel):
    message = refused("simulate", tunnel, "-a", "packing", "--size", "4KiB", "--set", "switches=fabric")
    assert "a fabric does not count what links share, such as 'tunnel'; use the flow simulator" in message


def test_a_plan_that_shared_capacities_limit_names_those_that_plan_around_them(tunnel):
    with pytest.warns(UserWarning, match=f"^ring: {REMEDY}$"):
        treefold.plan(tunnel, "ring")
    with pytest.warns(UserWarning, match=f"^direct, ring: {REMEDY}$"):
        treefold.compare(tunnel, "direct,ring,packing", sizes_bytes="1MiB")
    done = command("plan", tunnel, "-a", "ring")
    assert (done.returncode, done.stderr) == (0, f"warning: ring: {REMEDY}\n")


def test_others_say_nothing(tunnel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for algorithm in ("auto", "packing", "forest", "blink"):
            treefold.plan(tunnel, algorithm)
        treefold.plan("ring:4", "ring")
        treefold.compare(tunnel, sizes_bytes="1MiB")
        wide = treefold.topology("full:4", node_cap="20GB/s")
        assert wide.shared() and treefold.plan(wide, "ring"), "it uses one link of each node at a time"


def test_the_table_of_algorithms_tells_who_plans_around_them():
    keepers = [name for name, each in treefold.algorithms().items() if each.keeps_shared]
    assert keepers == ["packing", "forest", "innet", "blink"]
    assert "sharing    does not plan around what links share\n" in command("algorithms", "ring").stdout
    assert "plans around what links share\n" in command("algorithms", "packing").stdout
