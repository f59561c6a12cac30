"""Worker 0 serves the ranks of other processes with one thread, however many callers there are.

Each caller claims a rank and a size, and proves that it knows the job's word. One that does not is refused. Where that
word is secret, or callers have certificates, any mistake is the job's own, and all workers get it as an error at once.
Otherwise anybody may have made the mistake: the caller is refused, and the workers hear of it only if they wait in
vain. If a rank is claimed again before all have come, every claimant is asked whether it is still there: the rank goes
to the first that answers, because workers answer at once and foreign callers need not.
"""

import selectors
import socket
import ssl
import threading
import time
from contextlib import suppress
from functools import partial

from treefold.errors import PeerError, TreefoldError, kind_of
from treefold.rendezvous.admission import POLL_S, REFUSAL_S, Admission, Caller
from treefold.rendezvous.challenge import word_bytes
from treefold.rendezvous.frames import FrameError, FrameStream, Header
from treefold.rendezvous.hub import MAX_BLOB_BYTES, Hub
from treefold.rendezvous.tls import Credentials, is_of_site, not_of_site, site_of
from treefold.text import visible

_HELLO_S = 5.0
_HAND_OVER_S = 5.0
_ANSWER_S = 5.0
_CLOSE_S = 5.0
_MOST_NAME, _MOST_TEXT, _MOST = 200, 1000, 1 << 32


class _Worker:
    """The process that has a rank."""

    def __init__(self, rank: int, name: str, stream: FrameStream) -> None:
        self.rank, self.name, self.stream = rank, name, stream
        self.is_waiting = self.is_refused = False


class _Claim:
    """A caller that claims a rank which another process has."""

    def __init__(self, caller: Caller, rank: int, name: str) -> None:
        self.caller, self.rank, self.name = caller, rank, name
        self.has_answered = False


class Server:
    """A hub behind a listener; everything happens in one thread."""

    def __init__(self, hub: Hub, listener: socket.socket, job: str, has_secret: bool, tls: Credentials | None):
        self._hub, self._has_secret = hub, has_secret
        self._ready = selectors.DefaultSelector()
        self._admission = Admission(self._ready, listener, _HELLO_S, word_bytes(job), self._handle_hello, tls)
        self._workers: dict[int, _Worker] = {}
        self._waiting: dict[int, list[_Worker]] = {}
        """The workers that wait for the blobs of each round."""
        self._asked: dict[_Worker, float] = {}
        """The deadlines of workers that were asked whether they are still there."""
        self._claims: dict[Caller, _Claim] = {}
        self._refused: dict[_Worker, float] = {}
        """The deadlines until which refused workers may read the reason."""
        self._arrivals = 1
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._ready.register(self._woken, selectors.EVENT_READ, self._drain_wake)
        self._listener = listener
        self._closing = self._hands_over = False
        self._has_handed_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="treefold-rendezvous", daemon=True)
        hub.notify = self._wake_up
        self._thread.start()

    def await_workers(self, timeout_s: float) -> None:
        """Wait until as many workers as there are ranks have come, because latecomers should learn of a failure."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._arrivals < self._hub.size:
            time.sleep(POLL_S / 5)

    def hand_over(self) -> socket.socket:
        """Accept no more callers; return a socket of the caller's own, which goes on listening where this one did."""
        listener = self._listener.dup()
        self._hands_over = True
        self._wake_up()
        self._has_handed_over.wait(_HAND_OVER_S)
        return listener

    def close(self) -> None:
        """Let pending answers and errors arrive, then end the thread and all sockets; it may be called again."""
        self._closing = True
        self._wake_up()
        self._thread.join()

    def _wake_up(self) -> None:
        with suppress(OSError):  # the thread has been woken already, or has ended
            self._wake.send(b"\0")

    def _drain_wake(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(1 << 12)

    def _run(self) -> None:
        while not self._closing:
            self._iterate()
        self._admission.close()
        self._send_failure()
        deadline = time.monotonic() + _CLOSE_S
        while time.monotonic() < deadline and self._is_busy():
            self._iterate()
        for worker in [*self._workers.values(), *self._refused]:
            worker.stream.connection.close()
        self._ready.close()
        self._wake.close()
        self._woken.close()

    def _iterate(self) -> None:
        if self._hands_over and not self._closing:
            self._admission.stop_accepting()
            self._listener.close()
            self._has_handed_over.set()
        has_deadlines = self._admission.callers or self._waiting or self._asked or self._refused or self._closing
        for key, _ in self._ready.select(POLL_S if has_deadlines else None):
            key.data()
        while self._admission.mishaps:
            self._hub.remark(self._admission.mishaps.pop(0))
        self._answer()
        self._check_deadlines()
        self._admission.drop_expired()

    def _send_failure(self) -> None:
        """Send all workers the reason if the hub has failed."""
        self._answer()
        if self._hub.failure:
            for worker in list(self._workers.values()):
                self._refuse(worker, self._hub.failure)

    def _is_busy(self) -> bool:
        return bool(self._refused) or not all(worker.stream.is_flushed for worker in self._workers.values())

    # Callers that say who they are.

    def _handle_hello(self, caller: Caller, hello: Header) -> None:
        """Give a worker of this job its rank."""
        if claim := self._claims.get(caller):
            claim.has_answered = True
            self._resolve_claims(claim.rank)
            return
        try:
            rank, size, name = self._introduction(hello, caller.address)
        except FrameError as error:
            self._admission.refuse(caller, str(error))
            return
        self._arrivals += 1
        mistake = self._mistake(rank, size, name) or _failure(rank, name, hello.get("fails"))
        if mistake := mistake or _foreign(rank, hello.get("name"), caller):
            self._report_mistake(mistake)
            self._admission.refuse(caller, mistake)
        elif self._hub.failure:
            self._admission.refuse(caller, self._hub.failure)
        elif rank not in self._workers:
            self._admit(caller, rank, name)
        else:
            self._add_claim(caller, rank, name)

    def _introduction(self, hello: Header, address: str) -> tuple[int, int, str]:
        """Return a worker's rank, the size of the group as this worker knows it, and its name for errors."""
        rank, size, name = hello.get("rank"), hello.get("size"), hello.get("name")
        sane = range(-_MOST, _MOST)
        if type(rank) is not int or type(size) is not int or rank not in sane or size not in sane:
            raise FrameError("this port speaks to workers of treefold only, which say their rank and size")
        if not isinstance(name, str | None):
            raise FrameError("this port speaks to workers of treefold only, whose names are texts")
        return rank, size, f"{visible(name or 'a worker')[:_MOST_NAME]} at {address}"

    def _mistake(self, rank: int, size: int, name: str) -> str | None:
        own = self._hub.size
        if size != own:
            return f"worker {rank} ({name}) has WORLD_SIZE {size}, worker 0 has {own}; start all with the same"
        if not 0 <= rank < own:
            return f"RANK {rank} ({name}) does not exist among {own} workers; it counts from 0"
        return _taken_twice(rank, "the worker that serves the others", name) if rank == 0 else None

    def _report_mistake(self, mistake: str) -> None:
        """Fail for all if the mistake is the job's own; else keep it for those who wait in vain."""
        if self._hub.has_gathered:
            return
        if self._has_secret:
            self._hub.fail(mistake)
        else:
            self._hub.remark(mistake)

    def _admit(self, caller: Caller, rank: int, name: str) -> None:
        worker = self._workers[rank] = _Worker(rank, name, self._admission.admit(caller))
        self._ready.register(worker.stream.connection, selectors.EVENT_READ, partial(self._serve, worker))
        self._send(worker, {"welcome": True})

    def _add_claim(self, caller: Caller, rank: int, name: str) -> None:
        """Let a second claim to a rank wait until the first claimant answers, unless it is refused at once."""
        holder = self._workers[rank]
        mistake = _taken_twice(rank, holder.name, name)
        self._report_mistake(mistake)
        if self._has_secret or self._hub.has_gathered:
            self._admission.refuse(caller, mistake)
            return
        self._claims = {each: claim for each, claim in self._claims.items() if self._admission.is_waiting(each)}
        self._claims[caller] = _Claim(caller, rank, name)
        caller.stream.send({"still": True})
        if holder not in self._asked:
            self._asked[holder] = time.monotonic() + _ANSWER_S
            self._send(holder, {"still": True})
        caller.until = self._asked[holder] + _HELLO_S

    def _claims_to(self, rank: int) -> list[_Claim]:
        waiting = self._admission.is_waiting
        return [claim for claim in self._claims.values() if claim.rank == rank and waiting(claim.caller)]

    def _resolve_claims(self, rank: int) -> None:
        """Give a rank that nobody has to the first claimant that has answered."""
        answered = [claim for claim in self._claims_to(rank) if claim.has_answered]
        if rank not in self._workers and answered:
            self._admit(answered[0].caller, rank, answered[0].name)

    # Workers that have a rank.

    def _serve(self, worker: _Worker) -> None:
        """Receive and send what a worker's connection is ready for."""
        if worker.is_refused:
            if worker in self._refused and worker.stream.finish():
                self._let_go(worker)
            return
        if self._workers.get(worker.rank) is not worker:
            return
        try:
            self._send(worker)
            while self._workers.get(worker.rank) is worker and (frame := worker.stream.receive(MAX_BLOB_BYTES)):
                self._handle(worker, *frame)
        except FrameError as error:
            self._remove(worker, f"has sent what no worker sends ({error})", str(error))
        except (OSError, EOFError):
            self._remove(worker, "has died or lost its connection")

    def _handle(self, worker: _Worker, header: Header, blob: bytes) -> None:
        if header.get("bye"):
            self._remove(worker, "has left the group")
        elif header.get("here"):
            self._asked.pop(worker, None)
            for claim in self._claims_to(worker.rank):
                self._admission.refuse(claim.caller, _taken_twice(worker.rank, worker.name, claim.name))
        elif worker.is_waiting:
            raise FrameError("a blob before the last one was answered")
        else:
            worker.is_waiting = True
            self._waiting.setdefault(self._hub.put(worker.rank, blob), []).append(worker)

    def _remove(self, worker: _Worker, how: str, why: str | None = None) -> None:
        """Remove a worker, which ends the job too, unless not all have come and anybody may have claimed the rank."""
        reason = f"worker {worker.rank} ({worker.name}) {how}; look at its output"
        if self._has_secret or not self._hub.withdraw(worker.rank):
            self._hub.leave(worker.rank, reason)
        else:
            self._hub.remark(reason)
        self._refuse(worker, why or PeerError(reason))
        self._resolve_claims(worker.rank)

    def _answer(self) -> None:
        """Give all workers that wait for a round its blobs, or the error that there will be none."""
        for number in list(self._waiting):
            workers = [each for each in self._waiting[number] if self._workers.get(each.rank) is each]
            try:
                blobs = self._hub.result(number, len(workers)) if workers else []
            except TreefoldError as error:
                self._waiting[number] = []
                for worker in workers:
                    self._refuse(worker, error)
                continue
            if blobs is not None:
                del self._waiting[number]
                header, body = {"bytes": [len(blob) for blob in blobs]}, b"".join(blobs)
                for worker in workers:
                    worker.is_waiting = False
                    self._send(worker, header, body)

    def _send(self, worker: _Worker, header: Header | None = None, body: bytes = b"") -> None:
        """Send a frame, or without one the rest of earlier frames."""
        if header is not None:
            worker.stream.send(header, body)
        else:
            worker.stream.flush()
        wanted = selectors.EVENT_READ | (0 if worker.stream.is_flushed else selectors.EVENT_WRITE)
        self._ready.modify(worker.stream.connection, wanted, partial(self._serve, worker))

    def _refuse(self, worker: _Worker, why: str | TreefoldError) -> None:
        """Send a worker an error and give it a moment to read it; its rank becomes free."""
        del self._workers[worker.rank]
        self._asked.pop(worker, None)
        worker.is_refused = True
        self._refused[worker] = time.monotonic() + REFUSAL_S
        self._send(worker, {"error": str(why), "kind": kind_of(why)})
        self._serve(worker)

    def _let_go(self, worker: _Worker) -> None:
        del self._refused[worker]
        self._ready.unregister(worker.stream.connection)
        worker.stream.connection.close()

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        for worker in [each for each, until in self._refused.items() if until < now]:
            self._let_go(worker)
        for worker in [each for each, until in self._asked.items() if until < now]:
            self._remove(worker, "did not answer when another worker claimed this rank")


def _failure(rank: int, name: str, why: object) -> str | None:
    """Return the mistake of a worker that calls only to say why it cannot take part; None if it can."""
    return f"worker {rank} ({name}) cannot come: {visible(why[:_MOST_TEXT])}" if isinstance(why, str) else None


def _foreign(rank: int, name: str | None, caller: Caller) -> str | None:
    """Return the mistake of a worker whose name is not of the site of its certificate; None if it is, or has none."""
    if not isinstance(caller.stream.connection, ssl.SSLSocket):
        return None
    site = site_of(caller.stream.connection)
    if site is not None and name is not None and is_of_site(name, site):
        return None
    return f"worker {rank} at {caller.address} {not_of_site(name, site)}"


def _taken_twice(rank: int, one: str, other: str) -> str:
    return (
        f"RANK {rank} is taken twice, by {one} and {other}; give each worker its own RANK, and all of them the same "
        "TREEFOLD_JOB, a word that strangers do not know"
    )
