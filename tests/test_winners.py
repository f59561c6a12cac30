"""Winners: the fastest algorithm on each network at each size, told and drawn, and every mistake before the work."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

import treefold
from commands import command, output, printed, refused
from treefold import MisfitError, TreefoldError, comparison, planning, progress
from treefold.report import plot_winners, winners_table
from treefold.winner_results import RIVALS, WinnerMap, winner_of

KIB, MIB = 1 << 10, 1 << 20
NAMES = "ring,multitree,swing,bucket"


@pytest.fixture(scope="module")
def found():
    return treefold.winners(["torus:4x4", "ring:8"], NAMES, sizes_bytes=[KIB, 64 * MIB], simulator="flow")


def cell(times_s, bound_s=1.0):
    where = {"network": "n", "collective": "all-reduce", "simulator": "flow", "link_model": "propagation"}
    return winner_of(times_s, bound_s, size_bytes=KIB, **where)


def texts(svg):
    """Return the texts of an SVG: matplotlib draws letters as shapes, and puts the text before them as a comment."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    return [element.text.strip() for element in ElementTree.fromstring(svg, parser).iter(ElementTree.Comment)]


def test_winners_are_those_of_comparisons(found):
    for network in ("torus:4x4", "ring:8"):
        rows = treefold.compare(network, NAMES, sizes_bytes=[KIB, 64 * MIB], simulator="flow")
        for best in rows.fastest():
            winner = found.at(network, best.size_bytes)
            assert (winner.algorithm, winner.time_s) == (best.algorithm, best.time_s)
            assert (winner.bound_s, winner.bound_fraction) == (best.bound_s, pytest.approx(best.bound_fraction))
            at_size = rows.at(best.size_bytes)
            assert dict(winner.times_s) == {row.algorithm: row.time_s for row in at_size}
            ring = next(row for row in at_size if row.algorithm == "ring")
            assert winner.over.ring == ring.time_s / best.time_s
    assert (found.networks(), found.sizes()) == (["torus:4x4", "ring:8"], [KIB, 64 * MIB])
    assert found.at("b4", KIB) is None


def test_by_default_all_that_are_quick_contend_and_auto_does_not():
    [winner] = treefold.winners("torus:4x4", sizes_bytes=[MIB])
    rows = treefold.compare("torus:4x4", sizes_bytes=[MIB])
    assert [name for name, _ in winner.times_s].count("auto") == 0
    assert {name for name, _ in winner.times_s} == {row.algorithm for row in rows}
    assert (winner.algorithm, winner.time_s) == (rows.fastest()[0].algorithm, rows.fastest()[0].time_s)


def test_the_fastest_wins_and_ties_are_told():
    winner = cell({"swing": 1.004, "bucket": 1.0, "ring": 1.011, "multitree": 1.01})
    assert (winner.algorithm, winner.time_s, winner.bound_fraction) == ("bucket", 1.0, 1.0)
    assert winner.ties == ("multitree", "swing"), "in the order of all algorithms"
    assert [name for name, _ in winner.times_s] == ["bucket", "swing", "multitree", "ring"]


def test_of_equal_times_the_first_algorithm_wins_however_sums_were_rounded():
    assert cell({"bucket": 1.0, "multiring": 1.0 + 1e-15}).algorithm == "multiring"
    assert cell({"auto": 1.0, "swing": 1.0}).algorithm == "swing", "what auto chose wins by its own name"


def test_rivals_that_do_not_fit_have_no_factor():
    assert RIVALS == ("ring", "nccl", "multitree")
    assert cell({"swing": 1.0, "ring": 2.5}).over.as_dict() == {"ring": 2.5, "nccl": None, "multitree": None}


def test_nothing_wins_where_nothing_takes_time():
    [winner] = treefold.winners("ring:4", "ring,dbtree", sizes_bytes=[0])
    assert (winner.algorithm, winner.time_s, winner.bound_fraction, winner.ties) == (None, 0.0, None, ())
    assert winner.over.as_dict() == {"ring": None, "nccl": None, "multitree": None}
    assert winners_table([winner]).splitlines()[1].split() == ["ring:4", "0B", "-", "0ps", "-"]


def test_a_network_that_nothing_fits_is_left_out_unless_none_is_left():
    with pytest.warns(UserWarning, match="b4 is left out: ring2d needs a 2-D torus or mesh"):
        rows = treefold.winners(["torus:4x4", "b4"], "ring2d", sizes_bytes=[KIB])
    assert rows.networks() == ["torus:4x4"]
    with pytest.raises(MisfitError, match="ring2d needs a 2-D torus or mesh"):
        treefold.winners(["dgx1", "b4"], "ring2d", sizes_bytes=[KIB])


def test_warnings_name_the_network():
    with pytest.warns(UserWarning, match="^b4: ring2d is left out: ring2d needs") as told:
        treefold.winners(["torus:4x4", "b4"], "ring,ring2d", sizes_bytes=[KIB, MIB])
    assert len(told) == 1 and told[0].filename == __file__


def test_an_option_of_the_machine_that_one_network_reads_has_an_effect(recwarn):
    machine = treefold.Machine(wave="4KiB")
    treefold.winners(["ring:4", "dgx2:planes=6"], "ring,innet-push", sizes_bytes=[KIB], simulator=machine)
    assert not [each for each in recwarn if "has no effect" in str(each.message)]
    with pytest.warns(UserWarning, match="wave has no effect: none of the plans reads it"):
        treefold.winners(["ring:4", "ring:8"], "ring", sizes_bytes=[KIB], simulator=machine)


@pytest.mark.parametrize(
    ("networks", "options", "expected"),
    [
        ([], {}, "networks is empty; name at least one network"),
        (5, {}, "networks 5 are not a list"),
        (["b4", 5], {}, "network 5 is not a network"),
        (["b4", "nonsense"], {}, "topology 'nonsense': neither a file nor a known spec"),
        (["b4", "b4"], {}, "network 'b4' is given twice; give it once"),
        (["b4", treefold.topology("ring:4").renamed("b4")], {}, "'b4' is given twice; the two differ, so give one of"),
        (["b4"], {"sizes_bytes": []}, "sizes_bytes is empty"),
        (["b4"], {"algorithms": "rign"}, "algorithm 'rign' is unknown"),
        (["b4"], {"collective": "x"}, "collective 'x' is unknown"),
        (["b4", "ring:4"], {"root": 9, "collective": "broadcast"}, "there are 4 ranks in ring:4, 0 to 3"),
        (["b4"], {"trys": 2}, "winners has no argument 'trys'; did you mean trees?"),
        (["b4", "ring:4"], {"algorithms": "ring", "trees": 2}, "none of ring has the option trees"),
    ],
)
def test_mistakes_are_told_before_any_plan_is_made(networks, options, expected, monkeypatch):
    monkeypatch.setattr(planning, "plan", lambda _request: pytest.fail("a plan was made"))
    with pytest.raises(TreefoldError) as error:
        treefold.winners(networks, **{"sizes_bytes": [KIB], **options})
    assert expected in str(error.value)


@pytest.fixture
def interrupted_at_the_sixth(monkeypatch):
    plans, plan = [], comparison.explained_plan

    def once_more(*arguments):
        plans.append(arguments)
        if len(plans) == 6:
            raise KeyboardInterrupt
        return plan(*arguments)

    monkeypatch.setattr(comparison, "explained_plan", once_more)


def test_an_interrupt_brings_the_winners_so_far(interrupted_at_the_sixth):
    with pytest.raises(treefold.Interrupted) as stop:
        treefold.winners(["ring:4", "full:4"], "ring,dbtree", sizes_bytes=[MIB, 2 * MIB])
    assert [(row.network, row.size_bytes) for row in stop.value.rows] == [("ring:4", MIB), ("ring:4", 2 * MIB)]


def test_an_interrupted_map_prints_what_it_has_and_draws_nothing(interrupted_at_the_sixth, monkeypatch, tmp_path):
    monkeypatch.setattr(treefold.interrupts, "end", lambda: treefold.interrupts.sys.exit(130))
    words = ["compare", "ring:4", "full:4", "-a", "ring,dbtree", "--sizes", "1MiB,2MiB", "--json"]
    done = command(*words, "--map", tmp_path / "map.svg")
    assert done.returncode == 130
    assert [row["network"] for row in json.loads(done.stdout)] == ["ring:4", "ring:4"]
    assert not list(tmp_path.iterdir())


def test_progress_names_the_network_the_size_and_the_algorithm_and_never_goes_back():
    reports = []
    with progress.reported_to(reports.append):
        treefold.winners(["ring:4", "full:4"], "ring,dbtree", sizes_bytes=[KIB])
    told = [each.task for each in reports]
    assert {"ring:4 (1 of 2): 1KiB (1 of 1): dbtree", "full:4 (2 of 2): 1KiB (1 of 1): ring"} <= set(told)
    done = [each.done for each in reports]
    assert done == sorted(done) and done[0] == 0 and done[-1] < 1


def test_the_table_names_each_network_once_and_only_rivals_that_were_compared(found):
    lines = winners_table(found).splitlines()
    assert lines[0].split("  ")[0] == "network" and "nccl" not in lines[0]
    assert [line.split()[0] for line in lines] == ["network", "torus:4x4", "64MiB", "ring:8", "64MiB", "#"]
    assert lines[1].split()[2] == found[0].algorithm
    assert f"{found[0].over.multitree:.2f} x" in lines[1]
    assert lines[-1] == "# all-reduce, flow simulator"


def test_the_command_prints_what_python_returns(found, tmp_path):
    words = ("compare", "torus:4x4", "ring:8", "-a", NAMES, "--sizes", "1KiB,64MiB", "--simulator", "flow")
    assert output(*words) == found.rows()
    assert printed(*words, "--csv", tmp_path / "x.csv", "--map", tmp_path / "x.svg") == f"{winners_table(found)}\n"
    assert (tmp_path / "x.csv").read_text() == found.to_csv()
    assert (tmp_path / "x.svg").read_bytes() == plot_winners(found)


def test_a_list_stands_in_one_column_of_csv():
    winner = cell({"swing": 1.0, "bucket": 1.001, "bine": 1.002})
    header, row = (line.split(",") for line in WinnerMap([winner]).to_csv().splitlines())
    assert dict(zip(header, row, strict=True))["ties"] == "bine bucket"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ring:4 ring:4", "network 'ring:4' is given twice; give it once"),
        ("ring:4 nonsense", "topology 'nonsense': neither a file nor a known spec"),
        ("nonsense --map x.gif", "x.gif: cannot draw the extension '.gif'; use one of .png, .svg, .pdf"),
        ("nonsense --map no/x.svg", "no/x.svg: cannot be written: there is no folder 'no'; create it first"),
        ("ring:4 full:4 --ranks 0-2", "--ranks is for one network, and 2 are compared; drop it, or compare one"),
        ("ring:4 full:4 --rank-order 0,1,2,3", "--rank-order is for one network, and 2 are compared"),
        ("ring:4 full:4 --plot x.svg", "--plot is for one network, and 2 are compared; drop it, or compare one"),
        ("ring:4 --map x.svg --plot y.svg", "--plot shows all algorithms, and --map only the winners; drop one"),
        ("ring:4 --map x.svg --all", "--all shows all algorithms, and --map only the winners; drop one of the two"),
        ("ring:4 full:4 --sizes ,", "size '': write a number and a unit"),
        ("ring:4 full:4 --sizes 2MiB:1MiB", "must rise"),
        ("ring:1 --map x.svg", "nothing to draw: no row has a winner"),
    ],
)
def test_a_wrong_use_is_one_line(words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert expected in refused("compare", *words.split())
    assert not list(tmp_path.iterdir())


def test_options_of_networks_hold_for_each():
    rows = output("compare", "ring:4", "full:4", "-a", "ring", "--sizes", "1MiB", "--bandwidth", "1GB/s")
    slow = [treefold.topology(spec, bandwidth_Bps=1e9) for spec in ("ring:4", "full:4")]
    assert rows == treefold.winners(slow, "ring", sizes_bytes=[MIB]).rows()


@pytest.mark.parametrize(("format", "start"), [("png", b"\x89PNG\r\n\x1a\n"), ("svg", b"<?xml")])
def test_the_same_winners_give_the_same_bytes(found, format, start):
    first = plot_winners(found, title="map", format=format)
    assert first.startswith(start) and plot_winners(found, title="map", format=format) == first


def test_a_picture_names_networks_sizes_winners_factors_and_ties(found):
    told = texts(plot_winners(found, title="my $map$"))
    assert {"my $map$", "all-reduce, flow simulator", "torus:4x4", "ring:8", "1KiB", "64MiB"} <= set(told)
    for winner in found:
        assert winner.algorithm in told
        assert f"{winner.over.ring:.2f} · {winner.over.multitree:.2f}" in told
    assert "ring · multitree" in told
    tied = next(winner for winner in found if winner.ties)
    assert any(text.startswith(f"≈ {tied.ties[0]}") for text in told)


def test_neighbours_with_the_same_winner_are_one_block():
    winners = [cell({name: 1.0, "ring": 9.0}) for name in ("swing", "swing", "bucket", "swing")]
    rows = [treefold.winner_results.Winner(**vars(each) | {"size_bytes": 1 << at}) for at, each in enumerate(winners)]
    told = texts(plot_winners(rows))
    assert (told.count("swing"), told.count("bucket"), told.count("9.00")) == (2, 1, 4)


@pytest.mark.parametrize("name", ["x" * 1000, "日本 <b> & -- ]]> " * 9, "cluster:nodes=16,gpus=8,rails=8"])
def test_any_network_and_title_can_be_drawn(name, recwarn):
    rows = treefold.winners(treefold.topology("ring:4").renamed(name), "ring", sizes_bytes=[KIB])
    assert "ring" in texts(plot_winners(rows, title=f"{name}\x00\x1b\n"))
    assert not recwarn.list


def test_what_cannot_be_drawn_is_refused(found):
    with pytest.raises(TreefoldError, match="nothing to draw: no row has a winner"):
        plot_winners([])
    with pytest.raises(TreefoldError, match="format 'gif' cannot be drawn; use one of png, svg"):
        plot_winners(found, format="gif")
