"""Brokers register, heartbeat, leave and are forgotten: the records of their lives.

Theory. A *broker epoch* names one life of a broker: it is the metadata offset at which that life
was registered, so it only grows, and a request under an older one is refused
(STALE_BROKER_EPOCH). An *incarnation id* names one process; registering again under the same one
amends the registration and keeps epoch and fencing; unchanged, it writes nothing.

A new incarnation begins fenced, and first its predecessor is cleaned up: its replicas leave every
ISR. Whether they may stay eligible leaders depends on how the predecessor ended. A clean stop
leaves its broker epoch in a file; a process that cannot show the epoch that is registered here
may have lost its unflushed tail, and leaves the ELRs as well (KIP-966); so does one whose former
registration was removed, because nothing is left to compare with. The registration record
comes last: should the controller fail between the batches, the broker registers again and the
next controller starts over.

Fencing writes the partition changes first and the fencing last, for the same reason: no prefix
leaves a fenced broker in an ISR. So does a controlled shutdown. Unfencing writes the broker's
record first: from it on the broker may lead, and the elections that follow agree with it. All of
these are decisions in slices (`slices.py`).

While a live session exists, another incarnation is a duplicate and refused; the session of a dead
process has to run out first. Two signs end it earlier (decision 0003): the node suspects the old
process, or the new one owns the very same log directories, which it could not have locked while
the old one ran, and the old one has been silent for a third of the session timeout, longer than a
heartbeat interval may be, or has sent this active controller nothing yet.

Left out: cordoned directories that heartbeats may report.

Source: KIP-631, KIP-841, KIP-858, KIP-966; Kafka's cluster control.
"""

from dataclasses import replace
from typing import Final

from tidelog.controller import events
from tidelog.controller.directories import decide_directories_offline
from tidelog.controller.events import Cause, CauseKind, FenceReason
from tidelog.controller.heartbeats import (
    BrokerSessions,
    Phase,
    ShutdownProgress,
    Stale,
    next_phase,
    phase_of,
)
from tidelog.controller.messages import (
    AllocateProducerIds,
    AllocateProducerIdsResult,
    BrokerHeartbeat,
    BrokerHeartbeatResult,
    FeatureRange,
    RegisterBroker,
    RegisterBrokerResult,
    RegisterController,
    RegisterControllerResult,
    UnregisterBroker,
    UnregisterBrokerResult,
)
from tidelog.controller.partitions import decide_broker_left, decide_leaderless
from tidelog.controller.records import broker_change_record, register_broker_record
from tidelog.controller.slices import Rest, Slices, Steps, a_slice
from tidelog.controller.view import ControllerDecision, View
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.cluster_delta import broker_of
from tidelog.metadata.image import METADATA_VERSION, BrokerImage
from tidelog.metadata.image_records import endpoint_entries, feature_entries
from tidelog.metadata.records import (
    FENCE,
    UNFENCE,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from tidelog.model import RESERVED_DIRECTORY_IDS, uuid_to_text

_NO_FEATURE: Final = FeatureRange(0, 0)
_LOWEST_METADATA_VERSION: Final = 7

# Registration ------------------------------------------------------------------------------


def decide_registration(
    view: View, cluster_id: str, sessions: BrokerSessions, request: RegisterBroker, now: Instant
) -> Slices:
    """Registers a broker process, or amends its registration.

    Raises `ProtocolError`: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION,
    INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    if request.cluster_id != cluster_id:
        text = f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}"
        raise ProtocolError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    existing = view.image.brokers.get(request.broker_id)
    amends = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and not amends:
        _check_session_over(sessions, existing, request, now)
    _check_directories(view, request)
    if not request.endpoints:
        raise ProtocolError(ErrorCode.INVALID_REGISTRATION, "No listeners specified in request")
    _check_features(view, request)
    records: list[MetadataRecord] = []
    if existing is not None and amends:
        broker_epoch = existing.broker_epoch
    else:
        view, records, _ = yield from _clean_up(view, existing, request)
        broker_epoch = view.next_offset + len(records)
    kept = existing if amends else None
    record = register_broker_record(request, broker_epoch, kept)
    sessions.register(request.broker_id, broker_epoch)
    if kept is not None and broker_of(record, kept.registration_offset) == kept:
        # Its answer came too late. Another record would make the next one late, too.
        return ControllerDecision(RegisterBrokerResult(broker_epoch))
    records.append(record)
    registered = events.BrokerAmended if amends else events.BrokerRegistered
    event = registered(
        node_id=request.broker_id,
        broker_epoch=broker_epoch,
        incarnation=uuid_to_text(request.incarnation_id),
        was=None if existing is None else existing.broker_epoch,
    )
    view.trace.event(event)
    return ControllerDecision(RegisterBrokerResult(broker_epoch), records, atomic=False)


def _check_session_over(
    sessions: BrokerSessions, existing: BrokerImage, request: RegisterBroker, now: Instant
) -> None:
    same_directories = set(request.log_dirs) == set(existing.log_dirs)
    if sessions.blocks(existing.node_id, existing.broker_epoch, same_directories, now):
        text = (
            f"Another broker is registered with id {existing.node_id}. If the broker was "
            "restarted just now, this ends when the session of its predecessor expires."
        )
        raise ProtocolError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)


def _clean_up(view: View, existing: BrokerImage | None, request: RegisterBroker) -> Steps[Rest]:
    broker_id = request.broker_id
    # Of a broker that was unregistered the epoch is forgotten, so nothing shows a clean stop; it
    # is in no ISR any more, but it may still be in an ELR.
    clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
    uncleanly = not clean and view.image.elr_enabled
    kind = CauseKind.RESTARTED_UNCLEANLY if uncleanly else CauseKind.RESTARTED
    return decide_broker_left(view, broker_id, Cause(kind, broker_id), uncleanly=uncleanly)


def _check_directories(view: View, request: RegisterBroker) -> None:
    def refuse(text: str) -> ProtocolError:
        return ProtocolError(ErrorCode.INVALID_REGISTRATION, text)

    if not request.log_dirs:
        raise refuse("No directories specified in request")
    if any(int.from_bytes(log_dir) < RESERVED_DIRECTORY_IDS for log_dir in request.log_dirs):
        raise refuse("Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise refuse("Duplicate directory ID in request")
    for broker in view.image.brokers.values():
        shared = set(broker.log_dirs) & set(request.log_dirs)
        if shared and broker.node_id != request.broker_id:
            text = uuid_to_text(min(shared))
            raise refuse(f"Broker {broker.node_id} is already registered with directory {text}")


def _check_features(view: View, request: RegisterBroker) -> None:
    if METADATA_VERSION not in request.features:
        text = f"Request features do not contain '{METADATA_VERSION}'"
        raise ProtocolError(ErrorCode.INVALID_REGISTRATION, text)
    finalized = view.image.features
    for name in sorted(finalized.keys() | request.features.keys()):
        lowest = _LOWEST_METADATA_VERSION if name == METADATA_VERSION else 0
        level = finalized.get(name, lowest)
        levels = request.features.get(name, _NO_FEATURE)
        if not levels.min_level <= level <= levels.max_level:
            text = (
                f"Unable to register because the broker does not support finalized version "
                f"{level} of {name}. The broker wants a version between {levels.min_level} and "
                f"{levels.max_level}, inclusive."
            )
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, text)


def decide_unregistration(
    view: View, sessions: BrokerSessions, request: UnregisterBroker
) -> Slices:
    """Forgets a broker. Its replicas stay assigned, and leaderless if no other broker has them.

    Raises `ProtocolError(BROKER_ID_NOT_REGISTERED)`.
    """
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        text = f"Broker ID {request.broker_id} is not currently registered"
        raise ProtocolError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    broker_id, broker_epoch = broker.node_id, broker.broker_epoch
    cause = Cause(CauseKind.UNREGISTERED, broker_id)
    _, records, _ = yield from decide_broker_left(view, broker_id, cause)
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_epoch))
    sessions.remove(broker_id)
    view.trace.event(events.BrokerUnregistered(node_id=broker_id, broker_epoch=broker_epoch))
    return ControllerDecision(UnregisterBrokerResult(), records, atomic=False)


def decide_controller_registration(view: View, request: RegisterController) -> ControllerDecision:
    """Notes a controller process; an unchanged registration writes nothing."""
    known = view.image.controllers.get(request.controller_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return ControllerDecision(RegisterControllerResult())
    view.trace.info(
        f"controller {request.controller_id}",
        "decide_controller_registration",
        "registered",
        incarnation=uuid_to_text(request.incarnation_id),
    )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=endpoint_entries(request.endpoints),
        features=feature_entries(request.features.items()),
    )
    return ControllerDecision(RegisterControllerResult(), [record])


# Phases ------------------------------------------------------------------------------------


def decide_heartbeat(
    view: View, sessions: BrokerSessions, request: BrokerHeartbeat, now: Instant
) -> Slices:
    """Brings a heartbeating broker to the phase that is due. What follows from a return or from the
    beginning of a departure comes after the answer, a fencing before it. While a departure is
    under way nothing else begins, nor while directories go offline.

    Raises `ProtocolError(STALE_BROKER_EPOCH)`.
    """
    broker = view.check_broker_epoch(request.broker_id, request.broker_epoch)
    broker_id, before = broker.node_id, phase_of(broker)
    is_departing = broker_id in view.departing
    offline = [each for each in request.offline_log_dirs if each in broker.log_dirs]
    after = (
        before
        if is_departing or offline
        else next_phase(broker, request, _progress(view, sessions, broker_id))
    )
    sessions.touch(broker_id, request.current_metadata_offset, now)
    response = BrokerHeartbeatResult(
        is_caught_up=request.current_metadata_offset >= broker.registration_offset,
        is_fenced=after in (Phase.FENCED, Phase.SHUTDOWN_NOW),
        should_shut_down=after is Phase.SHUTDOWN_NOW,
    )
    if offline:
        return (yield from decide_directories_offline(view, broker, offline, response))
    if after is Phase.CONTROLLED_SHUTDOWN:
        if before is Phase.UNFENCED or (not is_departing and view.image.leads(broker_id)):
            return (yield from _begin_controlled_shutdown(view, sessions, broker, response))
    elif after is Phase.UNFENCED and before is not after:
        return (yield from _unfence(view, broker, response))
    elif after is not before:
        # A process that shuts down leaves no session behind for its successor to wait for.
        sessions.on_fenced(broker_id, expired=after is Phase.SHUTDOWN_NOW)
        if not broker.fenced:
            decision = yield from fence(view, broker, _WISHES[after])
            return replace(decision, response=response)
    return ControllerDecision(response)


_WISHES: Final = {
    Phase.FENCED: FenceReason.ASKED_TO_BE_FENCED,
    Phase.SHUTDOWN_NOW: FenceReason.SHUTS_DOWN,
}
"""Why a broker is fenced by its own heartbeat."""


def _progress(view: View, sessions: BrokerSessions, broker_id: int) -> ShutdownProgress:
    others = [each.node_id for each in view.image.brokers.values() if each.active]
    return ShutdownProgress(
        leads=lambda: view.image.leads(broker_id),
        shutdown_offset=sessions.shutdown_offset(broker_id),
        lowest_active_offset=sessions.lowest_active_offset(others),
    )


def fence_stale(view: View, stale: Stale) -> Slices:
    """Fences a broker whose time is up, unless it has registered anew since, or is gone."""
    broker = view.image.brokers.get(stale.broker_id)
    if broker is None or broker.fenced or broker.broker_epoch != stale.broker_epoch:
        return a_slice([])
    return (yield from fence(view, broker, stale.reason, stale.silent_ms))


def fence(
    view: View, broker: BrokerImage, reason: FenceReason, silent_ms: int | None = None
) -> Slices:
    """The broker leaves all ISRs, then is fenced."""
    assert not broker.fenced, f"broker {broker.node_id} is fenced already"
    cause = Cause.fenced(broker.node_id, reason, silent_ms)
    _, records, changed = yield from decide_broker_left(view, broker.node_id, cause)
    records.append(broker_change_record(broker, fenced=FENCE))
    event = events.BrokerFenced(
        node_id=broker.node_id,
        reason=reason,
        silent_ms=silent_ms,
        broker_epoch=broker.broker_epoch,
        partitions=changed,
    )
    view.trace.event(event)
    return a_slice(records)


def _unfence(view: View, broker: BrokerImage, response: BrokerHeartbeatResult) -> Slices:
    """The broker may lead again, and leads what waited for it."""
    view = yield ControllerDecision(response, [broker_change_record(broker, fenced=UNFENCE)])
    records: list[MetadataRecord] = []
    changed = 0
    if not broker.in_controlled_shutdown:
        cause = Cause(CauseKind.UNFENCED, broker.node_id)
        _, records, changed = yield from decide_leaderless(view, cause)
    event = events.BrokerUnfenced(
        node_id=broker.node_id, broker_epoch=broker.broker_epoch, elections=changed
    )
    view.trace.event(event)
    return a_slice(records)


def _begin_controlled_shutdown(
    view: View, sessions: BrokerSessions, broker: BrokerImage, response: BrokerHeartbeatResult
) -> Slices:
    """A broker hands over what it leads, then it is noted as leaving; or it is, and an earlier
    controller failed between the two."""
    begins, broker_id = not broker.in_controlled_shutdown, broker.node_id
    view = yield ControllerDecision(response)
    cause = Cause(CauseKind.CONTROLLED_SHUTDOWN, broker_id)
    view, records, changed = yield from decide_broker_left(view, broker_id, cause)
    if begins:
        records.append(broker_change_record(broker, in_controlled_shutdown=1))
        event = events.ControlledShutdownBegun(
            node_id=broker_id, broker_epoch=broker.broker_epoch, partitions=changed
        )
        view.trace.event(event)
    sessions.on_controlled_shutdown(broker_id, view.next_offset + len(records) - 1)
    return a_slice(records)


def decide_missing_elections(view: View) -> Slices:
    """A new controller elects what an earlier one left without a leader."""
    cause = Cause(CauseKind.CONTROLLER_ACTIVATED)
    _, records, _ = yield from decide_leaderless(view, cause)
    return a_slice(records)


def decide_producer_ids(view: View, request: AllocateProducerIds) -> ControllerDecision:
    """A block of producer ids for a broker."""
    broker = view.check_broker_epoch(request.broker_id, request.broker_epoch)
    first, count = view.image.next_producer_id, view.config.producer_id_block_size
    record = ProducerIdsRecord(
        broker_id=broker.node_id, broker_epoch=broker.broker_epoch, next_producer_id=first + count
    )
    return ControllerDecision(AllocateProducerIdsResult(first, count), [record])
