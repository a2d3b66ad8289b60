"""Reports of directories: they stand until the metadata agrees, and go out together."""

from dataclasses import replace

from tests.unit.log.harness import DIRECTORY_ID, PARTITION, TOPIC_ID, LogBench
from tests.unit.replication.surroundings import make_env
from tidelog.env.instant import Instant
from tidelog.limits import MAX_REPLICAS_ASSIGNED
from tidelog.metadata.image import PartitionImage
from tidelog.model import LOST_DIRECTORY, ZERO_UUID, TopicPartition, Uuid
from tidelog.replication.directory_reports import DirectoryReports
from tidelog.replication.messages import SendAssignReplicas

IMAGE = PartitionImage((1,), (1,), 1, 0, 0, directories=(Uuid(b"o" * 16),))


class Bench:
    """The reports of broker 1, whose one log is in one directory."""

    def __init__(self) -> None:
        self.env = make_env(LogBench())
        self.reports = DirectoryReports(self.env)

    def sent(self, now: int) -> list[SendAssignReplicas]:
        self.reports.maybe_send(Instant(now))
        return [each for each in self.env.outbox.take() if isinstance(each, SendAssignReplicas)]


def test_a_report_is_made_again_until_the_metadata_agrees() -> None:
    bench = Bench()
    bench.reports.compare(PARTITION, TOPIC_ID, IMAGE)
    (first,) = bench.sent(0)
    assert [item.directory_id for item in first.assignments] == [DIRECTORY_ID]
    assert bench.sent(10) == []
    bench.reports.on_response(first.token, None, Instant(10))
    assert bench.sent(59) == [] and bench.reports.deadline() == 60
    (second,) = bench.sent(60)
    bench.reports.on_metadata(PARTITION, TOPIC_ID, DIRECTORY_ID)
    bench.reports.on_response(second.token, None, Instant(70))
    assert bench.sent(1000) == [] and bench.reports.deadline() is None


def test_only_what_differs_is_reported() -> None:
    """One directory needs no report where the metadata names none."""
    bench = Bench()
    for said in (DIRECTORY_ID, ZERO_UUID):
        bench.reports.compare(PARTITION, TOPIC_ID, replace(IMAGE, directories=(said,)))
    bench.reports.compare(TopicPartition("absent", 0), TOPIC_ID, IMAGE)
    assert bench.sent(0) == []


def test_a_request_is_bounded() -> None:
    bench = Bench()
    for number in range(MAX_REPLICAS_ASSIGNED + 1):
        bench.reports.report(TopicPartition("t", number), TOPIC_ID, LOST_DIRECTORY)
    (request,) = bench.sent(0)
    assert len(request.assignments) == MAX_REPLICAS_ASSIGNED
