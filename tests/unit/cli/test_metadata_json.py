"""Goal: every metadata record of a real Kafka cluster reads as Kafka's own tool shows it."""

import json

import pytest

from tests.fixtures import kafka_dump_text, kafka_files
from tidelog.cli.metadata_json import describe_record
from tidelog.errors import ProtocolError
from tidelog.records.batch import decode_batch, iter_headers

SEGMENT = "__cluster_metadata-0/00000000000000000000.log"


def test_every_record_equals_kafkas_json() -> None:
    data = kafka_files("node1")[SEGMENT]
    ours = {
        record.offset: describe_record(record.value)
        for position, header in iter_headers(data)
        if not header.is_control
        for record in decode_batch(data[position : position + header.size_bytes])
        if record.value is not None
    }
    theirs = {}
    for line in kafka_dump_text(SEGMENT).splitlines():
        if line.startswith("| offset:") and " payload: " in line:
            theirs[int(line.split()[2])] = json.loads(line.partition(" payload: ")[2])
    assert len(theirs) > 500
    assert ours == theirs


def test_what_is_not_a_metadata_record_is_refused() -> None:
    with pytest.raises(ProtocolError):
        describe_record(b"value-1")
