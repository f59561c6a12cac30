"""All-reduces and broadcasts of groups with several ranks at each site: planned between sites, wrapped inside them.

An all-reduce is a reduce-scatter inside each site, an all-reduce of each shard between the ranks that have it, and an
all-gather inside each site: the hierarchical all-reduce (Cho et al., BlueConnect, SysML 2018). Of n bytes each rank
sends its share between sites, so that all sites' ranks together send as much as one rank alone would.

What comes before a plan, on the host or on a device, and what comes behind it are begun by three different threads. So
each of the three has a process group of its own: in one group, ranks would not begin them in the same order.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

from treefold.errors import TreefoldError
from treefold.rendezvous.meeting import failures_of
from treefold.runtime.group import Group
from treefold.text import visible
from treefold.torch import collectives, pieces, wrapped
from treefold.torch.crossing import Crossing
from treefold.torch.sites import Sites
from treefold.torch.sources import Members

_Reduction = dist.ReduceOp.RedOpType


class Inside(NamedTuple):
    """The ranks at one site, as one of them sees them."""

    rank: int
    size: int
    place_of: Sequence[tuple[int, int]]
    """The site's number and the place at the site of each rank of the whole group."""
    site: int
    name: str
    """The site's name."""
    across: Sequence[int]
    """The rank of the whole group at each site that has this rank's place."""
    groups: dict[str, Any]
    """The process groups of the site: `first` for what comes before a plan on tensors of the host, `aside` for the same
    on tensors of a device, which the caller's thread begins, and `last` for what comes behind."""
    before: str = "first"
    """The process group for what comes before a plan."""

    def abort(self) -> None:
        """Let operations of the site's ranks fail, those that are under way, too."""
        for name in list(self.groups):
            self.groups.pop(name).abort()  # gloo's connections only end with the group

    def close(self) -> None:
        """End the process groups, with whose operations all are done."""
        for name in list(self.groups):
            self.groups.pop(name).shutdown()

    def reduce_scatter(self, vector: torch.Tensor, operator: Any) -> None:
        """Reduce the vectors of the site, of which each rank gets the result in its shard's place."""
        options = c10d.ReduceScatterOptions()
        options.reduceOp = dist.ReduceOp(_inner(operator))
        self._run(self.before, lambda group: group._reduce_scatter_base(self.shard(vector), vector, options))

    def reduce(self, tensor: torch.Tensor, operator: Any) -> None:
        """Reduce the tensors of the site into that of its first rank."""
        options = c10d.ReduceOptions()
        options.reduceOp, options.rootRank = dist.ReduceOp(_inner(operator)), 0
        self._run(self.before, lambda group: group.reduce([tensor], options))

    def all_gather(self, vector: torch.Tensor) -> None:
        """Give each rank of the site all shards."""
        options = c10d.AllgatherOptions()
        self._run("last", lambda group: group._allgather_base(vector, self.shard(vector), options))

    def broadcast(self, tensor: torch.Tensor, root: int, name: str) -> None:
        """Give each rank of the site the tensor of one of them."""
        options = c10d.BroadcastOptions()
        options.rootRank, options.rootTensor = root, 0
        self._run(name, lambda group: group.broadcast([tensor], options))

    def _run(self, name: str, call: Callable[[Any], Any]) -> None:
        """Run an operation in one of the process groups."""
        if (group := self.groups.get(name)) is None:
            raise TreefoldError("an operation of the process group has failed, or it is closed; form a new one")
        with failures_of(f"ranks at site '{visible(self.name)}'", "look at the output of the ranks there"):
            call(group).wait()

    def shard(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the shard of this rank."""
        return vector.view(self.size, -1)[self.rank]


def _inner(operator: Any) -> Any:
    """Return the operator inside a site: averages are divided in the end."""
    return _Reduction.SUM if operator == _Reduction.AVG else operator


def inside_of(members: Members, sites: Sites, wraps: str | None) -> Inside:
    """Form the groups of the ranks at this rank's site; all of them call this together."""
    here = sites.inside(members.rank)
    groups = {
        name: wrapped.wrap(wrapped.describe(members.some(here, f"{name}/{here[0]}/")), wraps)
        for name in ("first", "aside", "last")
    }
    places = sites.places
    site, place = places[members.rank]
    return Inside(place, len(here), places, site, sites.names[site], sites.across(members.rank), groups)


class _Cut(NamedTuple):
    """A tensor as flat memory: as many whole shards as there are ranks at the site, and what is left."""

    tensor: torch.Tensor
    dense: torch.Tensor
    even: torch.Tensor
    rest: torch.Tensor

    def parts(self, inside: Inside) -> list[torch.Tensor]:
        """Return what this rank reduces between sites: its shard, and if it is the site's first, what is left."""
        rest = self.rest if inside.rank == 0 else self.rest[:0]
        return [part for part in (inside.shard(self.even), rest) if part.numel()]


def _cut(inside: Inside, tensor: torch.Tensor) -> _Cut:
    dense = tensor.detach().contiguous()
    flat = dense.view(-1)
    most = flat.numel() - flat.numel() % inside.size
    return _Cut(tensor, dense, flat[:most], flat[most:])


def _reduce_inside(inside: Inside, cuts: Sequence[_Cut], operator: Any) -> None:
    """Reduce inside the site: each rank then has its part of the site's result."""
    for cut in cuts:
        if cut.even.numel():
            inside.reduce_scatter(cut.even, operator)
        if cut.rest.numel():
            inside.reduce(cut.rest, operator)


def _gather_inside(inside: Inside, cuts: Sequence[_Cut], operator: Any) -> None:
    """Give all ranks of the site what was reduced between sites."""
    for cut in cuts:
        if operator == _Reduction.AVG:
            for part in cut.parts(inside):
                part.div_(inside.size)
        if cut.even.numel():
            inside.all_gather(cut.even)
        if cut.rest.numel():
            inside.broadcast(cut.rest, 0, "last")
        if cut.dense.data_ptr() != cut.tensor.data_ptr():
            cut.tensor.detach().copy_(cut.dense)


def all_reduce(
    inside: Inside, group: Group, tensors: Sequence[torch.Tensor], operator: Any, crossing: Crossing
) -> Iterator[None]:
    """Reduce each of the tensors over all ranks of all sites, in place, as `collectives.all_reduce`."""
    cuts = [_cut(inside, tensor) for tensor in tensors]
    _reduce_inside(inside, cuts, operator)
    yield from collectives.all_reduce(group, _parts(inside, cuts), operator, crossing)
    _gather_inside(inside, cuts, operator)


def broadcast(inside: Inside, group: Group, tensor: torch.Tensor, root: int) -> Iterator[None]:
    """Give all ranks of all sites the tensor of the rank `root`, in place, as `collectives.broadcast`."""
    vector = _padded(inside, tensor)
    _send_inside(inside, tensor, vector, root)
    yield from collectives.broadcast(group, inside.shard(vector), inside.place_of[root][0])
    _receive_inside(inside, tensor, vector, root)


def _parts(inside: Inside, cuts: Sequence[_Cut]) -> list[torch.Tensor]:
    return [part for cut in cuts for part in cut.parts(inside)]


def _padded(inside: Inside, tensor: torch.Tensor) -> torch.Tensor:
    """Return an empty vector of whole shards, which has room for the tensor."""
    return tensor.new_empty(-(-tensor.numel() // inside.size) * inside.size)


def _send_inside(inside: Inside, tensor: torch.Tensor, vector: torch.Tensor, root: int) -> None:
    """Give each rank at the root's site the root's tensor."""
    site, place = inside.place_of[root]
    if site == inside.site:
        vector[: tensor.numel()] = tensor.detach().reshape(-1)
        inside.broadcast(vector, place, inside.before)


def _receive_inside(inside: Inside, tensor: torch.Tensor, vector: torch.Tensor, root: int) -> None:
    """Give each rank of the site what has come to it in shards, and store it in the tensor."""
    if inside.place_of[root][0] != inside.site:
        inside.all_gather(vector)
    tensor.detach().copy_(vector[: tensor.numel()].view(tensor.shape))


def staged_all_reduce(
    inside: Inside, cut: pieces.Cut, tensors: Sequence[torch.Tensor], operator: Any, crossing: Crossing
) -> pieces.Call:
    """Begin `all_reduce` on the current stream; return what is left of it as a call to be staged."""
    inside = inside._replace(before="aside")
    cuts = [_cut(inside, tensor) for tensor in tensors]
    _reduce_inside(inside, cuts, operator)
    parts = _parts(inside, cuts)
    call = pieces.all_reduce(cut, parts, operator, crossing) if parts else pieces.Call(tensors[0].dtype, [], [], [])
    uses = [*call.uses, *tensors, *(each.dense for each in cuts)]
    return call._replace(uses=uses, finish=partial(_gather_inside, inside, cuts, operator))


def staged_broadcast(inside: Inside, cut: pieces.Cut, tensor: torch.Tensor, root: int) -> pieces.Call:
    """Begin `broadcast` on the current stream; return what is left of it as a call to be staged."""
    inside = inside._replace(before="aside")
    vector = _padded(inside, tensor)
    _send_inside(inside, tensor, vector, root)
    call = pieces.broadcast(cut, inside.shard(vector), inside.place_of[root][0])
    finish = partial(_receive_inside, inside, tensor, vector, root)
    return call._replace(uses=[*call.uses, tensor, vector], finish=finish)
