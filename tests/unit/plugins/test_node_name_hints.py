"""What wakes pods that NodeName refused."""

from tests.helpers.hint_answers import QUEUE, Hints, node, pod


def test_a_new_node_may_be_the_named_one() -> None:
    assert Hints("NodeName").about(pod(), "Node", "Add", None, node()) == QUEUE
