"""What wakes pods that GangScheduling refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, entry, on, pod

Json = dict[str, Any]

GROUPED = {"GenericWorkload": True}


def _member(group: str, name: str = "p", **more: Any) -> Json:
    return pod(name, schedulingGroup={"podGroupName": group}, **more)


def _group(name: str, minimum: int | None = 2) -> Json:
    policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    return entry("PodGroup", name, "ns", spec={"schedulingPolicy": policy})


@pytest.mark.parametrize(
    ("waiting", "resource", "old", "new", "expected"),
    [
        pytest.param(_member("g"), "UnscheduledPod", None, _member("g", "q"), QUEUE, id="one-more"),
        pytest.param(_member("g"), "AssignedPod", None, on("n", _member("g", "q")), QUEUE, id="one-more-with-a-node"),
        pytest.param(_member("g"), "UnscheduledPod", None, _member("h", "q"), SKIP, id="of-another-group"),
        pytest.param(_member("g"), "UnscheduledPod", None, _member("g", "q", namespace="x"), SKIP, id="elsewhere"),
        pytest.param(_member("g"), "UnscheduledPod", None, pod("q"), SKIP, id="of-no-group"),
        pytest.param(pod(), "UnscheduledPod", None, _member("g", "q"), SKIP, id="in-no-group"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", None, _group("g"), QUEUE, id="its-group"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", None, _group("h"), SKIP, id="another-group"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("g", 3), _group("g"), QUEUE, id="fewer-do"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("g", 2), _group("g"), SKIP, id="as-many"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("g", None), _group("g"), SKIP, id="no-gang"),
        pytest.param(
            _member("g"), "scheduling.k8s.io/PodGroup", _group("g", 3), _group("g", None), SKIP, id="gang-no-more"
        ),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("h", 3), _group("h"), SKIP, id="of-another"),
    ],
)
def test_gangs(waiting: Json, resource: str, old: Json | None, new: Json, expected: str) -> None:
    """Only a change of its own gang wakes a pod."""
    hints = Hints("GangScheduling", features=GROUPED)
    assert hints.about(waiting, resource, "Add" if old is None else "Update", old, new) == expected


def _of_groups(name: str, parent: str | None = None) -> Json:
    spec = {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": parent}
    return entry("CompositePodGroup", name, "ns", spec=spec)


def _in(parent: str, name: str, minimum: int = 2) -> Json:
    group = _group(name, minimum)
    group["spec"]["parentCompositePodGroupName"] = parent
    return group


# Two trees, root (g, m (h)) and other (o); and groups with an unknown root.
TREES = [
    _of_groups("root"),
    _of_groups("m", "root"),
    _of_groups("other"),
    _of_groups("round", "round"),
    *[_in(parent, name) for parent, name in (("root", "g"), ("m", "h"), ("other", "o"), ("none", "n"), ("round", "r"))],
]


COMPOSITE = "scheduling.k8s.io/CompositePodGroup"


@pytest.mark.parametrize(
    ("waiting", "resource", "new", "expected"),
    [
        pytest.param(_member("g"), "UnscheduledPod", _member("h", "q"), QUEUE, id="a-pod-of-the-tree"),
        pytest.param(_member("g"), "UnscheduledPod", _member("o", "q"), SKIP, id="a-pod-of-another-tree"),
        pytest.param(_member("h"), "scheduling.k8s.io/PodGroup", _in("root", "g"), QUEUE, id="a-group-of-the-tree"),
        pytest.param(_member("h"), COMPOSITE, _of_groups("root"), QUEUE, id="its-root"),
        pytest.param(_member("g"), COMPOSITE, _of_groups("m", "root"), QUEUE, id="a-part-of-its-tree"),
        pytest.param(_member("g"), COMPOSITE, _of_groups("other"), SKIP, id="another-root"),
        pytest.param(_member("n"), "UnscheduledPod", _member("n", "q"), SKIP, id="no-root"),
        pytest.param(_member("r"), COMPOSITE, _of_groups("round", "round"), SKIP, id="round-in-a-circle"),
    ],
)
def test_gangs_in_trees(waiting: Json, resource: str, new: Json, expected: str) -> None:
    """Whatever happens to one group of a tree may complete it; without the gate parents mean nothing."""
    gates = dict.fromkeys((*GROUPED, "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True)
    assert Hints("GangScheduling", TREES, gates).about(waiting, resource, "Add", None, new) == expected
    without = Hints("GangScheduling", TREES, GROUPED)
    assert "scheduling.k8s.io/CompositePodGroupAdd" not in without.events
    if resource == "UnscheduledPod":
        same = waiting["spec"]["schedulingGroup"] == new["spec"]["schedulingGroup"]
        assert without.about(waiting, resource, "Add", None, new) == (QUEUE if same else SKIP)


def _gang_of_groups(minimum: int, name: str = "root") -> Json:
    return entry("CompositePodGroup", name, "ns", spec={"schedulingPolicy": {"gang": {"minGroupCount": minimum}}})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(_member("h"), _gang_of_groups(3), _gang_of_groups(2), QUEUE, id="fewer-do"),
        pytest.param(_member("h"), _gang_of_groups(2), _gang_of_groups(2), SKIP, id="as-many"),
        pytest.param(_member("o"), _gang_of_groups(3), _gang_of_groups(2), SKIP, id="another-tree"),
        pytest.param(_member("h"), _gang_of_groups(3), _of_groups("root"), SKIP, id="gang-no-more"),
    ],
)
def test_a_gang_of_groups_that_needs_fewer_of_them_is_woken(waiting: Json, old: Json, new: Json, expected: str) -> None:
    """kubernetes/kubernetes#141023: the flush after five minutes helped."""
    gates = dict.fromkeys((*GROUPED, "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True)
    assert Hints("GangScheduling", TREES, gates).about(waiting, COMPOSITE, "Update", old, new) == expected
