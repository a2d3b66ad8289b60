"""Options of object stores: what is unknown, has no effect, or would lose commits."""

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.tables.addresses import TableAddress

_SECRET = {"aws_secret_access_key": "geheim"}


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("hdfs://host/a", {}, "`hdfs:`, which is not served"),
        (
            "tables/a",
            {"aws_secret_access_key": "geheim"},
            "has no effect on `tables/a`, a directory",
        ),
        ("s3://lake/a", {"aws_regoin": "eu"}, "aws_regoin` is not known for `s3:`"),
        ("gs://lake/a", {"aws_region": "eu"}, "aws_region` is not known for `gs:`"),
        ("s3://key:word@lake/a", {}, "has a port or a password in it"),
        ("s3://lake/a", {"aws_conditional_put": "disabled"}, "not be given to one writer"),
        ("s3://lake/a", {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "is not safe"),
        ("s3://lake/a", {"aws_s3_locking_provider": "dynamodb"}, "is not safe"),
        ("s3://lake/a", {"aws_region": "a", "AWS_REGION": "b"}, "is given twice"),
    ],
)
def test_what_has_no_effect_or_would_lose_commits_is_refused(table, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        TableAddress.of(table, options)
    assert "geheim" not in str(caught.value)


def test_unsafe_settings_of_the_environment_are_refused_too(monkeypatch):
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    with pytest.raises(UsageError, match="the environment's `aws_s3_allow_unsafe_rename=true`"):
        TableAddress.of("s3://lake/a")
    assert TableAddress.of("tables/a").directory is not None


def test_every_address_of_s3_asks_for_conditional_puts():
    said = TableAddress.of("s3://lake/a", {"AWS_CONDITIONAL_PUT": "etag"})
    assert said == TableAddress.of("s3://lake/a")
    assert said.options == (("aws_conditional_put", "etag"),)
    assert TableAddress.of("gs://lake/a").options == ()
