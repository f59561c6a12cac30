"""A group whose plan follows the network while operations run."""

from collections.abc import Sequence

from treefold._core import Plan
from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.runtime.control import ControlMessage
from treefold.runtime.controller import Controller
from treefold.runtime.group import Group
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.tcp import TcpTransport
from treefold.runtime.transport import Operation


def check_adapt(adapt: bool | str) -> None:
    """Refuse a value that does not say whether, and with which algorithm, plans follow a network."""
    if adapt not in (False, True, "auto"):
        raise TreefoldError(
            f"adapt {shown(adapt)} is unknown; it is True (the plan keeps its algorithm), auto (the fastest), or False"
        )


class AdaptiveGroup(Group):
    """A group over TCP that plans anew when links change or are cut, without losing a result (see `controller`)."""

    def __init__(
        self, worker: int, plan: Plan, mapping: RankMapping, transport: TcpTransport, adapt: bool | str
    ) -> None:
        """Connect to the other workers, as in `Group`; `adapt` is what `join` was given.

        Raises:
            TreefoldError: If a worker cannot be reached, or the network has switches.

        """
        if plan.topology.switches:
            raise TreefoldError(
                f"a plan follows links between workers, and network '{plan.topology.name}' has switches between them; "
                "drop adapt=True"
            )
        super().__init__(worker, plan, mapping, transport)
        self.adapt = adapt
        self.controller = Controller(transport, self._plans, "auto" if adapt == "auto" else None)
        transport.watch(plan)
        transport.serve(self.controller.poll_between_operations)

    def _execute(self, plan: Plan, operation: Operation, element_bytes: int) -> None:
        self.controller.run(plan, operation, element_bytes)

    def changes(self) -> list[str]:
        """Return what has changed about the network since the last call, a line each."""
        changes = list(self.controller.events)
        self.controller.events.clear()
        return changes

    def unhandled(self, received: Sequence[ControlMessage]) -> list[ControlMessage]:
        """Let the controller handle its control messages; return the others."""
        return self.controller.unhandled(received)
