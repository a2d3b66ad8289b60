"""What holds in consumer groups and in share groups alike."""

from collections.abc import Iterable, Mapping

from tidelog.rsm.timers import Timers


def check_epochs(
    group_id: str, members: Mapping[str, int], assignment_epoch: int, group_epoch: int
) -> None:
    """Asserts that no member's epoch is past the assignment's, nor that one past the group's."""
    for member_id, epoch in members.items():
        assert epoch <= assignment_epoch, (
            f"{member_id} of {group_id} is at {epoch}, past {assignment_epoch}"
        )
    assert assignment_epoch <= group_epoch, (
        f"{group_id}: assigned for {assignment_epoch}, the group is at {group_epoch}"
    )


def check_watched(
    sessions: Timers[tuple[str, str]], group_id: str, member_ids: Iterable[str]
) -> None:
    """Asserts that every member of a group has a session that can end."""
    for member_id in member_ids:
        assert sessions.has((group_id, member_id)), f"{member_id} of {group_id} is not watched"
