"""Real torch processes, started once: they run one function after another, each in a new process group."""

import faulthandler
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import pytest

from treefold.rendezvous.sockets import free_port

START_TIMEOUT_S = 240  # torch takes long to import where the machine is busy
TIMEOUT_S = 120


def _serve(pipe: Connection, rank: int, size: int) -> None:
    """Run what comes through the pipe until it closes."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch

    import treefold.torch  # noqa: F401

    torch.set_num_threads(1)
    pipe.send("ready")
    while True:
        try:
            function, port, backend, environment, arguments = pipe.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(TIMEOUT_S - 5)
        try:
            with _environment(environment), _group(backend, rank, size, port):
                pipe.send(("done", function(rank, size, *arguments)))
        except BaseException:
            pipe.send(("failed", traceback.format_exc()))
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _group(backend: str | None, rank: int, size: int, port: int) -> Iterator[None]:
    import torch.distributed as dist

    if backend is None:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        yield
        return
    dist.init_process_group(
        backend,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=20),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


class Workers:
    """`size` processes; they are started anew after a test that hung."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._running: list[tuple[Any, Connection]] = []

    def __call__(
        self, function: Callable[..., Any], *arguments: Any, backend: str | None = "treefold", **environment: str
    ) -> list[Any]:
        """Return what `function(rank, size, *arguments)` returned on each rank, in a group of `backend`."""
        self._start()
        port = free_port("127.0.0.1")
        for _, pipe in self._running:
            pipe.send((function, port, backend, environment, arguments))
        answers = []
        for rank, (process, pipe) in enumerate(self._running):
            if not pipe.poll(TIMEOUT_S) or not process.is_alive():
                self.stop()
                pytest.fail(f"rank {rank} gave no answer; answers before: {answers}")
            answers.append(pipe.recv())
        failures = [f"rank {rank}:\n{text}" for rank, (state, text) in enumerate(answers) if state == "failed"]
        if failures:
            self.stop()
            pytest.fail("\n".join(failures))
        return [value for _, value in answers]

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        started: list[Connection] = []
        for rank in range(len(self._running), self.size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, rank, self.size), daemon=True)
            process.start()
            theirs.close()
            self._running.append((process, ours))
            started.append(ours)
        for pipe in started:
            assert pipe.poll(START_TIMEOUT_S) and pipe.recv() == "ready"

    def stop(self) -> None:
        """End the processes."""
        for process, pipe in self._running:
            pipe.close()
            process.kill()
            process.join()
        self._running = []


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """Four processes."""
    four = Workers(4)
    yield four
    four.stop()
