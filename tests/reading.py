"""What tests of files share: they write files, read them with or without their warnings, and catch the errors."""

import json
import time
import warnings

import pytest

import treefold
from treefold.errors import TreefoldError
from treefold.importers import TopologyWarning, read

OWN = {
    "format": "treefold-topology",
    "version": 1,
    "name": "pair",
    "nodes": [{"name": "a"}, {"name": "b", "kind": "switch", "reduces": True, "latency_s": 1e-7}],
    "links": [{"source": "a", "target": "b", "bandwidth_Bps": 1e9, "latency_s": 1e-6, "both_ways": True}],
}

EDGES = "source,target,bandwidth,latency\na,b,1GB/s,1ms\nb,c,1GB/s,1ms\n"

FORMS = {
    "csv": EDGES,
    "json": '{"nodes": 3, "edges": [[0, 1], [1, 2]]}',
    "gml": "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]",
    "dot": "graph [rankdir=LR]".join(["strict graph x { ", " a -- b -- c }"]),
    "graphml": '<graphml><graph><node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>',
}


def put(folder, name, content):
    """Writes a file (text, bytes, or anything else as JSON) and returns its path."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def quietly(path, **arguments):
    """Reads with warnings muted: what is asserted is the document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TopologyWarning)
        return read(path, **arguments)


def ends(document):
    return [(link["source"], link["target"]) for link in document["links"]]


def values(document, field):
    return [link[field] for link in document["links"]]


def names(document):
    return [node["name"] for node in document["nodes"]]


def messages(path, **arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(path, **arguments)
    assert all(entry.category is TopologyWarning for entry in caught)
    return [str(entry.message) for entry in caught]


def error(path, **arguments):
    """The message of the error that reading raises: one line that names the file."""
    with pytest.raises(TreefoldError) as caught:
        quietly(path, **arguments)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    return message


def network(path, **options):
    """Builds the network of a file that may lack bandwidths and latencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return treefold.topology(path, **({"bandwidth_Bps": 1e9, "latency_s": 0.0} | options))


def refused(path):
    """The message of the error, which comes soon, is one printable line, and names the file."""
    start = time.process_time()
    with pytest.raises(TreefoldError) as caught:
        network(path)
    assert time.process_time() - start < 10
    message = str(caught.value)
    assert message.startswith(str(path)) and message.isprintable() and len(message) < 1500
    return message
