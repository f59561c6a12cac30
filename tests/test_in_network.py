"""Trees in the network: `innet` against its bound; multicast regions; software and switches on one fabric."""

import json
import random
import re

import pytest

import treefold
from commands import command
from treefold import Machine, TreefoldError
from treefold.regions import Region, switch_tables

DGX2 = "dgx2:planes=6"


def fabric(seed, able):
    """Draw six switches, of which a part reduces or multicasts, and eight accelerators with a cable or two each."""
    draw = random.Random(seed)
    switches = [f"S{number}" for number in range(6)]
    abilities = {"kind": "switch", "latency_s": 1e-7}
    nodes = [{"name": f"A{number}", "kind": "accelerator"} for number in range(8)]
    for name in switches:
        nodes.append({"name": name, "reduces": draw.random() < able, "multicasts": draw.random() < able} | abilities)
    nodes[8] |= {"reduces": True, "multicasts": True}
    cables = [(switches[number], switches[draw.randrange(number)]) for number in range(1, 6)]
    cables += [tuple(draw.sample(switches, 2)) for _ in range(4)]
    cables += [(f"A{number}", switch) for number in range(8) for switch in draw.sample(switches, draw.choice([1, 2]))]
    links = []
    for a, b in cables:
        facts = {"bandwidth_Bps": draw.choice([1.25e9, 5e9, 12.5e9]), "latency_s": 1e-7}
        links += [{"source": a, "target": b} | facts, {"source": b, "target": a} | facts]
    return treefold.topology(
        {"format": "treefold-topology", "version": 1, "name": f"fabric {seed}", "nodes": nodes, "links": links}
    )


@pytest.mark.parametrize("seed", range(12))
def test_innet_comes_to_the_bound_on_fabrics_where_not_all_switches_reduce(seed):
    network = fabric(seed, 1.0 if seed < 6 else 0.6)
    plan = treefold.plan(network, "innet")
    assert treefold.check(plan).correct
    bound = treefold.bound(network).in_network.rate_Bps
    assert 0.99 * bound <= plan.rate <= bound * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_no_operand_is_lost_on_fabrics_where_not_all_switches_reduce(seed):
    network = fabric(seed, 1.0 if seed < 6 else 0.6)
    try:
        plan = treefold.plan(network, "innet", simulator="packet")
    except treefold.MisfitError as error:
        assert "innet found no tree" in str(error)
        return
    row = treefold.simulate(plan, size_bytes=2_000_000, simulator="packet")
    ceiling = plan.rate * 128 / 160
    assert 0.5 * ceiling < row.algbw_Bps <= ceiling * 1.13  # 144 of 128 bytes each way, acknowledgements where they go


def test_innet_on_a_dgx2_is_as_good_as_push():
    plan = treefold.plan(DGX2, "innet")
    assert plan.rate == pytest.approx(150e9, rel=1e-4)
    row = treefold.simulate(plan, size_bytes=4_000_000, simulator="packet")
    assert 114e9 < row.algbw_Bps < 120e9
    assert row.packets.fabric.evictions == 0


def test_innet_needs_a_switch_that_reduces():
    with pytest.raises(TreefoldError, match="innet needs switches that reduce and multicast; torus:4x4 has none"):
        treefold.plan("torus:4x4", "innet")


def test_compare_shows_software_and_switches_on_one_fabric():
    done = command(
        "compare",
        DGX2,
        "-a",
        "ring,multitree,innet-pull,innet-push",
        "--sizes",
        "4KiB,1MiB",
        "--simulator",
        "packet",
        "--json",
    )
    time_s = {(row["algorithm"], row["size_bytes"]): row["time_s"] for row in json.loads(done.stdout)}
    assert 15 <= time_s["ring", 4096] / time_s["innet-push", 4096] <= 21
    assert all(time_s["innet-push", size] <= time_s["innet-pull", size] for size in (4096, 1 << 20))
    assert time_s["multitree", 4096] < time_s["ring", 4096]


def test_compare_has_all_plans_on_one_machine():
    rows = treefold.compare("dgx2", ["ring", "innet-push"], sizes_bytes=[4096], simulator="packet")
    assert {row.packets.switches for row in rows} == {"fabric"}
    alone = treefold.compare("dgx2", ["ring"], sizes_bytes=[4096], simulator="packet")
    assert alone[0].packets.switches == "routers"


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_software_uses_all_planes_whoever_takes_part(ranks):
    network = treefold.topology(DGX2, ranks=range(ranks))
    assert treefold.plan(network, "ring").rate == pytest.approx(150e9 * ranks / (2 * (ranks - 1)), rel=1e-3)


def test_seeds_and_the_rest_can_be_named_on_the_command_line():
    options = ["seed=7", "home_mapping=interleaved", "deterministic=true", "initiation=core"]
    settings = [part for option in options for part in ("--set", option)]
    done = command("simulate", DGX2, "-a", "innet-push", "--size", "4KiB", *settings)
    assert done.returncode == 0, done.stderr
    assert "packet simulator (fabric) at 1.5625GHz" in done.stdout


def test_synchronisation_is_what_software_pays_for():
    plan = treefold.plan(DGX2, "ring")

    def time_s(**machine):
        return treefold.simulate(plan, size_bytes=4096, simulator=Machine(**machine)).time_s

    free = time_s(sync_cost=0.0)
    assert time_s(sync_cost=1e-6) - free == pytest.approx(30e-6, rel=0.01)
    assert time_s(sync_cost=0.0, fence="acknowledged") > free + 30 * 300e-9
    assert time_s(switches="routers") < free


def test_software_on_a_fabric_has_a_trace(tmp_path):
    done = command(
        "simulate", DGX2, "-a", "ring", "--size", "64KiB", "--simulator", "packet", "--trace", tmp_path / "t.json"
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) > 1000


def test_the_order_of_a_deterministic_table_costs_bytes():
    plan = treefold.plan(DGX2, "innet-push")

    def row(**machine):
        return treefold.simulate(plan, size_bytes=1 << 18, simulator=Machine(**machine)).packets.fabric

    ordered = [row(deterministic=True, seed=seed) for seed in (1, 2)]
    assert ordered[0].digest == ordered[1].digest
    assert row(seed=1).digest != row(seed=2).digest
    assert ordered[0].table_peak_bytes > row().table_peak_bytes


def test_reports_tell_operators_and_what_went_wrong():
    plan = treefold.plan(DGX2, "innet-pull", size_bytes=1 << 16)

    def row(**machine):
        return treefold.simulate(plan, size_bytes=1 << 16, simulator=Machine(**machine)).packets.fabric

    assert (row().op, row(op="max").op) == ("sum", "max")
    assert row().digest != row(op="max").digest
    noisy = row(error_rate=0.05)
    assert row().retransmissions == 0 < noisy.duplicates < noisy.retransmissions
    assert row().failed_allocations == 0 < row(counters=1, wave=512).failed_allocations
    line = command("simulate", DGX2, "-a", "innet-pull", "--size", "64KiB", "--simulator", "packet", "--set", "op=max")
    assert "  max  " in line.stdout
    with pytest.raises(TreefoldError, match=r"^link \S+ -> \S+ gave up in cycle \d+: 5 retries .*raise retries"):
        row(error_rate=1.0, retries=5)


@pytest.mark.parametrize("algorithm", ["innet-push", "innet-pull", "innet"])
def test_tables_of_regions_have_every_multicast_of_the_trees(algorithm):
    """The entries are the simulator's; the edges of the plan's trees say the same."""
    network = treefold.topology("fattree128").with_ranks(range(12))
    entries = switch_tables(network, [Region(0, 1 << 16)], algorithm)
    found = {(switch, entry.source, entry.targets) for switch, rows in entries.items() for entry in rows}
    expected = set()
    for tree in treefold.plan(network, algorithm, size_bytes=1 << 16).trees():
        edges = list(tree.broadcast())
        parent = {edge.target: edge.source for edge in edges}
        for switch in {edge.source for edge in edges} - set(network.rank_names):
            targets = tuple(edge.target for edge in edges if edge.source == switch)
            expected.add((switch, parent.get(switch), targets))
    assert found == expected


def test_the_fabric_manager_fills_the_tables_of_regions():
    regions = [Region(0, 1 << 20, "0-3"), Region(1 << 20, 1 << 16, ["GPU8", "GPU10"])]
    tables = switch_tables("dgx2:planes=1", regions, "innet-pull")
    assert list(tables) == ["SW0", "SW1"]
    own = [entry for entry in tables["SW0"] if entry.source == "GPU0"]
    assert [entry.as_dict() for entry in own] == [
        {
            "region": 0,
            "start": 0,
            "size_bytes": 1 << 20,
            "source": "GPU0",
            "targets": ["GPU1", "GPU2", "GPU3"],
            "operands": 3,
        }
    ]
    assert {entry.region for entry in tables["SW1"]} == {1}


def test_regions_lie_within_64_bits_and_have_whole_numbers():
    last = (1 << 64) - 128
    assert switch_tables("dgx2", [Region(last, "128B", "0-1")]) == switch_tables("dgx2", [Region(last, 128, "0-1")])
    for region, message in [
        (Region(0.5, 128), "region at 0.5: addresses go from 0x0 to 0xffffffffffffffff, in whole numbers"),
        (Region(-128, 128), "region at -0x80: addresses go from 0x0"),
        (Region(0, 1.5), "size 1.5: must be a whole number of bytes"),
        (Region(last, 256), "region 0xffffffffffffff80:256B ends after the last address, 0xffffffffffffffff"),
    ]:
        with pytest.raises(TreefoldError, match=re.escape(message)):
            switch_tables("dgx2", [region])


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        (["0:1MiB:0-3", "0x10000:64KiB:8,10"], "regions 0x0:1MiB and 0x10000:64KiB overlap"),
        (["0:1MiB:3"], "region 0x0:1MiB has only the member GPU3; name at least two"),
        (["0:0B"], "region at 0x0 is empty"),
        (["0x10000000000000000:1MiB"], "region at 0x10000000000000000: addresses go from 0x0 to 0xffffffffffffffff"),
        (["0"], "region '0' has no size; write for example"),
        (["0:129:0-3", "0x80:128:4-7"], "start the second at 0x100 or later"),
        (["x:1MiB"], "region 'x:1MiB': 'x' is not an address"),
        (["0x10:1MiB"], "region 0x10:1MiB does not begin at a multiple of 128 bytes"),
        (["0:1MiB:77"], "no accelerator has index 77"),
    ],
)
def test_regions_that_cannot_be_are_refused_in_one_line(regions, message):
    options = [part for region in regions for part in ("--region", region)]
    done = command("plan", "dgx2:planes=2", "-a", "innet-push", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["-a", "innet-push", "--set", "switches=routers"],
            "reduces or multicasts in this plan, and routers only forward",
        ),
        (["-a", "ring", "--set", "switches=hubs"], "switches 'hubs' is unknown; known are routers, fabric"),
        (["-a", "ring", "--set", "fence=none"], "fence 'none' is unknown; known are ordered, acknowledged"),
        (["-a", "ring", "--set", "sync_cost=x"], "sync cost: time 'x'"),
        (["-a", "innet", "--set", "flit=0"], "flit must be 1B to 64KiB, got 0B"),
        (["-a", "ring", "--set", "flow_control=message"], "a fabric's packets carry 128 bytes each"),
        (["-a", "innet-push", "--set", "window=0"], "window must be a whole number from 1 on, got '0'"),
        (["-a", "innet-push", "--set", "reorder=0"], "reorder must be a whole number from 1 on, got '0'"),
        (
            ["-a", "innet-push", "--set", "home_mapping=x"],
            "home mapping 'x' is unknown; known are hashed, interleaved",
        ),
        (
            ["-a", "innet-push", "--set", "barrier=true"],
            "barrier=true has no effect: it is only for pulls, and this plan is simulated with pushes",
        ),
        (
            ["-a", "innet-pull", "--set", "table=256B", "--set", "deterministic=true"],
            "table=256B has no effect: with deterministic=true nothing reads it; leave table out",
        ),
        (["-a", "innet-push", "--collective", "all-to-all"], "switches work in trees of this all-to-all"),
    ],
)
def test_fabrics_refuse_in_one_line(options, message):
    done = command("simulate", DGX2, "--size", "4KiB", "--simulator", "packet", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_comparison_gives_each_plan_the_options_that_it_reads():
    machine = Machine(table=1024, credit="acknowledgement", fence="acknowledged")
    rows = treefold.compare(DGX2, "ring,innet-push,innet-pull", sizes_bytes=[4096], simulator=machine)
    assert [row.algorithm for row in rows] == ["ring", "innet-push", "innet-pull"]
    assert rows[1].packets.fabric.table_bytes == 1024
    with pytest.warns(UserWarning, match="credit has no effect: none of the plans reads it"):
        treefold.compare(DGX2, "ring,innet-push", sizes_bytes=[4096], simulator=machine)
    with pytest.raises(treefold.MisfitError, match="has no effect"):
        treefold.simulate(treefold.plan(DGX2, "innet-push"), size_bytes=4096, simulator=machine)
