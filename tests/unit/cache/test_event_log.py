"""The log's lines of what informers tell, in kube-scheduler's words."""

import logging

import pytest

from trireme.cache import event_log
from trireme.v1 import core_pb2
from trireme_kube.componentbase.logs import klog


def _node(name: str = "n", **labels: str) -> core_pb2.Node:
    node = core_pb2.Node()
    node.metadata.name = name
    for key, value in labels.items():
        node.metadata.labels[f"topology.kubernetes.io/{key}"] = value
    return node


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """All lines up to -v=4."""
    caplog.set_level(klog.level_of(4), logger=event_log.log.name)
    return caplog


def _lines(told: pytest.LogCaptureFixture) -> list[tuple[int, str, object]]:
    return [
        (klog.verbosity_of(line.levelno), line.getMessage(), getattr(line, "values", None)) for line in told.records
    ]


def test_a_node_comes_moves_and_goes(told: pytest.LogCaptureFixture) -> None:
    """An operator who looks for when a node came, or left its zone, would find nothing."""
    before, after = _node(region="r", zone="a"), _node(region="r", zone="b")
    event_log.node_changed(None, before)
    event_log.node_changed(before, after)
    event_log.node_changed(after, _node(region="r", zone="b"))
    event_log.node_deleted(after)
    node = {"node": "n"}
    assert _lines(told) == [
        (3, "Add event for node", node),
        (2, "Added node to NodeTree", {**node, "zone": "r:\x00:a"}),
        (4, "Update event for node", node),
        (2, "Removed node from NodeTree", {**node, "zone": "r:\x00:a"}),
        (2, "Added node to NodeTree", {**node, "zone": "r:\x00:b"}),
        (4, "Update event for node", node),
        (3, "Delete event for node", node),
        (2, "Removed node from NodeTree", {**node, "zone": "r:\x00:b"}),
    ]


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({"topology.kubernetes.io/region": "r"}, "r:\x00:"),
        ({"topology.kubernetes.io/zone": "z"}, ":\x00:z"),
        ({"failure-domain.beta.kubernetes.io/region": "r", "failure-domain.beta.kubernetes.io/zone": "z"}, "r:\x00:z"),
        ({"failure-domain.beta.kubernetes.io/zone": "old", "topology.kubernetes.io/zone": "z"}, ":\x00:old"),
        ({"failure-domain.beta.kubernetes.io/zone": "", "topology.kubernetes.io/zone": "z"}, ""),
    ],
)
def test_a_node_is_logged_with_what_it_has_of_region_and_zone(
    told: pytest.LogCaptureFixture, labels: dict[str, str], zone: str
) -> None:
    node = _node()
    node.metadata.labels.update(labels)
    event_log.node_deleted(node)
    assert _lines(told)[-1][2] == {"node": "n", "zone": zone}


@pytest.mark.parametrize(
    ("has_node", "was_pending", "was_placed", "said"),
    [
        pytest.param(False, False, False, [(3, "Add event for unscheduled pod")], id="new"),
        pytest.param(False, True, False, [(4, "Update event for unscheduled pod")], id="changed"),
        pytest.param(
            True,
            True,
            False,
            [(3, "Add event for scheduled pod"), (3, "Delete event for unscheduled pod")],
            id="bound",
        ),
        pytest.param(True, False, False, [(3, "Add event for scheduled pod")], id="somebody else's"),
        pytest.param(True, False, True, [(4, "Update event for scheduled pod")], id="changed on its node"),
    ],
)
def test_log_lines_of_pod_events(
    told: pytest.LogCaptureFixture, has_node: bool, was_pending: bool, was_placed: bool, said: list[tuple[int, str]]
) -> None:
    """A pod's way through the scheduler could not be followed in the log."""
    event_log.pod_changed("ns/p", has_node, was_pending, was_placed)
    assert [(level, text) for level, text, _ in _lines(told)] == said


def test_nothing_is_logged_below_the_log_level(caplog: pytest.LogCaptureFixture) -> None:
    """Each event would cost time for lines that nobody reads."""
    caplog.set_level(logging.INFO, logger=event_log.log.name)
    event_log.node_changed(None, _node())
    event_log.pod_deleted("ns/p", True)
    assert (caplog.records, event_log.logs_each_event()) == ([], False)
