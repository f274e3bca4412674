"""Which events an update of a pod or node is taken for, against what Kubernetes' own scheduling framework says."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from trireme.framework import cluster_event
from trireme.v1 import core_pb2
from trireme_kube.apimachinery.decode import decode

DATA = Path(__file__).parents[2] / "conformance" / "data" / "hints.jsonl.gz"


def _rows() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


UPDATES = [row for row in _rows() if "changes" in row["expect"]]
REGISTRATIONS = [row for row in _rows() if "events" in row["expect"]]


@pytest.mark.parametrize("row", UPDATES, ids=[row["name"] for row in UPDATES])
def test_an_update_is_taken_for_the_events_that_kube_scheduler_makes_of_it(row: dict[str, Any]) -> None:
    case = row["case"]
    if case["event"]["resource"] == "Node":
        old_node, new_node = (decode(case[side], core_pb2.Node) for side in ("old", "new"))
        events = cluster_event.node_update_events(old_node, new_node)
    else:
        old_pod, new_pod = (decode(case[side], core_pb2.Pod) for side in ("old", "new"))
        target = case["event"]["resource"] == "TargetPod"
        events = cluster_event.pod_update_events(old_pod, new_pod, target=target)
    assert [event.label for event in events] == row["expect"]["changes"]


@pytest.mark.parametrize("row", REGISTRATIONS, ids=[row["name"] for row in REGISTRATIONS])
def test_every_registration_of_the_default_plugins_can_be_parsed(row: dict[str, Any]) -> None:
    for expected in row["expect"]["events"]:
        registered = cluster_event.parse(expected["resource"], expected["actions"])
        assert registered.resource in list(cluster_event.Resource)
        assert sorted(cluster_event.action_names(registered.action)) == sorted(expected["actions"])


def test_the_data_is_there() -> None:
    """The fixture is complete: the tests above have something to check."""
    assert len(UPDATES) > 200
    assert len(REGISTRATIONS) > 10


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ({"cpu": "1.0001"}, {"cpu": "1.0002"}, "ScaleUp"),
        ({"cpu": "1.0002"}, {"cpu": "1.0001"}, "ScaleDown"),
        ({"memory": "1000u"}, {"memory": "1001u"}, "ScaleUp"),
        ({"foo": "1"}, {"foo": "2"}, "ScaleUp"),
        ({"foo": "1"}, {}, "ScaleDown"),
        ({}, {"cpu": "0"}, "ScaleUp"),
        ({"cpu": "1000m"}, {"cpu": "1"}, ""),
    ],
)
def test_requests_are_compared_exactly(old: dict[str, str], new: dict[str, str], action: str) -> None:
    """Every resource, and less than the scheduler counts, as the framework of v1.38 says in each of these cases."""
    pods = [{"spec": {"nodeName": "n", "containers": [{"resources": {"requests": side}}]}} for side in (old, new)]
    events = cluster_event.pod_update_events(*(decode(pod, core_pb2.Pod) for pod in pods), target=False)
    assert [event.label for event in events] == [f"AssignedPodUpdate{'Pod' + action if action else ''}"]
