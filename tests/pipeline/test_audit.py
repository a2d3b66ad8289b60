"""The audit names every planted fault as what it is, and nothing on healthy replicas."""

import struct

import pytest
from confluent_kafka import Producer

from tests.fixtures import unpack_kafka_node
from tests.pipeline.audit_oracle import BROKERS, expected, planted
from tests.unit.pipeline.log_directories import batch, batches, write_broker, write_segment
from tidelog.env.prng import Prng
from tidelog.pipeline.jobs.audit import audit
from tidelog.pipeline.logs.layout import find_replicas
from tidelog.pipeline.logs.scan import scan_batches

pytestmark = pytest.mark.spark

_BATCHES = batches()
_SIZE = len(_BATCHES[0])
_ALL_BROKERS = [1, 2, 3]


def _flipped(position: int) -> list[bytes]:
    """The fifth batch with one bit changed."""
    data = bytearray(_BATCHES[4])
    data[position] ^= 1
    return [*_BATCHES[:4], bytes(data), *_BATCHES[5:]]


# What broker 2 has instead of `_BATCHES`, and what must be found.
_FAULTS = {
    "healthy": (_BATCHES, []),
    "body-byte": (_flipped(_SIZE - 3), [("BAD_CRC", [2], 40, 49)]),
    "stored-crc": (_flipped(18), [("BAD_CRC", [2], 40, 49)]),
    "dropped-batch": ([*_BATCHES[:4], *_BATCHES[5:]], [("GAP", [2], 40, 49)]),
    "cut-tail": (_BATCHES[:7], [("MISSING_BELOW_HW", [2], 70, 99)]),
    "torn-tail": (
        [*_BATCHES[:9], _BATCHES[9][:-5]],
        [("MISSING_BELOW_HW", [2], 90, 99), ("TORN_TAIL", [2], 80, 89)],
    ),
    "swapped-batches": (
        [*_BATCHES[:4], _BATCHES[5], _BATCHES[4], *_BATCHES[6:]],
        [("GAP", [2], 40, 49), ("GAP", [2], 50, 59), ("OVERLAP", [2], 40, 49)],
    ),
    "repeated-batch": ([*_BATCHES[:4], *_BATCHES[3:]], [("OVERLAP", [2], 30, 39)]),
    "lower-epoch": (
        [*_BATCHES[:4], batch(40, epoch=2), *_BATCHES[5:]],
        [("DIVERGENT", _ALL_BROKERS, 40, 49), ("EPOCH_REGRESSION", [2], 40, 49)],
    ),
    "other-record": (
        [*_BATCHES[:4], batch(40, value=b"A value"), *_BATCHES[5:]],
        [("DIVERGENT", _ALL_BROKERS, 40, 49)],
    ),
    "damaged-length": (
        _flipped(8),
        [("MISSING_BELOW_HW", [2], 40, 99), ("TORN_TAIL", [2], 30, 39)],
    ),
}


# What broker 2 has in two files, the second one from offset 50, and what must be found.
_ACROSS_FILES = {
    "gap-across": (_BATCHES[:4], _BATCHES[5:], [("GAP", [2], 40, 49)]),
    "overlap-across": (_BATCHES[:6], _BATCHES[5:], [("OVERLAP", [2], 50, 59)]),
    "epoch-across": (
        _BATCHES[:5],
        [batch(50, epoch=2), *_BATCHES[6:]],
        [("DIVERGENT", _ALL_BROKERS, 50, 59), ("EPOCH_REGRESSION", [2], 50, 59)],
    ),
    "rolled-elsewhere": (_BATCHES[:5], _BATCHES[5:], []),
}
# What the cleaner left below offset 60 on broker 2; what all brokers lack above is a gap.
_COMPACTED = [*_BATCHES[:1], *_BATCHES[3:4], *_BATCHES[6:8], *_BATCHES[9:]]
_CLEANER = "cleaner-offset-checkpoint"


@pytest.fixture(scope="module")
def planted_faults(tmp_path_factory):
    root = tmp_path_factory.mktemp("planted")
    for broker in BROKERS:
        content = {name: fault for name, (fault, _) in _FAULTS.items()}
        content |= {name: first for name, (first, _, _) in _ACROSS_FILES.items()}
        others = dict.fromkeys(content, _BATCHES)
        content["compacted"] = _COMPACTED
        others["compacted"] = [*_BATCHES[:8], *_BATCHES[9:]]
        own = content if broker == 2 else others
        log_dir = write_broker(root, broker, {f"{name}-0": own[name] for name in own}, 100)
        if broker == 2:
            (log_dir / _CLEANER).write_text("0\n1\ncompacted 0 60\n")
            for name, (_, second, _) in _ACROSS_FILES.items():
                write_segment(log_dir / f"{name}-0", second, base_offset=50)
        indexed = write_segment(log_dir / "index-0", _BATCHES, indexed=True)
        if broker == 3:
            index = indexed.with_suffix(".index")
            entry = struct.pack(">ii", 29, 2 * _SIZE + 3)
            index.write_bytes(index.read_bytes()[:8] + entry + index.read_bytes()[16:])
    return root


@pytest.fixture(scope="module")
def found(spark, planted_faults):
    return audit(spark, [planted_faults])


def _findings_of(verdict, topic):
    return sorted(
        (one.kind, one.brokers, one.base_offset, one.last_offset)
        for one in verdict.findings
        if one.topic == topic
    )


@pytest.mark.parametrize("name", _FAULTS)
def test_a_planted_fault_is_named_and_nothing_else(found, name):
    assert _findings_of(found, name) == _FAULTS[name][1]


@pytest.mark.parametrize("name", _ACROSS_FILES)
def test_a_fault_between_two_files_is_named_and_nothing_else(found, name):
    assert _findings_of(found, name) == _ACROSS_FILES[name][2]


def test_what_the_cleaner_removed_is_not_a_gap(found):
    assert _findings_of(found, "compacted") == [("GAP", [broker], 80, 89) for broker in BROKERS]


def test_random_faults_are_found_as_a_batch_by_batch_check_finds_them(spark, tmp_path):
    """Goal: the same findings where files roll elsewhere, bounds differ, buckets end."""
    prng = Prng(5)
    partitions = [planted(prng) for _ in range(60)]
    for broker in BROKERS:
        own = [(f"t{number}", one[broker]) for number, one in enumerate(partitions)]
        log_dir = tmp_path / f"node-{broker}" / "data"
        for name, replica in own:
            replica.write(log_dir, f"{name}-0")
        write_broker(tmp_path, broker, {}, 0)
        for file, values in (
            ("replication-offset-checkpoint", [one.high_watermark for _, one in own]),
            ("log-start-offset-checkpoint", [one.log_start for _, one in own]),
            (_CLEANER, [one.cleaned_to for _, one in own]),
        ):
            lines = [f"{name} 0 {value}" for (name, _), value in zip(own, values, strict=True)]
            (log_dir / file).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    verdict = audit(spark, [tmp_path])
    for number, one in enumerate(partitions):
        assert _findings_of(verdict, f"t{number}") == expected(one), f"t{number}"
    kinds = {one.kind for one in verdict.findings}
    assert len(kinds) == 6 and "DIVERGENT" in kinds, kinds


def test_an_index_that_points_wrongly_is_named(found):
    (one,) = (one for one in found.findings if one.topic == "index")
    assert (one.kind, one.brokers, one.base_offset) == ("INDEX_MISMATCH", [3], 20)
    assert "offset 29" in one.detail


def test_a_difference_is_shown_down_to_the_byte_and_the_record(found):
    details = {(one.topic, one.kind): one.detail for one in found.findings}
    assert "byte" in details["body-byte", "BAD_CRC"]
    assert "on 1 and" in details["body-byte", "BAD_CRC"]
    assert "first in record 0, offset 40" in details["other-record", "DIVERGENT"]
    assert "of the header" in details["lower-epoch", "DIVERGENT"]


def test_the_sums_count_every_replica(found, planted_faults):
    assert found.replicas == 3 * (len(_FAULTS) + len(_ACROSS_FILES) + 2)
    places = [place for one in find_replicas([planted_faults]) for place in one.segments]
    rows = [row for place in places for row in scan_batches(place, ["size"])]
    assert found.batches == sum(len(row) for row in rows)
    assert found.bytes == sum(sum(row.column(0).to_pylist()) for row in rows)
    assert not found.is_clean


def test_what_lies_above_the_high_watermark_is_not_judged(spark, tmp_path):
    """A former leader may hold a tail that it has yet to cut."""
    for broker in BROKERS:
        tail = [batch(70, epoch=broker), batch(80, epoch=broker)] if broker < 3 else []
        write_broker(tmp_path, broker, {"t-0": [*_BATCHES[:7], *tail]}, 70)
    assert audit(spark, [tmp_path]).findings == ()


def test_a_torn_tail_alone_is_not_a_fault(spark, tmp_path):
    for broker in BROKERS:
        write_broker(tmp_path, broker, {"t-0": [*_BATCHES[:7], b"torn"]}, 70)
    verdict = audit(spark, [tmp_path])
    assert [one.kind for one in verdict.findings] == ["TORN_TAIL"] * 3
    assert verdict.is_clean


def test_the_directories_of_kafka_are_clean(spark, tmp_path):
    directories = []
    for name in ("node1", "node2", "node3"):
        (tmp_path / name).mkdir()
        directories.append(unpack_kafka_node(name, tmp_path / name))
    verdict = audit(spark, directories)
    assert verdict.findings == ()
    assert (verdict.replicas, verdict.batches) == (81, 972)


def test_a_live_cluster_is_clean_while_its_leader_changes(spark, cluster):
    cluster.create_topic("audited", partitions=3, replication_factor=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(3_000):
        producer.produce("audited", b"value %d" % number, key=b"%d" % (number % 7))
    producer.flush(30)
    leader = cluster.wait_for_leader("audited", 0)
    cluster.kill(leader)
    try:
        for number in range(3_000):
            producer.produce("audited", b"more %d" % number, key=b"%d" % (number % 7))
        verdict = audit(spark, [cluster.data_dir], topics=["audited"])
        assert producer.flush(60) == 0
    finally:
        cluster.start_node(leader)
    cluster.wait_for_isr("audited", 0, BROKERS)
    assert [one for one in verdict.findings if one.kind != "TORN_TAIL"] == []
    assert verdict.replicas == 9
