"""Source and sink over TLS with logins, by the lines of a Kafka client's properties file."""

import pytest
from pyspark.errors import PySparkException

from tidelog.client.security_options import ClientSecurity
from tidelog.config import parse_properties
from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.topics.security import as_options
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    directory = tmp_path_factory.mktemp("secure") / "cluster"
    with LocalCluster(brokers=1, data_dir=directory, secure=True) as running:
        yield running


def options(cluster, user):
    """What source and sink take to connect as a user."""
    file = cluster.security.properties_file(user).read_text()
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        **as_options(parse_properties(file)),
    }


def read(spark, cluster, topic, user="admin"):
    return spark.read.format("tidelog").options(**options(cluster, user), subscribe=topic).load()


def test_topics_are_written_copied_and_ingested_over_tls_by_a_user(spark, secure, tmp_path):
    for topic in ("safe", "copy"):
        secure.create_topic(topic, partitions=2, replication_factor=1)
    admin = options(secure, "admin")
    rows = spark.range(100).repartition(2).selectExpr("CAST(id AS STRING) value")
    once = {"deliveryGuarantee": "exactly-once", "writeId": "safe"}
    for _ in range(2):
        rows.write.format("tidelog").options(**admin, **once, topic="safe").mode("append").save()
    stream = spark.readStream.format("tidelog").options(
        **admin, subscribe="safe", startingOffsets="earliest"
    )
    copied = stream.load().writeStream.format("tidelog").trigger(availableNow=True)
    copied.options(
        **admin, topic="copy", checkpointLocation=str(tmp_path / "c")
    ).start().awaitTermination()
    values = sorted(int(bytes(row["value"])) for row in read(spark, secure, "copy").collect())
    assert values == list(range(100))
    servers = admin.pop("kafka.bootstrap.servers")
    done = ingest(spark, prepare(IngestPlan(servers, "copy", tmp_path / "table", options=admin)))
    assert (done.rows, done.violations) == (100, ())


def test_a_user_without_the_right_and_a_wrong_password_are_named_at_once(spark, secure):
    secure.create_topic("hidden", partitions=1, replication_factor=1)
    with pytest.raises(PySparkException, match="does not let this user read topic `hidden`"):
        read(spark, secure, "hidden", "guest").count()
    wrong = options(secure, "guest")
    wrong["kafka.sasl.jaas.config"] = wrong["kafka.sasl.jaas.config"].replace('="', '="x', 2)
    with pytest.raises(PySparkException, match="hint: ") as caught:
        spark.read.format("tidelog").options(**wrong, subscribe="hidden").load().count()
    assert secure.security.password("guest") not in str(caught.value)
    assert isinstance(secure.security.client("guest"), ClientSecurity)
