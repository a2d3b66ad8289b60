"""What the parts of a replica share: its high watermark, and what others may know of it."""

import pytest

from tests.unit.kraft.solo import Solo, voters_of
from tidelog.kraft.quorum_state import ElectionState
from tidelog.kraft.roles import Unattached
from tidelog.model import METADATA_PARTITION


def started(state: ElectionState | None = None, **options: object) -> Solo:
    """Replica 1 in this state."""
    solo = Solo(state=state, **options)  # type: ignore[arg-type]
    solo.start()
    return solo


def test_the_high_watermark_only_rises_and_stays_within_the_log() -> None:
    """And the log learns it."""
    solo = started(ElectionState(1), log_epochs=(1, 1, 1))
    solo.core.raise_high_watermark(2)
    assert solo.log.high_watermark == 2
    with pytest.raises(AssertionError, match="HighWatermarkMonotonic: 2 -> 2"):
        solo.core.raise_high_watermark(2)
    with pytest.raises(AssertionError, match="4 beyond 3"):
        solo.core.raise_high_watermark(4)


def test_a_resigned_leader_is_not_the_leader_to_others() -> None:
    """Its own promise still names it; its answers do not."""
    solo = started(ElectionState(3, 1, started().core.identity.key))
    assert solo.core.role.election.leader_id == 1
    assert solo.core.leader_id == -1
    assert solo.core.leader_endpoint is None


def test_a_replica_that_is_not_a_voter_observes() -> None:
    """It never has a turn."""
    solo = started(own_id=9)
    assert not solo.core.is_voter
    assert isinstance(solo.core.role, Unattached)
    assert solo.core.role.deadline() is None
    assert solo.core.peers == tuple(voters_of(3))
    assert solo.log.topic_partition == METADATA_PARTITION
