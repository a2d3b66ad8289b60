"""The controller side as a component of the node, and the calls of its registration."""

from tidelog.broker.control_link import ControlLink
from tidelog.broker.controller_side import ControllerSide
from tidelog.broker.router import Router
from tidelog.env.instant import Instant


class ControllerFlow:
    """Carries the controller's answers to the router, and its registration to the active one."""

    def __init__(self, side: ControllerSide, router: Router, control: ControlLink) -> None:
        self._side = side
        self._router = router
        self._control = control

    def flow(self, now: Instant) -> bool:
        """Due timers and answers, then the call that is due."""
        moved = self._side.flow(self._router, now)
        registration = self._side.registration
        call = registration.next_call(now)
        if call is not None:
            self._control.call(call, registration, now)
        return moved

    def deadline(self) -> Instant | None:
        """When the controller or its registration has something to do."""
        return self._side.deadline()

    def check(self) -> None:
        """The controller's invariants."""
        self._side.controller.check()
