"""Goal: formatting writes Kafka's `meta.properties` once, and into nothing but an empty place."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.config.test_resolve import config_with
from tests.unit.runtime.test_first_voters import DYNAMIC
from tidelog.config import parse_node_config
from tidelog.errors import UsageError
from tidelog.log.checkpoint import decode_properties
from tidelog.model import uuid_from_text, uuid_to_text
from tidelog.runtime.first_voters import FirstVoters
from tidelog.runtime.formatting import format_node, new_uuid
from tidelog.runtime.os_disk import OsDisk

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def test_a_missing_directory_is_made_and_formatted(tmp_path: Path) -> None:
    config = replace(config_with(), log_dir=str(tmp_path / "a" / "b"))
    assert format_node(config, CLUSTER)
    written = decode_properties((tmp_path / "a" / "b" / "meta.properties").read_bytes())
    assert written["cluster.id"] == CLUSTER
    assert written["node.id"] == "2"
    assert len(uuid_from_text(written["directory.id"])) == 16


def test_a_formatted_directory_is_refused_or_left_alone(tmp_path: Path) -> None:
    config = replace(config_with(), log_dir=str(tmp_path))
    format_node(config, CLUSTER)
    before = (tmp_path / "meta.properties").read_bytes()
    with pytest.raises(UsageError, match="already formatted"):
        format_node(config, "other")
    with pytest.raises(UsageError, match=f"belongs to cluster `{CLUSTER}`, not to `other`"):
        format_node(config, "other", ignore_formatted=True)
    assert not format_node(config, CLUSTER, ignore_formatted=True)
    assert (tmp_path / "meta.properties").read_bytes() == before


def test_a_refusal_leaves_the_first_voters_as_they_are(tmp_path: Path) -> None:
    """They name the directory's id: others would leave the node without its vote."""
    config = parse_node_config({**DYNAMIC, "log.dirs": str(tmp_path)})
    alone = FirstVoters(standalone=True)
    format_node(config, CLUSTER, first_voters=alone)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.suffix == ".checkpoint" for path in before)
    with pytest.raises(UsageError, match="already formatted"):
        format_node(config, CLUSTER, first_voters=alone)
    assert {path: path.read_bytes() for path in before} == before


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"it has `thesis\.txt`"):
        format_node(replace(config_with(), log_dir=str(tmp_path)), CLUSTER)
    assert not (tmp_path / "meta.properties").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    holder = OsDisk(str(tmp_path))
    holder.lock()
    with pytest.raises(UsageError, match="in use by another process"):
        format_node(replace(config_with(), log_dir=str(tmp_path)), CLUSTER)
    holder.unlock()


def test_new_ids_never_begin_with_a_dash() -> None:
    assert not any(uuid_to_text(new_uuid()).startswith("-") for _ in range(300))
