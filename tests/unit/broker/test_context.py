"""What the parts of a node know together."""

from tests.unit.broker.one_node import OneNode


def test_wall_time_follows_the_clock_of_the_driver():
    node = OneNode()
    node.broker.wall_offset_ms = 5
    assert node.broker.wall_ms(node.now) == node.now + 5
