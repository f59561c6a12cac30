"""A group whose plan follows the network while operations run."""

import warnings
from os import PathLike, fspath

from treefold._core import Plan, Topology
from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.exporters import check_document_writable
from treefold.runtime.control import ControlMessage
from treefold.runtime.controller import Controller
from treefold.runtime.group import Group
from treefold.runtime.learning import why_not
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.tcp import TcpTransport
from treefold.runtime.transport import Operation


def check_adapt(adapt: bool | str) -> None:
    """Refuse a value that does not say whether, and with which algorithm, plans follow a network."""
    if adapt not in (False, True, "auto"):
        raise TreefoldError(
            f"adapt {shown(adapt)} is unknown; it is True (the plan keeps its algorithm), auto (the fastest), or False"
        )


def check_learn(learn: str | PathLike[str] | None, adapt: bool | str) -> None:
    """Refuse a file for what is learnt if nothing is learnt, or if it cannot be written."""
    if learn is None:
        return
    if not adapt:
        raise TreefoldError(f"learn {shown(learn)}: only a group that adapts learns; add adapt=True, or drop learn")
    check_document_writable(learn)


def warn_if_nothing_to_learn(learn: str | PathLike[str] | None, network: Topology) -> None:
    """Warn if nothing will be written to a file, because operations teach nothing about this network."""
    if learn is not None and (why := why_not(network)):
        about = f"operations teach nothing about network '{network.name}'"
        warnings.warn(f"nothing is written to {shown(learn)}, as {about}: {why}", stacklevel=2)


def check_direct(network: Topology) -> None:
    """Refuse a network whose workers are not joined by links of their own, because only such links can be followed."""
    if network.switches:
        problem = f"a plan follows links between workers, and network '{network.name}' has switches between them"
        raise TreefoldError(f"{problem}; drop adapt=True")


class AdaptiveGroup(Group):
    """A group over TCP that plans anew when links change or are cut, without losing a result (see `controller`)."""

    def __init__(
        self,
        worker: int,
        plan: Plan,
        mapping: RankMapping,
        transport: TcpTransport,
        adapt: bool | str,
        learn: str | PathLike[str] | None = None,
    ) -> None:
        """Hold a worker's place in a group, as in `Group`; `adapt` and `learn` are what `join` was given."""
        super().__init__(worker, plan, mapping, transport)
        self.adapt = adapt
        file = None if learn is None else fspath(learn)
        self.controller = Controller(transport, self._plans, "auto" if adapt == "auto" else None, file)
        transport.watch(plan)
        transport.serve(self.controller.poll_between_operations)

    def _begin(self, plan: Plan, operation: Operation, elements: int, element_bytes: int) -> int:
        return self.controller.start(plan, operation, elements, element_bytes)

    def _end(self, number: int) -> None:
        self.controller.end(number)

    def close(self) -> None:
        """Leave the group, as in `Group`, and end learning."""
        super().close()
        self.controller.learning.close()

    def changes(self) -> list[str]:
        """Return what has changed about the network since the last call, a line each."""
        changes = list(self.controller.events)
        self.controller.events.clear()
        return changes

    def _received(self) -> list[ControlMessage]:
        """Let the controller handle its control messages; return the others."""
        return self.controller.unhandled()
