"""Plots: whole pictures of every line, the same bytes each time, and clear words where nothing can be drawn."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

import treefold
from commands import command
from treefold import TreefoldError
from treefold.report import plot_comparison
from treefold.report.plots import _spread

SIZES = [1 << power for power in range(15, 21)]


@pytest.fixture(scope="module")
def rows():
    return treefold.compare("torus:4x4", sizes_bytes=SIZES)


def ids(svg: bytes) -> set[str]:
    """Names of the lines in an SVG, which must parse."""
    found = (element.get("id", "") for element in ElementTree.fromstring(svg).iter())
    return {name for name in found if name == "bound" or name.startswith("algorithm-")}


def texts(svg: bytes) -> set[str]:
    """Return the texts of an SVG: matplotlib draws letters as shapes, and puts the text before them as a comment."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.fromstring(svg, parser)
    return {element.text.strip() for element in tree.iter(ElementTree.Comment)}


def test_a_picture_holds_every_algorithm_and_the_bound(rows):
    svg = plot_comparison(rows, title="my $net$")
    names = {row.algorithm for row in rows}
    assert len(names) >= 5
    assert ids(svg) == {"bound"} | {f"algorithm-{name}" for name in names}
    assert texts(svg) >= names | {"no all-reduce can beat this", "my $net$", "all-reduce, analytic simulator"}
    assert texts(svg) >= {"32KiB", "1MiB", "algorithm bandwidth: size / time (GB/s)"}


def test_slow_networks_have_a_smaller_unit():
    svg = plot_comparison(treefold.compare("b4", ["ring"], sizes_bytes=SIZES))
    assert "algorithm bandwidth: size / time (MB/s)" in texts(svg)


@pytest.mark.parametrize(("format", "start"), [("png", b"\x89PNG\r\n\x1a\n"), ("svg", b"<?xml")])
def test_the_same_rows_give_the_same_bytes_whatever_the_users_settings(rows, format, start):
    import matplotlib

    first = plot_comparison(rows, title="net", format=format)
    assert first.startswith(start)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none", "axes.facecolor": "red"}):
        assert plot_comparison(rows, title="net", format=format) == first
        assert matplotlib.rcParams["font.size"] == 30
    assert "matplotlib.pyplot" not in sys.modules


def test_other_collectives_have_bounds_too():
    rows = treefold.compare("torus:4x4", ["multitree"], sizes_bytes=SIZES, collective="broadcast")
    svg = plot_comparison(rows)
    assert ids(svg) == {"bound", "algorithm-multitree"}
    assert "broadcast, analytic simulator" in texts(svg)


def test_auto_says_what_it_chose():
    rows = treefold.compare("b4", ["auto", "ring"], sizes_bytes=[1 << 10, 1 << 30])
    [first, last] = [row.chosen for row in rows if row.algorithm == "auto"]
    assert first != last
    svg = plot_comparison(rows)
    assert f"auto: {first}, {last}" in texts(svg)
    assert ids(svg) == {"bound", "algorithm-auto", "algorithm-ring"}


def test_one_size_shows_markers_and_the_bound(rows):
    svg = plot_comparison([row for row in rows if row.size_bytes == 1 << 20])
    uses = {"bound": 0, "algorithm-ring": 1}  # a marker is drawn once and then used
    for group in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        if group.get("id") in uses:
            assert len(list(group.iter("{http://www.w3.org/2000/svg}use"))) == uses.pop(group.get("id"))
    assert not uses


@pytest.mark.parametrize("title", ["x" * 1000, "日本 <b> & -- ]]> \x00\x1b\n" * 9, ""])
def test_any_name_can_be_drawn(rows, title, recwarn):
    assert ids(plot_comparison(rows, title=title))
    assert not recwarn.list


@pytest.mark.parametrize("wanted", [[0.5] * 4, [0.0, 0.0, 0.9, 1.0, 1.0], [0.1, 0.4, 0.8], [0.5], [0.3] * 40])
def test_names_move_apart_as_little_as_possible(wanted):
    gap = 0.1
    heights = _spread(wanted, gap)
    assert all(above - below > gap - 1e-9 for below, above in pairwise(heights))
    assert min(heights) >= 0 and (max(heights) <= 1 + 1e-9 or len(wanted) * gap > 1)
    if all(above - below > gap for below, above in pairwise(wanted)):
        assert heights == pytest.approx(wanted)


def test_what_cannot_be_drawn_is_refused(rows):
    with pytest.raises(TreefoldError, match="nothing to draw: no row has a bandwidth"):
        plot_comparison(treefold.compare("ring:1", sizes_bytes=[0, 1024]))
    with pytest.raises(TreefoldError, match="format 'gif' cannot be drawn; use one of png, svg"):
        plot_comparison(rows, format="gif")


def test_compare_draws_beside_what_it_prints(tmp_path):
    file = tmp_path / "net.SVG"
    result = command("compare", "ring:4", "--sizes", "0,1MiB,2MiB", "--plot", file, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)
    comparison = treefold.compare("ring:4", sizes_bytes=[0, 1 << 20, 2 << 20])
    assert file.read_bytes() == plot_comparison(comparison, title="ring:4")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("net.gif", "net.gif: cannot draw the extension '.gif'; use one of .png, .svg, .pdf"),
        ("net", "net: has no extension; use one of .png, .svg, .pdf"),
        ("missing/net.png", "net.png: cannot be written: there is no folder 'missing'; create it first"),
        ("folder.png", "folder.png: is a folder; name a file in it"),
    ],
)
def test_a_bad_file_is_refused_before_the_work_begins(file, expected, tmp_path):
    (tmp_path / "folder.png").mkdir()
    # The network does not exist either: that would be the complaint if the file were looked at later.
    result = command("compare", "no-network", "--plot", tmp_path / file)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr


def test_nothing_to_draw_is_one_line_and_exit_code_2(tmp_path):
    file = tmp_path / "net.png"
    result = command("compare", "ring:1", "--plot", file)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "nothing to draw" in result.stderr
    assert not file.exists()
