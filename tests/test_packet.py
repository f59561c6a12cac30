"""The packet simulator from Python and from the command line: its keys, its machine, its refusals, schedule tables."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

import treefold
from commands import command, output
from treefold import Machine, TreefoldError

OPTIONS = (Path(__file__).parents[1] / "docs" / "options.md").read_text(encoding="utf-8")


def simulate(*arguments):
    return output("simulate", *arguments)


def test_a_ring_takes_the_cycles_of_the_authors_simulator():
    row = simulate("torus:4x4", "-a", "ring", "--size", "32KiB", "--set", "interfaces=shared")
    assert row["cycles"] == 9344  # in the authors' simulator, too
    assert row["time_s"] == pytest.approx(9344e-9)
    assert (row["packets"], row["flits"], row["head_flits"]) == (3840, 65280, 3840)
    assert row["buffer_peak_flits"] == 1
    assert 0 < row["bound_fraction"] < 1
    assert row["model"] == "packet"


def test_options_of_the_machine_imply_the_packet_model():
    message = simulate("torus:4x4", "-a", "multitree", "--size", "1MiB", "--set", "flow_control=message")
    packets = simulate("torus:4x4", "-a", "multitree", "--size", "1MiB", "--set", "payload=64", "--set", "clock=2GHz")
    assert message["head_flits"] == message["packets"] == 480
    assert packets["head_flits"] * 4 == packets["flits"] - packets["head_flits"]
    assert packets["cycles"] == pytest.approx(packets["time_s"] * 2e9)
    assert simulate("torus:4x4", "-a", "multitree", "--size", "1MiB", "--set", "lockstep=false")["model"] == "packet"


def test_a_machine_is_a_file_and_settings_go_before_it(tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text(command("machine", "--set", "flow_control=message", "--set", "clock=2GHz").stdout, encoding="utf-8")
    plan = ("torus:4x4", "-a", "multitree", "--size", "1MiB")
    assert simulate(*plan, "--machine", file)["head_flits"] == 480
    both = simulate(*plan, "--machine", file, "--set", "flow_control=packet")
    assert (both["clock_hz"], both["head_flits"]) == (2e9, both["packets"])
    assert both["packets"] > 480


def test_every_field_of_the_machine_is_an_option():
    shown = command("machine").stdout
    for each in fields(Machine):
        assert f"\n{each.name} = " in shown or f"\n# {each.name} =\n" in shown
        assert f"**`{each.name}`**" in OPTIONS


def test_the_clock_follows_a_link_of_more_than_a_flit_a_nanosecond():
    row = simulate("dgx2:planes=6", "-a", "multitree", "--size", "1MiB", "--set", "switches=routers")
    assert row["clock_hz"] == 1.5625e9
    assert row["cycles"] == round(row["time_s"] * row["clock_hz"])
    assert row["time_s"] == pytest.approx(18.57e-6, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["buffer_flits=16"], "a buffer must hold a whole packet (17 flits: a head and 256 bytes), got 16 flits"),
        (["virtual_channels=0"], "virtual channels must be 1 to 16, got '0'"),
        (
            ["virtual_channels=1"],
            "needs 2 virtual channels to be free of deadlock (a torus has a dateline), got 1; raise virtual_channels",
        ),
        (["payload=100"], "a payload must be a multiple of the flit (16 bytes), got 100 bytes"),
        (["payload=2MiB"], "payload must be 1B to 1MiB, got 2MiB"),
        (["ports=5"], "accelerators have 4 links at most, 5 ports cannot all be used; lower ports"),
        (["interfaces=any"], "interfaces 'any' is unknown; known are bound, shared"),
        (["flow_control=none"], "flow control 'none' is unknown; known are packet, message"),
        (["clock=fast"], "clock: frequency 'fast': write a number and a unit, such as 1.5GHz or 800MHz"),
        (["clock=0GHz"], "clock: frequency '0GHz': frequency must be positive and finite, got 0"),
        (["clock=0.5Hz"], "clock must be 1Hz to 1000000GHz, got 0.5Hz"),
        (["ports=-1"], "ports must be a whole number from 1 on, got '-1'"),
        (["prots=1"], "machine option 'prots' is unknown; did you mean ports? known are interfaces, ports"),
        (["ports"], "--set 'ports' has no value; write KEY=VALUE, for example --set wave=8KiB"),
        (["interfaces=bound", "--simulator", "flow"], "the flow simulator has no machine; use --simulator packet"),
        (["clock=1GHz", "--bandwidth", "100GB/s"], "raise clock to at least 6.25GHz, or flit"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(options, message):
    done = command("simulate", "torus:4x4", "-a", "multitree", "--size", "32KiB", "--set", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_trace_of_packets(tmp_path):
    file = tmp_path / "trace.json"
    simulate("torus:4x4", "-a", "multitree", "--size", "32KiB", "--simulator", "packet", "--trace", file)
    assert len(json.loads(file.read_text())["traceEvents"]) >= 480
    plan = treefold.plan("torus:4x4", "dbtree", size_bytes=1 << 15)
    seen = treefold.trace(plan, size_bytes=1 << 15, simulator=Machine(interfaces="shared"))
    columns = seen.transfers()
    assert (columns["start_s"] < columns["sent_s"]).all()
    assert (columns["sent_s"] < columns["received_s"]).all()
    assert max(seen.buffer_peak_flits) > 17
    assert len(seen.buffer_peak_flits) == plan.topology.num_links
    with pytest.raises(TreefoldError, match="has no trace"):
        treefold.trace(plan, simulator="analytic")


def test_compare_by_packets_shows_cycles():
    arguments = ("compare", "torus:4x4", "-a", "ring,multitree", "--sizes", "32KiB,64KiB", "--simulator", "packet")
    rows = json.loads(command(*arguments, "--json").stdout)
    assert [row["algorithm"] for row in rows if row["winner"]] == ["multitree", "multitree"]
    assert all(row["cycles"] > 0 for row in rows)
    assert "cycles" in command(*arguments).stdout


@pytest.mark.parametrize(
    ("spec", "options", "cover"),
    [
        ("mesh:8x8", {"buffer_flits": 318}, 4.17),
        ("mesh:8x8", {"buffer_flits": 80}, 1.05),
        ("torus:8x8", {"buffer_flits": 318}, 2.08),
        ("torus:8x8", {"buffer_flits": 80}, 0.52),  # half of the channels: the dateline forbids the others
        ("torus:8x8", {"buffer_flits": 160, "virtual_channels": 2}, 0.52),
        ("torus:8x8", {"buffer_flits": 160, "virtual_channels": 3}, 1.05),  # two for the first class, one for the other
        ("torus:8x8", {"buffer_flits": 318, "flow_control": "message"}, 1.04),  # one, whatever is allowed
    ],
)
def test_buffers_are_those_of_the_channels_that_a_message_may_use(spec, options, cover):
    machine = treefold.Machine(**options)
    row = treefold.simulate(treefold.plan(spec, "multitree"), size_bytes=64 << 10, simulator=machine)
    assert row.packets.buffer_cover == pytest.approx(cover, abs=0.01)


def test_buffers_that_limit_a_link_are_told():
    arguments = ("simulate", "b4", "-a", "ring", "--size", "64KiB", "--simulator", "packet")
    assert "buffers cover only" in command(*arguments).stdout
    row = treefold.simulate(treefold.plan("b4", "ring"), size_bytes=64 << 10, simulator="packet")
    assert [each[:18] for each in row.warnings] == ["buffers cover only"] and row.warnings[0] in repr(row)
    assert treefold.simulate(treefold.plan("b4", "ring"), size_bytes=64 << 10).warnings == ()
    assert json.loads(command(*arguments, "--json").stdout)["buffer_cover"] < 1
    assert "buffers cover" not in command(*arguments, "--set", "buffer_flits=10000").stdout


def test_schedule_tables_are_printed():
    shown = command("plan", "mesh:2x2", "-a", "multitree", "--size", "64KiB", "--tables").stdout
    assert "Accelerator 3" in shown
    assert "Gather       2     nil  0 3          3  32768  16384" in shown
    found = json.loads(command("plan", "torus:8x8", "-a", "multitree", "--tables", "--json").stdout)["schedule_tables"]
    assert (found["entries"], found["entry_bits"], found["bytes"]) == (120, 200, 3000)
    assert len(found["tables"]) == 64
    assert "NOP" in {
        entry.op for table in treefold.tables(treefold.plan("mesh:4x4", "multitree")).tables for entry in table
    }


def test_flits_are_those_of_figure_8_and_table_2():
    found = treefold.tables(treefold.plan("torus:4x4", "multitree"))
    formats = {name: [tuple(field) for field in fields] for name, fields in found.flit_formats.items()}
    start = [("VC", 2), ("Type", 3)]
    assert formats["head of a packet"][:5] == [*start, ("unused", 2), ("Dest", 4), ("Src", 4)]
    assert formats["head of a message"][:5] == [*start, ("Next", 3), ("Eject", 3), ("Tree ID", 4)]
    assert formats["body or tail"] == [*start, ("unused", 3), ("Payload", 128)]
    assert {sum(bits for _, bits in fields) for fields in formats.values()} == {136}
    assert list(found.flit_types.values()) == list(range(8))


def test_switches_reduce_packet_by_packet():
    row = simulate("dgx2:planes=6", "-a", "innet-push", "--size", "1MiB", "--simulator", "packet")
    assert row["model"] == "packet"
    assert (row["evictions"], row["timeouts"], row["waves"]) == (0, 0, 16)
    assert row["table_peak_bytes"] <= 256
    assert 0 < row["packet_latency_s"] < row["time_s"]
    machine = ("--set", "table=128B", "--set", "initiation=core")
    small = simulate("dgx2:planes=6", "-a", "innet-push", "--size", "1MiB", *machine)
    assert small["evictions"] > 0
    assert small["time_s"] > row["time_s"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "table=0B"], "a reduction table must hold a packet's payload (128 bytes), got 0 bytes; raise table"),
        (["--set", "wave=0B"], "a wave must hold a packet's payload (128 bytes), got 0 bytes; raise wave"),
        (["--set", "timeout_cycles=9"], "a timeout of 9 cycles is shorter than a round trip of 702 cycles"),
        (["--set", "buffer_flits=8"], "buffers and queues must hold a whole packet (9 flits: a header and 128 bytes)"),
        (["--set", "initiation=host"], "initiation 'host' is unknown; known are dma, core"),
    ],
)
def test_fabrics_that_cannot_work_are_refused_in_one_line(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("simulate", "dgx2:planes=6", "-a", "innet-push", "--size", "32KiB", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
