"""A sequence on both brokers, step by step, until they differ.

A step is sent to both. Then both answers are awaited, and with them those of earlier steps that
still wait: a JoinGroup is answered when others have joined. A step whose slot waits is left out.

Three things take their time in either broker and mean nothing, so they are tried again before they
count as different: a read that differs, a write that one broker cannot do yet (its coordinator
loads, its transaction is being completed, its metadata has not come), and an answer that
only one broker has given.
"""

import select
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tests.differential.comparison import Difference, Names, canonical, differences, error_codes
from tests.differential.known import begins_a_group, ends_waits, is_known
from tests.differential.sides import CLOSED, Side
from tests.differential.steps import Step, has_long, resolve
from tidelog.wire.api import ApiKey as K

WAITS: Final = frozenset((K.JOIN_GROUP, K.SYNC_GROUP))
"""What may be answered only after other requests."""

READS: Final = frozenset(
    (
        K.FETCH,
        K.LIST_OFFSETS,
        K.METADATA,
        K.OFFSET_FETCH,
        K.DESCRIBE_GROUPS,
        K.CONSUMER_GROUP_DESCRIBE,
        K.SHARE_GROUP_DESCRIBE,
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        K.LIST_GROUPS,
        K.DESCRIBE_TRANSACTIONS,
        K.LIST_TRANSACTIONS,
        K.DESCRIBE_PRODUCERS,
        K.DESCRIBE_CLIENT_QUOTAS,
        K.DESCRIBE_USER_SCRAM_CREDENTIALS,
        K.DESCRIBE_CONFIGS,
        K.DESCRIBE_LOG_DIRS,
        K.DESCRIBE_TOPIC_PARTITIONS,
        K.LIST_PARTITION_REASSIGNMENTS,
        K.LIST_CONFIG_RESOURCES,
        K.OFFSET_FOR_LEADER_EPOCH,
        K.FIND_COORDINATOR,
    )
)
PASSING: Final = frozenset((3, 5, 6, 7, 14, 15, 16, 51, 100))
"""Error codes that may pass: unknown topic or id, no leader, a loading coordinator, a transaction
that is being completed."""

UNEXPECTED: Final = -1
"""Kafka's code for an exception that it does not expect: the first entry of `known.py`."""

GRACE_S: Final = 0.06
ANSWER_S: Final = 8.0
LATER_S: Final = 30.0
"""How long one broker is waited for when the other has answered; either may get no CPU."""
SILENT_S: Final = 3.0
"""The same for what Kafka is known not to answer."""
AGAIN_S: Final = 5.0
PAUSE_S: Final = 0.01
LATER_PARTS_S: Final = 0.25
"""How long a change of topics may take to reach all parts of a broker that look at them, and the
states of share partitions to begin."""

HAS_LATER_PARTS: Final = frozenset(
    (
        *(K.CREATE_TOPICS, K.DELETE_TOPICS, K.CREATE_PARTITIONS),
        *(K.SHARE_GROUP_HEARTBEAT, K.ALTER_SHARE_GROUP_OFFSETS),
    )
)
"""What goes on in a broker when it has been answered."""

PREPARING: Final = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def can_be_repeated(step: Step) -> bool:
    """Whether it changes nothing and means the same when it is sent again. A fetch within a session
    does not: the broker expects the next one."""
    return step.key in READS and step.body.get("session_epoch", 0) <= 0


def stand_of(side: Side, step: Step) -> str:
    """Whether a broker waits with its answer, or which errors it has answered."""
    if step.slot in side.under_way:
        return "waits"
    codes = sorted(error_codes(side.answers.get(step.number)) - {0})
    return " ".join(("answers", *map(str, codes)))


class Outcome(NamedTuple):
    """How a sequence ended."""

    sent: tuple[Step, ...]
    """Steps that were sent; the last of them may be why an earlier one was answered."""
    step: Step | None
    """The first whose answers differ."""
    found: tuple[Difference, ...]
    """How they do; empty if nothing differs."""


class Pair:
    """Both brokers."""

    def __init__(self, kafka: Side, tidelog: Side) -> None:
        self.sides = (kafka, tidelog)
        # Of the sequence that runs: each broker's names, the prefix of its names, its steps.
        self._names = (Names(), Names())
        self._prefix = ""
        self._compared: set[int] = set()
        # Who leads each classic group, by Kafka's last answer and by ours.
        self._leaders: dict[Any, tuple[Any, Any]] = {}
        # When this began, and sequences since, for prefixes that are never used twice.
        self._begun = int(time.time())
        self._runs = 0

    def run(self, steps: Sequence[Step]) -> Outcome:
        """Sends the steps until an answer differs."""
        self._runs += 1
        self._prefix, self._names = f"run-{self._begun}-{self._runs}-", (Names(), Names())
        self._compared.clear()
        self._leaders.clear()
        by_number = {step.number: step for step in steps}
        for side in self.sides:
            side.begin()
        sent: tuple[Step, ...] = ()
        for step in steps:
            if any(step.slot in side.under_way for side in self.sides):
                continue
            sent += (step,)
            for side in self.sides:
                side.send(step, self._prefix)
            self._await(step)
            self._settle(step)
            for number in self._answered():
                if UNEXPECTED in error_codes(self.sides[0].answers[number]):
                    return Outcome(sent, None, ())
                found = self._compare(by_number[number])
                is_by_hash = self._is_chosen_by_hash(by_number[number], found)
                if is_by_hash or begins_a_group(by_number[number], found):
                    return Outcome(sent, None, ())
                if found:
                    return Outcome(sent, by_number[number], found)
            if self._kafka_failed():
                return Outcome(sent, None, ())
            if waits := self._unequal_waits():
                codes = error_codes(self.sides[1].answers.get(step.number))
                known = is_known(*waits) or ends_waits(step, codes, waits[1])
                return Outcome(sent, None if known else waits[0], () if known else (waits[1],))
        return Outcome(sent, None, ())

    def _await(self, step: Step) -> None:
        """Until both answered what one has answered, or nothing is to be expected soon."""
        now = time.monotonic()
        until, uneven_until = now + (GRACE_S if step.key in WAITS else ANSWER_S), 0.0
        while True:
            uneven = set(self.sides[0].under_way) ^ set(self.sides[1].under_way)
            waits = any(step.slot in side.under_way for side in self.sides)
            if not uneven and not waits:
                return
            now = time.monotonic()
            if not uneven:
                uneven_until = 0.0
            elif not uneven_until:
                is_silent = step.key == K.DESCRIBE_SHARE_GROUP_OFFSETS or has_long(step.body)
                uneven_until = now + (SILENT_S if is_silent else LATER_S)
            left = (uneven_until if uneven else until) - now
            if left <= 0:
                return
            self._receive(left)

    def _receive(self, timeout_s: float) -> None:
        waiting = {
            connection: (side, slot)
            for side in self.sides
            for connection, slot in side.waiting_sockets().items()
        }
        ready, _, _ = select.select(list(waiting), [], [], timeout_s)
        for each in ready:
            side, slot = waiting[each]
            side.receive(slot)

    def _kafka_failed(self) -> bool:
        """Whether it has answered something by which it failed, this step or an earlier one."""
        return any(
            UNEXPECTED in error_codes(answer)
            for number, answer in self.sides[0].answers.items()
            if number not in self._compared
        )

    def _answered(self) -> list[int]:
        both = set(self.sides[0].answers) & set(self.sides[1].answers)
        return sorted(both - self._compared)

    def _unequal_waits(self) -> tuple[Step, Difference] | None:
        kafka, tidelog = self.sides
        for slot in sorted(set(kafka.under_way) ^ set(tidelog.under_way)):
            step = kafka.under_way.get(slot) or tidelog.under_way.get(slot)
            assert step is not None
            return step, Difference("(waiting)", *(stand_of(side, step) for side in self.sides))
        return None

    def _compare(self, step: Step) -> tuple[Difference, ...]:
        """How the answers to a step differ, after what may take its time was tried again."""
        until = time.monotonic() + AGAIN_S
        while True:
            if any(step.number not in side.answers for side in self.sides):
                return ()
            found = self._differences(step)
            if not found or time.monotonic() >= until:
                break
            again = self._worth_repeating(step)
            if not again or any(step.slot in side.under_way for side in self.sides):
                break
            time.sleep(PAUSE_S)
            for side in again:
                del side.answers[step.number]
                side.send(step, self._prefix)
            self._await(step)
        self._compared.add(step.number)
        return found

    def _is_chosen_by_hash(self, step: Step, found: tuple[Difference, ...]) -> bool:
        """Whether both brokers have another leader than before, and not the same one: Kafka takes
        the first of a hash map of random ids (`ClassicGroup.remove`). Nothing behind that can be
        compared."""
        answers = [side.answers.get(step.number) for side in self.sides]
        if step.key != K.JOIN_GROUP or not all(isinstance(each, dict) for each in answers):
            return False
        before = self._leaders.get(step.body["group_id"])
        leaders = answers[0]["leader"], answers[1]["leader"]
        if all(leaders):
            self._leaders[step.body["group_id"]] = leaders
        return (
            found[:1] != ()
            and found[0].path == "leader"
            and before is not None
            and all(one != other for one, other in zip(leaders, before, strict=True))
        )

    def _worth_repeating(self, step: Step) -> list[Side]:
        if can_be_repeated(step):
            return [side for side in self.sides if side.answers.get(step.number) != CLOSED]
        return [side for side in self.sides if error_codes(side.answers.get(step.number)) & PASSING]

    def _differences(self, step: Step) -> tuple[Difference, ...]:
        kafka, tidelog = (
            canonical(side.answers.get(step.number), names, self._prefix)
            for side, names in zip(self.sides, self._names, strict=True)
        )
        found = [each for each in differences(kafka, tidelog) if not is_known(step, each)]
        # Codes say most, so they come first.
        return tuple(sorted(found, key=lambda each: "error_code" not in each.path))

    def _settle(self, step: Step) -> None:
        """Waits until what the step began is over: what comes next would meet it in one broker
        and not in the other."""
        if step.key in HAS_LATER_PARTS:
            time.sleep(LATER_PARTS_S)
        if step.key not in (K.END_TXN, K.INIT_PRODUCER_ID) or not step.body:
            return
        name = resolve(step.body["transactional_id"], {}, self._prefix)
        if not name:
            return
        ask = Step(-1, 99, int(K.DESCRIBE_TRANSACTIONS), 0, {"transactional_ids": [name]})
        until = time.monotonic() + AGAIN_S
        for side in self.sides:
            while time.monotonic() < until:
                answer = side.ask(ask, self._prefix)
                if answer == CLOSED:
                    break
                rows = answer["transaction_states"]
                if not any(row["transaction_state"] in PREPARING for row in rows):
                    break
                time.sleep(PAUSE_S)
