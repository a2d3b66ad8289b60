"""A node with several log directories: placement, registration, one that fails, and starts."""

import pytest

from tests.unit.broker.api.test_k00_produce import code, produce
from tests.unit.broker.one_node import CLUSTER_ID, WALL_MS, OneNode
from tests.unit.log.harness import batch
from tidelog.broker.opening import read_first_records
from tidelog.controller.bootstrap import BOOTSTRAP_FILE, FirstRecords, bootstrap_file
from tidelog.env.effects import StopRequested
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode, StorageError, UsageError
from tidelog.log.file_names import GAPS_FILE
from tidelog.log.identity import format_directory, read_identity
from tidelog.model import ZERO_UUID, TopicPartition, Uuid
from tidelog.records.batch import stamp
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

SETTINGS = {"log_dirs": "data,more"}
VERSION = 12
FAILS = "input/output error"


class ReadOnlyDisk(MemoryDisk):
    """A file system that may be mounted for reading only; looking and reading go on."""

    is_read_only = False

    def begin(self, operation: Operation, path: str) -> None:
        super().begin(operation, path)
        if self.is_read_only and operation not in (Operation.LOOK, Operation.READ):
            raise StorageError(path, "read-only file system")


def second_disk(directory_id: bytes = b"e", node_id: int = 1) -> ReadOnlyDisk:
    disk = ReadOnlyDisk(root="more")
    format_directory(
        disk, cluster_id=CLUSTER_ID, node_id=node_id, directory_id=Uuid(directory_id * 16)
    )
    return disk


def two_disks(disk: MemoryDisk | None = None, more: MemoryDisk | None = None) -> OneNode:
    return OneNode(
        disk=disk, more_disks=[more or second_disk()], seed=7 if disk is None else 8, **SETTINGS
    )


def with_topic(more: MemoryDisk | None = None, **configs: str) -> OneNode:
    """Four partitions, all of which the metadata has in a directory."""
    node = two_disks(more=more)
    node.client().create_topic("t", 4, **configs)
    node.run_until(lambda: ZERO_UUID not in directories_of(node, "t"))
    return node


def stop(node: OneNode) -> None:
    node.receive(StopRequested())
    node.run_until_exit()
    assert [effect.code for effect in node.exits] == [0]


def produce_to_all(node: OneNode) -> list[ErrorCode]:
    """The answer for a batch to each of the four partitions."""
    wire = node.client()
    return [code(produce(wire, VERSION, partition=number)) for number in range(4)]


def leaders_of(node: OneNode) -> list[int]:
    partitions = node.broker.image.topics_by_name["t"].partitions
    return [partitions[number].leader for number in range(4)]


def directories_of(node: OneNode, topic: str) -> list[Uuid]:
    """Where the metadata has the only replica of each partition."""
    partitions = node.broker.image.topics_by_name[topic].partitions
    return [partitions[number].directories[0] for number in sorted(partitions)]


def describe(node: OneNode) -> dict[str, tuple[ErrorCode, dict[str, int]]]:
    """By directory the error and the number of partitions by topic."""
    response = node.client().call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    return {
        result.log_dir: (
            error_of(result.error_code),
            {topic.name: len(topic.partitions) for topic in result.topics},
        )
        for result in response.results
    }


def test_new_logs_go_where_the_fewest_are_and_the_controller_learns_where() -> None:
    node = with_topic()
    first, second = read_identity(node.disks[0]), read_identity(node.disks[1])
    assert set(node.broker.image.brokers[1].log_dirs) == {first.directory_id, second.directory_id}
    assert sorted(directories_of(node, "t")) == sorted(
        [first.directory_id] * 2 + [second.directory_id] * 2
    )
    here = ErrorCode.NONE, {"t": 2}
    assert describe(node) == {"host1": here, "more": here}


def test_a_clean_stop_closes_all_directories_and_the_next_start_finds_their_logs() -> None:
    node = with_topic()
    before = describe(node)
    stop(node)
    assert all(disk.exists(".kafka_cleanshutdown") for disk in node.disks)
    again = two_disks(*node.disks)
    assert again.node._directories.clean_shutdown is not None
    assert describe(again) == before


def test_one_disk_fails_and_the_other_serves() -> None:
    node = with_topic()
    lost = read_identity(node.disks[1]).directory_id
    led = {number for number, where in enumerate(directories_of(node, "t")) if where != lost}
    node.disks[1].failing = FAILS
    answers = produce_to_all(node)
    assert {number for number, answer in enumerate(answers) if not answer} == led
    refused = {answer for answer in answers if answer}
    assert refused <= {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    node.run_until(lambda: lost not in node.broker.image.brokers[1].log_dirs)
    image = node.broker.image
    assert {number for number, leader in enumerate(leaders_of(node)) if leader == 1} == led
    partitions = image.topics_by_name["t"].partitions
    assert image.offline_replicas(partitions[min({0, 1, 2, 3} - led)]) == (1,)
    assert describe(node)["more"] == (ErrorCode.KAFKA_STORAGE_ERROR, {})
    # Such a stop does not count as clean: the directory that failed has no marker.
    stop(node)
    node.disks[1].failing = None
    again = two_disks(*node.disks)
    assert again.node._directories.clean_shutdown is None
    again.run_until(lambda: leaders_of(again) == [1] * 4)
    assert produce_to_all(again) == [ErrorCode.NONE] * 4


@pytest.mark.parametrize("does", ["produce", "create"])
def test_a_directory_that_becomes_read_only_is_offline_and_the_other_serves(does: str) -> None:
    """By the first write that is refused: of a record, or the directory of a new partition. A start
    finds it offline."""
    more = second_disk()
    node = with_topic(more)
    lost = read_identity(more).directory_id
    led = {number for number, where in enumerate(directories_of(node, "t")) if where != lost}
    assert produce_to_all(node) == [ErrorCode.NONE] * 4
    more.is_read_only = True
    if does == "produce":
        produce_to_all(node)
    else:
        node.client().create_topic("u", 2)
    node.run_until(lambda: lost not in node.broker.image.brokers[1].log_dirs)
    assert {number for number, leader in enumerate(leaders_of(node)) if leader == 1} == led
    assert describe(node)["more"] == (ErrorCode.KAFKA_STORAGE_ERROR, {})
    answers = produce_to_all(node)
    assert {number for number, answer in enumerate(answers) if not answer} == led
    stop(node)
    again = two_disks(*node.disks)
    assert describe(again)["more"] == (ErrorCode.KAFKA_STORAGE_ERROR, {})


def test_the_directory_of_the_metadata_log_ends_the_node() -> None:
    node = with_topic()
    node.disks[0].failing = FAILS
    node.run_until_exit()
    assert [effect.code for effect in node.exits] == [1]


def test_a_start_without_a_disk_makes_no_log_anew_that_may_be_on_it() -> None:
    node = with_topic()
    places = directories_of(node, "t")
    stop(node)
    node.disks[1].failing = FAILS
    again = two_disks(*node.disks)
    again.advance(1000)
    assert directories_of(again, "t") == places
    assert describe(again)["host1"] == (ErrorCode.NONE, {"t": 2})


def test_an_empty_disk_in_the_place_of_another_gets_an_id_and_its_logs_are_made_anew() -> None:
    node = with_topic()
    gone = read_identity(node.disks[1]).directory_id
    stop(node)
    again = two_disks(node.disk, MemoryDisk(root="more"))
    again.run_until(lambda: gone not in directories_of(again, "t"))
    again.run_until(lambda: leaders_of(again) == [1] * 4)
    assert produce_to_all(again) == [ErrorCode.NONE] * 4


def test_a_directory_that_is_taken_out_of_the_list_keeps_its_logs() -> None:
    """Its replicas are made anew elsewhere, as Kafka does. When it is back its logs, which are
    older by then, are set aside and not deleted."""
    node = with_topic()
    assert produce_to_all(node) == [ErrorCode.NONE] * 4
    names = {name for name in node.disks[1].list_dir() if name.startswith("t-")}
    assert len(names) == 2
    more = node.disks[1]
    stop(node)
    without = OneNode(disk=node.disk, seed=9)
    without.run_until(lambda: leaders_of(without) == [1] * 4)
    assert produce_to_all(without) == [ErrorCode.NONE] * 4
    assert describe(without) == {"host1": (ErrorCode.NONE, {"t": 4})}
    stop(without)
    again = two_disks(without.disk, more)
    again.run_until(lambda: leaders_of(again) == [1] * 4)
    kept = [name for name in more.list_dir() if name.startswith("t-")]
    assert sorted(name.partition(".")[0] for name in kept) == sorted(names), "records are gone"
    assert produce_to_all(again) == [ErrorCode.NONE] * 4


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (second_disk(b"d"), "have the same directory id"),
        (second_disk(node_id=2), "belongs to node `2`"),
    ],
)
def test_directories_that_do_not_belong_together_are_refused(
    more: MemoryDisk, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        two_disks(more=more)


def test_a_start_reads_whose_a_directory_is_once() -> None:
    class Counting(MemoryDisk):
        """Of its own `meta.properties`."""

        reads = 0

        def read_file(self, path: str) -> bytes | None:
            self.reads += path == "meta.properties"
            return super().read_file(path)

    disks = [Counting(root="data"), Counting(root="more")]
    for number, disk in enumerate(disks):
        letter = bytes([65 + number])
        format_directory(disk, cluster_id=CLUSTER_ID, node_id=1, directory_id=Uuid(letter * 16))
    two_disks(*disks)
    assert [disk.reads for disk in disks] == [1, 1]


def test_a_metadata_log_beside_the_first_directory_is_refused() -> None:
    more = second_disk()
    more.make_dir("__cluster_metadata-0")
    with pytest.raises(UsageError, match="has a metadata log"):
        two_disks(more=more)


def test_of_two_logs_of_a_partition_the_metadata_decides_which_is_the_replica() -> None:
    """OneDirectoryPerLog: the other one is kept under a name that no start opens."""
    node = with_topic()
    assert produce_to_all(node) == [ErrorCode.NONE] * 4
    stop(node)
    lost = read_identity(node.disks[1]).directory_id
    number = directories_of(node, "t").index(lost)
    node.disks[0].make_dir(f"t-{number}")
    again = two_disks(*node.disks)
    again.run_until(lambda: leaders_of(again) == [1] * 4)
    log = again.node._directories.logs[TopicPartition("t", number)]
    assert (log.log_end_offset, directories_of(again, "t")[number]) == (2, lost)
    names = [name for name in again.disks[0].list_dir() if name.startswith(f"t-{number}")]
    assert len(names) == 1 and names[0].endswith("-stray")


@pytest.mark.parametrize(("policy", "end"), [("compact", 10), ("delete", 1)])
def test_a_killed_kafka_has_fetched_gaps_and_the_metadata_decides(policy: str, end: int) -> None:
    """Its followers note gaps nowhere. Those of a topic that is compacted are believed, in each
    directory; of another one what lies behind is a torn tail."""
    node = with_topic(cleanup_policy=policy)
    for number, where in enumerate(directories_of(node, "t")):
        log = node.node._directories.logs[TopicPartition("t", number)]
        for base_offset in (0, 5, 9):
            log.append_as_follower(stamp(batch(), base_offset, 0), WALL_MS)
        disk = next(each for each in node.disks if read_identity(each).directory_id == where)
        disk.delete(f"t-{number}/{GAPS_FILE}")
    again = two_disks(*node.disks)
    logs = again.node._directories.logs
    assert [logs[TopicPartition("t", number)].log_end_offset for number in range(4)] == [end] * 4
    noted = [disk.exists(f"t-{number}/{GAPS_FILE}") for disk in again.disks for number in range(4)]
    assert noted.count(True) == (4 if policy == "compact" else 0)


def test_damaged_first_users_keep_only_a_new_node_from_starting() -> None:
    """They are for the first controller of a cluster; a node that has metadata needs none."""
    damaged = bytearray(bootstrap_file((), 0))
    damaged[-1] ^= 1
    disk = MemoryDisk()
    disk.replace(BOOTSTRAP_FILE, bytes(damaged))
    trace = TraceList()
    assert read_first_records(disk, Trace(trace), is_new=False) == FirstRecords()
    assert len(trace.events) == 1
    with pytest.raises(UsageError, match="wrong checksum"):
        read_first_records(disk, Trace(trace), is_new=True)
