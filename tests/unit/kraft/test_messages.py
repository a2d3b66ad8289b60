"""The values that enter and leave the quorum."""

from pathlib import Path

from tidelog.errors import ErrorCode
from tidelog.kraft.messages import NotLeader, ReplicaKey, VoterIdentity
from tidelog.model import Uuid

ROOT = Path(__file__).parents[3]


def test_a_replica_that_does_not_lead_answers_with_kafkas_code() -> None:
    """The controller turns it into its own answer."""
    error = NotLeader("node 2 is follower")
    assert (error.code, error.message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "node 2 is follower")


def test_a_replica_is_its_id_and_its_directory() -> None:
    """A wiped disk is another replica."""
    one = VoterIdentity(2, Uuid(b"\x01" * 16), "cluster")
    wiped = VoterIdentity(2, Uuid(b"\x02" * 16), "cluster")
    assert one.key == ReplicaKey(2, Uuid(b"\x01" * 16))
    assert one.key != wiped.key


def test_every_named_property_is_asserted_somewhere() -> None:
    """The table of `docs/protocol/kraft.md` against the text of assertions."""
    document = (ROOT / "docs/protocol/kraft.md").read_text()
    table = document.partition("## 6. Properties by name")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    names = [name for name in rows if name not in ("name", "---")]
    assert len(names) == 15
    asserted = "".join(
        path.read_text()
        for folder in ("src/tidelog/kraft", "tests/unit/kraft")
        for path in sorted((ROOT / folder).glob("*.py"))
        if path != Path(__file__)
    )
    outside = {"LogMatching": "CommittedForever"}
    missing = [name for name in names if f'"{outside.get(name, name)}' not in asserted]
    assert not missing
