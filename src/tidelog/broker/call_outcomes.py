"""Outcomes of calls and forwards to the active controller, carried to the component that made them.

A call has one of two owners: the controller's registration, or the broker. A forward belongs to a
client; the node passes in the function that answers it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.broker_side import BrokerSide
from tidelog.broker.control_link import CallEnded, ControlLink, ForwardOutcome
from tidelog.broker.controller_side import ControllerSide
from tidelog.env.instant import Instant


@dataclass(slots=True, eq=False, kw_only=True)
class CallOutcomes:
    """The outcomes of the control link, as a component of the node."""

    control: ControlLink
    # None on a node that is only a broker.
    controller_side: ControllerSide | None
    # None on a node that is only a controller.
    broker_side: BrokerSide | None
    answer_forward: Callable[[ForwardOutcome, Instant], None]

    def flow(self, now: Instant) -> bool:
        """Carries the outcomes of this round."""
        if not self.control.has_outcomes:
            return False
        for outcome in self.control.take_outcomes():
            if isinstance(outcome, CallEnded):
                self._on_call_ended(outcome, now)
            else:
                self.answer_forward(outcome, now)
        return True

    def _on_call_ended(self, outcome: CallEnded, now: Instant) -> None:
        side = self.controller_side
        if side is not None and outcome.token is side.registration:
            side.registration.on_response(outcome.response, now)
        else:
            assert self.broker_side is not None, f"a call without an owner: {outcome}"
            self.broker_side.on_call_ended(outcome, now)

    def deadline(self) -> Instant | None:
        """When a forward is tried again."""
        return self.control.deadline()

    def check(self) -> None:
        """Has no invariant of its own."""
