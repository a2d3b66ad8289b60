"""Everything that clients do in one run: they produce, read, commit, administer and operate.

The workload starts by creating its topics, then each habit runs on its own timer. `stop` ends new
writes; `is_drained` says whether every write has come to its end.
"""

from collections.abc import Callable
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.records.compression import Codec
from tidelog.sim.engine.client_machine import CLIENT
from tidelog.sim.engine.secured import ADMIN
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.deliveries import Deliveries
from tidelog.sim.evidence.history import History, Key
from tidelog.sim.quorum.membership import VoterOracle
from tidelog.sim.scenarios.swarm import RACKS, Swarm, stream
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import ClusterView
from tidelog.sim.workloads.committer import Committer
from tidelog.sim.workloads.consumer import Consumer, ReadOptions
from tidelog.sim.workloads.copies import Copies
from tidelog.sim.workloads.disk_moves import DiskMover
from tidelog.sim.workloads.greedy import NAME as GREEDY
from tidelog.sim.workloads.greedy import Greedy
from tidelog.sim.workloads.intruder import Intruder
from tidelog.sim.workloads.keeper import Keeper
from tidelog.sim.workloads.keyed import KeyedClient
from tidelog.sim.workloads.members import Members
from tidelog.sim.workloads.producer import Acks, Producer
from tidelog.sim.workloads.reconfiguration import Operator, VoterOperator
from tidelog.sim.workloads.sharers import Sharers
from tidelog.sim.workloads.transaction_reader import TransactionReader
from tidelog.sim.workloads.transactor import Transactor

MAX_TOPICS: Final = 6
MAX_PARTITIONS: Final = 5
RETRY_MS: Final = 100
INTRUDER_GAP_MS: Final = 100
GREEDY_GAP_MS: Final = 50
THROTTLE_RETRY_MS: Final = 200


class Workload:
    """The clients of one run."""

    def __init__(
        self, world: World, history: History, swarm: Swarm, seed: int, voters: VoterOracle
    ) -> None:
        self.history = history
        self._world = world
        self._swarm = swarm
        self._prng = stream(seed, "workload")
        self._stopped = False
        # Whether clients have begun: not before they have rights, which may come after the end.
        self._begun = False
        self.admin = Admin(self._view("admin", ADMIN), history)
        self._topic_count = 0
        self._operator = Operator(
            self.admin,
            stream(seed, "operator"),
            group_commit=swarm.group_commit,
            lowest_min_isr=1 if swarm.one_copy_is_enough else 2,
            brokers=self.admin.view.brokers,
        )
        self._voters = VoterOperator(world, self.admin, stream(seed, "voters"), voters)
        moves = stream(seed, "moves between disks")
        self._disk_mover = DiskMover(
            world, Admin(self._own_view("m1", moves, ADMIN), history), moves
        )
        logins = stream(seed, "keeper")
        self._keeper = Keeper(self._own_view("keeper", logins, ADMIN), logins)
        self._intruders = [Intruder(world, stream(seed, "intruder"))] if swarm.secured else []
        self._greedy = [self._make_greedy(seed)] if swarm.secured else []
        self.producers = [
            self._producer(f"p{number}", Acks(kind))
            for number, kind in enumerate(swarm.producers, 1)
        ]
        self.consumers = [self._consumer(number) for number in range(1, swarm.consumers + 1)]
        groups = stream(seed, "groups")
        self._committers = [
            self._committer(f"g{number}", groups) for number in range(1, swarm.committers + 1)
        ]
        transactions = stream(seed, "transactions")
        self._transactors = [
            self._transactor(f"tx{number}", transactions)
            for number in range(1, swarm.transactors + 1)
        ]
        self._transaction_readers = [
            TransactionReader(self._own_view(name, transactions), transactions, self._transactors)
            for name in (["tr1"] if self._transactors else [])
        ]
        keyed = stream(seed, "keyed")
        self._keyed = [
            KeyedClient(self._own_view("k1", keyed), history, keyed, configs)
            for configs in [swarm.keyed_topic_configs()]
            if configs
        ]
        self._members = self._make_members(stream(seed, "members"))
        self._sharers = self._make_sharers(stream(seed, "sharers"))
        self._copies = self._make_copies(seed)

    def _make_members(self, prng: Prng) -> Members:
        views = self._own_views("m", self._swarm.members, prng)
        return Members(views, prng)

    def _make_sharers(self, prng: Prng) -> Sharers:
        views = self._own_views("s", self._swarm.sharers, prng)
        view = self._own_view("s0", Prng(prng.next_u64()))
        admin = Admin(view, self.history)
        return Sharers(view, admin, views, prng, flushed=self._swarm.group_commit)

    def _make_copies(self, seed: int) -> Copies:
        prng = stream(seed, "copies")
        view = self._own_view("feeder", Prng(prng.next_u64()))
        return Copies(
            view,
            self._own_view("checker", stream(seed, "checker of copies")),
            Admin(view, self.history),
            self._own_views("copier", self._swarm.copiers, prng),
            self._own_views("reader", self._swarm.readers, prng),
            prng,
            flushed=self._swarm.group_commit,
        )

    def _own_views(self, kind: str, count: int, prng: Prng) -> list[ClusterView]:
        """Of clients of a kind, each with a generator of its own."""
        return [
            self._own_view(f"{kind}{number}", Prng(prng.next_u64()))
            for number in range(1, count + 1)
        ]

    def _make_greedy(self, seed: int) -> Greedy:
        prng = stream(seed, "greedy")
        administrator = self._own_view("quotas", prng, ADMIN)
        return Greedy(self._own_view(GREEDY, prng), administrator, prng)

    def _own_view(self, name: str, prng: Prng, user: str = CLIENT) -> ClusterView:
        return ClusterView(self._world, name, prng, self._swarm.client_timeout_ms, user)

    def _transactor(self, name: str, prng: Prng) -> Transactor:
        view = self._own_view(name, prng)
        return Transactor(view, Admin(view, self.history), prng, flushed=self._swarm.group_commit)

    def _view(self, name: str, user: str = CLIENT) -> ClusterView:
        return self._own_view(name, Prng(self._prng.next_u64()), user)

    def _producer(self, name: str, acks: Acks) -> Producer:
        prng = Prng(self._prng.next_u64())
        codec = Codec(self._swarm.codec)
        return Producer(self._view(name), self.history, prng, acks, codec=codec)

    def _consumer(self, number: int) -> Consumer:
        prng = Prng(self._prng.next_u64())
        options = ReadOptions(
            from_followers=self._swarm.follower_reads and number > 1,
            rack=f"rack{number % RACKS}" if self._swarm.racks else "",
        )
        return Consumer(self._view(f"c{number}"), self.history, prng, options)

    def _committer(self, name: str, prng: Prng) -> Committer:
        view = ClusterView(self._world, name, prng, self._swarm.client_timeout_ms)
        admin = Admin(view, self.history)
        return Committer(view, admin, prng, flushed=self._swarm.group_commit)

    def start(self) -> None:
        """Creates the topics, then lets everything go; before that, gives rights where there are
        some."""
        if self._swarm.secured:
            self._keeper.start(self._begin_with_rights)
        else:
            self._begin()

    def _begin_with_rights(self) -> None:
        if not self._stopped:
            self._begin()
            self._now_and_then(self._swarm.rights_gap_ms, self._keeper.act)
            for intruder in self._intruders:
                self._now_and_then(INTRUDER_GAP_MS, intruder.act)
            for greedy in self._greedy:
                self._now_and_then(GREEDY_GAP_MS, greedy.act)

    def _throttle(self) -> None:
        """Asks until it is done."""

        def done(code: ErrorCode | None) -> None:
            if code is not ErrorCode.NONE:
                self._world.at(THROTTLE_RETRY_MS, self._throttle)

        self._operator.throttle(self._swarm.throttled_rate, done)

    def _begin(self) -> None:
        self._begun = True
        if self._swarm.throttled_rate:
            self._throttle()
        for _ in range(self._swarm.topics):
            self._create_topic()
        for producer in self.producers:
            producer.view.refresh(lambda one=producer: self._keep_sending(one))  # type: ignore[misc]
        for consumer in self.consumers:
            consumer.start()
            self._now_and_then(self._swarm.rewind_gap_ms, consumer.rewind)
        for client in self._writers:
            client.start()
        for reader in self._transaction_readers:
            reader.start()
        self._members.start()
        self._sharers.start()
        self._copies.start()
        self._now_and_then(self._swarm.admin_gap_ms, self._change_topics)
        self._now_and_then(self._swarm.operator_gap_ms, self._reconfigure)
        self._now_and_then(self._swarm.disk_move_gap_ms, self._disk_mover.act)
        if not self._swarm.damages:
            # Two voters, one of them with a damaged log, wait for the third.
            self._now_and_then(self._swarm.voter_gap_ms, self._voters.act)

    def stop(self) -> None:
        """No new writes, and no changes of topics."""
        self._stopped = True
        if self._swarm.secured:
            self._keeper.stop()
        for client in self._writers:
            client.stop()
        self._members.stop()
        self._sharers.stop()
        self._copies.stop()

    @property
    def _writers(self) -> list[Committer | Transactor | KeyedClient]:
        return [*self._committers, *self._transactors, *self._keyed]

    @property
    def deliveries(self) -> Deliveries:
        """What the members of the share group have received."""
        return self._sharers.deliveries

    @property
    def copied_count(self) -> int:
        """How many records were copied."""
        return self._copies.copied_count

    def judge(self) -> None:
        """At the end: what the transactions have come to, what is left of keyed records, and what a
        share group was given."""
        if not self._begun:
            return
        readers: list[TransactionReader | KeyedClient] = [*self._transaction_readers, *self._keyed]
        for reader in readers:
            reader.judge()
        self._sharers.judge()
        self._copies.judge()
        for intruder in self._intruders:
            intruder.judge()

    @property
    def is_drained(self) -> bool:
        """Whether every write and change has come to its end."""
        if not self._begun:
            return self._keeper.is_settled
        for producer in self.producers:
            producer.abandon(lambda key: key.topic in self.history.abandoned)
        is_settled = (
            all(client.is_settled for client in self._writers)
            and self._members.is_settled
            and self._keeper.is_settled
            and not self._sharers.unsettled
            and not self._copies.unsettled
            and not any(reader.unread for reader in self._transaction_readers)
        )
        return (
            is_settled and not self.admin.pending and not any(p.unresolved for p in self.producers)
        )

    @property
    def stuck(self) -> list[str]:
        """What has no outcome, for messages."""
        waiting = [f"client {one.name}" for one in self._writers if not one.is_settled]
        if not self._members.is_settled:
            waiting.append("members of a group")
        if not self._keeper.is_settled:
            waiting.append("a change of rights or passwords")
        waiting += self._sharers.unsettled
        waiting += self._copies.unsettled
        waiting += [text for reader in self._transaction_readers for text in reader.unread]
        return waiting + [
            f"{producer.name} {lane.key}: {len(lane.batches)} batches"
            for producer in self.producers
            for lane in producer.lanes.values()
            if lane.batches
        ]

    def _now_and_then(self, gap_ms: int, action: Callable[[], None]) -> None:
        if gap_ms == 0:
            return

        def run() -> None:
            if not self._stopped:
                action()
                self._now_and_then(gap_ms, action)

        self._world.at(self._prng.between(gap_ms // 2, gap_ms * 3 // 2), run)

    def _keep_sending(self, producer: Producer) -> None:
        if self._stopped:
            return
        keys = [key for key in producer.view.places if key.topic not in self.history.abandoned]
        if keys and producer.unresolved < 50:
            count = self._prng.between(1, self._swarm.batch_records)
            producer.send(self._prng.choice(keys), count)
        elif not keys:
            producer.view.refresh(lambda: None)
        gap_ms = 1000 * len(self.producers) // self._swarm.records_per_second
        self._world.at(self._prng.between(0, gap_ms * 2), lambda: self._keep_sending(producer))

    def _reconfigure(self) -> None:
        view = self.admin.view
        view.refresh(lambda: None)
        places = [
            place for key, place in view.places.items() if key.topic not in self.history.abandoned
        ]
        if places:
            self._operator.act(places)

    def _create_topic(self, name: str | None = None) -> None:
        if name is None:
            self._topic_count += 1
            name = f"t{self._topic_count}"

        def done(code: ErrorCode | None) -> None:
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._world.at(RETRY_MS, create)

        def create() -> None:
            if not self._stopped:
                self.admin.create(name, self._swarm.partitions, self._swarm.topic_configs(), done)

        create()

    def _change_topics(self) -> None:
        view = self.admin.view
        view.refresh(lambda: None)
        live = [key for key in view.places if key.topic not in self.history.abandoned]
        choice = self._prng.below(10)
        if choice < 4 and len({key.topic for key in live}) < MAX_TOPICS:
            self._create_topic()
        elif choice < 7 and live:
            name = self._prng.choice(live).topic.split(".")[0]
            count = 1 + sum(key.topic.split(".")[0] == name for key in live)
            if count <= MAX_PARTITIONS:
                self.admin.add_partitions(name, count, lambda _: None)
        elif len({key.topic for key in live}) > 1:
            self._delete(self._prng.choice(live))

    def _delete(self, key: Key) -> None:
        name = key.topic.split(".")[0]
        again = self._prng.chance(1, 2)
        topic_id = self.admin.view.places[key].topic_id

        def done(code: ErrorCode | None) -> None:
            if again and code is ErrorCode.NONE:
                self._create_topic(name)

        self.admin.delete(key, topic_id, done)
