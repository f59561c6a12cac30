"""Certificates of sites, and rendezvous that speak TLS: who has no place there is refused in one clear line."""

import shutil
import ssl
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import networkx
import numpy as np
import pytest

from commands import output, printed, refused
from hosts import at_host
from treefold import TreefoldError, certificates, environment, rendezvous, runtime
from treefold.rendezvous import server, tls
from treefold.rendezvous.frames import receive_frame, send_frame
from treefold.rendezvous.sockets import connect, free_port, listen
from treefold.runtime import forming

pytest.importorskip("cryptography")
LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The folder of an authority with two sites."""
    folder = tmp_path_factory.mktemp("keys")
    certificates.make(["paris", "rome"], folder)
    return folder


@pytest.fixture
def own(monkeypatch):
    """The environment variables of this thread, for workers that are threads of one process."""
    here, elsewhere = threading.local(), environment.value
    monkeypatch.setattr(environment, "value", lambda name: getattr(here, name, elsewhere(name)))
    return here


def met(own, workers, timeout_s=20, size=None):
    """The blobs that each worker with these variables gets, or its error."""
    port = free_port(LOOPBACK)

    def join(rank):
        for name, value in workers[rank].items():
            setattr(own, name, str(value))
        try:
            place = rendezvous.from_master(rank, size or len(workers), LOOPBACK, port, timeout_s)
            blobs = place.exchange(f"{rank} {place.name}".encode())
            place.close()
            return blobs
        except TreefoldError as error:
            return str(error)

    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(join, range(len(workers))))


def worker(folder, name=None, **others):
    return {"TREEFOLD_TLS": folder, **({} if name is None else {"TREEFOLD_NAME": name}), **others}


def changed(monkeypatch, shift):
    """Certificates are made as if the clock were off by this time."""
    real = certificates._now
    monkeypatch.setattr(certificates, "_now", lambda: real() + shift)


def test_workers_with_certificates_meet(own, keys):
    found = met(own, [worker(keys / "paris"), worker(keys / "rome", "rome:1"), worker(keys / "paris", "paris/0")])
    assert found == [[b"0 paris", b"1 rome:1", b"2 paris/0"]] * 3


def test_a_large_blob_crosses_tls_whole(own, keys, monkeypatch):
    port, blob = free_port(LOOPBACK), bytes(range(256)) * (20 << 12)

    def join(rank):
        own.TREEFOLD_TLS = str(keys / ["paris", "rome"][rank])
        place = rendezvous.from_master(rank, 2, LOOPBACK, port, 20)
        found = [place.exchange(blob) == [blob, blob] for _ in range(2)]
        place.close()
        return found

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(join, range(2))) == [[True, True]] * 2


def test_what_crosses_the_line_is_tls_1_3_and_not_the_word(own, keys):
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(1) as pool:
        own.TREEFOLD_TLS = str(keys / "rome")
        credentials = tls.from_environment()

        def first():
            own.TREEFOLD_TLS = str(keys / "paris")
            return rendezvous.from_master(0, 2, LOOPBACK, port, 5)

        pool.submit(first)
        with credentials.call(connect(LOOPBACK, port, 5), "worker 0") as line:
            assert line.version() == "TLSv1.3"
            assert tls.site_of(line) == "paris"
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError), old.wrap_socket(connect(LOOPBACK, port, 5)):
            pass
        rendezvous.from_master(1, 2, LOOPBACK, port, 5).close()


def test_a_name_of_another_site_is_refused_where_it_is_claimed(own, keys):
    before = time.monotonic()
    found = met(own, [worker(keys / "paris"), worker(keys / "rome", "paris/1")], 60)
    assert time.monotonic() < before + 30
    why = "this worker calls itself 'paris/1' and holds the certificate of site 'rome'"
    assert found[1].startswith(why) and "begin with 'rome/' or 'rome:'" in found[1]
    assert found[0].startswith("worker 1 (") and f" at 127.0.0.1) cannot come: {why}" in found[0]


def test_a_liar_with_a_certificate_ends_the_job_with_a_line_that_names_it(own, keys, monkeypatch):
    monkeypatch.setattr("treefold.rendezvous.identity.tls.is_of_site", lambda name, site: True)
    found = met(own, [worker(keys / "paris"), worker(keys / "rome", "paris/1")])
    assert all(
        "worker 1 at 127.0.0.1 calls itself 'paris/1' and holds the certificate of site 'rome'" in x for x in found
    )


def test_another_authority_is_refused_at_both_ends(own, keys, tmp_path):
    certificates.make(["rome"], tmp_path)
    found = met(own, [worker(keys / "paris"), worker(tmp_path / "rome")], 1)
    assert "has a certificate that is of another authority; give all sites certificates of one authority" in found[1]
    assert "worker 1 did not come" in found[0] and "(a caller at 127.0.0.1 " in found[0]


def test_an_expired_certificate_is_found_at_once(own, keys, monkeypatch, tmp_path):
    shutil.copytree(keys, tmp_path / "keys")
    with monkeypatch.context() as past:
        changed(past, timedelta(days=-30))
        certificates.make(["oslo"], tmp_path / "keys", 7)
    with pytest.raises(TreefoldError, match=r"oslo/certificate.pem has expired; make a new one with"):
        tls.read(tmp_path / "keys" / "oslo")


def test_an_expired_certificate_is_refused_by_the_others(own, keys, monkeypatch, tmp_path):
    shutil.copytree(keys, tmp_path / "keys")
    with monkeypatch.context() as past:
        changed(past, timedelta(days=-30))
        certificates.make(["oslo"], tmp_path / "keys", 7)
    monkeypatch.setattr(tls, "_rehearsed", lambda accepting, calling, path: path.parent.name)
    found = met(own, [worker(keys / "paris"), worker(tmp_path / "keys" / "oslo")], 1)
    assert "refuses this worker, whose certificate has expired" in found[1]
    assert "(a caller at 127.0.0.1 has a certificate that has expired; " in found[0]
    found = met(own, [worker(tmp_path / "keys" / "oslo"), worker(keys / "paris")], 1)
    assert "worker 0, which serves at MASTER_ADDR 127.0.0.1" in found[1]
    assert "has a certificate that has expired" in found[1]


def test_a_certificate_that_is_not_valid_yet_is_told_apart(keys, monkeypatch, tmp_path):
    shutil.copytree(keys, tmp_path / "keys")
    with monkeypatch.context() as future:
        changed(future, timedelta(days=2))
        certificates.make(["oslo"], tmp_path / "keys", 7)
    with pytest.raises(TreefoldError, match="is not valid yet: compare the clocks"):
        tls.read(tmp_path / "keys" / "oslo")


@pytest.mark.parametrize("with_tls", [0, 1])
def test_half_of_the_workers_with_tls_is_told_on_each(own, keys, with_tls):
    workers = [{}, {}]
    workers[with_tls] = worker(keys / "paris")
    found = met(own, workers, 1)
    assert all("set TREEFOLD_TLS on all workers, or on none" in error for error in found), found
    assert "speak" in found[1] and "worker 1 did not come" in found[0]


@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 Bad request syntax\r\n\r\n", b"220 mail.example ESMTP\r\n", b""])
def test_another_program_at_the_port_of_worker_0_is_thought_of(own, keys, answer):
    own.TREEFOLD_TLS = str(keys / "paris")
    with listen(LOOPBACK) as listener, ThreadPoolExecutor(1) as pool:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        served = pool.submit(serve)
        port = listener.getsockname()[1]
        with pytest.raises(TreefoldError, match="or another program listens there: choose another MASTER_PORT"):
            rendezvous.from_master(1, 2, LOOPBACK, port, 2)
        served.result()


def test_strangers_keep_no_worker_out_of_tls(own, keys):
    port = free_port(LOOPBACK)

    def join(rank):
        own.TREEFOLD_TLS = str(keys / ["paris", "rome"][rank])
        place = rendezvous.from_master(rank, 2, LOOPBACK, port, 20)
        place.close()

    words = [
        b"",
        b"\x16",
        b"\x16\x03\x01\xff\xff" + bytes(100),
        b"GET / HTTP/1.1\r\n\r\n",
        b"tfw1" + bytes(50),
        bytes(9),
    ]
    with ThreadPoolExecutor(2) as pool:
        first, start = pool.submit(join, 0), time.monotonic()
        lines = [connect(LOOPBACK, port, 5) for _ in words]
        for line, said in zip(lines, words, strict=True):
            line.sendall(said)
        join(1)
        first.result()
        assert time.monotonic() - start < 4
        for line in lines:
            line.close()


def test_a_caller_without_tls_reads_why_it_is_refused(own, keys):
    port = free_port(LOOPBACK)

    def first():
        own.TREEFOLD_TLS = str(keys / "paris")
        with pytest.raises(TreefoldError, match="does not speak TLS, and the others do"):
            rendezvous.from_master(0, 2, LOOPBACK, port, 1)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(first)
        with connect(LOOPBACK, port, 5) as line:
            send_frame(line, {"number": "0" * 32, "rank": 1, "size": 2, "name": "rome"})
            assert "the workers of this job speak TLS" in receive_frame(line, 0)[0]["error"]
        waiting.result()


def spoil(name, text):
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "spoil, told",
    [
        (shutil.rmtree, "is no folder; name the folder of a site"),
        (lambda folder: (folder / "key.pem").unlink(), "has no key.pem"),
        (lambda folder: (folder / "key.pem").chmod(0o644), "key.pem can be read by others; keep it to yourself: chmod"),
        (spoil("certificate.pem", "nonsense"), "its files are damaged; copy the folder"),
        (spoil("authority.pem", "nonsense"), "its files are damaged; copy the folder"),
        (lambda folder: shutil.copy(folder.parent / "rome" / "key.pem", folder / "key.pem"), "is not the key of"),
        (lambda folder: shutil.copy(folder.parent / "other" / "authority.pem", folder), "is of another authority"),
        (lambda folder: shutil.copy(folder.parent / "authority.pem", folder / "certificate.pem"), "is not the key of"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_before_anyone_is_called(spoil, told, keys, tmp_path, monkeypatch):
    folder = tmp_path / "keys"
    shutil.copytree(keys, folder)
    certificates.make(["x"], folder / "other")
    spoil(folder / "paris")
    monkeypatch.setenv("TREEFOLD_TLS", str(folder / "paris"))
    with pytest.raises(TreefoldError, match=f"^TREEFOLD_TLS: .*{told}"):
        rendezvous.from_master(0, 1, LOOPBACK, free_port(LOOPBACK), 1)


def test_the_command_makes_certificates_and_adds_sites_later(tmp_path):
    folder = tmp_path / "keys"
    lines = printed("certificates", "paris", "rome", "-o", folder).splitlines()
    assert [line.split()[0] for line in lines] == ["site", "paris", "rome", "#"]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    [made] = output("certificates", "oslo", "-o", folder, "--days", 30)
    assert made["site"] == "oslo"
    assert made["valid_until"] < lines[1].split()[-1]
    assert before == {path: path.read_bytes() for path in before}
    modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    assert {mode for name, mode in modes.items() if name.endswith(("key.pem", ".key"))} == {0o600}
    assert {modes[site] for site in ("paris", "rome", "oslo")} == {0o700}
    assert tls.read(folder / "oslo").site == "oslo"


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["paris"], "site 'paris' has a certificate already"),
        (["../rome"], "site '../rome' is not a name"),
        (["a b"], "site 'a b' is not a name"),
        ([""], "site '' is not a name"),
        (["x" * 64], "is not a name of at most 63"),
        (["x\x1b[2J"], "is not a name"),
        (["authority.key"], "is not a name"),
        (["oslo", "Oslo"], "names that differ in case only are the same"),
        (["oslo", "--days", "0"], "the number of days must be at least 1"),
        (["oslo", "--days", "3651"], "the number of days must be at most 3650"),
        (["oslo", "--days", "x"], "not a valid integer"),
    ],
)
def test_sites_that_cannot_be_are_refused(arguments, told, keys):
    before = sorted(keys.rglob("*"))
    assert told in refused("certificates", *arguments, "-o", keys)
    assert sorted(keys.rglob("*")) == before


def test_a_damaged_authority_is_neither_used_nor_overwritten(keys, tmp_path):
    folder = tmp_path / "keys"
    shutil.copytree(keys, folder)
    (folder / "authority.key").rename(folder / "elsewhere")
    assert "has authority.pem but no authority.key" in refused("certificates", "oslo", "-o", folder)
    (folder / "authority.key").write_text("nonsense", encoding="utf-8")
    assert "are not a certificate and its key" in refused("certificates", "oslo", "-o", folder)
    shutil.copy(folder / "rome" / "key.pem", folder / "authority.key")
    assert "is not the key of" in refused("certificates", "oslo", "-o", folder)
    assert "No such file" in refused("certificates", "oslo", "-o", "/proc/no/keys")
    assert not (folder / "oslo").exists()


def test_an_expired_authority_makes_no_certificates(tmp_path, monkeypatch):
    with monkeypatch.context() as past:
        changed(past, timedelta(days=-4000))
        certificates.make(["paris"], tmp_path)
    with pytest.raises(TreefoldError, match=r"authority.pem expired on \d{4}-\d\d-\d\d; make a new one in"):
        certificates.make(["rome"], tmp_path)


def grouped(own, workers, network, act):
    """The results of `act` for each worker with these variables, or its error."""
    port = free_port(LOOPBACK)

    def join(rank):
        for name, value in workers[rank].items():
            setattr(own, name, str(value))
        try:
            place = rendezvous.from_master(rank, len(workers), LOOPBACK, port, 5)
            place = at_host(place, rank)  # with one address they would not meet over TCP
            try:
                group = runtime.join(place, network=network, algorithm="ring")
            finally:
                place.close()
            found = act(group)
            group.close()
            return found
        except TreefoldError as error:
            return str(error)

    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(join, range(len(workers))))


def summed(elements):
    def act(group):
        array = np.full(elements, group.worker + 1, np.int64)
        group.all_reduce(array)
        return sorted(set(array.tolist()))

    return act


@pytest.fixture
def network(tmp_path):
    """A network whose accelerators are two sites, one of them with two workers."""
    graph = networkx.complete_graph(["paris/0", "paris/1", "rome"])
    networkx.set_edge_attributes(graph, 1e9, "bandwidth_Bps")
    networkx.set_edge_attributes(graph, 1e-5, "latency_s")
    file = tmp_path / "network.graphml"
    networkx.write_graphml(graph, file)
    return str(file)


@pytest.mark.parametrize("elements", [1, 1000, 3_000_001])
def test_ranks_with_certificates_reduce(own, keys, network, elements):
    workers = [worker(keys / "rome"), worker(keys / "paris", "paris/1"), worker(keys / "paris", "paris/0")]
    assert grouped(own, workers, network, summed(elements)) == [[6]] * 3


def test_a_name_that_the_network_does_not_have_is_refused_on_all(own, keys, network):
    workers = [worker(keys / "rome"), worker(keys / "paris", "paris/1"), worker(keys / "paris", "paris/2")]
    found = grouped(own, workers, network, summed(1))
    assert all("it has no rank paris/2, and no worker is called paris/0" in error for error in found), found


def test_ranks_refuse_one_whose_certificate_is_of_another_site(own, keys, network, monkeypatch):
    monkeypatch.setattr(tls, "is_of_site", lambda name, site: True)  # so that the rendezvous lets the liar in
    monkeypatch.setattr(server, "is_of_site", lambda name, site: True)
    monkeypatch.setattr("treefold.runtime.tcp.CONNECT_S", 1.0)
    workers = [worker(keys / "rome"), worker(keys / "paris", "paris/1"), worker(keys / "rome", "paris/0")]
    found = grouped(own, workers, network, summed(1))
    assert all("its certificate is of another site" in error for error in found), found


@pytest.mark.filterwarnings("ignore:.* cannot connect; plans go round them")
def test_ranks_with_certificates_that_do_not_listen_call_the_others(own, keys, network, monkeypatch):
    from_master = rendezvous.from_master

    def silent(rank, *arguments):
        return from_master(rank, *arguments, own_port=None if rank == 1 else "none")

    monkeypatch.setattr(rendezvous, "from_master", silent)
    workers = [worker(keys / "rome"), worker(keys / "paris", "paris/1"), worker(keys / "paris", "paris/0")]

    def act(group):
        found = summed(1000)(group)
        return found, group.transport.meeting._credentials is not None, set(group.plan.pairs)

    found = grouped(own, workers, network, act)
    assert found == [([6], True, {(0, 1), (1, 2)})] * 3


def test_survivors_keep_their_certificates(own, keys, network):
    workers = [worker(keys / "rome"), worker(keys / "paris", "paris/1"), worker(keys / "paris", "paris/0")]

    def act(group):
        if group.worker == 1:
            return "gone"
        try:
            group.all_reduce(np.ones(2))
        except runtime.RankLostError as lost:
            group = runtime.regroup(group, lost)
        found = summed(10)(group), group.transport.meeting._credentials is not None
        group.close()
        return found

    found = grouped(own, workers, network, act)
    assert found == [([3], True), "gone", ([3], True)]


@pytest.mark.parametrize(("hosts", "is_told"), [(["127.0.0.1", "127.0.0.1"], False), (["10.0.0.1", "10.0.0.2"], True)])
def test_what_leaves_a_machine_unencrypted_is_warned_of(hosts, is_told):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        forming._warn_of_clear_text([f"{host}:4000" for host in hosts])
    assert [("is not encrypted when it leaves a machine" in str(each.message)) for each in told] == [True] * is_told
