"""The controller: it decides all metadata, active on the quorum's leader only.

Theory. Every node folds the committed metadata log into an image. The node that leads the
quorum is the *active* controller: it decides requests, appends the resulting records through the
kernel (`rsm/kernel.py`), and answers when they are committed. Being elected is not enough to be
active: first the beginning of the own leader epoch must be committed, because then everything
older is in the image too. Losing the leadership drops all that was not committed; those who wait
receive NOT_CONTROLLER and ask the next controller, which may or may not have inherited the records.

Whatever is not in the log is soft: sessions, suspicions, the idle timer. It starts fresh with
each activation (`heartbeats.py`).

What it does by itself, without a request: fencing brokers whose session ended or whose death is
suspected, a no-op record every `metadata.max.idle.interval.ms` of silence so that brokers can
measure their lag, moving leaders back to their preferred replicas and electing unclean ones
where topics allow it (`rounds.py`), and the bootstrap records of an empty log.

Requests are decided by the modules beside this one, each a function of a `View`; this one routes,
keeps time, and applies to the sessions what a decision meant for them. What may change thousands of
partitions is decided in slices, one in each `wake`, which the node calls once a turn (`slices.py`).

Invariants: those of the kernel and of `metadata/invariants.py`; a request gets exactly one answer;
each message of the union `Request` has exactly one decider, which the import asserts; no turn
decides more than two slices beside the atomic requests (*BoundedTurn*).

Source: KIP-500, KIP-631; Kafka's quorum controller.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, get_args

from tidelog.config import ControllerConfig
from tidelog.controller import brokers, events, messages
from tidelog.controller.acl_messages import CreateAcls, DeleteAcls
from tidelog.controller.acls import decide_create_acls, decide_delete_acls
from tidelog.controller.bootstrap import NOTHING_LEFT, activation_records
from tidelog.controller.configs import decide_alter_configs
from tidelog.controller.delegation_tokens import (
    decide_create_token,
    decide_expire_token,
    decide_renew_token,
    expired_tokens,
)
from tidelog.controller.directories import decide_assign_replicas
from tidelog.controller.elect_leaders import decide_balance, decide_elect_leaders, decide_unclean
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.features import QuorumVersion, decide_update_features
from tidelog.controller.heartbeats import BrokerSessions, Phase, phase_of
from tidelog.controller.isr_proposals import decide_alter_partition
from tidelog.controller.messages import Refused, Reply, Request, Response
from tidelog.controller.partition_events import measure_unhealthy
from tidelog.controller.quota_messages import AlterClientQuotas
from tidelog.controller.quotas import decide_alter_quotas
from tidelog.controller.reassignments import decide_alter_reassignments, decide_list_reassignments
from tidelog.controller.records import is_unclean_election
from tidelog.controller.rounds import Round
from tidelog.controller.scram import decide_alter_scram
from tidelog.controller.slices import Long, LongDecisions, Slices, a_slice
from tidelog.controller.token_messages import CreateToken, ExpireToken, RenewToken
from tidelog.controller.topic_messages import CreatePartitions, CreateTopics, DeleteTopics
from tidelog.controller.topics import (
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.env.instant import Instant, earliest
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.kraft.messages import CommittedBatch
from tidelog.limits import MAX_CHANGES_PER_TURN
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.invariants import check_image
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.metadata.records import MetadataRecord, NoOpRecord
from tidelog.model import NO_LEADER
from tidelog.rsm.kernel import Kernel, ReplicatedLog

_NOT_CONTROLLER: Final = Refused(
    ErrorCode.NOT_CONTROLLER, "This node is not the active controller."
)
_BUSY: Final = Refused(
    ErrorCode.REQUEST_TIMED_OUT, "Too many requests wait for the metadata quorum to commit."
)


class MetadataMachine:
    """The metadata log as the kernel's state machine: images, stepped by deltas."""

    encode = staticmethod(encode_record)
    decode = staticmethod(decode_record)

    def replay(
        self, state: MetadataImage, records: Sequence[MetadataRecord], last_offset: int, epoch: int
    ) -> MetadataImage:
        """The image after a batch."""
        delta = MetadataDelta(state)
        for offset, record in enumerate(records, start=last_offset - len(records) + 1):
            delta.replay(record, offset)
        return delta.apply(last_offset, epoch)


class Controller:
    """The metadata state machine of one node."""

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        config: ControllerConfig,
        log: ReplicatedLog[bytes],
        prng: Prng,
        trace: Trace,
        quorum: QuorumVersion | None = None,
    ) -> None:
        self._node_id = node_id
        # Whose `kraft.version` is one of the features; `None` where there is only a log.
        self._quorum = quorum
        self._cluster_id = cluster_id
        # Those that formatting has left behind; written with the first records of an empty log.
        self.first = NOTHING_LEFT
        self._config = config
        self._prng = prng
        self._trace = trace
        self._kernel: Kernel[MetadataImage, MetadataRecord, bytes, Response] = Kernel(
            MetadataMachine(),
            log,
            initial=EMPTY_IMAGE,
            max_batch_records=config.max_records_per_batch,
        )
        # Wall time in ms = a time of ours + this.
        self.wall_offset_ms = 0
        # Who is alive; meaningful while active.
        self._sessions = BrokerSessions(
            config.broker_session_timeout_ms, config.disconnect_grace_ms
        )
        # The epoch this node leads and the offset that must be committed before it is active;
        # `None` when it does not lead.
        self._elected: tuple[int, int] | None = None
        # The last leader of the quorum other than this node, -1 when none is known.
        self._former_controller = NO_LEADER
        # A no-op is due after so long without a record.
        self._no_op = Round(config.max_idle_interval_ms)
        # Leaders go back to their preferred replicas.
        self._balance = Round(
            config.leader_imbalance_check_interval_seconds * 1000
            if config.auto_leader_rebalance_enable
            else 0
        )
        # Partitions without a leader get one that may lack records, where the topic allows it.
        self._unclean = Round(config.unclean_leader_election_interval_ms)
        # Delegation tokens that have expired are removed.
        self._tokens = Round(config.token_check_interval_ms if config.token_secret else 0)
        # Decisions in slices; empty unless active.
        self._long = LongDecisions()
        # Elections of leaders that may lack committed records, decided here since the start.
        self.unclean_elections = 0
        # Answers that are due, in order, apart from those that the kernel still holds.
        self._outputs: list[Reply] = []
        # The newest images that `check` has looked at.
        self._checked = EMPTY_IMAGE
        self._checked_latest = EMPTY_IMAGE

    # Views ---------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether this node decides."""
        return self._kernel.active

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self._kernel.committed

    # Inputs --------------------------------------------------------------------------------

    def on_committed(self, batch: CommittedBatch, now: Instant) -> None:
        """Takes the next committed batch. While active, all of them, in order."""
        self._kernel.on_committed(batch)
        self._maybe_activate(now)

    def on_image(self, image: MetadataImage, now: Instant) -> None:
        """Takes over what its node has folded from all that is committed; never while active."""
        self._kernel.load(image, image.offset)
        self._maybe_activate(now)

    def on_leader_change(
        self, leader_id: int, epoch: int, epoch_start_offset: int, now: Instant
    ) -> None:
        """The quorum has another leader, or none (-1), or another epoch.

        `epoch_start_offset` is the offset of the leader's first batch in the epoch; it only
        matters when this node is the leader.
        """
        elected = (epoch, epoch_start_offset) if leader_id == self._node_id else None
        if leader_id not in (self._node_id, NO_LEADER):
            self._former_controller = leader_id
        if elected == self._elected:
            return
        if self.active:
            self._resign(events.ResignReason.OTHER_LEADER, epoch, leader_id)
        self._elected = elected
        self._maybe_activate(now)

    def handle(self, request: Request, reply_to: Hashable, now: Instant) -> None:
        """Decides one request; its answer comes out of `take_outputs`, now or later."""
        if not self.active:
            self._answer(reply_to, _NOT_CONTROLLER)
            return
        if not (self._kernel.has_room and self._long.has_room):
            if isinstance(request, messages.BrokerHeartbeat):
                # Its sender lives all the same.
                self._sessions.on_refused_heartbeat(request, now)
            self._answer(reply_to, _BUSY)
            return
        kind = type(request)
        if kind in _SLICED_DECIDERS or kind in _BROKER_DECIDERS:
            long = self._long_request(request, reply_to, now)
            if kind is messages.BrokerHeartbeat and long.departing_by() == NO_LEADER:
                # At once, whatever else waits: its sender's life depends on the answer.
                self._decide_slice(long, now)
            else:
                self._begin(long, now)
        else:
            self._submit(self._decide(request, now), now, reply_to)

    def on_broker_suspected(self, broker_id: int, now: Instant) -> None:
        """The node's failure detector: the broker's connections are gone and it has refused new
        ones for the grace period. It is fenced unless it has
        sent something since."""
        if self.active and self._sessions.on_suspected(broker_id, now):
            self._trace.event(events.BrokerSuspected(node_id=broker_id))
            self._fence_stale(now)

    def on_broker_reachable(self, broker_id: int, now: Instant) -> None:
        """The failure detector has reached the broker again."""
        self._sessions.on_reachable(broker_id, now)

    @property
    def has_long(self) -> bool:
        """Whether a decision is under way that is made in slices."""
        return self.active and self._long.has_any

    def wake(self, now: Instant, *, goes_on: bool = True) -> None:
        """A turn of the node: long decisions go on if they may, and a deadline may have passed."""
        if not self.active:
            return
        if goes_on:
            self._long.begin_turn()
            self._go_on(now)
        self._fence_stale(now)
        if self._no_op.is_due(now):
            self._submit(ControllerDecision(None, [NoOpRecord()]), now)
        if self._balance.is_due(now):
            records = decide_balance(self._view(now))
            self._balance.finish(now, complete=len(records) < MAX_CHANGES_PER_TURN)
            self._submit(a_slice(records), now)
        if self.active and self._tokens.is_due(now):
            removed = expired_tokens(self._view(now), MAX_CHANGES_PER_TURN)
            self._tokens.finish(now, complete=len(removed) < MAX_CHANGES_PER_TURN)
            self._submit(ControllerDecision(None, removed), now)
        if self.active and self._unclean.is_due(now):
            self._unclean.finish(now, complete=True)
            cause = Cause(CauseKind.STILL_LEADERLESS)
            self._begin(Long(lambda view: decide_unclean(view, cause)), now)

    def deadline(self) -> Instant | None:
        """When it wants to be woken."""
        if not self.active:
            return None
        if self._long.has_any:
            return Instant(0)
        return earliest(self._sessions.deadline(), *[each.due_at for each in self._rounds])

    @property
    def _rounds(self) -> tuple[Round, ...]:
        return self._no_op, self._balance, self._unclean, self._tokens

    def take_outputs(self) -> list[Reply]:
        """All answers that became due."""
        self._collect()
        outputs, self._outputs = self._outputs, []
        return outputs

    def check(self) -> None:
        """Asserts the invariants; cheap when little changed since the last call."""
        self._kernel.check()
        committed, latest = self._kernel.committed, self._kernel.latest
        check_image(committed, self._checked)
        if latest is not self._checked_latest:
            check_image(latest, committed)
        self._checked, self._checked_latest = committed, latest
        if self.active:
            self._sessions.check(latest.brokers.values())

    # Leadership ----------------------------------------------------------------------------

    def _maybe_activate(self, now: Instant) -> None:
        if self.active or self._elected is None:
            return
        epoch, epoch_start_offset = self._elected
        if self._kernel.committed_offset < epoch_start_offset:
            return
        self._kernel.become_active(epoch)
        image = self._kernel.latest
        self._sessions.start(image.brokers.values(), now, image.offset, self._former_controller)
        self._trace.event(events.ControllerActivated(epoch=epoch, offset=image.offset))
        for each in self._rounds:
            each.start(now)
        opening = activation_records(image, self._config, self.first)
        if self._submit(ControllerDecision(None, opening), now) is not None:
            if self._trace.measures:
                self._begin(Long(measure_unhealthy), now)
            self._begin(Long(brokers.decide_missing_elections), now)

    def _resign(self, reason: events.ResignReason, epoch: int, leader_id: int) -> None:
        self._elected = None
        self._kernel.resign(_NOT_CONTROLLER)
        for reply_to in self._long.clear():
            self._answer(reply_to, _NOT_CONTROLLER)
        self._sessions.stop()
        for each in self._rounds:
            each.stop()
        self._trace.event(events.ControllerResigned(reason=reason, epoch=epoch, leader=leader_id))

    # The cycle -----------------------------------------------------------------------------

    def _answer(self, reply_to: Hashable, response: Response) -> None:
        """Answers at once, behind everything that is due already."""
        self._collect()
        self._outputs.append(Reply(reply_to, response))

    def _collect(self) -> None:
        if self._kernel.has_replies:
            self._outputs += [Reply(*pair) for pair in self._kernel.take_replies()]

    def _view(self, now: Instant) -> View:
        return View(
            image=self._kernel.latest,
            next_offset=self._kernel.next_offset,
            config=self._config,
            prng=self._prng,
            trace=self._trace,
            wall_ms=now + self.wall_offset_ms,
            departing=self._long.departing,
        )

    def _decide(self, request: Request, now: Instant) -> ControllerDecision:
        """What one of the other requests comes to, or its refusal."""
        decide, view = _DECIDERS.get(type(request)), self._view(now)
        try:
            if decide is not None:
                return self._kernel.prepared(decide(view, request))
            return self._kernel.prepared(_STATEFUL_DECIDERS[type(request)](self, view, request))
        except ProtocolError as error:
            return self._refused(error)

    def _refused(self, error: ProtocolError) -> ControllerDecision:
        self._trace.debug("controller", "handle", "refused", error.message)
        return ControllerDecision(Refused(error.code, error.message))

    def _submit(
        self, decision: ControllerDecision, now: Instant, reply_to: Hashable | None = None
    ) -> int | None:
        """Appends a decision; `None` when leadership turned out to be lost."""
        elected = self._elected
        offset = self._kernel.submit(decision, reply_to)
        if offset is None:
            assert elected is not None, "an active controller was elected"
            self._resign(events.ResignReason.APPEND_REFUSED, elected[0], NO_LEADER)
            if reply_to is not None:
                self._answer(reply_to, _NOT_CONTROLLER)
        elif decision.records:
            self._no_op.start(now)
            self.unclean_elections += sum(map(is_unclean_election, decision.records))
        return offset

    # In slices -----------------------------------------------------------------------------

    def _begin(self, long: Long, now: Instant) -> None:
        """Queues a long decision, and decides its first slice if this turn is not used up."""
        self._long.add(long)
        self._go_on(now)

    def _go_on(self, now: Instant) -> None:
        while (long := self._long.take()) is not None:
            self._decide_slice(long, now)

    def _decide_slice(self, long: Long, now: Instant) -> None:
        is_last = True
        try:
            decision, is_last = long.decide(self._view(now))
            decision = self._kernel.prepared(decision)
        except ProtocolError as error:
            decision, is_last = self._refused(error), True
        self._long.on_decided(long, decision, is_last=is_last)
        reply_to = None
        if decision.response is not None:
            reply_to, long.reply_to = long.reply_to, None
        self._submit(decision, now, reply_to)

    def _fence_stale(self, now: Instant) -> None:
        """Fences at most one broker; while more are stale, the deadline is now."""
        stale = self._sessions.next_stale(now)
        if stale is None:
            return
        broker = self._kernel.latest.brokers[stale.broker_id]
        if broker.fenced:
            # Nothing to write: only its session is over.
            self._sessions.on_fenced(stale.broker_id, expired=True)
            return
        self._sessions.on_fenced(stale.broker_id, expired=True, suspected=stale.suspected)
        fencing = Long(
            lambda view: brokers.fence_stale(view, stale), departing_by=lambda: stale.broker_id
        )
        self._begin(fencing, now)

    # Deciders of this class ----------------------------------------------------------------

    def _long_request(self, request: Any, reply_to: Hashable, now: Instant) -> Long:
        decide = _SLICED_DECIDERS.get(type(request))
        if decide is not None:
            is_urgent = isinstance(request, messages.AlterPartition)
            return Long(lambda view: decide(view, request), reply_to, is_urgent=is_urgent)
        stateful = _BROKER_DECIDERS[type(request)]
        return Long(
            lambda view: stateful(self, view, request, now),
            reply_to,
            departing_by=partial(self._departing_by, request),
        )

    def _departing_by(self, request: Any) -> int:
        """The broker that the request takes out of all ISRs, or may. One whose directory is offline
        departs for a moment: it is elected nowhere before its replicas there are out. Another
        heartbeat may have named the same directory while this one waited; it departs no more
        then, and may even return."""
        broker_id: int = request.broker_id
        if not isinstance(request, messages.BrokerHeartbeat):
            return broker_id
        broker = self._kernel.latest.brokers.get(broker_id)
        leaves = request.want_fence or request.want_shut_down
        if broker is not None and not leaves:
            is_offline = not set(broker.log_dirs).isdisjoint(request.offline_log_dirs)
            leaves = is_offline or phase_of(broker) is Phase.CONTROLLED_SHUTDOWN
        return broker_id if leaves else NO_LEADER

    def _decide_registration(
        self, view: View, request: messages.RegisterBroker, now: Instant
    ) -> Slices:
        return brokers.decide_registration(view, self._cluster_id, self._sessions, request, now)

    def _decide_heartbeat(
        self, view: View, request: messages.BrokerHeartbeat, now: Instant
    ) -> Slices:
        return brokers.decide_heartbeat(view, self._sessions, request, now)

    def _decide_unregistration(
        self, view: View, request: messages.UnregisterBroker, _: Instant
    ) -> Slices:
        return brokers.decide_unregistration(view, self._sessions, request)

    def _decide_features(self, view: View, request: messages.UpdateFeatures) -> ControllerDecision:
        assert self._quorum is not None, "features of a controller without a quorum"
        return decide_update_features(view, self._quorum, request)


_DECIDERS: Final[dict[type, Callable[[View, Any], ControllerDecision]]] = {
    messages.RegisterController: brokers.decide_controller_registration,
    messages.AllocateProducerIds: brokers.decide_producer_ids,
    messages.ListReassignments: decide_list_reassignments,
    messages.AlterScramCredentials: decide_alter_scram,
    CreateAcls: decide_create_acls,
    DeleteAcls: decide_delete_acls,
    AlterClientQuotas: decide_alter_quotas,
    CreateToken: decide_create_token,
    RenewToken: decide_renew_token,
    ExpireToken: decide_expire_token,
}
"""Requests that are decided by the metadata alone."""

_SLICED_DECIDERS: Final[dict[type, Callable[[View, Any], Slices]]] = {
    CreateTopics: decide_create_topics,
    CreatePartitions: decide_create_partitions,
    DeleteTopics: decide_delete_topics,
    messages.IncrementalAlterConfigs: decide_alter_configs,
    messages.AlterPartition: decide_alter_partition,
    messages.AssignReplicas: decide_assign_replicas,
    messages.ElectLeaders: decide_elect_leaders,
    messages.AlterReassignments: decide_alter_reassignments,
}
"""The same, in slices."""

_STATEFUL_DECIDERS: Final[dict[type, Callable[[Controller, View, Any], ControllerDecision]]] = {
    messages.UpdateFeatures: Controller._decide_features
}
"""Requests that need more than the metadata."""

_BROKER_DECIDERS: Final[dict[type, Callable[[Controller, View, Any, Instant], Slices]]] = {
    messages.RegisterBroker: Controller._decide_registration,
    messages.BrokerHeartbeat: Controller._decide_heartbeat,
    messages.UnregisterBroker: Controller._decide_unregistration,
}
"""Requests that touch sessions, in slices: a broker comes, lives or goes."""

_DECIDED: Final = [*_DECIDERS, *_SLICED_DECIDERS, *_STATEFUL_DECIDERS, *_BROKER_DECIDERS]
assert len(_DECIDED) == len(set(_DECIDED)), "a request is decided twice"
assert set(_DECIDED) == set(get_args(Request)), "a request has no decider, or is not in `Request`"
