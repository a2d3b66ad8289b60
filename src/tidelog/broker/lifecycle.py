"""A broker's life cycle: register, catch up, unfence, heartbeat, leave.

A process registers with a fresh incarnation id and gets a broker epoch, which fences its former
incarnations. It sends heartbeats, still fenced, until it has applied the metadata up to its own
registration. Then it stops asking to be fenced, and the controller unfences it. From then on a
heartbeat every `broker.heartbeat.interval.ms` keeps the session; a new controller gets one at once.
A STALE_BROKER_EPOCH answer means that the controller no longer knows this epoch: the broker
registers again.

A process that no controller has registered within `initial.broker.registration.timeout.ms` ends.
The cause, a wrong address or a quorum without a majority, is for the operator to fix.

A shutdown is controlled: heartbeats have `want_shut_down` until the controller has moved every
leadership away and answers `should_shut_down`. When no controller can be found, or after
`CONTROLLED_SHUTDOWN_LIMIT_MS`, the broker leaves anyway. The controller waits until all others have
applied that metadata, which their heartbeats say; so each of them sends one as soon as it has.
Kafka's brokers wait for their next heartbeat, up to two seconds later.

A log directory that fails is named in every heartbeat from then on (KIP-858), the first of which
goes out at once. A broker whose controllers do not learn of it within `log.dir.failure.timeout.ms`
ends: they would go on to elect its replicas there.

Invariant `OneCallInFlight`: at most one registration or heartbeat is under way.

Source: KIP-500, KIP-631; Kafka's BrokerLifecycleManager.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from tidelog.broker import events
from tidelog.broker.features import FEATURES, UnservedFeature, lowering, unserved
from tidelog.config import NodeConfig
from tidelog.controller import messages
from tidelog.env.instant import LONG_AGO, NEVER, Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.log.checkpoint import CleanShutdown
from tidelog.metadata.image import MetadataImage
from tidelog.model import NO_EPOCH, Uuid

CATCH_UP_INTERVAL_MS: Final = 10
"""Between heartbeats while fenced and catching up."""

RETRY_INTERVAL_MS: Final = 50
"""After a call that failed or was refused."""

SHUTDOWN_INTERVAL_MS: Final = 50
"""Between heartbeats during a controlled shutdown."""

CONTROLLED_SHUTDOWN_LIMIT_MS: Final = 10_000
"""The longest a controlled shutdown may take."""

NO_CONTROLLER_LIMIT_MS: Final = 1_000
"""How long a leaving broker looks for a controller before it leaves without one. The time of calls
is not counted: a controller that moves thousands of leaderships answers when all are moved."""

_REACH_CONTROLLERS: Final = (
    "see that most controllers run and can be reached, then start the node again"
)


class BrokerState(Enum):
    """The state of a broker process towards the controller."""

    REGISTERING = "registering"
    CATCHING_UP = "catching up"
    RUNNING = "running"
    LEAVING = "leaving"
    GONE = "gone"


class _LeavingOthers:
    """The other brokers that leave. They wait for a heartbeat of this one which says that it has
    applied the metadata without their leaderships."""

    def __init__(self, own_id: int) -> None:
        self._own_id = own_id
        # Those of the newest image.
        self._leaving: frozenset[int] = frozenset()
        # What they wait for, and what the last heartbeat said.
        self._awaited_offset = -1
        self.reported_offset = -1

    def follow(self, image: MetadataImage) -> None:
        """This is the newest metadata."""
        brokers = image.brokers.values()
        active = (each for each in brokers if each.in_controlled_shutdown and not each.fenced)
        leaving = frozenset(each.node_id for each in active) - {self._own_id}
        if leaving - self._leaving:
            self._awaited_offset = image.offset
        self._leaving = leaving

    def want_report(self, applied_offset: int) -> bool:
        """Whether one of them waits for a heartbeat with this offset."""
        return self.reported_offset < self._awaited_offset <= applied_offset


class BrokerLifecycle:
    """The state machine of one broker process."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        cluster_id: str,
        log_dirs: tuple[Uuid, ...],
        incarnation_id: Uuid,
        previous_broker_epoch: int,
        trace: Trace,
    ) -> None:
        self._config = config
        self._trace = trace
        self._registration = messages.RegisterBroker(
            broker_id=config.node_id,
            cluster_id=cluster_id,
            incarnation_id=incarnation_id,
            endpoints=config.advertised_broker_listeners,
            rack=config.rack,
            features={
                name: messages.FeatureRange(low, high) for name, (low, high) in FEATURES.items()
            },
            log_dirs=log_dirs,
            previous_broker_epoch=previous_broker_epoch,
        )
        self.state = BrokerState.REGISTERING
        # The epoch of this registration; -1 before the first.
        self.broker_epoch = NO_EPOCH
        # The newest metadata by which all replicas here lead and follow; set by the node.
        self.metadata_offset = -1
        # Those that leave and wait for it to say so.
        self._leaving_others = _LeavingOthers(config.node_id)
        # Log directories of the registration that have failed since; every heartbeat names them.
        self._offline_log_dirs: tuple[Uuid, ...] = ()
        # Whether the newest of them was in the call under way, and when to end unless an answer
        # shows that the controller knows of it.
        self._is_naming_offline = False
        self._known_offline_by: Instant = NEVER
        # Whether damaged logs are still being reported; set by the node. Unfenced, this broker
        # could be elected.
        self.must_stay_fenced = False
        # The feature levels of the newest metadata; set by the node.
        self.finalised: Mapping[str, int] = {}
        # What was said of them last.
        self._unserved: tuple[UnservedFeature, ...] = ()
        # Whether this broker was unfenced in the last heartbeat's answer.
        self.unfenced = False
        # When to call next; NEVER while a call is under way.
        self._next_call: Instant = Instant(0)
        # Whether a call is under way, and when the last one began.
        self._in_flight = False
        self._called_at: Instant = LONG_AGO
        # The code of the last refusal, so that a series of equal ones is one log line.
        self._last_refusal = ErrorCode.NONE
        # When to leave in any case, once leaving; and until when it looks for a controller.
        self._leave_by: Instant = NEVER
        self._controller_by: Instant = NEVER
        # When to end unless registered; from the first call on, and NEVER once registered.
        self._registered_by: Instant | None = None
        # Why the broker ended by itself; empty where an operator asked for it.
        self.failure = ""

    @property
    def has_caught_up(self) -> bool:
        """Whether the metadata up to this registration was applied here."""
        return self.broker_epoch != NO_EPOCH and self.metadata_offset >= self.broker_epoch

    def shutdown_marker(self, previous: CleanShutdown | None) -> CleanShutdown:
        """The marker of a clean stop. A process that was never registered has changed no log. It
        repeats the marker of the process before, which ended cleanly too, and adds its own
        incarnation where its registration may still be committed."""
        if self.broker_epoch != NO_EPOCH:
            return CleanShutdown(self.broker_epoch)
        known = previous or CleanShutdown()
        may_be_registered = self._registered_by is not None
        incarnation_id = (
            self._registration.incarnation_id if may_be_registered else known.incarnation_id
        )
        return CleanShutdown(known.broker_epoch, incarnation_id)

    def begin_shutdown(self, now: Instant) -> None:
        """The operator asked for a clean stop."""
        if self.state in (BrokerState.LEAVING, BrokerState.GONE):
            return
        was_registered = self.state in (BrokerState.RUNNING, BrokerState.CATCHING_UP)
        self._trace.event(events.ShutdownBegun(broker_epoch=self.broker_epoch))
        if not was_registered or not self._config.broker.controlled_shutdown_enable:
            self.state = BrokerState.GONE
            return
        self.state = BrokerState.LEAVING
        self._leave_by = Instant(now + CONTROLLED_SHUTDOWN_LIMIT_MS)
        self._controller_by = Instant(now + NO_CONTROLLER_LIMIT_MS)
        self._next_call = now

    def on_controller_changed(self, now: Instant) -> None:
        """Another controller is active: it has no session of this broker before a heartbeat."""
        self._next_call = min(self._next_call, now)

    def on_directory_offline(self, directory_id: Uuid, now: Instant) -> None:
        """A log directory has failed; the controller is to know at once."""
        kept = tuple(each for each in self._registration.log_dirs if each != directory_id)
        self._registration = self._registration._replace(log_dirs=kept)
        self._offline_log_dirs += (directory_id,)
        self._next_call = min(self._next_call, now)
        self._is_naming_offline = False
        timeout_ms = self._config.broker.log_dir_failure_timeout_ms
        self._known_offline_by = min(self._known_offline_by, Instant(now + timeout_ms))

    def on_image(self, image: MetadataImage) -> None:
        """This node has published newer metadata."""
        self._leaving_others.follow(image)

    @property
    def _is_awaited(self) -> bool:
        is_running = self.state is BrokerState.RUNNING
        return is_running and self._leaving_others.want_report(self.metadata_offset)

    def next_call(self, now: Instant) -> messages.RegisterBroker | messages.BrokerHeartbeat | None:
        """The call that is due, if one is; its outcome must be given to `on_response`."""
        if self.state is BrokerState.LEAVING and now >= self._end_of_leaving():
            self._trace.event(events.ShutdownForced())
            self.state = BrokerState.GONE
        self._maybe_give_up(now)
        is_due = now >= self._next_call or self._is_awaited
        if self._in_flight or not is_due or self.state is BrokerState.GONE:
            return None
        self._in_flight, self._called_at = True, now
        # A new registration does not name them any more.
        self._is_naming_offline = bool(self._offline_log_dirs)
        if self.state is BrokerState.REGISTERING:
            return self._registration
        self._leaving_others.reported_offset = self.metadata_offset
        return messages.BrokerHeartbeat(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.metadata_offset,
            want_fence=self.state is BrokerState.CATCHING_UP
            and (self.metadata_offset < self.broker_epoch or self.must_stay_fenced),
            want_shut_down=self.state is BrokerState.LEAVING,
            offline_log_dirs=self._offline_log_dirs,
        )

    def _maybe_give_up(self, now: Instant) -> None:
        """Ends a process that was not registered in time."""
        timeout_ms = self._config.broker.initial_registration_timeout_ms
        if self._registered_by is None:
            self._registered_by = Instant(now + timeout_ms)
        if now >= self._known_offline_by:
            self._end(
                "no controller was notified of a failed log directory within "
                f"{self._config.broker.log_dir_failure_timeout_ms} ms"
            )
        if self.state is not BrokerState.REGISTERING or now < self._registered_by:
            return
        timed_out = events.RegistrationTimedOut(last_refusal=self._last_refusal)
        self._trace.event(timed_out)
        hint = _REACH_CONTROLLERS
        if self._unserved:
            hint = f"run `{lowering(self._unserved)}`, then start the node again"
        self._end(f"the broker was not registered within {timeout_ms} ms: {timed_out.answer}", hint)

    def _end(self, reason: str, hint: str = _REACH_CONTROLLERS) -> None:
        self.failure = f"{reason}; hint: {hint}"
        self.state = BrokerState.GONE

    def on_response(self, response: messages.Response | None, now: Instant) -> None:
        """The outcome of the last call; `None` when no controller answered."""
        self._in_flight = False
        if self.state is BrokerState.GONE:
            # A late answer must not bring a broker back that is stopping.
            return
        if response is not None and not isinstance(response, messages.Refused):
            self._last_refusal = ErrorCode.NONE
            if self._is_naming_offline:
                self._known_offline_by = NEVER
        match response:
            case messages.RegisterBrokerResult(broker_epoch):
                self._on_registered(broker_epoch, now)
            case messages.BrokerHeartbeatResult():
                self._on_heartbeat(response, now)
            case messages.Refused(error_code, message):
                self._on_refused(error_code, message, now)
            case _:
                self._next_call = Instant(now + RETRY_INTERVAL_MS)
                if self.state is BrokerState.LEAVING:
                    self._controller_by = Instant(self._controller_by + now - self._called_at)

    def _on_registered(self, broker_epoch: int, now: Instant) -> None:
        if self.state is not BrokerState.REGISTERING:
            return
        self.state = BrokerState.CATCHING_UP
        self._registered_by = NEVER
        self.broker_epoch = broker_epoch
        self._next_call = now
        self._trace.event(events.BrokerRegistered(broker_epoch=broker_epoch))

    def _on_heartbeat(self, result: messages.BrokerHeartbeatResult, now: Instant) -> None:
        if self.state is BrokerState.LEAVING:
            if result.should_shut_down:
                self._trace.event(events.ShutdownGranted())
                self.state = BrokerState.GONE
            self._controller_by = Instant(now + NO_CONTROLLER_LIMIT_MS)
            self._next_call = Instant(now + SHUTDOWN_INTERVAL_MS)
            return
        was_unfenced, self.unfenced = self.unfenced, not result.is_fenced
        if self.unfenced and not was_unfenced:
            self.state = BrokerState.RUNNING
            self._trace.event(events.BrokerUnfenced(broker_epoch=self.broker_epoch))
        elif was_unfenced and result.is_fenced:
            self._trace.event(events.BrokerFenced(broker_epoch=self.broker_epoch))
        interval_ms = self._config.broker.heartbeat_interval_ms
        if result.is_fenced:
            interval_ms = min(interval_ms, CATCH_UP_INTERVAL_MS)
        self._next_call = Instant(now + interval_ms)

    def _on_refused(self, error_code: ErrorCode, message: str, now: Instant) -> None:
        self._next_call = Instant(now + RETRY_INTERVAL_MS)
        if error_code is ErrorCode.NOT_CONTROLLER:
            return
        if error_code is not self._last_refusal:
            self._last_refusal = error_code
            self._trace.event(events.CallRefused(code=error_code, reason=message))
        if error_code is ErrorCode.UNSUPPORTED_VERSION:
            self._name_unserved_features()
        if error_code is ErrorCode.STALE_BROKER_EPOCH:
            if self.state is BrokerState.LEAVING:
                self.state = BrokerState.GONE
            else:
                self.state = BrokerState.REGISTERING
                self.unfenced = False

    def _name_unserved_features(self) -> None:
        """The controller has said that this node does not fit the cluster, and not why."""
        features = unserved(self.finalised)
        if features != self._unserved:
            self._unserved = features
            self._trace.event(events.FeaturesNotServed(features=features))

    def deadline(self) -> Instant | None:
        """When the next call or the end of a shutdown is due."""
        if self.state is BrokerState.GONE:
            return None
        next_call = Instant(0) if self._is_awaited else self._next_call
        next_call = NEVER if self._in_flight else next_call
        registered_by = NEVER if self._registered_by is None else self._registered_by
        return min(next_call, self._end_of_leaving(), registered_by, self._known_offline_by)

    def _end_of_leaving(self) -> Instant:
        return self._leave_by if self._in_flight else min(self._leave_by, self._controller_by)
