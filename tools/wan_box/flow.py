"""Is one end of a measurement inside a box: it receives or sends a TCP stream, or echoes or sends datagrams.

flow.py receive PORT WARM_S SECONDS   print the bytes a second that arrive after the warm-up
flow.py send ADDRESS PORT SECONDS     send zeros for so long
flow.py echo PORT                     send datagrams back
flow.py ping ADDRESS PORT COUNT       print the round-trip times in seconds, as a JSON list
"""

import json
import socket
import sys
import time
from collections.abc import Callable

BLOCK = 1 << 18
TIMEOUT_S = 20.0


def receive(port: str, warm_s: str, seconds: str) -> None:
    """Count what one connection brings."""
    with socket.create_server(("0.0.0.0", int(port))) as server:
        server.settimeout(TIMEOUT_S)
        print("ready", flush=True)
        connection, _ = server.accept()
    buffer = bytearray(BLOCK)
    start = time.monotonic() + float(warm_s)
    while time.monotonic() < start:
        drop(connection, buffer)
    received, now, start = 0, 0.0, time.monotonic()
    while now < float(seconds):
        received += drop(connection, buffer)
        now = time.monotonic() - start
    print(received / now)


def drop(connection: socket.socket, buffer: bytearray) -> int:
    """Receive without a copy."""
    return connection.recv_into(buffer, BLOCK, socket.MSG_TRUNC)


def send(address: str, port: str, seconds: str) -> None:
    """Fill a connection."""
    data = bytes(BLOCK)
    with socket.create_connection((address, int(port)), timeout=TIMEOUT_S) as connection:
        end = time.monotonic() + float(seconds)
        try:
            while time.monotonic() < end:
                connection.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass


def echo(port: str) -> None:
    """Answer until ended."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("0.0.0.0", int(port)))
        print("ready", flush=True)
        while True:
            own.sendto(*own.recvfrom(2048))


def ping(address: str, port: str, count: str) -> None:
    """Ask so many times, twenty milliseconds apart."""
    times = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(1.0)
        for number in range(int(count)):
            start = time.monotonic()
            try:
                own.sendto(b"%d" % number, (address, int(port)))
                while own.recv(2048) != b"%d" % number:
                    pass
                times.append(time.monotonic() - start)
            except OSError:
                # The datagram is lost, or has no route at all: the device may be down.
                pass
            time.sleep(0.02)
    print(json.dumps(times))


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"receive": receive, "send": send, "echo": echo, "ping": ping}
    roles[sys.argv[1]](*sys.argv[2:])
