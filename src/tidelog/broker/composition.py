"""The parts of a node, before anything connects them: its log directories and what works on them.

`open_parts` makes them in the order in which they need each other, and draws their seeds in that
order too. Left out: the ways between the parts, which `node.py` makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.k10_find_coordinator import shares_topic
from tidelog.broker.api.passing import Gate
from tidelog.broker.authorization import Authorization
from tidelog.broker.auto_topics import AutoTopics
from tidelog.broker.connections import Connections
from tidelog.broker.context import Broker
from tidelog.broker.control_link import ControlLink
from tidelog.broker.controller_registration import ControllerRegistration
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_seats import GroupSeats
from tidelog.broker.held_shares import HeldShares
from tidelog.broker.inspections import Inspections
from tidelog.broker.key_stores import KeyStores
from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.broker.logins import Logins
from tidelog.broker.metadata_log import MetadataLog
from tidelog.broker.opening import open_directories, read_first_records
from tidelog.broker.peers import PeerChannels
from tidelog.broker.share_persister import SharePersister
from tidelog.broker.share_seats import ShareSeats
from tidelog.broker.share_state_calls import ShareStateCalls
from tidelog.broker.sharing import Sharing
from tidelog.broker.throttling import Throttling
from tidelog.broker.transaction_seats import TransactionSeats
from tidelog.config import NodeConfig
from tidelog.controller.controller import Controller
from tidelog.env.disk import Disk, OfflineDisk
from tidelog.env.effects import EffectQueue, RefreshKeys
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.kraft.messages import Voter, VoterIdentity
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.model import METADATA_PARTITION, ZERO_UUID, Endpoint, Uuid
from tidelog.replication.replicas import Replicas
from tidelog.security.credentials import Credentials
from tidelog.security.listener_logins import ListenerLogins, NodeSecrets, OwnLogin, own_logins
from tidelog.security.tokens import Keys


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node is made of."""

    effects: EffectQueue
    peers: PeerChannels
    detector: FailureDetector
    metadata_log: MetadataLog
    # None on a node that is only a broker.
    registration: ControllerRegistration | None
    # SCRAM's users.
    credentials: Credentials
    # Of the issuers of tokens.
    keys: Keys
    # How this node logs in, by the listener of others.
    own_logins: Mapping[str, OwnLogin]
    # What the handlers see.
    broker: Broker
    # None on a node that is only a controller.
    lifecycle: BrokerLifecycle | None


def open_parts(
    config: NodeConfig, disks: Sequence[Disk | OfflineDisk], seed: int, trace: Trace, wall_ms: int
) -> Parts:
    """Opens the log directories and the metadata log; the other logs follow in the node's turns.

    Raises `UsageError` for a directory that is not this node's and for logins that cannot work,
    `StorageError` for a bad disk.
    """
    effects, prng, secrets = EffectQueue(), Prng(seed), NodeSecrets.from_seed(seed)
    own = own_logins(config.sasl, secrets)
    peers = PeerChannels(effects, own)
    connections = Connections.obeying(effects, config)
    credentials = Credentials(config.controller.token_secret)
    keys = Keys(lambda url: effects.emit(RefreshKeys(url)))
    logins = _make_logins(config, connections, credentials, secrets, keys, trace)
    directories = open_directories(config, disks, effects, prng, trace, wall_ms)
    quorum = _open_quorum(config, directories.metadata, effects, Prng(prng.next_u64()), trace)
    metadata_log = MetadataLog(quorum)
    controller, registration = _make_controller(config, directories, metadata_log, prng, trace)
    credentials.first_users = () if controller is None else controller.first.users
    gate = _make_gate(config, connections, trace)
    control = ControlLink(config=config, apis=APIS, controller=controller, peers=peers, gate=gate)
    fetch_sessions = FetchSessions(Prng(prng.next_u64()), config.broker.max_fetch_sessions)
    lifecycle = make_lifecycle(config, directories, prng, trace)
    replicas = Replicas(
        node_id=config.node_id, directories=directories, config=config.replication, trace=trace
    )
    auto_topics = AutoTopics(control, trace, enabled=config.broker.auto_create_topics_enable)
    broker = Broker(
        apis=APIS,
        config=config,
        connections=connections,
        logins=logins,
        replicas=replicas,
        inspections=Inspections(replicas, connections, effects),
        quorum=quorum,
        controller=controller,
        control=control,
        gate=gate,
        key_stores=KeyStores(config.node_id, effects, gate.authorization),
        auto_topics=auto_topics,
        fetch_sessions=fetch_sessions,
        groups=GroupSeats(config, replicas, Prng(prng.next_u64()), trace),
        transactions=TransactionSeats(config, replicas, trace),
        shares=ShareSeats(config, replicas, trace),
        share_states=_make_share_states(config, peers, auto_topics),
        sharing=_make_sharing(config, replicas, peers, trace),
        trace=trace,
        directories=directories,
    )
    return Parts(
        effects=effects,
        peers=peers,
        detector=FailureDetector(config.quorum.disconnect_grace_ms),
        metadata_log=metadata_log,
        registration=registration,
        credentials=credentials,
        keys=keys,
        own_logins=own,
        broker=broker,
        lifecycle=lifecycle,
    )


def _make_logins(
    config: NodeConfig,
    connections: Connections,
    credentials: Credentials,
    secrets: NodeSecrets,
    keys: Keys,
    trace: Trace,
) -> Logins:
    """The logins of accepted connections, by listener."""
    listeners = {
        name: ListenerLogins(sasl, credentials, secrets, keys)
        for name, sasl in config.sasl.items()
        if sasl.mechanisms
    }
    return Logins(connections, listeners, config.broker, trace)


def _make_controller(
    config: NodeConfig, directories: LogDirectories, log: MetadataLog, prng: Prng, trace: Trace
) -> tuple[Controller, ControllerRegistration] | tuple[None, None]:
    """The controller, with what `tidelog format` wrote, and how it registers."""
    if not config.is_controller:
        return None, None
    own_prng = Prng(prng.next_u64())
    controller = Controller(
        node_id=config.node_id,
        cluster_id=directories.cluster_id,
        config=config.controller,
        log=log,
        prng=Prng(own_prng.next_u64()),
        trace=trace,
        quorum=log,
    )
    controller.first = read_first_records(
        directories.metadata.disk, trace, is_new=log.end_offset == 0
    )
    return controller, ControllerRegistration(config, Uuid(own_prng.uuid()), trace)


def _make_gate(config: NodeConfig, connections: Connections, trace: Trace) -> Gate:
    """What stands before the controller."""
    throttling = Throttling(config, connections, trace.steps)
    return Gate(Authorization(config.authorization, trace), throttling)


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


def _open_quorum(
    config: NodeConfig, directory: LogDirectory, effects: EffectQueue, prng: Prng, trace: Trace
) -> Quorum:
    """This node's part in the metadata quorum, over the metadata log."""
    listeners = config.advertised_controller_listeners if config.is_controller else ()
    identity = VoterIdentity(
        config.node_id,
        directory.directory_id,
        directory.cluster_id,
        # As the voter set has them: without their protocols.
        tuple(Endpoint(one.listener, one.host, one.port) for one in listeners),
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
        env=QuorumEnv(directory.disk, effects, prng, trace),
        bootstrap=config.bootstrap_servers,
    )


def make_lifecycle(
    config: NodeConfig, directories: LogDirectories, prng: Prng, trace: Trace
) -> BrokerLifecycle | None:
    """The life of this node's broker; `None` on a node that is only a controller."""
    if not config.is_broker:
        return None
    previous = directories.clean_shutdown or CleanShutdown()
    return BrokerLifecycle(
        config=config,
        cluster_id=directories.cluster_id,
        log_dirs=tuple(directory.directory_id for directory in directories.hosting),
        incarnation_id=previous.incarnation_id or Uuid(prng.uuid()),
        previous_broker_epoch=previous.broker_epoch,
        trace=trace,
    )
