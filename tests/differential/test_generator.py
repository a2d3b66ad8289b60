"""The generator draws what can be sent, in every version, and the same for the same seed."""

from tests.differential.admin_steps import CONFIGS
from tests.differential.generator import DRAWS, draw_sequence
from tests.differential.sides import encoded
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener

VERSIONS = {int(key): one for key, one in APIS.advertised(Listener.BROKER).items()}


def test_every_drawn_step_can_be_encoded_before_anything_was_answered() -> None:
    drawn = set()
    for seed in range(150):
        for step in draw_sequence(seed, VERSIONS):
            encoded(step, {}, "run-1-")
            drawn.add(step.key)
    assert {int(key) for key in DRAWS if key in VERSIONS} <= drawn


def test_the_same_seed_draws_the_same_sequence() -> None:
    assert draw_sequence(7, VERSIONS) == draw_sequence(7, VERSIONS)
    assert draw_sequence(7, VERSIONS) != draw_sequence(8, VERSIONS)


def test_no_record_is_old_enough_to_be_deleted() -> None:
    """When that happens depends on when each broker looks."""
    twenty_years_ms = 20 * 365 * 24 * 3600 * 1000
    ages = [value for name, value in CONFIGS if name == "retention.ms" and value.isdigit()]
    assert ages and all(int(each) > twenty_years_ms for each in ages)
