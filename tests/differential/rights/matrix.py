"""The questions, asked of both brokers, and what differs in their answers."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Lock
from typing import Any, Final, NamedTuple

from tests.differential.comparison import Difference, Names, canonical, differences, error_codes
from tests.differential.rights.brokers import PASSING, Broker, settle
from tests.differential.rights.cases import Phase, Question
from tests.differential.rights.known import KNOWN, Known, known_as
from tests.differential.rights.requests import CHANGES, REMOVALS, body, opened
from tests.unit.broker.authorization_matrix import CODES
from tidelog.wire.api import ApiKey

TRIES: Final = 3
WAITS: Final = 20
AT_ONCE: Final = 12
SHOWN: Final = 400
REPORTED_EACH: Final = 1000
MOST_S: Final = 1800
"""A run takes a fourth of it on two cores that others use too."""
COUNTED: Final = frozenset(
    (
        *("base_offset", "end_offset", "high_watermark", "last_stable_offset", "offset"),
        *("leader_epoch", "producer_epoch", "partition_epoch"),
        *("group_epoch", "assignment_epoch", "member_epoch"),
    )
)
"""Fields whose values depend on which user came first, and on elections; negative ones do not."""
TIMES: Final = frozenset(("issue_timestamp", "expiry_timestamp", "max_timestamp"))
"""Fields that depend on the time, where they are set."""


class Kind(NamedTuple):
    """What makes two differences the same one."""

    listener: str
    api: str
    path: str
    kafka: str
    tidelog: str


class Matrix:
    """One run: parts, each on brokers of its own."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        # Of the part that runs.
        self._brokers: tuple[Broker, Broker]
        # Guards the counters: some users ask at the same time.
        self._lock = Lock()
        # Questions, by API and kind of principal.
        self.asked: Counter[tuple[str, str]] = Counter()
        # How often each difference was seen: those that are not known, and those that are.
        self.found: Counter[Kind] = Counter()
        self.known: Counter[Known] = Counter()
        # Cases in which an answer had a code that only an authorizer says.
        self.denied = 0

    @property
    def took_s(self) -> float:
        """For how long it has run."""
        return time.monotonic() - self._begun

    def run(self, brokers: tuple[Broker, Broker], phases: Sequence[Phase]) -> None:
        """Asks the questions of a part; the entries of its first phase stay."""
        self._brokers = brokers
        for number, phase in enumerate(phases):
            for broker in brokers:
                broker.add(phase.entries)
            settle()
            self._ask_all(phase.questions)
            if number:
                for broker in brokers:
                    broker.remove(phase.entries)

    def _ask_all(self, questions: Iterable[Question]) -> None:
        """Asks the questions: first those that change nothing, of some users at the same time."""
        calm: dict[tuple[str, str], list[Question]] = {}
        changing: list[Question] = []
        for each in questions:
            if each.case.row.key in CHANGES:
                changing.append(each)
            else:
                calm.setdefault((each.listener, each.user), []).append(each)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._ask_as_one, calm.values()))
        for each in changing:
            if self._ask(self._brokers, each) and each.case.row.key in REMOVALS:
                for broker in self._brokers:
                    if each.case.row.key is ApiKey.EXPIRE_DELEGATION_TOKEN:
                        broker.have_renewed()
                    else:
                        broker.have_what_is_asked_about()

    def _ask_as_one(self, questions: Sequence[Question]) -> None:
        kafka, tidelog = self._brokers
        brokers = kafka.again(), tidelog.again()
        try:
            for each in questions:
                self._ask(brokers, each)
        finally:
            for broker in brokers:
                broker.close()

    def _ask(self, brokers: tuple[Broker, Broker], question: Question) -> bool:
        """Compares the answers to a question; whether it was granted. What differs in a new way is
        asked again, since a change may have reached only one of the brokers."""
        assert self.took_s < MOST_S, f"after {MOST_S} s the run is not at its end"
        tries = 0
        while True:
            answers = [self._answer(broker, question) for broker in brokers]
            shown = [_timeless(canonical(each, Names(), "")) for each in answers]
            every = list(differences(*shown))
            reasons = [known_as(question, each) for each in every]
            found = [each for each, why in zip(every, reasons, strict=True) if why is None]
            is_passing = any(error_codes(each) & PASSING for each in answers)
            tries += 1
            if all(_kind(question, each) in self.found for each in found):
                break
            if tries >= (WAITS if is_passing else TRIES):
                break
            settle()
        api = question.case.row.key.name
        with self._lock:
            self.asked[api, question.kind] += 1
            self.known.update({why for why in reasons if why is not None})
            self.denied += any(error_codes(each) & CODES for each in answers)
            total = self.asked.total()
            if not total % REPORTED_EACH:
                print(f"{total:,} cases, {self.took_s:.0f} s", flush=True)
            for each in found:
                self._on_difference(question, each, answers)
        return tries > 1 or any(0 in error_codes(each) for each in answers)

    def _answer(self, broker: Broker, question: Question) -> Any:
        case, request = question.case, body(question, broker.ids)
        answer = broker.ask(question.listener, question.user, case.row.key, case.version, request)
        return opened(question, answer)

    def _on_difference(self, question: Question, each: Difference, answers: list[Any]) -> None:
        case, kind = question.case, _kind(question, each)
        self.found[kind] += 1
        if self.found[kind] > 1:
            return
        print(f"\n{' '.join(kind)}")
        print(f"  version {case.version}, {question.kind}, need {case.place} of {case.row.needs}")
        print(f"  about {case.name}, {case.row.values}")
        for broker, answer in zip(self._brokers, answers, strict=True):
            print(f"  {broker.name} answers {str(answer)[:SHOWN]}")
        sys.stdout.flush()

    def report(self) -> None:
        """What was asked, and how often each difference was seen."""
        kinds: Counter[str] = Counter()
        for (_, name), count in self.asked.items():
            kinds[name] += count
        apis = len({api for api, _ in self.asked})
        print(f"\n{self.asked.total():,} cases of {apis} APIs, {self.took_s:.0f} s")
        print(", ".join(f"{name}: {count}" for name, count in sorted(kinds.items())))
        print(f"denied, as a whole or in parts: {self.denied:,}")
        for each in KNOWN:
            print(f"{self.known[each]:>6} times known, {each.api.name}: {each.what}")
        for kind, count in self.found.most_common():
            print(f"{count:>6} times {' '.join(kind)}")
        print(f"{len(self.found)} differences that are not known")


def _timeless(answer: Any, field: str = "") -> Any:
    """The answer without numbers that count what others have done."""
    if isinstance(answer, dict):
        return {name: _timeless(each, name) for name, each in answer.items()}
    if isinstance(answer, list) and field == "records":
        return bool(answer)
    if isinstance(answer, list):
        return [_timeless(each) for each in answer]
    if field in TIMES and _is_set(answer):
        return "some"
    return "some" if field in COUNTED and isinstance(answer, int) and answer >= 0 else answer


def _is_set(time: datetime | int) -> bool:
    """Whether it is more than 0, which stands for none, as -1 does."""
    return time > 0 if isinstance(time, int) else time.timestamp() > 0


def _kind(question: Question, each: Difference) -> Kind:
    api = question.case.row.key.name
    return Kind(question.listener, api, each.path, each.kafka[:60], each.tidelog[:60])
