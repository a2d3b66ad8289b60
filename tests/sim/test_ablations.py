"""Ablations: without a safeguard a checker must complain, and with it none."""

import pytest

from tidelog.sim.ablations import SAFEGUARDS, ablate, switched_off
from tidelog.sim.campaign.seeds import QUORUM
from tidelog.sim.regressions.catalogue import REGRESSIONS
from tidelog.sim.scenarios.families import names

QUICK = [one for one in SAFEGUARDS if one.tier == QUORUM]


@pytest.mark.parametrize("safeguard", QUICK, ids=lambda one: one.name)
def test_a_quorum_without_a_safeguard_is_caught(safeguard):
    assert ablate(safeguard, range(1, 151)).violated is not None


CAUGHT_SOON = (
    *("high-watermark-is-replicated", "group-commit-first"),
    *("commits-wait-for-replicas", "coordinators-load-first"),
    *("only-the-generation-commits", "only-the-generation-copies"),
    *("assignments-are-written", "offsets-under-way-are-unstable"),
    *("newest-timestamp-counts", "retention-of-committed"),
)


@pytest.mark.parametrize("name", CAUGHT_SOON)
def test_a_cluster_without_a_safeguard_is_caught(name):
    safeguard = next(one for one in SAFEGUARDS if one.name == name)
    assert ablate(safeguard, range(1, 16)).violated is not None


def test_names_are_unique_and_scenarios_known():
    assert len({one.name for one in SAFEGUARDS}) == len(SAFEGUARDS)
    assert {one.scenario for one in SAFEGUARDS} <= {*names(), *REGRESSIONS}


@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda one: one.name)
def test_switching_off_ends_with_the_block(safeguard):
    before = [target.__dict__.get(name) for target, name, _ in safeguard.patches]
    with switched_off(safeguard):
        for (target, name, _), own in zip(safeguard.patches, before, strict=True):
            assert target.__dict__[name] is not own
    assert [target.__dict__.get(name) for target, name, _ in safeguard.patches] == before
