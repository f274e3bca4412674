"""Why nodes refuse a pod: the message's counts, and who refused."""

import dataclasses

import numpy as np
import pytest

from trireme.framework import status
from trireme.scheduling import refusal
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer

_CPU = status.unschedulable("NodeResourcesFit", "Insufficient cpu")
_PORTS = status.unschedulable("NodePorts", "no free ports")
_NAMELESS = status.unschedulable("", "an extender's reason")
_ERROR = status.error("Broken", "odd")
_PENDING = dataclasses.replace(_CPU, code=status.Code.PENDING, plugin="Gang")


def _filtered(*statuses: status.Status) -> FilterAnswer:
    """Filter's answer in which a node each refuses so."""
    distinct = tuple(dict.fromkeys(statuses))
    index = np.array([distinct.index(each) + 1 for each in statuses], dtype=np.int16)
    columns = node_columns.NodeColumns.complete(1, distinct, index, np.zeros(len(statuses), dtype=np.int32))
    return FilterAnswer(columns=columns)


def test_the_message_counts_each_reason_and_the_failure_names_who_refused() -> None:
    failure = refusal.Refusal.of(_filtered(_CPU, _PORTS, _CPU), 3).as_failure()
    assert failure.message == "0/3 nodes are available: 1 no free ports, 2 Insufficient cpu."
    assert failure.rejectors == {"NodeResourcesFit", "NodePorts"}
    assert (failure.unschedulable, failure.pending_plugins) == (True, frozenset())


def test_nodes_are_as_many_as_the_answer_is_about() -> None:
    """Another has come since, and nothing is known of it yet."""
    assert refusal.Refusal.of(_filtered(_CPU, _CPU), 3).as_failure().message.startswith("0/2 nodes are available: 2 ")


def test_a_node_that_refuses_for_another_reason_since_counts_for_that_alone() -> None:
    """The pod before is nominated to it."""
    changed = {0: _CPU, 1: _CPU}
    failure = refusal.Refusal.of(_filtered(_PORTS, _CPU, _PORTS), 3, changed).as_failure()
    assert failure.message == "0/3 nodes are available: 1 no free ports, 2 Insufficient cpu."
    failure = refusal.Refusal.of(_filtered(_PORTS, _CPU), 2, {0: _CPU}).as_failure()
    assert failure.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert failure.rejectors == {"NodeResourcesFit"}


def test_a_reason_without_a_plugin_has_no_rejector() -> None:
    """The pod would wait for the events of a plugin that nobody knows."""
    failure = refusal.Refusal.of(_filtered(_NAMELESS, _PENDING), 2).as_failure()
    assert (failure.rejectors, failure.pending_plugins) == ({"Gang"}, {"Gang"})


def test_an_error_on_any_node_ends_the_attempt_by_error() -> None:
    found = refusal.Refusal.of(_filtered(_CPU, _ERROR), 2)
    assert found.error == _ERROR
    assert (found.as_failure().message, found.as_failure().rejectors) == ("odd", frozenset())
    assert found.as_failure().statuses == ((_ERROR, 1), (_CPU, 1))
    assert refusal.Refusal.of(_filtered(_CPU), 1).error is None


def test_of_several_errors_that_of_most_nodes_ends_the_attempt() -> None:
    """Replicas number them differently: the pod's condition would change with the one that answers."""
    other = status.error("Other", "odder")
    for statuses in ((_ERROR, other, other, _CPU), (other, _CPU, _ERROR, other)):
        found = refusal.Refusal.of(_filtered(*statuses), 4)
        assert (found.error, found.as_failure().message) == (other, "odder")
        assert found.as_failure().statuses[0] == (other, 2)


def test_a_refusal_by_pre_filter_counts_for_all_nodes() -> None:
    filtered = dataclasses.replace(_filtered(), refusal=_PORTS, narrowed_by=frozenset({"NodeAffinity"}))
    failure = refusal.Refusal.of(filtered, 7).as_failure(post_filter="nobody may go", nominated_node="")
    assert failure.message == "0/7 nodes are available: no free ports. nobody may go"
    assert failure.rejectors == {"NodePorts", "NodeAffinity"}
    assert failure.nominated_node == ""


def test_what_post_filter_answered_follows_the_statuses_of_nodes() -> None:
    """A program reads why preemption makes no room, beside what the nodes say."""
    found = refusal.Refusal.of(_filtered(_CPU, _CPU), 2)
    answer = status.unschedulable("DefaultPreemption", "no", reasons=(status.Reason("notHelpful"),))
    assert found.as_failure("no", None, [answer]).statuses == ((_CPU, 2), (answer, 0))
    assert found.as_failure("no", None, [answer]).rejectors == found.as_failure().rejectors
    assert found.as_failure("", "n0").statuses == ((_CPU, 2),)


@pytest.mark.parametrize("refused", [_CPU, _ERROR])
def test_a_refusal_by_reserve_names_the_node(refused: status.Status) -> None:
    failure = refusal.failure_by_reserve(refused, "n0")
    assert failure.placement is not None
    assert (failure.placement.extension_point, failure.placement.node, failure.placement.status) == (
        "Reserve",
        "n0",
        refused,
    )
    assert failure.unschedulable is (refused is _CPU)
    assert failure.message == ("0/1 nodes are available: 1 Insufficient cpu." if refused is _CPU else "odd")
    assert failure.rejectors == ({"NodeResourcesFit"} if refused is _CPU else frozenset())
