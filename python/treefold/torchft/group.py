"""The process group for torchft: gloo, and the planned calls of the sites that are in the quorum."""

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from torch import distributed as dist
from torchft.process_group import ProcessGroupWrapper

from treefold._core import Plan, Topology
from treefold.errors import TreefoldError
from treefold.files.plans import load_plan
from treefold.networks import topology
from treefold.rendezvous import from_store
from treefold.runtime.agreement import check_base
from treefold.text import visible
from treefold.torch.group import ProcessGroup
from treefold.torch.options import Options, chosen
from treefold.torch.reporting import LOG, Status
from treefold.torch.sources import Members
from treefold.torch.wrapped import describe
from treefold.torchft.plans import SitePlans
from treefold.torchft.sites import agree
from treefold.torchft.watched import Watched


class ProcessGroupTreefold(ProcessGroupWrapper):
    """A process group of torchft that runs collectives by a plan, for whatever sites are in the quorum.

    Give it to a `torchft.Manager` in place of a `ProcessGroupGloo`, and name the replica's site there: its
    `replica_id` is the name of a node of the topology, or begins with it and a colon. All replicas have the same
    topology, which has a node for each site that may ever come. A quorum of which a replica is at no node, or that has
    one replica, passes all to gloo; the logger `treefold.torch` says why, once.

    Example:
        >>> from datetime import timedelta
        >>> import treefold.torch, treefold.torchft
        >>> options = treefold.torch.Options(topology="full:3")
        >>> group = treefold.torchft.ProcessGroupTreefold(timedelta(seconds=30), options)
        >>> group.getBackendName()
        'torchft-treefold'

    """

    def __init__(self, timeout: timedelta = timedelta(seconds=60), options: Options | None = None) -> None:
        """Read the topology; `configure` plans and makes the connections.

        Args:
            timeout: How long the making of a group and its operations wait for other replicas.
            options: As for the backend `treefold`; by default those of `treefold.torch.configure`, else of the
                environment. Without `wraps`, gloo is wrapped for CUDA tensors, too. Of a plan, its network serves
                quorums of other sites.

        Raises:
            TreefoldError: If the topology or the plan cannot be read, or cannot serve here.

        """
        super().__init__(timeout)
        given = chosen(options)
        self._options = replace(given, plan=None, topology=None, wraps=given.wraps or "gloo")
        self._plans = _plans_of(given)
        self._error: Exception | None = None
        self._is_new = True

    def getBackendName(self) -> str:
        """Return the name of the backend."""
        return "torchft-treefold"

    def configure(self, *args: Any, **kwargs: Any) -> None:
        """Make the group of a new quorum, as torchft asks for it.

        An error is remembered, and not raised, as the manager would end a program that uses torchft's DDP: the step
        does nothing, and torchft forms another quorum.
        """
        self.abort(errored=False)
        self._error = None
        try:
            super().configure(*args, **kwargs)
        except Exception as error:
            self._remember(self._pg, error)

    def _create_pg(self, store: Any, rank: int, world_size: int) -> ProcessGroup:
        """Make the group of a quorum; all of its replicas do so at the same time."""
        seconds, name = self._timeout.total_seconds(), str(self._replica_id or "")
        meeting = from_store(dist.PrefixStore("sites/", store), rank, world_size, seconds, name=name)
        # The ranks of a replica, of which each is in a group of its own, all-reduce at once.
        agreed = agree(meeting, name, self._plans, self._is_new)._replace(at_once=self._group_world_size or 1)
        given = describe(Members(store, rank, world_size, [], self._timeout))
        group = ProcessGroup(given, self._options, agreed)
        self._is_new = False
        return group

    def _wrap_work(self, work: Any, opts: object) -> Watched:
        """Return the handle of an operation, whose error this group remembers until the next quorum."""
        return Watched(work, partial(self._remember, self._pg))

    def _remember(self, of_group: Any, error: BaseException) -> None:
        """Remember an error of the current quorum, unless it has one; those of earlier quorums do not concern it."""
        if self._pg is of_group and self._error is None:
            self._error = error if isinstance(error, Exception) else RuntimeError(str(error))
            LOG.warning("treefold: the step is lost, and torchft forms a new quorum: %s", visible(str(error)))

    def abort(self, errored: bool = True) -> None:
        """End the operations under way with an error, which `errored` tells from now on unless that is refused."""
        if errored and self._error is None:
            self._error = TreefoldError("the process group was aborted; torchft forms a new quorum")
        super().abort(errored=errored)

    def errored(self) -> Exception | None:
        """Return the first error of an operation since the last `configure`; None if there was none."""
        return self._error

    def shutdown(self) -> None:
        """End the group, and plan for no more quorums."""
        self.abort(errored=False)
        if self._plans is not None:
            self._plans.foresee([])

    def status(self) -> Status:
        """Return which operations of the current quorum run by a plan, or why none do; `print` shows it as a sentence.

        Raises:
            TreefoldError: If there is no quorum yet.

        """
        if self._pg is None:
            raise TreefoldError("there is no quorum yet; ask after the first step")
        return self._pg.planned.status


_CALLS = (
    *("allgather", "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "alltoall_base"),
    *("barrier", "broadcast", "recv", "reduce_scatter", "reduce_scatter_tensor_coalesced", "send"),
)


def _guarded(name: str) -> Callable[..., Watched]:
    """Return a call of the group; after an error it does nothing, so that a step comes to its end, which torchft drops.

    Its DDP would end the program if a call raised an error.
    """
    run = getattr(ProcessGroupWrapper, name)

    @functools.wraps(run)
    def guarded(self: ProcessGroupTreefold, *args: Any, **kwargs: Any) -> Watched:
        if self._error is None:
            group = self.parent
            try:
                return run(self, *args, **kwargs)
            except Exception as error:
                self._remember(group, error)
        return Watched(None)

    return guarded


for _name in _CALLS:
    setattr(ProcessGroupTreefold, _name, _guarded(_name))


def _plans_of(given: Options) -> SitePlans | None:
    """Return the plans of a replica with these options; None if they give neither a topology nor a plan.

    Raises:
        TreefoldError: If the topology or the plan cannot be read, or cannot serve here.

    """
    if given.discovers:
        raise TreefoldError(
            "topology 'discover' measures for minutes, and a quorum must form at once; measure the network once with "
            "treefold probe, and give its file (TREEFOLD_TOPOLOGY)"
        )
    if given.plan is not None:
        plan = given.plan if isinstance(given.plan, Plan) else load_plan(given.plan)
        if plan.collective != "all-reduce":
            raise TreefoldError(
                f"the plan is for {plan.collective}, and a group of torchft needs one for all-reduce; plan that, or "
                "give the topology (TREEFOLD_TOPOLOGY)"
            )
        check_base(plan)
        return SitePlans(plan.topology, given.wire, plan)
    if given.topology is None:
        return None
    network = given.topology if isinstance(given.topology, Topology) else topology(given.topology)
    return SitePlans(network, given.wire)
