"""What `kubectl get` shows: the cells of pods, nodes and events, and ages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import START
from trireme_kube.apimachinery.human_durations import human_duration
from trireme_kube.embedded.api.resources import BY_KEY, RESOURCES
from trireme_kube.embedded.printers.ages import age_text
from trireme_kube.embedded.printers.columns import columns_of
from trireme_kube.embedded.printers.pod_cells import ready_cell, status_cell
from trireme_kube.embedded.printers.tables import table
from trireme_kube.embedded.storage.store import Record

Object = dict[str, Any]


def cells(key: str, obj: Object) -> dict[str, Any]:
    """The row of one object, by column name."""
    return {column.name: column.cell(obj, START + 90) for column in columns_of(BY_KEY[key])}


def pod(status: Object, *, containers: int = 1, deleted: bool = False) -> Object:
    metadata: Object = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}] * containers}, "status": status}


RUNNING = {"ready": True, "restartCount": 2, "state": {"running": {}}}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (pod({"phase": "Pending"}), "Pending"),
        (pod({"phase": "Pending", "conditions": [GATED]}), "SchedulingGated"),
        (pod({"phase": "Running", "containerStatuses": [RUNNING]}), "Running"),
        (pod({"phase": "Running", "containerStatuses": [RUNNING]}, deleted=True), "Terminating"),
        (pod({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (pod({"phase": "Succeeded"}, deleted=True), "Succeeded"),
        (
            pod({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}),
            "Completed",
        ),
        (
            pod(
                {
                    "phase": "Failed",
                    "containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 1}}}],
                }
            ),
            "Error",
        ),
        (pod({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}), "ExitCode:3"),
        (
            pod({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
            "ImagePullBackOff",
        ),
        (pod({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}), "Init:0/0"),
        (pod({"phase": "Running", "reason": "NodeLost"}, deleted=True), "Unknown"),
    ],
)
def test_the_status_word_of_a_pod(obj: Object, word: str) -> None:
    """People and scripts look for these words."""
    assert status_cell(obj) == word


def test_ready_counts_containers() -> None:
    """1/2 tells which pod to look at."""
    assert (
        ready_cell(pod({"phase": "Running", "containerStatuses": [RUNNING, {"ready": False}]}, containers=2)) == "1/2"
    )


def test_a_pods_row() -> None:
    """The columns of `kubectl get pods -o wide`."""
    obj = pod({"phase": "Running", "containerStatuses": [RUNNING], "podIP": "1.2.3.4"})
    obj["spec"]["nodeName"] = "n"
    assert cells("pods", obj) == {
        "Name": "p",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "2",
        "Age": "90s",
        "IP": "1.2.3.4",
        "Node": "n",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


@pytest.mark.parametrize(
    ("spec", "conditions", "status"),
    [
        ({}, [{"type": "Ready", "status": "True"}], "Ready"),
        ({}, [{"type": "Ready", "status": "Unknown"}], "NotReady"),
        ({"unschedulable": True}, [{"type": "Ready", "status": "True"}], "Ready,SchedulingDisabled"),
        ({}, [], "Unknown"),
    ],
)
def test_the_status_of_a_node(spec: Object, conditions: list[Object], status: str) -> None:
    """`kubectl cordon` shows here."""
    obj = {"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}}, "spec": spec}
    row = cells("nodes", {**obj, "status": {"conditions": conditions}})
    assert (row["Status"], row["Roles"]) == (status, "worker")


@pytest.mark.parametrize("form", ["events", "events.events.k8s.io"])
def test_events_of_both_forms_look_alike(form: str) -> None:
    """`kubectl` shows what the scheduler said, whichever group wrote it."""
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": " no room\n",
        "reason": "FailedScheduling",
        "type": "Warning",
        "eventTime": "2026-01-01T00:00:30Z",
    }
    newer = {**core, "regarding": core["involvedObject"], "note": core["message"]}
    row = cells(form, core if form == "events" else newer)
    assert (row["Last Seen"], row["Object"], row["Message"]) == ("60s", "pod/p", "no room")


def test_every_resource_has_a_row_for_an_almost_empty_object() -> None:
    """A missing field must not cost the whole list."""
    for resource in RESOURCES:
        obj = {"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
        made = table(resource, [Record(obj, 1)], START, "None", {})
        assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"]), resource.key
        assert "object" not in made["rows"][0]


def test_a_finished_pod_is_marked_in_its_row() -> None:
    """`kubectl` greys such rows out."""
    made = table(BY_KEY["pods"], [Record(pod({"phase": "Succeeded"}), 1)], START, "Object", {}, headers=False)
    assert made["columnDefinitions"] is None
    assert made["rows"][0]["conditions"][0]["type"] == "Completed"
    assert made["rows"][0]["object"]["metadata"]["name"] == "p"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    """The AGE column, as kubectl writes it."""
    assert human_duration(seconds) == text


@pytest.mark.parametrize("moment", [None, "", "nonsense", 5])
def test_an_age_that_is_not_known(moment: object) -> None:
    """An event without a time is shown, not an error."""
    assert age_text(moment, START) == "<unknown>"
