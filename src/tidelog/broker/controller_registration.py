"""The registration of a controller process with the active controller, once for each process.

Controllers have no session; the quorum itself knows its voters. A registration adds what the
metadata knows of a controller: which process, at which addresses, with which features. It is made
as soon as the cluster's `metadata.version` has controllers in it (3.7), again and again until it
shows in the image, and anew when the image shows another process under this id.

Invariant `OneCallInFlight`: at most one registration is under way.

Source: KIP-919; Kafka's ControllerRegistrationManager.
"""

from typing import Final

from tidelog.broker.features import FEATURES
from tidelog.config import NodeConfig
from tidelog.controller.messages import FeatureRange, Refused, RegisterController, Response
from tidelog.env.instant import NEVER, Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.metadata.image import METADATA_VERSION, MetadataImage
from tidelog.model import Uuid

FIRST_RETRY_MS: Final = 100
LAST_RETRY_MS: Final = 6400
"""The pause after a call that led to nothing doubles from one to the other."""

FIRST_VERSION: Final = 15
"""The metadata version (3.7-IV0) whose log may hold registrations of controllers."""


class ControllerRegistration:
    """Registers one controller process."""

    def __init__(self, config: NodeConfig, incarnation_id: Uuid, trace: Trace) -> None:
        self._trace = trace
        # The registration; the same as long as the process runs.
        self._message = RegisterController(
            controller_id=config.node_id,
            incarnation_id=incarnation_id,
            endpoints=config.advertised_controller_listeners,
            features={name: FeatureRange(low, high) for name, (low, high) in FEATURES.items()},
        )
        # Whether the image has controllers, and not this process.
        self._is_wanted = False
        # Whether a call is under way.
        self._in_flight = False
        # When to call next, if it is wanted.
        self._next_call: Instant = Instant(0)
        # The next pause.
        self._retry_ms = FIRST_RETRY_MS
        # The code of the last refusal, so that equal ones in a row are one log line.
        self._last_refusal = ErrorCode.NONE

    def on_image(self, image: MetadataImage) -> None:
        """Notes whether this process is registered."""
        known = image.controllers.get(self._message.controller_id)
        is_registered = known is not None and known.incarnation_id == self._message.incarnation_id
        can_register = image.features.get(METADATA_VERSION, 0) >= FIRST_VERSION
        self._is_wanted = can_register and not is_registered
        if is_registered:
            self._retry_ms = FIRST_RETRY_MS

    def on_controller_changed(self, now: Instant) -> None:
        """Another controller is active, which may accept the registration."""
        self._next_call = min(self._next_call, now)

    def next_call(self, now: Instant) -> RegisterController | None:
        """The call that is due, if one is; its outcome must be given to `on_response`."""
        if not self._is_wanted or self._in_flight or now < self._next_call:
            return None
        self._in_flight = True
        return self._message

    def on_response(self, response: Response | None, now: Instant) -> None:
        """The outcome of the last call; `None` when no controller answered. Only the image
        shows that it is done."""
        self._in_flight = False
        self._next_call = Instant(now + self._retry_ms)
        self._retry_ms = min(2 * self._retry_ms, LAST_RETRY_MS)
        if isinstance(response, Refused):
            code = response.error_code
            if code not in (ErrorCode.NOT_CONTROLLER, self._last_refusal):
                self._last_refusal = code
                self._trace.warn(
                    "controller", "on_response", "refused", response.message, code=code.name
                )

    def deadline(self) -> Instant | None:
        """When the next call is due."""
        if not self._is_wanted:
            return None
        return NEVER if self._in_flight else self._next_call
