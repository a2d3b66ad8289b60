"""The first voters of a quorum: what an operator may say, and what is written down."""

import pytest

from tidelog.config import parse_node_config
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import UsageError
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, read_snapshot
from tidelog.kraft.voters import BOOTSTRAP_PATH, VoterHistory, write_first_voters
from tidelog.model import Uuid, uuid_to_text
from tidelog.runtime.first_voters import FirstVoters, decide_first_voters, parse_voters

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
