"""`python -m tests.differential`: see the package's docstring."""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.differential.comparison import error_codes
from tests.differential.generator import DRAWS, draw_sequence
from tests.differential.recorded import recorded_sequences
from tests.differential.running import PASSING, Outcome, Pair
from tests.differential.shrinking import shrink
from tests.differential.sides import Side
from tests.differential.steps import Step, shown
from tests.interop.kafka_node import KafkaNode
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey, VersionRange

CONFIG: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    # The times of the records are drawn, and some time ago.
    "log.retention.ms": "-1",
    # A broker that gets no CPU for a while is not fenced, or its partitions were gone.
    "broker.session.timeout.ms": "60000",
    # No timer of a broker ends within a sequence: members are not removed, groups do not expire.
    "group.consumer.max.session.timeout.ms": "900000",
    "group.consumer.session.timeout.ms": "900000",
    "group.share.max.session.timeout.ms": "900000",
    "group.share.session.timeout.ms": "900000",
    "group.share.max.record.lock.duration.ms": "900000",
    "group.share.record.lock.duration.ms": "900000",
    "offsets.retention.check.interval.ms": "86400000",
}
"""What both brokers are given beyond ports and directories."""

KAFKA_CONFIG: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.share.assignment.interval.ms": "0",
    "group.share.assignor.offload.enable": "false",
}
"""Apache Kafka assigns the partitions of consumer and share groups in a thread of its own, at most
once a second; then the heartbeat that has the assignment would depend on time."""

SHRINKING_TRIES: Final = 30
REPORTED_EACH: Final = 1000
READY_S: Final = 30
SHOWN: Final = 600


@contextmanager
def both_brokers(base_port: int, kafka: str | None, tidelog: str | None) -> Iterator[Pair]:
    """One broker of each kind, or those that run already."""
    with ExitStack() as stack:
        if kafka is None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="differential-")))
            lines = "".join(
                f"{name}={value}\n" for name, value in {**CONFIG, **KAFKA_CONFIG}.items()
            )
            kafka = stack.enter_context(KafkaNode(place, lines)).bootstrap_servers
        if tidelog is None:
            cluster = LocalCluster(1, base_port=base_port, profile="default", config=CONFIG)
            tidelog = stack.enter_context(cluster).bootstrap_servers
        sides = Side(kafka), Side(tidelog)
        for side in sides:
            stack.callback(side.close)
            have_coordinators(side)
        yield Pair(*sides)


def have_coordinators(side: Side) -> None:
    """Until the internal topics exist and their coordinators have loaded them; a client would
    ask again."""
    share_groups = {"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}
    share_partition = "first:AQIDBAUGBwgJCgsMDQ4PEA:0"
    who = {"transactional_id": "first", "transaction_timeout": 60_000}
    for key, version, body in (
        (ApiKey.FIND_COORDINATOR, 2, {"key": "first", "key_type": 0}),
        (ApiKey.FIND_COORDINATOR, 2, {"key": "first", "key_type": 1}),
        (ApiKey.DELETE_GROUPS, 0, {"groups_names": ["first"]}),
        (ApiKey.INIT_PRODUCER_ID, 0, who),
        (ApiKey.UPDATE_FEATURES, 1, {"timeout": 30_000, "feature_updates": [share_groups]}),
        (ApiKey.FIND_COORDINATOR, 6, {"key_type": 2, "coordinator_keys": [share_partition]}),
    ):
        step = Step(0, 0, int(key), version, body)
        wait_until(
            lambda step=step: not error_codes(side.ask(step)) & PASSING, READY_S, f"{key.name}"
        )


def common(
    kafka: Mapping[int, VersionRange], tidelog: Mapping[int, VersionRange]
) -> dict[int, VersionRange]:
    """What both brokers serve."""
    both = {
        key: VersionRange(
            max(kafka[key].min_version, tidelog[key].min_version),
            min(kafka[key].max_version, tidelog[key].max_version),
        )
        for key in sorted(kafka.keys() & tidelog.keys())
    }
    return {key: one for key, one in both.items() if one.min_version <= one.max_version}


class Search:
    """Sequences until so many steps were sent."""

    def __init__(self, pair: Pair, *, shrinks: bool) -> None:
        self._pair = pair
        self._shrinks = shrinks
        self._versions = common(*(side.versions() for side in pair.sides))
        # Steps sent by API and version, and how often each difference was seen.
        self.sent: Counter[tuple[int, int]] = Counter()
        self.steps = 0
        self.found: Counter[tuple[str, ...]] = Counter()
        self.passing = 0

    def draw(self, seed: int) -> None:
        """One sequence that is drawn."""
        self.run(f"seed {seed}", draw_sequence(seed, self._versions))

    def run(self, what: str, steps: Sequence[Step]) -> None:
        """One sequence."""
        outcome = self._pair.run(steps)
        self.steps += len(outcome.sent)
        for step in outcome.sent:
            self.sent[step.key, step.version] += 1
        if outcome.step is None:
            return
        kind = _kind(outcome)
        if kind in self.found:
            self.found[kind] += 1
            return
        upto = outcome.sent
        met = [dict(side.answers) for side in self._pair.sides]
        if _kind(self._pair.run(upto)) != kind:
            self.passing += 1
            print(f"{what}: a difference that did not come again: {kind}")
            _print_answered(upto, met)
            return
        self.found[kind] += 1
        fewest: Sequence[Step] = upto
        if self._shrinks:
            fewest = shrink(
                upto, lambda fewer: _kind(self._pair.run(fewer)) == kind, SHRINKING_TRIES
            )
        again = self._pair.run(fewest)
        print(f"\n{what}: {' '.join(kind)}")
        for step in fewest:
            print(f"    {shown(step)}")
        if again.step is not None:
            for name, side in zip(("Kafka", "Tidelog"), self._pair.sides, strict=True):
                print(f"  {name} answers {str(side.answers.get(again.step.number))[:SHOWN]}")
        for difference in again.found:
            print(f"  {difference.path}: Kafka {difference.kafka}, Tidelog {difference.tidelog}")
        sys.stdout.flush()


def _print_answered(steps: Sequence[Step], met: Sequence[Mapping[int, Any]]) -> None:
    """Everything that was sent and answered: it cannot be had again."""
    for step in steps:
        print(f"    {shown(step)}")
        for name, answers in zip(("Kafka", "Tidelog"), met, strict=True):
            print(f"      {name}: {str(answers.get(step.number, 'nothing'))[:SHOWN]}")
    sys.stdout.flush()


def _kind(outcome: Outcome) -> tuple[str, ...]:
    """What makes two differences the same one."""
    if outcome.step is None:
        return ()
    first = outcome.found[0]
    try:
        api = ApiKey(outcome.step.key).name
    except ValueError:
        api = f"key {outcome.step.key}"
    return (api, first.path, first.kafka[:60], first.tidelog[:60])


def main() -> int:
    """0 when nothing differs that is not known; 1 with the fewest steps of each difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first sequence; fresh by default")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--only", choices=("recorded", "drawn"), help="both by default")
    parser.add_argument("--base-port", type=int, default=0)
    parser.add_argument("--kafka", help="the address of a broker that runs already")
    parser.add_argument("--tidelog", help="the same")
    parser.add_argument("--no-shrinking", action="store_true")
    parser.add_argument("--json", type=Path, help="where to write the counts")
    options = parser.parse_args()
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    print(f"first seed {seed}", flush=True)
    recorded = {} if options.only == "drawn" else recorded_sequences()
    wanted = 0 if options.only == "recorded" else options.steps
    begun = time.monotonic()
    with both_brokers(options.base_port, options.kafka, options.tidelog) as pair:
        search = Search(pair, shrinks=not options.no_shrinking)
        for client, steps in recorded.items():
            search.run(client, steps)
        again, number = search.steps, 0
        while search.steps - again < wanted:
            before = search.steps
            search.draw(seed + number)
            number += 1
            if search.steps // REPORTED_EACH > before // REPORTED_EACH:
                print(f"{search.steps:,} steps, {time.monotonic() - begun:.0f} s", flush=True)
    took = time.monotonic() - begun
    tried = {key for key, _ in search.sent if key in {int(one) for one in DRAWS}}
    known = sum(map(len, recorded.values()))
    print(f"\n{again} of {known} recorded steps in {len(recorded)} sequences")
    print(f"{search.steps - again} drawn steps in {number} sequences")
    print(f"{search.steps} steps, {len(tried)} APIs, {took:.0f} s")
    print(f"{search.passing} differences did not come again")
    for kind, count in search.found.most_common():
        print(f"{count:>6} times {' '.join(kind)}")
    print(f"{len(search.found)} differences that are not known")
    if options.json is not None:
        rows = [[key, version, count] for (key, version), count in sorted(search.sent.items())]
        counts = {"seed": seed, "recorded": again, "steps": search.steps, "sent": rows}
        options.json.write_text(json.dumps(counts))
    return 1 if search.found else 0


if __name__ == "__main__":
    sys.exit(main())
