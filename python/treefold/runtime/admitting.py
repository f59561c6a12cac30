"""How a running group takes in newcomers: workers that are new, or that were lost and come back.

All that takes long happens beside the operations of the group. Each worker has a thread with a line to worker 0. When
newcomers wait there, worker 0 plans for the network in which they are ranks, and all of them form a second group over
these lines: new connections, by the plan, under a new key. Only when it is complete, worker 0 says on the connections
of the old group after how many all-reduces all go over to the new one. It says so before it begins the last of them,
ahead of all later messages, and no worker ends that all-reduce without worker 0's values: so all know in time, and go
over at the same call of `admit`, which does nothing but that. The idea is that of a view change in virtual synchrony
(Birman and Joseph, 1987), with the operations themselves as the agreement.

The old group is closed once an all-reduce of the new one has ended, since then all have gone over.
"""

from contextlib import suppress

from treefold.errors import DeadlineError, PeerError, TreefoldError
from treefold.rendezvous import Rendezvous, challenge
from treefold.rendezvous.door import told
from treefold.rendezvous.hub import MAX_BLOB_BYTES
from treefold.rendezvous.meeting import all_or_none
from treefold.rendezvous.reception import Reception
from treefold.rendezvous.sockets import listen
from treefold.runtime.connections import Connections
from treefold.runtime.group import Group
from treefold.runtime.hosting import Host
from treefold.runtime.membership import LOG, Member, Membership, Terms, agreed_terms, formed, meeting_over


def admit(group: Group) -> Group:
    """Return the group with the newcomers if all go over to it now, else the same group.

    All workers call this between operations, at the same places of their programs, such as once a step. The call waits
    for operations in flight, and otherwise for nothing: newcomers are connected meanwhile. The group changes at the
    first call behind an all-reduce after they are. Workers keep their numbers, and newcomers are the last. The new plan
    has the algorithm and options of the group's first one; plans that were given to `Group.serve` are forgotten.

    Args:
        group: A group that was joined with `Connections(newcomers=True)`, whose place another one takes once this
            returns that.

    Raises:
        TreefoldError: If the group is closed, or closed to newcomers.

    Example:
        The environment has RANK=0, WORLD_SIZE=1, MASTER_ADDR and MASTER_PORT before Python starts.

        >>> import numpy as np
        >>> from treefold import runtime
        >>> connections = runtime.Connections(newcomers=True)
        >>> group = runtime.join(runtime.from_environment(), connections=connections)
        >>> for step in range(3):
        ...     group.all_reduce(np.ones(2))
        ...     if (now := runtime.admit(group)) is not group:
        ...         group = now  # here, give the newcomers what they need to know
        >>> group.size
        1
        >>> group.close()

    """
    if group.membership is None:
        raise TreefoldError("the group is closed to newcomers; join it with Connections(newcomers=True) on all workers")
    return group.membership.admit()


def open_first(meeting: Rendezvous, group: Group, is_assumed: bool) -> None:
    """Open a group that has just formed to newcomers, or close it if that fails; all its workers call this together.

    Args:
        meeting: The rendezvous of the workers.
        group: The group.
        is_assumed: Whether nobody gave a network; worker 0 knows.

    Raises:
        TreefoldError: On every worker, if worker 0 cannot listen where newcomers call.

    """
    try:
        _open(meeting, group, Terms(challenge.number(), group.plan, is_assumed))
    except BaseException:
        group.close()
        raise


def reopen(meeting: Rendezvous, group: Group, before: Membership) -> None:
    """Open a group of the workers that are left of another one; if nobody can listen, newcomers cannot come any more.

    Args:
        meeting: The rendezvous of the workers.
        group: The group.
        before: This worker's membership in the group before.

    """
    try:
        _open(meeting, group, before.terms._replace(number=challenge.number()), before.reception())
    except TreefoldError as error:
        if meeting.rank == 0:
            LOG.warning("no worker can come to the group any more: %s", error)
        group.membership = Membership(group, before.terms, before.door)


def retired(group: Group) -> Group:
    """Return the last group to which this worker has to go over, which takes in nobody any more."""
    if group.membership is None:
        return group
    following = group.membership.caught_up()  # as those may have done who have not noticed the loss
    if following.membership is not None:
        following.membership.retire()
    return following


def _open(meeting: Rendezvous, group: Group, offer: Terms, reception: Reception | None = None) -> None:
    """Open a group on worker 0's terms; newcomers call its reception, or it begins to listen."""
    listening = all_or_none(meeting, lambda: None if meeting.rank else reception or _reception(meeting))
    assert meeting._door is not None
    terms = agreed_terms(meeting, offer)
    if listening is None:
        group.membership = Member(group, terms, meeting._door)
    else:
        group.membership = Host(group, terms, meeting._door, listening)
    group.membership.begin()


def _reception(meeting: Rendezvous) -> Reception:
    """Return where newcomers call, as worker 0."""
    door = meeting._door
    if door is None:
        raise TreefoldError(
            "only workers that meet at MASTER_ADDR and MASTER_PORT, without torchrun and mpiexec, can be open to "
            "newcomers; start them so, or drop newcomers=True from their Connections"
        )
    hand_over, meeting._hand_over = meeting._hand_over, None
    return Reception(hand_over() if hand_over else listen(door.address, door.port, "worker 0 of the group"), door)


def enter(meeting: Rendezvous, connections: Connections) -> Group:
    """Return the group that runs already, once it has taken in this newcomer."""
    line, following = meeting._line, None
    assert line is not None and meeting._door is not None
    try:
        line.send({"name": meeting.name})
        while True:
            header, _ = line.receive(MAX_BLOB_BYTES)
            if "waits" in header:
                LOG.warning("this worker waits to come into the group: %s", told({"error": header["waits"]}))
                continue
            if "go" in header and following is not None:
                membership = Member(following.group, following.terms, meeting._door)
                membership.begin()
                following.group.membership = membership
                return following.group
            if following is not None:
                following.group.close()
                following = None
            if "form" in header:
                place, adapt = meeting_over(line, header["form"], meeting)
                with suppress(PeerError, DeadlineError):  # worker 0 has an error, too, and says how it goes on
                    following = formed(place, connections, adapt, None, None)
    except BaseException:
        if following is not None:
            following.group.close()
        raise
    finally:
        line.close()
