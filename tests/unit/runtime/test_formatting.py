"""Goal: formatting writes Kafka's `meta.properties` once, and into nothing but an empty place."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.config.test_resolve import config_with
from tidelog.config import parse_node_config
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import UsageError
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, read_snapshot
from tidelog.kraft.voters import BOOTSTRAP_PATH, VoterHistory, write_first_voters
from tidelog.log.checkpoint import decode_properties
from tidelog.model import Uuid, uuid_from_text, uuid_to_text
from tidelog.runtime.formatting import (
    FirstVoters,
    decide_first_voters,
    format_node,
    new_uuid,
    parse_voters,
)
from tidelog.runtime.os_disk import OsDisk

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
NEW, GIVEN = Uuid(b"n" * 16), Uuid(b"g" * 16)
DYNAMIC = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://a:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "a:9093",
    "log.dirs": "data",
}
STATIC = {**DYNAMIC, "controller.quorum.voters": "1@a:9093"}
BROKER = {**DYNAMIC, "process.roles": "broker", "listeners": "PLAINTEXT://a:9092"}
LIST = f"1@a:9093:{uuid_to_text(GIVEN)}, 2@b:9093:{uuid_to_text(NEW)}"


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


# The first voters: what an operator may say, and what is written down -----------------------


def decide(settings: dict[str, str], **given: object):
    return decide_first_voters(parse_node_config(settings), FirstVoters(**given), NEW)


def test_alone_it_votes_with_its_new_directory() -> None:
    voters, directory_id = decide(DYNAMIC, standalone=True)
    assert directory_id == NEW
    assert (list(voters), voters[1].directory_id) == ([1], NEW)
    assert str(voters[1].endpoints[0]) == "CONTROLLER://a:9093"


def test_in_a_list_it_gets_the_directory_that_the_list_gives_it() -> None:
    voters, directory_id = decide(DYNAMIC, initial_controllers=LIST)
    assert (list(voters), directory_id) == ([1, 2], GIVEN)


@pytest.mark.parametrize("settings", [STATIC, BROKER])
def test_whose_voters_are_elsewhere_needs_to_say_nothing(settings: dict[str, str]) -> None:
    assert decide(settings) == ({}, NEW)


def test_a_joining_controller_says_so() -> None:
    assert decide(DYNAMIC, no_initial_controllers=True) == ({}, NEW)


@pytest.mark.parametrize(
    ("settings", "given", "problem"),
    [
        (DYNAMIC, {}, "has no `controller.quorum.voters`"),
        (DYNAMIC, {"standalone": True, "no_initial_controllers": True}, "more than one"),
        (STATIC, {"standalone": True}, "fixes the voters"),
        (BROKER, {"standalone": True}, "`process.roles` is `broker`"),
        ({**DYNAMIC, "node.id": "9"}, {"initial_controllers": LIST}, "does not name node `9`"),
    ],
)
def test_contradictions_are_refused_with_a_hint(settings, given, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        decide(settings, **given)
    assert caught.value.hint


RESERVED = "1@a:9093:" + "A" * 21 + "Q"


@pytest.mark.parametrize(
    "text", ["", "1@a:9093", "1@a:x:" + "A" * 22, "x@a:1:" + "A" * 22, LIST + "," + LIST, RESERVED]
)
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_voters(text, "CONTROLLER")


def test_the_snapshot_at_zero_establishes_version_and_voters() -> None:
    voters, _ = decide(DYNAMIC, standalone=True)
    disk = MemoryDisk()
    write_first_voters(disk, voters, 5)
    content = read_snapshot(disk.read_file(BOOTSTRAP_PATH) or b"", BOOTSTRAP_SNAPSHOT)
    history = VoterHistory({})
    history.restart(0, content.control_entries)
    assert (history.version, dict(history.voters), history.voters_offset) == (1, voters, -1)
