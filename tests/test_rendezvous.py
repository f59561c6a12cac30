"""How workers find each other: blobs of all by rank, and errors that name who is missing, doubled, gone or wrong."""

import os
import resource
import socket
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stores import Store
from treefold import TreefoldError, rendezvous
from treefold.rendezvous.frames import receive_frame, send_frame
from treefold.rendezvous.identity import listening_address
from treefold.rendezvous.sockets import address_of, connect, free_port, listen
from treefold.rendezvous.variables import VARIABLES

LOOPBACK = "127.0.0.1"


def together(*calls):
    """Call all at once, each in a thread; return results, or the errors as texts."""

    def outcome(call):
        try:
            return call()
        except TreefoldError as error:
            return str(error)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


def joined(size: int, port: int, timeout_s: float = 20):
    return together(
        *(lambda rank=rank: rendezvous.from_master(rank, size, LOOPBACK, port, timeout_s) for rank in range(size))
    )


def exchanged(places, blobs):
    return together(*(lambda place=place: place.exchange(blobs[place.rank]) for place in places))


def close(places):
    together(*(place.close for place in places))


@pytest.mark.parametrize("make", [lambda: rendezvous.local(4), lambda: joined(4, free_port(LOOPBACK))])
def test_exchange_returns_all_blobs_by_rank_as_often_as_asked(make):
    places = make()
    assert [(place.rank, place.size, place.address) for place in places] == [(rank, 4, LOOPBACK) for rank in range(4)]
    for number in range(50):
        sent = [bytes([rank, number]) * (rank * number) for rank in range(4)]
        assert exchanged(places, sent) == [sent] * 4
    close(places)


def test_large_blobs_travel_and_larger_ones_are_refused():
    places = joined(2, free_port(LOOPBACK))
    blob = os.urandom(5 << 20)
    assert exchanged(places, [blob, blob]) == [[blob, blob]] * 2
    with pytest.raises(TreefoldError, match="too large to exchange; the most is 67108864"):
        places[0].exchange(bytes((64 << 20) + 1))
    close(places)


def test_last_answer_arrives_though_rank_0_closes_at_once():
    for _ in range(20):
        places = joined(3, free_port(LOOPBACK))

        def last(place):
            answer = place.exchange(b"last" * 100_000)
            place.close()
            return len(answer)

        assert together(*(lambda place=place: last(place) for place in places)) == [3, 3, 3]


def test_nothing_is_left_behind():
    threads = threading.active_count()
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        close(joined(3, free_port(LOOPBACK)))
    assert threading.active_count() == threads
    if files:
        assert len(os.listdir("/proc/self/fd")) == files


def test_missing_ranks_are_named_to_all_who_came():
    port = free_port(LOOPBACK)
    calls = [lambda rank=rank: rendezvous.from_master(rank, 4, LOOPBACK, port, 0.5) for rank in (0, 2)]
    assert together(*calls) == ["workers 1, 3 did not come within 0.5 s; start them, or see why they failed"] * 2


def test_a_thread_that_does_not_come_is_named():
    places = rendezvous.local(3, timeout_s=0.3)
    calls = [lambda place=place: place.exchange(b"") for place in places[:2]]
    assert together(*calls) == ["worker 2 did not come within 0.3 s; start it, or see why it failed"] * 2


@pytest.fixture
def job_word(monkeypatch):
    """Workers who know a word: what they do wrong is the job's own mistake."""
    monkeypatch.setenv("TREEFOLD_JOB", "a word")


@pytest.mark.usefixtures("job_word")
def test_a_rank_twice_is_told_to_all():
    port = free_port(LOOPBACK)
    calls = [lambda rank=rank: rendezvous.from_master(rank, 3, LOOPBACK, port, 20) for rank in (0, 1, 1)]
    messages = together(*calls)
    assert all("RANK 1 is taken twice" in message and "its own RANK" in message for message in messages)


def test_a_rank_twice_is_told_at_the_end_where_anybody_may_have_said_it():
    port = free_port(LOOPBACK)
    calls = [lambda rank=rank: rendezvous.from_master(rank, 3, LOOPBACK, port, 1) for rank in (0, 1, 1)]
    messages = together(*calls)
    assert all("RANK 1 is taken twice" in message and "its own RANK" in message for message in messages)
    assert sum("worker 2 did not come within 1 s" in message for message in messages) == 2


def test_a_late_double_is_refused_and_the_others_go_on():
    port = free_port(LOOPBACK)
    places = joined(2, port)
    with pytest.raises(TreefoldError, match="RANK 1 is taken twice"):
        rendezvous.from_master(1, 2, LOOPBACK, port, 5)
    assert exchanged(places, [b"x", b"x"]) == [[b"x", b"x"]] * 2
    close(places)


@pytest.mark.usefixtures("job_word")
def test_different_world_sizes_are_told_to_all():
    port = free_port(LOOPBACK)
    calls = [lambda rank=rank, size=size: rendezvous.from_master(rank, size, LOOPBACK, port, 20)
             for rank, size in ((0, 3), (1, 3), (2, 4))]  # fmt: skip
    messages = together(*calls)
    assert all("WORLD_SIZE 4, worker 0 has 3; start all with the same" in message for message in messages)


@pytest.mark.parametrize("variable", ["TREEFOLD_JOB", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"])
def test_jobs_that_meet_by_mistake_stay_apart(monkeypatch, variable):
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(rendezvous.from_master, 0, 2, LOOPBACK, port, 20)
        connect(LOOPBACK, port, 5).close()  # rank 0 serves now
        monkeypatch.setenv(variable, "another")
        with pytest.raises(TreefoldError, match="another job's rendezvous; give each job its own MASTER_PORT"):
            rendezvous.from_master(1, 2, LOOPBACK, port, 5)
        monkeypatch.delenv(variable)
        places = [pool.submit(rendezvous.from_master, 1, 2, LOOPBACK, port, 20).result(), first.result()][::-1]
    assert exchanged(places, [b"x", b"x"]) == [[b"x", b"x"]] * 2
    close(places)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"tfw1" + b"\xff" * 12, b"\0" * 4096])
def test_strangers_are_refused_politely_and_do_not_disturb(noise):
    port = free_port(LOOPBACK)
    places = joined(2, port)
    with socket.create_connection((LOOPBACK, port), 5) as stranger:
        stranger.sendall(noise)
        header, _ = receive_frame(stranger, 0)
    assert "treefold only" in header["error"] or "larger than expected" in header["error"]
    assert exchanged(places, [b"x", b"x"]) == [[b"x", b"x"]] * 2
    close(places)


def test_a_port_in_use_is_named():
    with listen(LOOPBACK) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TreefoldError, match=f"{LOOPBACK} port {port}: the port is in use; is this rank started"):
            rendezvous.from_master(0, 2, LOOPBACK, port, 1)


def test_a_foreign_master_address_is_named():
    with pytest.raises(TreefoldError, match=r"192.0.2.1 port 29500: the address is not of this machine"):
        rendezvous.from_master(0, 2, "192.0.2.1", 29500, 1)


def test_an_unreachable_master_is_named():
    port = free_port(LOOPBACK)
    with pytest.raises(
        TreefoldError, match=rf"worker 1: MASTER_ADDR {LOOPBACK} port {port} cannot be reached within 0.3"
    ):
        rendezvous.from_master(1, 2, LOOPBACK, port, 0.3)


def test_a_master_that_is_something_else_is_named():
    with listen(LOOPBACK) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP ready to serve\r\n")
                connection.recv(4096)
                time.sleep(0.2)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(
            TreefoldError, match=r"not a worker of treefold; choose another MASTER_PORT|lost its connection"
        ):
            rendezvous.from_master(1, 2, LOOPBACK, listener.getsockname()[1], 2)
        thread.join()


def test_who_leaves_early_is_named():
    places = joined(3, free_port(LOOPBACK))
    places[2].close()
    messages = together(*(lambda place=place: place.exchange(b"") for place in places[:2]))
    assert all("worker 2" in message and "has left the group" in message for message in messages)
    close(places)


WORKER = textwrap.dedent("""
    import os, signal, sys
    from treefold import TreefoldError, rendezvous
    try:
        joined = rendezvous.from_environment(timeout_s=30)
        blobs = joined.exchange((joined.name or "-").encode())
        if sys.argv[1:] == [str(joined.rank)]:
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1:]:
            joined.exchange(b"again")
        print(joined.rank, joined.size, joined.address, *(blob.decode() for blob in blobs))
        joined.close()
    except TreefoldError as error:
        print(error)
""")


def start(rank: int, size: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    variables = {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "TREEFOLD_NAME": f"site{rank}",
    }
    command = [sys.executable, "-c", WORKER, *arguments]
    return subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True)


def test_processes_join_by_environment():
    port = free_port(LOOPBACK)
    workers = [start(rank, 3, port) for rank in (2, 1, 0)]
    lines = sorted(worker.communicate(timeout=60)[0].strip() for worker in workers)
    assert [line.split()[:2] + line.split()[3:] for line in lines] == [
        [str(rank), "3", "site0", "site1", "site2"] for rank in range(3)
    ]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_worker_that_dies_is_named_to_the_survivors(victim):
    port = free_port(LOOPBACK)
    workers = [start(rank, 3, port, str(victim)) for rank in range(3)]
    lines = [worker.communicate(timeout=60)[0].strip() for worker in workers]
    for rank, line in enumerate(lines):
        assert rank == victim or (f"worker {victim}" in line and "died or lost its connection" in line), line


WHOLE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK, "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set; start it with torchrun or mpiexec"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR, MASTER_PORT not set"),
        ({"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK, "MASTER_PORT": "1"}, "RANK 'x' is not a whole"),
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK, "MASTER_PORT": "1"}, "RANK 2 does not exist in a"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK, "MASTER_PORT": "70000"}, "MASTER_PORT '70000' is"),
        (WHOLE | {"WORLD_SIZE": "999999999999"}, "WORLD_SIZE '999999999999' is not a whole number from 0 to 65536"),
        (WHOLE | {"WORLD_SIZE": "-1"}, "WORLD_SIZE '-1' is not a whole"),
        (WHOLE | {"WORLD_SIZE": "9" * 5000}, r"WORLD_SIZE '99999999999999999999\.\.\.' is not"),
        (WHOLE | {"WORLD_SIZE": "0"}, "RANK 0 does not exist in a WORLD_SIZE of 0"),
        (WHOLE | {"RANK": "0" * 5000 + "1", "WORLD_SIZE": "1"}, "RANK 1 does not exist in a WORLD_SIZE of 1"),
        (WHOLE | {"RANK": "\u0665"}, "RANK '\u0665' is not a whole"),
        (WHOLE | {"RANK": "1e3"}, "RANK '1e3' is not a whole"),
        (WHOLE | {"RANK": "1\x1b[2J"}, r"RANK '1\\x1b\[2J' is not a whole"),
        (WHOLE | {"MASTER_PORT": "9" * 5000}, "MASTER_PORT '99999"),
        (WHOLE | {"MASTER_ADDR": "a" * 300}, "cannot be resolved"),
        (WHOLE | {"RANK": "1", "MASTER_ADDR": "a" * 300}, "cannot be reached within 1 s"),
        (WHOLE | {"TREEFOLD_NAME": "a\nb"}, "TREEFOLD_NAME 'a\\\\nb' is not a name of at most 1000"),
        ({"OMPI_COMM_WORLD_RANK": "1" * 5000, "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK '1111"),
        ({"PMI_RANK": "2", "PMI_SIZE": "2"}, "PMI_RANK 2 does not exist in a PMI_SIZE of 2"),
        ({"PMI_RANK": "x", "PMI_SIZE": "2"}, "PMI_RANK 'x' is not a whole"),
    ],
)
def test_environments_that_are_wrong_are_told(monkeypatch, variables, message):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TreefoldError, match=message) as told:
        rendezvous.from_environment(1)
    assert str(told.value).isprintable() and len(str(told.value)) < 1000


def test_more_workers_than_rank_0_may_open_files_for():
    may_open = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, may_open[1]))
    try:
        with pytest.raises(
            TreefoldError, match="each of 299 other workers, and may open 256 files; allow it more: ulim"
        ):
            rendezvous.from_master(0, 300, LOOPBACK, free_port(LOOPBACK), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, may_open)


@pytest.mark.parametrize(("variable", "extra"), [("PMI_RANK", "mpi"), ("TORCHELASTIC_USE_AGENT_STORE", "torch")])
def test_a_missing_extra_names_its_command(monkeypatch, variable, extra):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "True" if extra == "torch" else "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    with pytest.raises(TreefoldError, match=rf"pip install 'treefold\[{extra}\]'"):
        rendezvous.from_environment(1)


@pytest.mark.parametrize("is_extended", [True, False])
def test_a_store_of_torch_carries_blobs_and_is_left_clean(is_extended):
    store = Store(is_extended)
    places = together(*(lambda rank=rank: rendezvous.from_store(store, rank, 3, 10) for rank in range(3)))
    assert [place.address for place in places] == [LOOPBACK] * 3
    sent = [os.urandom(rank * 1_500_000) for rank in range(3)]
    for _ in range(5):
        assert exchanged(places, sent) == [sent] * 3
    assert {key.split("/")[1] for key, value in store.values.items() if value} == {"6"}


def test_a_store_of_torch_names_who_is_missing():
    store = Store()
    message = "workers 1, 3 did not come within 0.3 s; start them, or see why they failed"
    assert together(*(lambda rank=rank: rendezvous.from_store(store, rank, 4, 0.3) for rank in (0, 2))) == [message] * 2


def of_store(monkeypatch, variables: list[dict[str, str]]) -> list[object]:
    """Return the address or the error of each rank of a store, each with variables of its own."""
    store, own = Store(), threading.local()
    monkeypatch.setattr(rendezvous.identity.environment, "value", lambda name: own.variables.get(name, ""))

    def address(rank: int) -> str:
        own.variables = variables[rank]
        return rendezvous.from_store(store, rank, len(variables), 20).address

    return together(*(lambda rank=rank: address(rank) for rank in range(len(variables))))


def test_an_interface_on_some_ranks_only(monkeypatch):
    assert of_store(monkeypatch, [{}, {"TREEFOLD_INTERFACE": "127.0.0.2"}, {}]) == [LOOPBACK, "127.0.0.2", LOOPBACK]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ([{"TREEFOLD_INTERFACE": "eth77"}, {}], "worker 0: TREEFOLD_INTERFACE: interface 'eth77' does not exist here"),
        ([{"TREEFOLD_INTERFACE": "192.0.2.1"}] * 2, "all workers: TREEFOLD_INTERFACE: address '192.0.2.1' is not"),
        ([{}, {"TREEFOLD_NAME": "a\nb"}, {"TREEFOLD_NAME": "a\nb"}], "workers 1, 2: TREEFOLD_NAME 'a\\nb' is not a na"),
        ([{"TREEFOLD_JOB": "a"}, {"TREEFOLD_JOB": "b"}], "worker 1 has another TREEFOLD_JOB than worker 0, or only"),
        ([{}, {"TREEFOLD_JOB": "b"}, {"TREEFOLD_JOB": "b"}], "workers 1, 2 have another TREEFOLD_JOB than worker 0"),
    ],
)
def test_a_variable_that_does_not_do_is_told_to_all(monkeypatch, variables, message):
    assert all(str(told).startswith(message) for told in of_store(monkeypatch, variables))


def test_the_word_of_a_job_is_not_stored(monkeypatch):
    stored = Store()
    monkeypatch.setenv("TREEFOLD_JOB", "a secret word")
    rendezvous.from_store(stored, 0, 1, 20)
    assert stored.values and not any(b"a secret word" in value for value in stored.values.values())


def test_interfaces_are_names_or_addresses(monkeypatch):
    names = [name for _, name in socket.if_nameindex()]
    assert address_of("127.0.0.2") == "127.0.0.2"
    if "lo" in names:
        assert address_of("lo") == LOOPBACK
        monkeypatch.setenv("TREEFOLD_INTERFACE", "lo")
        places = joined(1, free_port(LOOPBACK))
        assert places[0].address == LOOPBACK
        close(places)
    with pytest.raises(TreefoldError, match="interface 'eth77' does not exist here; there are "):
        address_of("eth77")
    monkeypatch.setenv("TREEFOLD_INTERFACE", "eth77")
    with pytest.raises(TreefoldError, match="TREEFOLD_INTERFACE: interface 'eth77' does not exist here; there are "):
        listening_address(None)


def test_frames_refuse_what_is_too_large():
    here, there = socket.socketpair()
    with here, there:
        send_frame(here, {}, b"12345")
        assert receive_frame(there, 5) == ({}, b"12345")


def test_who_comes_after_the_failure_learns_its_cause():
    places = joined(3, free_port(LOOPBACK), timeout_s=0.3)
    for rank in (0, 2, 0):
        with pytest.raises(TreefoldError, match="workers 1, 2 did not come within"):
            places[rank].exchange(b"")
    close(places)


@pytest.mark.usefixtures("job_word")
def test_latecomers_learn_what_failed_before():
    port = free_port(LOOPBACK)

    def late():
        time.sleep(1)
        return rendezvous.from_master(2, 3, LOOPBACK, port, 10)

    errors = together(
        lambda: rendezvous.from_master(0, 3, LOOPBACK, port, 10),
        lambda: rendezvous.from_master(1, 4, LOOPBACK, port, 10),
        late,
    )
    assert errors[0] == errors[1] == errors[2]
    assert "has WORLD_SIZE 4, worker 0 has 3" in errors[0]
