"""The process group that a treefold group wraps: a plain one of torch, over gloo or other backends that torch knows."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

from treefold.errors import TreefoldError
from treefold.rendezvous.identity import listening_address
from treefold.torch import versions
from treefold.torch.engine import gloo_on
from treefold.torch.sources import Members


def backends_of(wraps: str | None) -> dict[str, str]:
    """Return the wrapped backend of each device type.

    Raises:
        TreefoldError: If torch does not know a backend, or this machine lacks its device.

    """
    if wraps is None:
        has_nccl = _is_here("cuda") and dist.is_nccl_available()
        return {"cuda": "nccl", "cpu": "gloo"} if has_nccl else {"cpu": "gloo"}
    wraps = wraps.lower()
    if ":" in wraps:
        pairs = [part.strip().partition(":") for part in wraps.split(",")]
        names = {device: name for device, _, name in pairs}
    else:
        devices = c10d.Backend.backend_capability.get(wraps, ["cpu"])
        names = dict.fromkeys([device for device in devices if _is_here(device)] or devices, wraps)
    for device, name in names.items():
        _maker(name)
        if not _is_here(device):
            raise TreefoldError(
                f"backend '{name}' cannot be wrapped for {device} tensors: torch finds no such device here; wrap gloo "
                "(TREEFOLD_WRAPS=gloo), or start where there is one"
            )
    return names


def _is_here(device: str) -> bool:
    """Return whether torch has a device of this type on this machine."""
    here = torch.accelerator.current_accelerator(check_available=True)
    return device in ("cpu", here.type if here is not None else "cpu")


def _maker(name: str, is_lazy: bool = False) -> Callable[[Any], Any]:
    """Return what makes a backend from torch's description of a group."""
    if (maker := _makers(name, is_lazy)) is None:
        known = ", ".join(sorted(each for each in c10d.Backend.backend_type_map if _makers(each) is not None))
        raise TreefoldError(f"backend '{name}' cannot be wrapped; known are {known}")
    return maker


def _makers(name: str, is_lazy: bool = False) -> Callable[[Any], Any] | None:
    """Return what makes a backend; None if there is no such backend that can be wrapped."""
    if name == "gloo":
        return lambda given: gloo(given.store, given.group_rank, given.group_size, given.timeout, is_lazy)
    return None if name == "treefold" else versions.maker(name)


def wrap(given: Any, wraps: str | None, *also: Any, is_lazy: bool = False) -> Any:
    """Return a plain process group for the ranks of `given`; its backends are registered in the groups `also`, too.

    Two ranks of a lazy gloo connect when they first need each other.
    """
    plain = dist.ProcessGroup(given.store, given.group_rank, given.group_size)
    made: dict[str, Any] = {}
    for device, name in backends_of(wraps).items():
        if name not in made:
            made[name] = _backend(name, given, is_lazy)
        kind = c10d.Backend.backend_type_map.get(name, dist.ProcessGroup.BackendType.CUSTOM)
        for each in (plain, *also):
            each._set_default_backend(kind)
            each._register_backend(torch.device(device), kind, made[name])
    return plain


def wraps_of(group: Any) -> str:
    """Return the backends of a group of torch for the devices of this machine, as `Options.wraps` has them."""
    pairs = [pair.partition(":") for pair in dist.get_backend_config(group).split(",")]
    names = {device: name for device, _, name in pairs if _is_here(device)}
    different = sorted(set(names.values()))
    return different[0] if len(different) == 1 else ",".join(f"{device}:{name}" for device, name in names.items())


def describe(members: Members) -> Any:
    """Return torch's description of a group of these ranks."""
    given = c10d._DistributedBackendOptions()
    given.store, given.group_rank, given.group_size = members.store, members.rank, members.size
    given.timeout, given.global_ranks_in_group = members.timeout, list(members.global_ranks)
    return given


def gloo(store: Any, rank: int, size: int, timeout: timedelta, is_lazy: bool = False) -> Any:
    """Return a new gloo group, which listens on TREEFOLD_INTERFACE, or where gloo chooses (GLOO_SOCKET_IFNAME).

    Raises:
        TreefoldError: If there is no such interface.

    """
    if (address := listening_address(None)) is not None:
        device = dist.ProcessGroupGloo.create_device(hostname=address, lazy_init=is_lazy or None)
    elif is_lazy:
        device = dist.ProcessGroupGloo.create_default_device(lazy_init=True)
    else:
        with versions.quiet_gloo():
            return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    return gloo_on(device, store, rank, size, timeout)


def _backend(name: str, given: Any, is_lazy: bool) -> Any:
    """Return a new backend of torch for the ranks of `given`."""
    outer = given.store
    given.store = dist.PrefixStore(f"wrapped/{name}/", outer)
    try:
        return _maker(name, is_lazy)(given)
    finally:
        given.store = outer
