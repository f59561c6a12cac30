"""The server of a page: it gives what is asked for, to a browser on this machine that knows the address."""

import socket
import threading
import urllib.error
import urllib.request

import pytest

import treefold
from treefold import TreefoldError
from treefold.viewing.columns import unpack
from treefold.viewing.server import PageServer


@pytest.fixture
def server():
    """Serves a page of a plan of 16 trees."""
    served = PageServer(treefold.view("torus:4x4", algorithm="multitree", size_bytes="1MiB"))
    thread = threading.Thread(target=served.serve)
    thread.start()
    yield served
    served.close()
    thread.join()


def asked(server, path="", **headers):
    """Returns the status of an answer, and its content."""
    request = urllib.request.Request(server.address + path, headers=headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_server_gives_the_trees_that_are_asked_for(server):
    status, page = asked(server)
    assert status == 200 and page.startswith(b"<!doctype html>") and b"scene-0" in page
    whole, part = (unpack(asked(server, f"scenes/0{query}")[1]) for query in ("", "?trees=3,2,3"))
    assert len(whole["bytes"]) == 480 and set(whole["edge_tree"]) == set(range(16))
    assert len(part["bytes"]) == 60 and set(part["edge_tree"]) == {2, 3}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("scenes/1", "the page has no scenes/1"),
        ("scenes/-1", "the page has no scenes/-1"),
        (f"scenes/{'9' * 5000}", "the page has no scenes/999"),
        ("<b>", "the page has no "),
        ("scenes/0?trees=x", "trees are numbers, separated by commas"),
        (f"scenes/0?trees={'9' * 5000}", "trees are numbers, separated by commas"),
        ("scenes/0?trees=16", "the plan has the trees 0 to 15"),
        ("scenes/0?trees=-1", "the plan has the trees 0 to 15"),
    ],
)
def test_a_server_says_what_it_does_not_have(server, path, message):
    status, content = asked(server, path)
    assert status == 404 and content.decode().startswith(message)
    server.address = f"http://127.0.0.1:{server.port}/guessed/"
    assert asked(server, path) == (404, b"this address is not that of the page; copy it again")


def test_a_server_answers_this_machine_only(server):
    assert asked(server, Host="example.org")[0] == 403
    assert asked(server, Host=f"localhost:{server.port}")[0] == 200
    assert server.address.startswith(f"http://127.0.0.1:{server.port}/")


def test_a_browser_that_goes_away_is_no_error(server, capsys):
    for request in (b"", b"GET / HTTP/1.1\r\n", f"GET {server.address} HTTP/1.1\r\n\r\n".encode()):
        with socket.create_connection(("127.0.0.1", server.port)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.sendall(request)
    assert asked(server)[0] == 200
    assert capsys.readouterr().err == ""


def test_a_port_in_use_is_said(server):
    with pytest.raises(TreefoldError, match=f"port {server.port} of 127.0.0.1 cannot be served"):
        PageServer(treefold.view("ring:2", algorithm="ring", size_bytes=0), server.port)
