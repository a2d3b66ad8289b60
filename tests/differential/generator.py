"""Sequences of requests, drawn from a seed; the same seed and versions give the same sequence.

A sequence has a theme, which weighs the APIs: members of a classic group, members of a consumer
group, producers and their transactions, administrators, or everything. One step in forty is a
request that no broker serves: an unknown API key, or a version beyond those that are listed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.differential.acl_steps import ACL_DRAWS
from tests.differential.admin_steps import ADMIN_DRAWS, create_first
from tests.differential.drafts import Draft
from tests.differential.group_steps import GROUP_DRAWS
from tests.differential.share_steps import SHARE, SHARE_DRAWS
from tests.differential.steps import Step
from tests.differential.transaction_steps import TRANSACTION_DRAWS
from tidelog.env.prng import Prng
from tidelog.wire.api import ApiKey as K
from tidelog.wire.api import VersionRange

DRAWS: Final = {**ACL_DRAWS, **GROUP_DRAWS, **SHARE_DRAWS, **TRANSACTION_DRAWS, **ADMIN_DRAWS}
"""What draws a request of each API."""

SHORTEST, LONGEST = 15, 60
_UNKNOWN_KEYS: Final = (4, 7, 500, -1, 32_767)
_UNSERVED: Final = (1, 40)


class Theme(NamedTuple):
    """What a sequence is mostly about."""

    group: str
    weights: Mapping[K, int]


_READS = {K.LIST_OFFSETS: 3, K.FETCH: 3, K.DESCRIBE_PRODUCERS: 1, K.DESCRIBE_TRANSACTIONS: 1}
_GROUP_READS = {K.DESCRIBE_GROUPS: 2, K.LIST_GROUPS: 1, K.OFFSET_FETCH: 3, K.OFFSET_COMMIT: 4}
_WRITES = {K.PRODUCE: 6, K.INIT_PRODUCER_ID: 3, K.END_TXN: 4, K.ADD_PARTITIONS_TO_TXN: 4}
THEMES: Final = (
    Theme("classic", {**_GROUP_READS, K.JOIN_GROUP: 9, K.SYNC_GROUP: 7, K.HEARTBEAT: 4}),
    Theme(
        "classic",
        {**_GROUP_READS, K.JOIN_GROUP: 6, K.SYNC_GROUP: 5, K.LEAVE_GROUP: 2, K.DELETE_GROUPS: 1},
    ),
    Theme(
        "consumer", {**_GROUP_READS, K.CONSUMER_GROUP_HEARTBEAT: 12, K.CONSUMER_GROUP_DESCRIBE: 3}
    ),
    Theme(
        "simple", {**_GROUP_READS, K.OFFSET_DELETE: 3, K.DELETE_GROUPS: 2, K.TXN_OFFSET_COMMIT: 3}
    ),
    Theme(SHARE, {**dict.fromkeys(SHARE_DRAWS, 1), K.SHARE_GROUP_HEARTBEAT: 4}),
    Theme("simple", {**_WRITES, **_READS}),
    Theme(
        "simple",
        {
            **_WRITES,
            **_READS,
            K.ADD_OFFSETS_TO_TXN: 4,
            K.TXN_OFFSET_COMMIT: 5,
            K.OFFSET_FETCH: 4,
            K.WRITE_TXN_MARKERS: 1,
        },
    ),
    Theme("simple", dict.fromkeys(ADMIN_DRAWS, 3)),
    Theme("classic", dict.fromkeys(DRAWS, 1)),
)


def draw_sequence(seed: int, versions: Mapping[int, VersionRange]) -> tuple[Step, ...]:
    """The steps of one sequence, for brokers that both serve these versions."""
    prng = Prng(seed)
    draft, theme = Draft(prng, versions), prng.choice(THEMES)
    served = [key for key in DRAWS if draft.serves(key)]
    weighted = [key for key in served for _ in range(theme.weights.get(key, 0))]
    create_first(draft)
    wanted = prng.between(SHORTEST, LONGEST)
    while len(draft.steps) < wanted:
        if prng.chance(*_UNSERVED):
            _draw_unserved(draft, prng)
        else:
            key = prng.choice(served if prng.chance(1, 10) or not weighted else weighted)
            DRAWS[key](draft, theme.group)
    return tuple(draft.steps)


def _draw_unserved(draft: Draft, prng: Prng) -> None:
    """A key of no API, or a body in a version that is not listed."""
    if prng.chance(1, 2):
        step = Step(len(draft.steps), draft.admin_slot, prng.choice(_UNKNOWN_KEYS), 0, {})
    else:
        key = prng.choice(sorted(draft.versions))
        served = draft.versions[key]
        version = prng.choice((served.max_version + 1, served.max_version + 20, 32_767))
        step = Step(len(draft.steps), draft.admin_slot, key, version, {})
    draft.steps.append(step)
