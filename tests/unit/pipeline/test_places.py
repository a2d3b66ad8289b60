"""Places that a user names."""

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline import jobs
from tidelog.pipeline.places import local_path


def test_a_place_is_a_path_or_a_file_address() -> None:
    for place in ("a/b", Path("a/b")):
        assert local_path(place) == Path("a/b")
    for address in ("file:/a/b%20c", "file:///a/b%20c", Path("file:///a/b%20c")):
        assert local_path(address) == Path("/a/b c")


@pytest.mark.parametrize("address", ["s3://b/x", Path("s3://b/x"), "abfss:/b", "S3A://b"])
def test_an_address_of_another_scheme_is_refused(address):
    with pytest.raises(UsageError, match="which is not served"):
        local_path(address)


_JOBS = [f"{jobs.__name__}.{one.name}" for one in pkgutil.iter_modules(jobs.__path__)]
_PUBLIC = ("tables.compaction", "tables.checkpoint", "health.events", "spark.spark_session")
_INNER = frozenset(
    (
        *("read_identity", "write_identity", "check_same", "read_planned", "batches_in"),
        *("planned_ranges", "worker_python", "publish", "launch_variables"),
    )
)
"""Parts of ours call these, with paths that were checked."""


@pytest.mark.parametrize("module", [*_JOBS, *(f"tidelog.pipeline.{one}" for one in _PUBLIC)])
def test_public_functions_take_every_form_of_a_path(module):
    for name, function in inspect.getmembers(import_module(module), inspect.isfunction):
        if name.startswith("_") or name in _INNER or function.__module__ != module:
            continue
        for parameter in inspect.signature(function).parameters.values():
            assert "pathlib.Path" not in str(parameter.annotation), f"{name}({parameter})"
