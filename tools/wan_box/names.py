"""Names of everything that a box makes: addresses, hardware addresses, devices and namespaces follow from places.

A place is the position of a node in the topology.
"""

DEVICE = "node"
"""The device that holds a node's address."""


def address(place: int) -> str:
    """Return the address of a node."""
    return f"10.77.{place // 250}.{place % 250 + 1}"


def hardware(a: int, b: int) -> str:
    """Return the hardware address of the device from node a to node b: neighbours know it without asking."""
    return f"02:54:{a >> 8:02x}:{a & 255:02x}:{b >> 8:02x}:{b & 255:02x}"


def device(target: int) -> str:
    """Return the name of a node's device at its end of the cable to `target`."""
    return f"to{target}"


def namespace(box: str, place: int) -> str:
    """Return the network namespace of a node."""
    return f"{box}-{place}"
