"""Tables of links: matrices in JSON and CSV, and lists of edges in CSV."""

from pathlib import Path

import pytest

from reading import ends, error, messages, names, put, quietly, values
from treefold.importers import TopologyWarning, read

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[1].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is absent")


# Matrices


def test_matrix_json_units_and_gaps(tmp_path):
    content = {
        "regions": ["a", "b", "c"],
        "throughput_mbps": [[None, 800, 400], [1600, 0, None], [400, 400, None]],
        "rtt_ms": [[0, 4, 8], [4, 0, 2], [None, 8, 0]],
    }
    document = quietly(put(tmp_path, "m.json", content))
    assert ends(document) == [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"), ("c", "b")]
    assert values(document, "bandwidth_Bps") == [1e8, 5e7, 2e8, 5e7, 5e7]
    assert values(document, "latency_s") == [2e-3, 4e-3, 2e-3, 3e-3, 4e-3]
    assert not any(values(document, "both_ways"))


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("bandwidth_Bps", 5, "bandwidth_Bps", 5),
        ("bandwidth_mbps", 8, "bandwidth_Bps", 1e6),
        ("bandwidth_gbps", 8, "bandwidth_Bps", 1e9),
        ("latency_s", 0.25, "latency_s", 0.25),
        ("latency_ms", 3, "latency_s", 3e-3),
        ("rtt_s", 0.5, "latency_s", 0.25),
        ("rtt_ms", 3, "latency_s", 1.5e-3),
    ],
)
def test_matrix_json_keys(tmp_path, key, value, field, expected):
    content = {"names": ["a", "b"], key: [[0, value], [value, None]]}
    document = quietly(put(tmp_path, "m.json", content), bandwidth_Bps=1.0)
    assert values(document, field) == [expected] * 2


def test_a_measured_diagonal_is_a_self_loop(tmp_path):
    path = put(
        tmp_path, "m.json", {"names": ["a", "b"], "bandwidth_Bps": [[9, 1], [1, 0]], "latency_s": [[0, 1], [1, 0]]}
    )
    assert messages(path) == [f"{path}: 1 self-loop dropped (at a)"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"bandwidth_Bps": [[0]]}, "a matrix needs the list of its nodes' names under names or nodes or regions"),
        ({"names": ["a", 1], "bandwidth_Bps": []}, "needs the list of its nodes' names"),
        ({"names": ["a", "a"], "bandwidth_Bps": []}, "name 'a' is empty or stands twice"),
        ({"names": ["a", "b"], "rtt_ms": [[0, 1]]}, "rtt_ms: must have one row for each of the 2 names, got 1 rows"),
        ({"names": ["a", "b"], "rtt_ms": 5}, "rtt_ms: must have one row for each of the 2 names, got 5"),
        ({"names": ["a", "b"], "rtt_ms": [[0, 1], [0]]}, "rtt_ms row 'b': must have 2 values, got 1 values"),
        ({"names": ["a", "b"], "rtt_ms": [[0, 1], 7]}, "rtt_ms row 'b': must have 2 values, got 7"),
        ({"names": ["a", "b"], "rtt_ms": [[0, "1"], [1, 0]]}, "rtt_ms 'a' -> 'b': must be a number or null, got '1'"),
        ({"names": ["a", "b"], "rtt_ms": [[0, -1], [1, 0]]}, "time must not be negative"),
        ({"names": ["a", "b"], "rtt_ms": [[0, True], [1, 0]]}, "rtt True is not a number"),
        ({"names": ["a", "b"], "bandwidth_mbps": [[0, 0], [1, 0]]}, "'a' -> 'b': bandwidth must be positive, got 0"),
        ({"names": ["a", "b"], "bandwidth_mbps": [[0, -1], [1, 0]]}, "bandwidth must be positive"),
        (
            {"names": ["a"], "rtt_ms": [[0]], "latency_s": [[0]]},
            "'rtt_ms' gives latency_s a second time; keep one matrix of each",
        ),
    ],
)
def test_matrix_json_that_is_wrong(tmp_path, content, expected):
    assert expected in error(put(tmp_path, "m.json", content), bandwidth_Bps=1)


def test_matrix_csv_with_two_blocks():
    document = quietly(DATA / "pairs.csv")
    assert document["name"] == "pairs" and names(document) == ["a", "b", "c"]
    assert ends(document) == [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"), ("c", "b")]
    assert values(document, "bandwidth_Bps") == [1e8, 5e7, 2e8, 5e7, 5e7]
    assert values(document, "latency_s") == [2e-3, 4e-3, 2e-3, 4e-3, 4e-3]


@pytest.mark.parametrize("corner", ["", "bandwidth", "bandwidth Gbit/s", "bandwidth (Gbit/s)", "Bandwidth_gbps"])
def test_matrix_csv_corners(tmp_path, corner):
    value = "8Gbit/s" if corner in ("", "bandwidth") else "8"
    path = put(
        tmp_path, "m.csv", f"{corner},a,b\r\na,0,{value}\r\nb,{value},null\r\n,,\r\nlatency us,a,b\na,,5\nb,5,\n"
    )
    document = read(path)
    assert values(document, "bandwidth_Bps") == [1e9, 1e9] and values(document, "latency_s") == [5e-6, 5e-6]


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (",a,b\na,,5\nb,5,\n", 2, ", 'a' -> 'b': bandwidth '5' has no unit; write 5Gbit/s"),
        ("speed,a,b\na,,5\nb,5,\n", 1, ": corner 'speed' is unknown; write bandwidth Mbit/s, latency ms or rtt ms"),
        ("bandwidth furlongs,a,b\n", 1, ": corner 'bandwidth furlongs' is unknown"),
        ("rtt ms,a,b\na,,x\nb,5,\n", 2, ", 'a' -> 'b': rtt 'x' is not a number; give it in ms, as the name says"),
        ("rtt ms,a,b\na,,1\nb,5\n", 3, ": 2 cells where the header has 3; fill the row up"),
        ("rtt ms,a,b\na,,1\n", 1, ": 'b' is in the header but has no row"),
        ("rtt ms,a,b\na,,1\nc,5,\n", 3, ": row 'c' is not in the header, or stands twice"),
        ("rtt ms,a,b\na,,1\na,,1\n", 3, ": row 'a' is not in the header, or stands twice"),
        ("rtt ms,a,a\na,,1\n", 1, ": name 'a' is empty or stands twice"),
        ("rtt ms,a,b\na,,1\nb,1,\n\nlatency ms,a,b\na,,1\nb,1,\n", 5, ": a second block of latency; keep one"),
        ("rtt ms,a,b\na,,1\nb,1,\n\nbandwidth Mbit/s,a,c\na,,1\nc,1,\n", 5, ": this block has other names"),
        ("bandwidth Mbit/s,a,b\na,,0\nb,1,\n", 2, ", 'a' -> 'b': bandwidth must be positive, got 0; leave it empty"),
    ],
)
def test_matrix_csv_that_is_wrong(tmp_path, content, line, expected):
    path = put(tmp_path, "m.csv", content)
    assert error(path, bandwidth_Bps=1).startswith(f"{path} line {line}{expected}")


# Edge-list CSV


def test_edge_list_csv():
    document = quietly(DATA / "links.csv")
    assert names(document) == ["a", "b", "c"] and document["name"] == "links"
    assert ends(document) == [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]
    assert values(document, "bandwidth_Bps") == [1e9, 5e8, 2.5e8, 1e9]
    assert values(document, "both_ways") == [True, False, False, True]
    assert values(document, "latency_s") == [2e-3, 2e-3, 4e-3, 2e-3], "the median of 2, 2, 4, 2, 2 ms fills the gap"


def test_edge_list_csv_with_units_in_cells(tmp_path):
    path = put(tmp_path, "e.csv", "Source, Target, bandwidth, latency, overhead, note\na,b,5Gbit/s,5ms,1us,x\n\n")
    with pytest.warns(TopologyWarning, match=r"line 1: column 'note' is unknown and ignored"):
        document = read(path)
    assert document["links"] == [
        {
            "source": "a",
            "target": "b",
            "bandwidth_Bps": 6.25e8,
            "latency_s": 5e-3,
            "overhead_s": 1e-6,
            "both_ways": True,
        }
    ]


@pytest.mark.parametrize("unit", ["Mbit/s", "mbps", "Mbps"])
def test_edge_list_csv_bandwidth_columns(tmp_path, unit):
    path = put(tmp_path, "e.csv", f"source,target,bandwidth_{unit}\na,b,8\n")
    assert values(quietly(path), "bandwidth_Bps") == [1e6]


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ("source,target,bandwidth\na,b,1GB/s\nb,c,5\n", 3, "bandwidth '5' has no unit; write 5Gbit/s"),
        ("source,target,bandwidth\n\na,b,fast\n", 3, "bandwidth 'fast': write a number and a unit"),
        ("source,target,bandwidth\na,b,0Gbit/s\n", 2, "bandwidth '0Gbit/s': bandwidth must be positive"),
        ("source,target,bandwidth_Bps\na,b,nan\n", 2, "bandwidth 'nan' is not a number"),
        ("source,target,bandwidth_Bps\na,b,inf\n", 2, "bandwidth 'inf' is not a number"),
        ("source,target,bandwidth_Gbit/s\na,b,5Gbit/s\n", 2, "bandwidth '5Gbit/s' is not a number; give it in Gbit/s"),
        ("source,target,bandwidth_Bps\na,b,-1\n", 2, "bandwidth '-1B/s': bandwidth must be positive"),
        ("source,target,bandwidth_parsec\n", 1, "column 'bandwidth_parsec' has an unknown unit"),
        ("source,target,latency\na,b,5\n", 2, "latency '5' has no unit; write 5ms"),
        ("source,target,latency_ms\na,b,-5\n", 2, "time '-5ms': time must not be negative"),
        ("source,target,bandwidth,bandwidth_Bps\n", 1, "two columns give bandwidth_Bps; keep one"),
        ("source,target,source\n", 1, "two columns give source; keep one"),
        ("source,target,one_way\na,b,maybe\n", 2, "one_way 'maybe' is neither true nor false"),
        ("source,target\na\n", 2, "1 cells where the header has 2; fill the row up"),
        ("source,target\na,\n", 2, "target is empty; write a node's name"),
    ],
)
def test_edge_list_csv_that_is_wrong(tmp_path, content, line, expected):
    path = put(tmp_path, "e.csv", content)
    assert error(path, bandwidth_Bps=1).startswith(f"{path} line {line}: {expected}")


ALIASED = [
    "from,to,bw,lat",
    "src,dst,capacity,delay",
    "FROM,TO,BW,DELAY",
    "Src,Dst,bw_Gbit/s,lat_ms",
    "From,To,BW_GBIT/S,DELAY_MS",
    "source,to,Capacity_gbps,Delay_Ms",
]


@pytest.mark.parametrize("header", ALIASED)
def test_edge_list_csv_aliases(tmp_path, header):
    row = "a,b,8,5" if "_" in header else "a,b,8Gbit/s,5ms"
    [found] = read(put(tmp_path, "e.csv", f"{header}\n{row}\n"))["links"]
    assert found["source"] == "a" and found["bandwidth_Bps"] == 1e9 and found["latency_s"] == 5e-3


def test_csv_of_neither_form_says_both(tmp_path):
    path = put(tmp_path, "net.csv", "a,b\n1,2\n")
    forms = "an edge list (source,target,bandwidth,latency) nor a matrix (names, with 'bandwidth Gbit/s' in the corner)"
    assert error(path) == f"{path} line 1: header 'a,b' is neither {forms}"
    matrix = put(tmp_path, "m.csv", "bandwidth Gbit/s,src,dst\nsrc,,1\ndst,1,\n".replace("bandwidth Gbit/s", ""))
    assert "write 1Gbit/s, or 'bandwidth Gbit/s' in the corner cell" in error(matrix)


@pytest.mark.parametrize(
    ("name", "template", "cases"),
    [
        (
            "m.csv",
            ",a,b\na,,{}\nb,1GB/s,\n",
            {
                "9.5": "has no unit; write 9.5Gbit/s, or 'bandwidth Gbit/s' in the corner cell",
                "1e10": "has no unit; write 'bandwidth bit/s' or 'bandwidth B/s' in the corner cell",
            },
        ),
        (
            "e.csv",
            "from,to,bw\na,b,{}\n",
            {
                "9.5": "bw '9.5' has no unit; write 9.5Gbit/s, or name the column bandwidth_Gbit/s",
                "10000000000.0": "has no unit; name the column bandwidth_bit/s or bandwidth_B/s, whichever it is",
                "0": "bw must be positive, got 0; leave it out when it is unknown, or write 5Gbit/s, say",
            },
        ),
        (
            "g.dot",
            'graph {{ a -- b [capacity="{}"] }}',
            {
                "10.0": "capacity '10.0' has no unit; write 10Gbit/s, or name the attribute bandwidth_Bps",
                "1e10": "name the attribute bandwidth_bps or bandwidth_Bps, whichever it is (bits or bytes per second)",
            },
        ),
        ("l.csv", "from,to,rtt\na,b,{}\n", {"2e9": "name the column rtt_ns or rtt_us", "3": "name the column rtt_ms"}),
        ("l.dot", "graph {{ a -- b [latency={}] }}", {"3": "write 3ms, or name the attribute latency_s"}),
    ],
)
def test_numbers_without_unit(tmp_path, name, template, cases):
    for value, expected in cases.items():
        assert expected in error(put(tmp_path, name, template.format(value)), bandwidth_Bps=1)


def test_a_latency_of_0_needs_no_unit(tmp_path):
    assert values(read(put(tmp_path, "e.csv", "from,to,bw,lat\na,b,1GB/s,0\n")), "latency_s") == [0]


def test_every_pair_in_both_orders_means_one_direction_a_row(tmp_path):
    header, rows = "source,target,bandwidth,latency", "a,b,1GB/s,0\nb,a,2GB/s,0\n"
    path = put(tmp_path, "e.csv", f"{header}\n{rows}")
    assert values(read(path), "both_ways") == [False, False]
    some = put(tmp_path, "s.csv", f"{header}\n{rows}b,c,1GB/s,0\n")
    [message] = messages(some)
    assert "'a' -> 'b' and 'b' -> 'a' are both listed" in message and "add a column one_way" in message
    assert values(quietly(some), "both_ways") == [True] * 3
    marked = put(tmp_path, "o.csv", f"{header},one_way\na,b,1GB/s,0,\nb,a,1GB/s,0,\n")
    assert values(read(marked), "both_ways") == [True, True]
