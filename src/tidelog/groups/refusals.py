"""Why a heartbeat of a consumer group or of a share group is refused, in Kafka's words."""

from collections.abc import Iterable
from enum import StrEnum

from tidelog.errors import ErrorCode, ProtocolError


class GroupWord(StrEnum):
    """What messages call a group."""

    CONSUMER = "consumer group"
    SHARE = "share group"


def refuse_any(faults: Iterable[tuple[bool, str]]) -> None:
    """Raises `ProtocolError` with the text of the first fault that the request has."""
    for is_wrong, text in faults:
        if is_wrong:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, text)


def not_found(word: GroupWord, group_id: str) -> ProtocolError:
    """There is no such group."""
    text = f"{word.capitalize()} {group_id} not found."
    return ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def unknown_member(group_id: str, member_id: str) -> ProtocolError:
    """The group has no such member."""
    text = f"Member {member_id} is not a member of group {group_id}."
    return ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def is_full(word: GroupWord, limit: int) -> ProtocolError:
    """The group takes no further member."""
    text = f"The {word} has reached its maximum capacity of {limit} members."
    return ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def fenced(word: GroupWord, said: int, known: int) -> ProtocolError:
    """The member says another epoch than the one that the coordinator knows."""
    how = "greater" if said > known else "smaller"
    return ProtocolError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {word} member has a {how} member epoch ({said}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )
