"""Topics that are created because a client asked about them."""

from tests.unit.broker.one_node import OneNode


def test_a_topic_is_asked_for_once_while_it_is_being_made():
    node = OneNode()
    auto_topics = node.broker.auto_topics
    auto_topics.create(["x", "y", "x"], node.now)
    auto_topics.create(["y", "z"], node.now)
    assert auto_topics.creating == {"x", "y", "z"}
    node.settle()
    assert auto_topics.creating == set()
    assert {"x", "y", "z"} <= set(node.broker.image.topics_by_name)
