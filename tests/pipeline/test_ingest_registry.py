"""Keys and values with schemas of a registry, through Spark's workers."""

import json
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import changes
from tests.unit.pipeline.typed.registry_server import framed, registry_server
from tests.unit.pipeline.typed.test_avro import encoded as avro
from tests.unit.pipeline.typed.test_avro import record
from tests.unit.pipeline.typed.test_protobuf import encoded as protobuf
from tests.unit.pipeline.typed.test_protobuf import file, message, text_of
from tidelog.model import TopicPartition

pytestmark = pytest.mark.spark

_KEYS = file(message("Key", ("id", "TYPE_INT64")))
_OLD = record(("n", "int"))
_NEW = record(("n", "long"), ("name", ["null", "string"]))
_NEW["fields"][1]["default"] = None


@pytest.fixture
def registry():
    """Values have got a second schema, which the first records do not have."""
    with registry_server() as server:
        assert server.register("t-key", _KEYS) == 1
        assert (server.register("t-value", _OLD), server.register("t-value", _NEW)) == (2, 3)
        yield server


def _key(number):
    # A zero: the file's first message.
    return framed(1, b"\0" + protobuf(text_of(_KEYS), "shop.Key", id=number))


def test_protobuf_and_avro_arrive_by_a_registry_that_was_down_meanwhile(registry, tmp_path):
    """As a process. Exit code 3 while the registry is down, and nothing is written; the same
    command goes on. A schema that the registry does not know is a fault of its record."""
    first = (_key(1), framed(2, avro(_OLD, {"n": 5}))), (_key(2), framed(9, b"x"))
    second = (_key(3), framed(3, avro(_NEW, {"n": 1 << 40, "name": "x"})))
    partition = ScriptedPartition([changes(0, *first)])
    place = tmp_path / "table"
    with ScriptedCluster({TopicPartition("t", 0): partition}) as brokers:
        command = [
            *(sys.executable, "-m", "tidelog.cli.main", "spark", "ingest", "--topic", "t"),
            *("--table", str(place), "--bootstrap-server", brokers.bootstrap_servers),
            *("--key-format", "protobuf", "--value-format", "avro", "--registry", registry.url),
            *("--master", "local[1]", "--output", "json", "--verify"),
        ]

        def result():
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        def trouble():
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 3, done.stderr
            text = " ".join(done.stderr.split())
            assert "cannot be asked: it answers with status 503" in text
            return text

        registry.broken = 503
        assert "hint: check `--registry`" in trouble()
        registry.broken_part = "schemas/"
        assert "status 503, for one of the first 2 keys hint: check `--registry`" in trouble()
        registry.broken = None
        done = result()
        assert (done["rows"], done["quarantined_rows"], done["faults"]) == (1, 1, [])
        partition.batches.append(changes(2, second))
        registry.broken = 503
        assert "status 503, for the key at `t-0` offset 2" in trouble()
        assert DeltaTable(place).to_pyarrow_table().num_rows == 1
        registry.broken = None
        done = result()
        assert (done["rows"], done["quarantined_rows"], done["faults"]) == (1, 0, [])
    rows = DeltaTable(place).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [
        ({"id": 1}, {"n": 5, "name": None}),
        ({"id": 3}, {"n": 1 << 40, "name": "x"}),
    ]
    (bad,) = DeltaTable(place / "_quarantine").to_pyarrow_table().to_pylist()
    assert (bad["offset"], bad["part"]) == (1, "value")
    assert bad["reason"] == "the registry has no schema 9"
