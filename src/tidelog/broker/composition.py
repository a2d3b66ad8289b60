"""The parts of a node, before anything connects them: its log directory and what works on it.

`open_parts` makes them in the order in which they need each other, and draws their seeds in that
order too. Left out: the ways between the parts, which `node.py` makes.
"""

from dataclasses import dataclass

from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.k10_find_coordinator import shares_topic
from tidelog.broker.auto_topics import AutoTopics
from tidelog.broker.connections import Connections
from tidelog.broker.context import Broker
from tidelog.broker.control_link import ControlLink
from tidelog.broker.controller_registration import ControllerRegistration
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_seats import GroupSeats
from tidelog.broker.held_shares import HeldShares
from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.broker.long_answers import LongAnswers
from tidelog.broker.metadata_log import MetadataLog
from tidelog.broker.peers import PeerChannels
from tidelog.broker.share_persister import SharePersister
from tidelog.broker.share_seats import ShareSeats
from tidelog.broker.share_state_calls import ShareStateCalls
from tidelog.broker.sharing import Sharing
from tidelog.broker.transaction_seats import TransactionSeats
from tidelog.config import LogConfig, NodeConfig
from tidelog.controller.controller import Controller
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import UsageError
from tidelog.kraft.messages import Voter, VoterIdentity
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import read_identity
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tidelog.replication.replicas import Replicas


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node is made of."""

    effects: EffectQueue
    peers: PeerChannels
    detector: FailureDetector
    directory: LogDirectory
    metadata_log: MetadataLog
    # None on a node that is only a broker.
    registration: ControllerRegistration | None
    # What the handlers see.
    broker: Broker
    # None on a node that is only a controller.
    lifecycle: BrokerLifecycle | None


def open_parts(config: NodeConfig, disk: Disk, prng: Prng, trace: Trace, wall_ms: int) -> Parts:
    """Opens the log directory and its metadata log; the other logs follow in the node's turns.

    Raises `UsageError` for a directory that is not this node's, `StorageError` for a bad disk.
    """
    effects = EffectQueue()
    peers = PeerChannels(effects)
    directory = open_directory(config, disk, effects, trace, wall_ms)
    quorum_env = QuorumEnv(disk, effects, Prng(prng.next_u64()), trace)
    quorum = make_quorum(config, directory, quorum_env)
    metadata_log = MetadataLog(quorum)
    controller = registration = None
    if config.is_controller:
        controller_prng = Prng(prng.next_u64())
        controller = _make_controller(
            config, directory, metadata_log, Prng(controller_prng.next_u64()), trace
        )
        registration = ControllerRegistration(config, Uuid(controller_prng.uuid()), trace)
    control = ControlLink(
        node_id=config.node_id,
        apis=APIS,
        controller=controller,
        peers=peers,
        request_timeout_ms=config.broker.request_timeout_ms,
        session_timeout_ms=config.broker.session_timeout_ms,
    )
    fetch_sessions = FetchSessions(Prng(prng.next_u64()), config.broker.max_fetch_sessions)
    lifecycle = make_lifecycle(config, directory, prng, trace)
    replicas = Replicas(
        node_id=config.node_id, directory=directory, config=config.replication, trace=trace
    )
    auto_topics = AutoTopics(control, trace, enabled=config.broker.auto_create_topics_enable)
    broker = Broker(
        apis=APIS,
        config=config,
        cluster_id=directory.cluster_id,
        connections=Connections.obeying(effects, config.broker),
        replicas=replicas,
        quorum=quorum,
        controller=controller,
        control=control,
        auto_topics=auto_topics,
        fetch_sessions=fetch_sessions,
        groups=GroupSeats(config, replicas, Prng(prng.next_u64()), trace),
        transactions=TransactionSeats(config, replicas, trace),
        shares=ShareSeats(config, replicas, trace),
        share_states=_make_share_states(config, peers, auto_topics),
        sharing=_make_sharing(config, replicas, peers, trace),
        trace=trace,
        long_answers=LongAnswers(trace.steps),
        disk=disk,
    )
    return Parts(
        effects=effects,
        peers=peers,
        detector=FailureDetector(config.quorum.disconnect_grace_ms),
        directory=directory,
        metadata_log=metadata_log,
        registration=registration,
        broker=broker,
        lifecycle=lifecycle,
    )


def _make_controller(
    config: NodeConfig, directory: LogDirectory, log: MetadataLog, prng: Prng, trace: Trace
) -> Controller:
    return Controller(
        node_id=config.node_id,
        cluster_id=directory.cluster_id,
        config=config.controller,
        log=log,
        prng=prng,
        trace=trace,
        quorum=log,
    )


def _make_share_states(
    config: NodeConfig, peers: PeerChannels, auto_topics: AutoTopics
) -> ShareStateCalls:
    """What group coordinators of this node ask of share coordinators."""
    topic = shares_topic(config.shares)
    return ShareStateCalls(config, peers, lambda now: auto_topics.create_internal(topic, now))


def _make_sharing(
    config: NodeConfig, replicas: Replicas, peers: PeerChannels, trace: Trace
) -> Sharing:
    """The share partitions of this node, none of which is there yet."""
    persister = SharePersister(config, peers)
    held = HeldShares(config, replicas, persister, trace)
    return Sharing(replicas, held, persister, config.sharing.max_sessions)


def open_directory(
    config: NodeConfig, disk: Disk, effects: EffectQueue, trace: Trace, wall_ms: int
) -> LogDirectory:
    """The log directory with the metadata log, and as many others as a turn may open. Nothing is
    written to a directory that this node must not use."""
    owner_id = read_identity(disk).node_id
    if owner_id != config.node_id:
        raise UsageError(
            f"data directory `{disk.root}` belongs to node `{owner_id}`, "
            f"not to node `{config.node_id}`",
            "set `node.id` or `log.dirs` to match, or format another directory",
        )
    if config.is_controller and set(config.voters) != {config.node_id}:
        QuorumStateFile.require(disk)
    directory = LogDirectory.open(
        disk,
        effects=effects,
        trace=trace,
        default_config=config.log,
        wall_ms=wall_ms,
        most_work=config.replication.metadata_work_per_turn,
    )
    # The whole metadata log is read anyway. Damage must be found now, not in the middle of replay.
    if not directory.is_sound(METADATA_PARTITION):
        directory.repair(METADATA_PARTITION, METADATA_TOPIC_ID, LogConfig(), remember=True)
    if METADATA_PARTITION not in directory.logs:
        directory.create(METADATA_PARTITION, METADATA_TOPIC_ID, LogConfig())
    elif directory.logs[METADATA_PARTITION].topic_id != METADATA_TOPIC_ID:
        # A power cut may leave the name of the file without its content.
        directory.logs[METADATA_PARTITION].assign_topic_id(METADATA_TOPIC_ID)
    # The `log.*` properties are for topics.
    directory.logs[METADATA_PARTITION].reconfigure(
        LogConfig(segment_bytes=config.quorum.segment_bytes, segment_ms=config.quorum.segment_ms)
    )
    return directory


def make_quorum(config: NodeConfig, directory: LogDirectory, env: QuorumEnv) -> Quorum:
    """This node's part in the metadata quorum, over the metadata log."""
    identity = VoterIdentity(
        config.node_id,
        directory.directory_id,
        directory.cluster_id,
        config.advertised_controller_listeners if config.is_controller else (),
    )
    voters = {
        node_id: Voter(
            node_id, directory.directory_id if node_id == config.node_id else ZERO_UUID, (endpoint,)
        )
        for node_id, endpoint in config.voters.items()
    }
    return Quorum(
        identity=identity,
        voters=voters,
        log=directory.logs[METADATA_PARTITION],
        config=config.quorum,
        env=env,
        bootstrap=config.bootstrap_servers,
    )


def make_lifecycle(
    config: NodeConfig, directory: LogDirectory, prng: Prng, trace: Trace
) -> BrokerLifecycle | None:
    """The life of this node's broker; `None` on a node that is only a controller."""
    if not config.is_broker:
        return None
    previous = directory.clean_shutdown or CleanShutdown()
    return BrokerLifecycle(
        config=config,
        cluster_id=directory.cluster_id,
        directory_id=directory.directory_id,
        incarnation_id=previous.incarnation_id or Uuid(prng.uuid()),
        previous_broker_epoch=previous.broker_epoch,
        trace=trace,
    )
