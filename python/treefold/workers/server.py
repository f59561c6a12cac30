"""Rank 0's door for ranks in other processes: one thread, whoever and however many call.

Who calls says a job word, a rank and a size. A wrong word is refused. Where the job has a secret word, what else is
wrong is the job's own mistake, and told to all at once. Without one anybody may have said it: then it is refused, and
those who wait in vain hear of it at the end. If a seat is claimed again before all have come, all who claim it are
asked whether they are there: it goes to the first who answers, as workers do at once, and others need not.
"""

import selectors
import socket
import threading
import time
from contextlib import suppress
from functools import partial

from treefold.errors import TreefoldError
from treefold.text import visible
from treefold.workers.door import LOOK_S, REFUSAL_S, Caller, Door
from treefold.workers.frames import FrameError, Header, Line, knows
from treefold.workers.hub import MAX_BLOB_BYTES, Hub

_HELLO_S = 5.0
_ANSWER_S = 5.0
_CLOSE_S = 5.0
_MOST_NAME, _MOST = 200, 1 << 32


class _Worker:
    """Who sits on a rank's seat."""

    def __init__(self, rank: int, name: str, line: Line) -> None:
        self.rank, self.name, self.line = rank, name, line
        self.is_waiting = self.is_refused = False


class _Claim:
    """Who waits at the door for a seat that is taken."""

    def __init__(self, caller: Caller, rank: int, name: str) -> None:
        self.caller, self.rank, self.name = caller, rank, name
        self.has_answered = False


class Server:
    """Puts a hub behind a listener; everything happens in one thread."""

    def __init__(self, hub: Hub, listener: socket.socket, job: str, has_secret: bool):
        self._hub, self._job, self._has_secret = hub, job, has_secret
        self._ready = selectors.DefaultSelector()
        self._door = Door(self._ready, listener, _HELLO_S, self._greet)
        self._seats: dict[int, _Worker] = {}
        self._waiting: dict[int, list[_Worker]] = {}
        """By round: whose blobs they wait for."""
        self._asked: dict[_Worker, float] = {}
        """Until when workers have to answer whether they are still there."""
        self._claims: dict[Caller, _Claim] = {}
        self._refused: dict[_Worker, float] = {}
        """Until when these may read why."""
        self._came = 1
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._ready.register(self._woken, selectors.EVENT_READ, self._heed_wake)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="treefold-rendezvous", daemon=True)
        hub.tell = self._tell
        self._thread.start()

    def await_workers(self, timeout_s: float) -> None:
        """Wait until as many workers as there are ranks have come: latecomers should learn what failed before."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._came < self._hub.size:
            time.sleep(LOOK_S / 5)

    def close(self) -> None:
        """Let answers and errors on their way arrive, then end the thread and all sockets; harmless when repeated."""
        self._closing = True
        self._tell()
        self._thread.join()

    def _tell(self) -> None:
        with suppress(OSError):  # it has been told already, or is gone
            self._wake.send(b"\0")

    def _heed_wake(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(1 << 12)

    def _run(self) -> None:
        while not self._closing:
            self._turn()
        self._door.close()
        self._part()
        deadline = time.monotonic() + _CLOSE_S
        while time.monotonic() < deadline and self._is_busy():
            self._turn()
        for worker in [*self._seats.values(), *self._refused]:
            worker.line.connection.close()
        self._ready.close()
        self._wake.close()
        self._woken.close()

    def _turn(self) -> None:
        has_deadlines = self._door.callers or self._waiting or self._asked or self._refused or self._closing
        for key, _ in self._ready.select(LOOK_S if has_deadlines else None):
            key.data()
        self._answer()
        self._look_at_clock()
        self._door.dismiss_late()

    def _part(self) -> None:
        """Tell all who sit here why it is over, if it failed."""
        self._answer()
        if self._hub.failure:
            for worker in list(self._seats.values()):
                self._refuse(worker, self._hub.failure)

    def _is_busy(self) -> bool:
        return bool(self._refused) or not all(worker.line.is_sent for worker in self._seats.values())

    # Who calls.

    def _greet(self, caller: Caller, hello: Header) -> None:
        """Give a worker of this job its seat."""
        if claim := self._claims.get(caller):
            claim.has_answered = True
            self._settle(claim.rank)
            return
        try:
            rank, size, name = self._introduction(hello, caller.address)
        except FrameError as error:
            self._door.refuse(caller, str(error))
            return
        self._came += 1
        if problem := self._misfit(rank, size, name):
            self._blame(problem)
            self._door.refuse(caller, problem)
        elif self._hub.failure:
            self._door.refuse(caller, self._hub.failure)
        elif rank not in self._seats:
            self._seat(caller, rank, name)
        else:
            self._claim(caller, rank, name)

    def _introduction(self, hello: Header, address: str) -> tuple[int, int, str]:
        """Return a worker's rank, the group's size as it knows it, and what to call the worker."""
        if not knows(hello, "job", self._job):
            raise FrameError(
                "this is another job's rendezvous; give each job its own MASTER_PORT, and all of its workers the same "
                "TREEFOLD_JOB"
            )
        rank, size, name = hello.get("rank"), hello.get("size"), hello.get("name")
        sane = range(-_MOST, _MOST)
        if type(rank) is not int or type(size) is not int or rank not in sane or size not in sane:
            raise FrameError("this port speaks to workers of treefold only, which say their rank and size")
        if not isinstance(name, str | None):
            raise FrameError("this port speaks to workers of treefold only, whose names are texts")
        return rank, size, f"{visible(name or 'a worker')[:_MOST_NAME]} at {address}"

    def _misfit(self, rank: int, size: int, name: str) -> str | None:
        own = self._hub.size
        if size != own:
            return f"rank {rank} ({name}) has WORLD_SIZE {size}, rank 0 has {own}; start all with the same"
        if not 0 <= rank < own:
            return f"rank {rank} ({name}) does not exist among {own} workers; ranks count from 0"
        return _doubled(rank, "the worker that serves the others", name) if rank == 0 else None

    def _blame(self, problem: str) -> None:
        """Tell all of a mistake if it is the job's own; else keep it for those who wait in vain."""
        if self._hub.has_gathered:
            return
        if self._has_secret:
            self._hub.fail(problem)
        else:
            self._hub.note(problem)

    def _seat(self, caller: Caller, rank: int, name: str) -> None:
        worker = self._seats[rank] = _Worker(rank, name, self._door.let_in(caller))
        self._ready.register(worker.line.connection, selectors.EVENT_READ, partial(self._attend, worker))
        self._send(worker, {"welcome": True})

    def _claim(self, caller: Caller, rank: int, name: str) -> None:
        """Let a second claim wait until the first one answers, if that tells anything."""
        holder = self._seats[rank]
        problem = _doubled(rank, holder.name, name)
        self._blame(problem)
        if self._has_secret or self._hub.has_gathered:
            self._door.refuse(caller, problem)
            return
        self._claims = {each: claim for each, claim in self._claims.items() if self._door.is_waiting(each)}
        self._claims[caller] = _Claim(caller, rank, name)
        caller.line.send({"still": True})
        if holder not in self._asked:
            self._asked[holder] = time.monotonic() + _ANSWER_S
            self._send(holder, {"still": True})
        caller.until = self._asked[holder] + _HELLO_S

    def _claims_to(self, rank: int) -> list[_Claim]:
        return [each for each in self._claims.values() if each.rank == rank and self._door.is_waiting(each.caller)]

    def _settle(self, rank: int) -> None:
        """Give a seat that is free to the first who claims it and has answered."""
        answered = [claim for claim in self._claims_to(rank) if claim.has_answered]
        if rank not in self._seats and answered:
            self._seat(answered[0].caller, rank, answered[0].name)

    # Who sits.

    def _attend(self, worker: _Worker) -> None:
        """Hear and send what a worker's connection is ready for."""
        if worker.is_refused:
            if worker in self._refused and worker.line.has_left():
                self._let_go(worker)
            return
        if self._seats.get(worker.rank) is not worker:
            return
        try:
            self._send(worker)
            while self._seats.get(worker.rank) is worker and (frame := worker.line.receive(MAX_BLOB_BYTES)):
                self._heed(worker, *frame)
        except FrameError as error:
            self._lose(worker, f"has sent what no worker sends ({error})", str(error))
        except (OSError, EOFError):
            self._lose(worker, "has died or lost its connection")

    def _heed(self, worker: _Worker, header: Header, blob: bytes) -> None:
        if header.get("bye"):
            self._lose(worker, "has left the group")
        elif header.get("here"):
            self._asked.pop(worker, None)
            for claim in self._claims_to(worker.rank):
                self._door.refuse(claim.caller, _doubled(worker.rank, worker.name, claim.name))
        elif worker.is_waiting:
            raise FrameError("a blob before the last one was answered")
        else:
            worker.is_waiting = True
            self._waiting.setdefault(self._hub.give(worker.rank, blob), []).append(worker)

    def _lose(self, worker: _Worker, how: str, why: str | None = None) -> None:
        """End with a worker: the job does too, unless all have yet to come and anybody may have said to be this one."""
        lost = f"rank {worker.rank} ({worker.name}) {how}; look at its output"
        if self._has_secret or not self._hub.take_back(worker.rank):
            self._hub.leave(worker.rank, lost)
        else:
            self._hub.note(lost)
        self._refuse(worker, why or lost)
        self._settle(worker.rank)

    def _answer(self) -> None:
        """Give all who wait for a round its blobs, or the error that there will be none."""
        for number in list(self._waiting):
            workers = [each for each in self._waiting[number] if self._seats.get(each.rank) is each]
            try:
                blobs = self._hub.result(number, len(workers)) if workers else []
            except TreefoldError as error:
                self._waiting[number] = []
                for worker in workers:
                    self._refuse(worker, str(error))
                continue
            if blobs is not None:
                del self._waiting[number]
                header, body = {"bytes": [len(each) for each in blobs]}, b"".join(blobs)
                for worker in workers:
                    worker.is_waiting = False
                    self._send(worker, header, body)

    def _send(self, worker: _Worker, header: Header | None = None, body: bytes = b"") -> None:
        """Send a frame, or more of what has not left yet."""
        if header is not None:
            worker.line.send(header, body)
        else:
            worker.line.flush()
        wanted = selectors.EVENT_READ | (0 if worker.line.is_sent else selectors.EVENT_WRITE)
        self._ready.modify(worker.line.connection, wanted, partial(self._attend, worker))

    def _refuse(self, worker: _Worker, why: str) -> None:
        """Tell a worker an error and wait a moment until it has read it; its seat is free."""
        del self._seats[worker.rank]
        self._asked.pop(worker, None)
        worker.is_refused = True
        self._refused[worker] = time.monotonic() + REFUSAL_S
        self._send(worker, {"error": why})
        self._attend(worker)

    def _let_go(self, worker: _Worker) -> None:
        del self._refused[worker]
        self._ready.unregister(worker.line.connection)
        worker.line.connection.close()

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        for worker in [each for each, until in self._refused.items() if until < now]:
            self._let_go(worker)
        for worker in [each for each, until in self._asked.items() if until < now]:
            self._lose(worker, "did not answer when another worker said to be this rank")


def _doubled(rank: int, one: str, other: str) -> str:
    return (
        f"rank {rank} is taken twice, by {one} and {other}; give each worker its own RANK, and all of them the same "
        "TREEFOLD_JOB, a word that strangers do not know"
    )
