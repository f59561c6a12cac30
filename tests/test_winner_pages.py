"""The map of winners in the manual: its picture, pages and table follow from its data, and the data are true."""

import re

import pytest

import treefold
from test_winners import texts
from tools.manual import winners
from treefold.winner_results import WinnerMap, winner_of

ANEW = "run python -m tools.manual.winners"


@pytest.fixture(scope="module")
def found():
    return winners.read()


def test_the_data_have_every_network_size_and_algorithm(found):
    assert [(row.network, row.size_bytes) for row in found] == [
        (network, size) for network in winners.NETWORKS for size in winners.SIZES
    ], ANEW
    header = winners.DATA.read_text(encoding="utf-8").partition("\n")[0]
    assert header.split(",")[3:] == list(treefold.algorithms()), ANEW


def test_data_are_read_as_they_are_written(found):
    assert winners.data(found) == winners.DATA.read_text(encoding="utf-8")


def test_the_picture_is_that_of_the_data(found):
    matplotlib = pytest.importorskip("matplotlib")
    written = winners.PICTURE.read_bytes()
    assert set(texts(written)) >= {row.algorithm for row in found}, ANEW
    if f"Matplotlib v{matplotlib.__version__}," not in written.decode():
        pytest.skip("another version of matplotlib drew it, and draws letters in its own way")
    assert written == winners.picture(found), ANEW


def test_the_table_of_the_readme_is_that_of_the_data(found):
    readme = winners.README.read_text(encoding="utf-8")
    assert all(readme.count(mark) == 1 for mark in winners.MARKS)
    assert winners.with_table(readme, found) == readme, ANEW


CELLS = [("torus:4x4", 1 << 10), ("dgx1", 1 << 20), ("b4", 1 << 24), ("mesh:5x5", 1 << 28)]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "size"), CELLS)
def test_times_are_still_those_of_the_data(network, size, found):
    [row] = treefold.winners(network, sizes_bytes=[size], **winners.WHAT)
    assert dict(row.times_s) == pytest.approx(dict(found.at(network, size).times_s), rel=1e-5), ANEW


def made(times_s):
    """Return the winners for the times of algorithms by network and size."""
    cells = [(network, size, times) for network, sizes in times_s.items() for size, times in sizes.items()]
    return WinnerMap(
        [winner_of(times, 1.0, network=net, size_bytes=size, **winners.WHAT) for net, size, times in cells]
    )


MADE = made(
    {
        "a": {1024: {"ring": 1.0, "forest": 1.005}, 2048: {"ring": 1.0, "forest": 1.05}, 4096: {"forest": 1.0}},
        "b": {
            1024: {"ring": 1.0, "forest": 3.0},
            2048: {"ring": 2.0, "forest": 1.0},
            4096: {"ring": 4.0, "forest": 1.0},
        },
    }
)


def test_a_section_says_where_an_algorithm_wins_nearly_wins_and_loses():
    lines = winners.section("forest", MADE).split("\n")
    assert lines[0].endswith(
        "compares the algorithms on 2 networks at 3 sizes, from 1KiB to 4KiB, by the flow simulator."
    )
    assert lines[2:] == [
        "- **The fastest:** `a` at 4KiB; `b` from 2KiB on.",
        "- **Within 1 % of the fastest:** `a` at 1KiB.",
        "- **Within 10 %:** `a` at 2KiB.",
        "- **Elsewhere:** it takes 3.00 times as long as `ring`.",
    ]


def test_a_section_says_what_beats_an_algorithm_that_never_wins():
    cells = {1024: {"ps": 9.0, "ring": 1.0, "bine": 2.0}, 2048: {"ps": 2.0, "bine": 1.0}}
    rows = made({"a": cells, "b": {1024: {"ring": 1.0}, 2048: {"ring": 1.0}}})
    told = winners.section("ps", rows)
    assert "`ps` is on it for 1: it does not fit the others, or takes long" in told
    assert told.split("\n")[2:] == [
        "- **Nowhere within 10 %:** it takes 2.00 to 9.00 times as long as `ring` or `bine`."
    ]
    assert winners.section("hdrm", rows).endswith("`hdrm` fits none of them, or takes long.")


def test_the_table_names_the_most_frequent_winners_first():
    cells = {1 << 24: {"ring": 1.0, "forest": 2.0}, 1 << 28: {"ring": 2.0, "forest": 1.0}, 1024: {"swing": 1.0}}
    told = winners.table(made({"b4": cells, "random:n=20,links=60,seed=1": {1 << 24: {"forest": 1.0}}}))
    row = next(line for line in told.splitlines() if line.startswith("| wide area"))
    assert row == "| wide area | `swing` | - | - | `forest`, `ring` |"


@pytest.mark.parametrize("name", treefold.algorithms())
def test_every_algorithm_has_a_section(name, found):
    told = winners.section(name, found)
    assert re.search(r"\*\* `|\*\* it takes|fits none of them", told)
