"""Where new replicas go: stripes over racks, and over the brokers of each rack.

Theory. Three wishes, in this order: spread the replicas of a partition over racks; spread the
replicas of a topic over brokers; prefer brokers that are alive. And two rules: no broker twice in
a partition, and the first replica, which becomes the leader, is on a live broker.

Racks are sorted by name (no racks are one rack) and so are the live and the fenced brokers of
each rack; all start at random places. A partition takes its leader from the first rack, beginning
at the current rack, that has an unused live broker. The other replicas walk the racks in turn
from the current rack on, passing over the leader's rack the first time; within a rack live
brokers come first. Each partition then begins one rack further, and in each rack that it used one
broker further: that makes the stripes. After as many partitions as there are live brokers the
stripes would repeat, so that racks and brokers are shuffled.

The same brokers, count and generator state always give the same placement.

Left out: directories within a broker (`topics.py` asks the broker's registration), cordoned
directories beyond leaving out brokers without a usable one.

Source: Kafka's striped replica placer (KIP-500).
"""

from collections.abc import Container, Iterable
from typing import NamedTuple

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import BrokerImage


class UsableBroker(NamedTuple):
    """A broker that may take new replicas."""

    node_id: int
    rack: str | None
    fenced: bool


def usable_brokers(
    brokers: Iterable[BrokerImage], departing: Container[int] = ()
) -> list[UsableBroker]:
    """All brokers except those that are leaving or have no directory to offer. The departing count
    as fenced."""
    return [
        UsableBroker(broker.node_id, broker.rack, broker.fenced or broker.node_id in departing)
        for broker in brokers
        if not (broker.in_controlled_shutdown and not broker.fenced)
        and not (broker.log_dirs and set(broker.log_dirs) <= set(broker.cordoned_log_dirs))
    ]


class _Ring:
    """The live or the fenced brokers of one rack, walked round from a start that moves."""

    __slots__ = ("_brokers", "_round", "_start", "_taken")

    def __init__(self, brokers: Iterable[int], prng: Prng) -> None:
        self._brokers = sorted(brokers)
        # The index from which the current partition takes brokers.
        self._start = prng.below(len(self._brokers)) if self._brokers else 0
        # Brokers already taken for the current partition.
        self._taken = 0
        # The partition round in which the ring was last used.
        self._round = 0

    def take(self, round_number: int) -> int | None:
        """The next broker not yet taken in this round."""
        if self._round != round_number:
            self._round = round_number
            self._taken = 0
            self._start += 1
        if self._taken >= len(self._brokers):
            return None
        index = (self._start + self._taken) % len(self._brokers)
        self._taken += 1
        return self._brokers[index]

    def shuffle(self, prng: Prng) -> None:
        prng.shuffle(self._brokers)


class _Rack:
    """The brokers of one rack."""

    __slots__ = ("fenced", "live")

    def __init__(self, brokers: list[UsableBroker], prng: Prng) -> None:
        self.live = _Ring((b.node_id for b in brokers if not b.fenced), prng)
        self.fenced = _Ring((b.node_id for b in brokers if b.fenced), prng)

    def take(self, round_number: int) -> int | None:
        broker = self.live.take(round_number)
        return self.fenced.take(round_number) if broker is None else broker


class StripedPlacer:
    """Places the partitions of one request, one after the other."""

    def __init__(self, brokers: Iterable[UsableBroker], prng: Prng) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        self._prng = prng
        # Brokers without a rack come first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], prng) for name in names]
        self._broker_count = sum(len(members) for members in by_rack.values())
        self._live_count = sum(not b.fenced for members in by_rack.values() for b in members)
        # The rack at which the next partition begins.
        self._offset = prng.below(len(self._racks)) if self._racks else 0
        # Partitions placed so far; rings distinguish partitions by it.
        self._round = 0
        # Partitions placed since the last shuffle.
        self._since_shuffle = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """The replicas of the next partition, its leader first.

        Raises `ProtocolError(INVALID_REPLICATION_FACTOR)` when there are too few brokers.
        """
        self._check(replication_factor)
        if self._since_shuffle == self._live_count and self._live_count > 1:
            self._shuffle()
        self._round += 1
        self._since_shuffle += 1
        count = len(self._racks)
        self._offset %= count
        order = [(self._offset + step) % count for step in range(count)]
        leader_rack, leader = self._take_leader(order)
        replicas = [leader]
        step, passed_leader_rack = 0, False
        while len(replicas) < replication_factor:
            rack = order[step % count]
            step += 1
            if rack == leader_rack and not passed_leader_rack:
                passed_leader_rack = True
                continue
            broker = self._racks[rack].take(self._round)
            if broker is not None:
                replicas.append(broker)
        self._offset += 1
        assert len(set(replicas)) == replication_factor, f"a broker twice in {replicas}"
        return tuple(replicas)

    def _take_leader(self, order: list[int]) -> tuple[int, int]:
        for rack in order:
            broker = self._racks[rack].live.take(self._round)
            if broker is not None:
                return rack, broker
        raise AssertionError(f"no live broker among {self._live_count}")

    def _shuffle(self) -> None:
        self._prng.shuffle(self._racks)
        for rack in self._racks:
            rack.live.shuffle(self._prng)
            rack.fenced.shuffle(self._prng)
        self._since_shuffle = 0

    def _check(self, replication_factor: int) -> None:
        if replication_factor <= 0:
            reason = f"the replication factor must be positive, not `{replication_factor}`"
        elif not self._live_count:
            reason = "all brokers are fenced"
        elif replication_factor > self._broker_count:
            reason = (
                f"replication factor `{replication_factor}` is larger than "
                f"the number of usable brokers, `{self._broker_count}`"
            )
        else:
            return
        raise ProtocolError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
