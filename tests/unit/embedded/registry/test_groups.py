"""PodGroups and CompositePodGroups on the embedded API server: what is filled in, refused, kept and shown."""

from __future__ import annotations

import contextlib
import copy
import re
from typing import Any

import pytest

from tests.helpers.embedded_harness import START, Cluster, create, make_registry
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY
from trireme_kube.embedded.printers.columns import columns_of

Object = dict[str, Any]

COMPOSITES = "compositepodgroups.scheduling.k8s.io"
GROUPS = "podgroups.scheduling.k8s.io"
FROM = {"workloadName": "w", "templateName": "t"}
NOT_ONE = "must specify exactly one of: `basic`, `gang`"


def tree(**spec: Any) -> Object:
    """A group of groups; `spec` adds to its spec."""
    policy = {"gang": {"minGroupCount": 2}}
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy, "workloadRef": FROM, **spec}}


def leaf(**spec: Any) -> Object:
    """A group of pods."""
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


def test_a_group_of_groups_gets_what_it_does_not_state() -> None:
    """A scheduler that reads it finds a priority, a policy and a way to be disrupted, as on a real API server."""
    cluster = Cluster(0)
    cluster.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 7})
    made = create(cluster.registry, COMPOSITES, tree(priorityClassName="high"))
    assert made["spec"]["priority"] == 7
    assert made["spec"]["disruptionMode"] == {"single": {}}
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


@pytest.mark.parametrize(
    ("key", "body", "said"),
    [
        pytest.param(COMPOSITES, tree(schedulingPolicy={}), "must specify one of: `basic`, `gang`", id="no-policy"),
        pytest.param(
            COMPOSITES, tree(schedulingPolicy={"basic": {}, "gang": {"minGroupCount": 1}}), NOT_ONE, id="two-policies"
        ),
        pytest.param(COMPOSITES, tree(workloadRef=None), "spec.workloadRef: Required value", id="from-nowhere"),
        pytest.param(
            COMPOSITES, tree(schedulingPolicy={"gang": {}}), "minGroupCount: Required value", id="no-group-count"
        ),
        pytest.param(
            GROUPS,
            leaf(schedulingPolicy={"gang": {"minCount": -1}}),
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
            id="negative-count",
        ),
        pytest.param(
            GROUPS,
            leaf(parentCompositePodGroupName="p"),
            "spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set",
            id="parent-without-workload",
        ),
        pytest.param(
            GROUPS,
            leaf(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
            id="two-topologies",
        ),
    ],
)
def test_a_group_that_is_wrong_is_refused(key: str, body: Object, said: str) -> None:
    """A mistake shows here as it would in a real cluster, not as a group that never fits."""
    with pytest.raises(ApiError) as caught:
        create(make_registry(), key, body)
    assert caught.value.code == 422
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"schedulingPolicy": {"gang": {"minGroupCount": 1}}}, "", id="minimum"),
        pytest.param(
            {"schedulingPolicy": {"basic": {}}},
            "gang: Invalid value: null: field cannot be cleared once set",
            id="gang",
        ),
        pytest.param({"disruptionMode": {"all": {}}}, "spec.disruptionMode: Invalid value: null: field is", id="mode"),
        pytest.param(
            {"parentCompositePodGroupName": "p"}, "parentCompositePodGroupName: Invalid value: null", id="parent"
        ),
    ],
)
def test_only_the_minimum_of_a_group_can_be_changed(spec: Object, said: str) -> None:
    """Trees that change their shape are nothing that a scheduler would meet in a real cluster."""
    registry = make_registry()
    create(registry, COMPOSITES, tree())

    def edit(obj: Object) -> Object:
        return {**copy.deepcopy(obj), "spec": {**obj["spec"], **spec}}

    refused = pytest.raises(ApiError, match=re.escape(said)) if said else contextlib.nullcontext()
    with refused:
        registry.edit_object(BY_KEY[COMPOSITES], "default", "g", edit)


@pytest.mark.parametrize("key", [COMPOSITES, GROUPS])
def test_the_status_is_a_subresource(key: str) -> None:
    """Who writes conditions changes nothing else, and who changes the group no condition."""
    registry = make_registry()
    create(registry, key, tree() if key == COMPOSITES else leaf())
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}

    def both(obj: Object) -> Object:
        return {**obj, "spec": {}, "status": {"conditions": [condition]}}

    written = registry.edit_object(BY_KEY[key], "default", "g", both, subresource="status").object
    assert written["status"]["conditions"] == [condition]
    assert written["spec"]["schedulingPolicy"]


def test_groups_have_the_columns_of_kubectl() -> None:
    """`kubectl get podgroups` says whether a group is scheduled."""

    def cells(key: str, obj: Object) -> list[Any]:
        return [column.cell({**obj, "metadata": {"name": "g"}}, START) for column in columns_of(BY_KEY[key])][:-1]

    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
    assert cells(COMPOSITES, tree()) == ["g", "Gang", "w"]
    assert cells(GROUPS, leaf()) == ["g", "Gang", "<none>", "Pending"]
    assert cells(GROUPS, {**leaf(), "status": {"conditions": [condition]}})[-1] == "Scheduled"
    missed = {**condition, "status": "False"}
    assert cells(GROUPS, {**leaf(), "status": {"conditions": [missed]}})[-1] == "Unschedulable"
    gone = {"type": "DisruptionTarget", "status": "True", "reason": "Preempted"}
    assert cells(GROUPS, {**leaf(), "status": {"conditions": [condition, gone]}})[-1] == "Preempted"
