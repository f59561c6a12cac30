"""Is one end of a measurement or of cross traffic inside a box: it sends or takes a TCP stream or datagrams.

flow.py receive PORT WARM_S SECONDS   print the bytes a second that arrive after the warm-up
flow.py send ADDRESS PORT SECONDS     send zeros for so long
flow.py echo PORT                     send datagrams back
flow.py ping ADDRESS PORT COUNT       print the round-trip times in seconds, as a JSON list
flow.py hold                          print the number of a port, and drop the datagrams that come there
flow.py disturb ADDRESS PORT BYTES_A_SECOND ON_S OFF_S   send datagrams at this rate, on and off, until ended
"""

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable

BLOCK = 1 << 18
TIMEOUT_S = 20.0
UDP_SEGMENT = 103
PAYLOAD_BYTES, FRAME_BYTES = 1472, 1514
"""What a frame of Ethernet carries of a datagram, and what the frame takes on a cable."""
MOST_FRAMES = 16
"""So many frames go to the kernel at once, at most: they fit into a token bucket."""
PULSE_S = 0.005


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


def hold() -> None:
    """Keep a port open: what comes there fills its buffer, and the kernel drops the rest."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("0.0.0.0", 0))
        print(own.getsockname()[1], flush=True)
        while True:
            time.sleep(3600)


def disturb(address: str, port: str, bytes_a_second: str, on_s: str, off_s: str) -> None:
    """Send pulses of frames at a rate while on; what was missed is not made up for."""
    rate, on, period = float(bytes_a_second), float(on_s), float(on_s) + float(off_s)
    frames = max(1, min(MOST_FRAMES, int(rate * PULSE_S / FRAME_BYTES)))
    pulse, pulse_s = bytes(frames * PAYLOAD_BYTES), frames * FRAME_BYTES / rate
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD_BYTES)
        print("ready", flush=True)
        start = due = time.monotonic()
        while True:
            now = time.monotonic()
            beginning = start + (now - start) // period * period
            if now >= beginning + on:
                due = beginning + period
            elif now >= due:
                due = max(due + pulse_s, now - PULSE_S)
                # A cable that is down, or a buffer that is full, loses the pulse.
                with contextlib.suppress(OSError):
                    own.sendto(pulse, (address, int(port)))
            time.sleep(max(due - time.monotonic(), 0))


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {
        **{"receive": receive, "send": send, "echo": echo, "ping": ping},
        **{"hold": hold, "disturb": disturb},
    }
    roles[sys.argv[1]](*sys.argv[2:])
