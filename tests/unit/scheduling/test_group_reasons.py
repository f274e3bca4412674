"""Codes of pod groups that are not scheduled: in their conditions as JSON, and in the failures of their pods."""

import json
from typing import Any

import numpy as np
import pytest

from tests.helpers.pod_group_builders import of_groups, pod_group
from tests.helpers.pod_group_cluster import FULL, Cluster
from trireme.framework import reason_codes, status
from trireme.plugin_api.placements import NoPlacementError
from trireme.plugins.default_preemption import explain as preemption_reasons
from trireme.plugins.gang_scheduling import explain as gang_reasons
from trireme.scheduling import ports
from trireme.v1 import filter_phase_pb2, status_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer

_KNOWN = {
    **reason_codes.OF_ANY,
    **reason_codes.OF_GROUPS,
    **reason_codes.OF_SCHEDULER,
    **gang_reasons.REASONS,
    **preemption_reasons.REASONS,
}


class _Cluster(Cluster):
    json_conditions = True


def _conditions(cluster: Cluster) -> dict[str, tuple[str, list[str]]]:
    """The text and the codes of each group's condition, by name; of a scheduled one the text alone."""
    found = {}
    for action in cluster.written:
        message = action.set_group_condition.condition.message
        document: dict[str, Any] = json.loads(message) if message else {"message": "", "reasons": []}
        for each in document["reasons"]:
            assert set(each["parameters"]) == set(_KNOWN[each["code"]].parameters)
        found[action.pod.name] = document["message"], [each["code"] for each in document["reasons"]]
    return found


def _codes(cluster: Cluster, pod: str) -> list[str]:
    """All codes of the pod's failure: that of its group first."""
    return [reason.code for each, _ in cluster.failures[pod].statuses for reason in each.reasons]


async def test_a_gang_of_which_too_few_fit() -> None:
    cluster = _Cluster([1])
    cluster.group(pod_group("g", 3))
    for number, kind in enumerate("abc"):
        cluster.add(f"p{number}", "g", kind, now=1_000_000.0 + number)
    await cluster.run()
    text, codes = _conditions(cluster)["g"]
    assert (text.startswith("scheduling policy's minimum threshold (3)"), codes) == (True, ["minimumNotMet"])
    assert _codes(cluster, "p2") == ["groupUnschedulable", "minimumNotMet"]
    of_group = cluster.failures["p2"].statuses[1][0]
    assert (of_group.plugin, dict(of_group.reasons[0].parameters)) == (
        "GangScheduling",
        {"required": "3", "scheduled": "1", "unschedulable": "1", "notEvaluated": "1"},
    )
    assert cluster.failures["p2"].statuses[0][0].reasons[0].parameters == (("group", "g"),)


@pytest.mark.parametrize("fault", [None, ports.PhaseUnavailable("nobody")], ids=["refused", "failed"])
async def test_a_pod_fails_as_its_group_does(fault: Exception | None) -> None:
    """By a refusal events wake it, after an error it is tried again in any case."""
    cluster = _Cluster([1])
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g", str(number), now=1_000_000.0 + number)
    cluster.fault = fault
    await cluster.run()
    code = status.Code.UNSCHEDULABLE if fault is None else status.Code.ERROR
    assert {each.code for each, _ in cluster.failures["p2"].statuses} == {code}


async def test_placements_that_cannot_be_scored_are_the_plugins_error() -> None:
    cluster = _Cluster([2, 2], racks=["a", "b"], topology=True)
    cluster.score_status = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin="Far", messages=["odd", "racks"])
    group = pod_group("g", 1)
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    cluster.add("p0", "g")
    await cluster.run()
    assert _conditions(cluster)["g"] == ("odd, racks", ["scoringFailed"])
    assert [each.plugin for each, _ in cluster.failures["p0"].statuses][-1] == "Far"


async def test_without_the_setting_the_condition_is_a_text() -> None:
    cluster = Cluster([1])
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert cluster.conditions[0][2].startswith("scheduling policy's")


async def test_a_phase_that_does_not_answer_is_an_error_of_the_group_and_its_pods() -> None:
    cluster = _Cluster([2])
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g", "a")
    cluster.add("p1", "g", "b")
    cluster.fault = ports.PhaseUnavailable("nobody")
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["memberFailed", "phaseFailed"]
    assert _codes(cluster, "p0") == ["phaseFailed"]
    assert _codes(cluster, "p1") == ["groupFailed", "memberFailed", "phaseFailed"]


class _BrokenNode(_Cluster):
    """A plugin fails on one node, and most nodes are full."""

    async def filter(self, *_: Any, **__: Any) -> FilterAnswer:
        broken = status.error("VolumeBinding", "boom", reasons=(status.Reason("claimLost"),))
        index, capacity = np.array([1, 1, 2], dtype=np.int16), np.zeros(3, dtype=np.int32)
        columns = node_columns.NodeColumns.complete(self.cache.generation, (FULL, broken), index, capacity)
        return FilterAnswer(columns=columns, evaluated=("Fit",))


async def test_an_error_on_a_node_is_the_cause_whatever_other_nodes_say() -> None:
    cluster = _BrokenNode([1, 1, 1])
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g", "a")
    cluster.add("p1", "g", "b")
    await cluster.run()
    document = json.loads(cluster.written[0].set_group_condition.condition.message)
    assert document["message"] == "failed to schedule other pod from a pod group: boom"
    assert [each["code"] for each in document["reasons"]] == ["memberFailed", "claimLost"]
    assert _codes(cluster, "p0") == ["claimLost", "refused"]


@pytest.mark.parametrize(
    ("rooms", "racks", "code"),
    [([1, 1], ["y1", "y2"], "noPlacementFits"), ([2], [""], "noPlacement")],
    ids=["no domain has room", "no domain"],
)
async def test_a_group_that_fits_in_no_domain(rooms: list[int], racks: list[str], code: str) -> None:
    cluster = _Cluster(rooms, racks=racks, topology=True)
    group = pod_group("g", 2)
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    codes = _conditions(cluster)["g"][1]
    assert codes == ([code, "minimumNotMet"] if code == "noPlacementFits" else [code])
    if code == "noPlacement":
        assert _codes(cluster, "p1") == ["groupUnschedulable", "noPlacement"]


async def test_groups_below_and_above_one_that_fails() -> None:
    cluster = _Cluster([2, 1], composite=True)
    cluster.group(of_groups("root", 2))
    cluster.group(pod_group("a", 2, parent="root"))
    cluster.group(pod_group("b", 2, parent="root"))
    for name in ("a0", "a1", "b0", "b1"):
        cluster.add(name, name[0])
    await cluster.run()
    codes = {name: found for name, (_, found) in _conditions(cluster).items()}
    assert codes["root"][-1] == "minimumNotMet"
    assert codes["a"] == ["ancestorUnschedulable", *codes["root"]]
    assert codes["b"][-1] == "minimumNotMet"
    assert _codes(cluster, "a0") == ["groupUnschedulable", *codes["a"]]


async def test_an_error_below_is_one_of_the_whole_tree() -> None:
    cluster = _Cluster([2], composite=True)
    cluster.group(of_groups("root", 2))
    cluster.group(pod_group("a", 1, parent="root"))
    cluster.group(pod_group("b", 1, parent="root"))
    cluster.add("a0", "a")
    cluster.add("b0", "b")
    cluster.fault = ports.PhaseUnavailable("nobody")
    await cluster.run()
    codes = {name: found for name, (_, found) in _conditions(cluster).items()}
    assert codes["root"] == ["childFailed", "memberFailed", "phaseFailed"]
    assert codes["b"] == ["ancestorFailed", *codes["root"]]


async def test_objects_that_contradict_each_other() -> None:
    cluster = _Cluster([2])
    group = pod_group("g", 1)
    group.spec.priority = 5
    cluster.group(group)
    cluster.add("p0", "g", priority=1)
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["groupsDisagree"]
    assert _codes(cluster, "p0") == ["groupsDisagree"]


async def test_a_preemption_that_does_not_help_adds_why() -> None:
    cluster = _Cluster([1], post_filters=("DefaultPreemption",))
    cluster.occupy("low", "n0")
    cluster.group(pod_group("g", 2))
    for number in range(2):
        cluster.add(f"p{number}", "g")
    cluster.victims = ("low",)
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["minimumNotMet", "victimsNotEnough"]


async def test_victims_that_cannot_be_deleted() -> None:
    cluster = _Cluster([1], post_filters=("DefaultPreemption",), asynchronous=False)
    cluster.occupy("low", "n0")
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    cluster.victims, cluster.refusal = ("low",), "forbidden"
    cluster.reprieve = _evict_low
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["evictionFailed"]
    assert _codes(cluster, "p0") == ["groupFailed", "evictionFailed"]


def _evict_low(request: Any) -> Any:
    response = filter_phase_pb2.ReprievePodGroupVictimsResponse(status={"code": status_pb2.CODE_SUCCESS})
    response.actions.add(pod={"name": "low"}, evict={"message": "go"})
    return response


@pytest.mark.parametrize("of_groups_too", [False, True], ids=["a group", "a group of groups"])
async def test_a_placement_that_does_not_hold_any_more(of_groups_too: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster([2, 2], racks=["a", "b"], topology=True, composite=of_groups_too)
    cluster.totals = [1, 2]
    group = pod_group("g", 1, parent="root" if of_groups_too else "")
    group.spec.scheduling_constraints.topology.add(key="rack")
    if of_groups_too:
        cluster.group(of_groups("root", 1))
    cluster.group(group)
    cluster.add("p0", "g")
    score = cluster.score_pod_group_placements

    async def then_lose_node(request: Any) -> Any:
        answer = await score(request)
        cluster.cache.remove_node("n1")
        return answer

    monkeypatch.setattr(cluster, "score_pod_group_placements", then_lose_node)
    await cluster.run()
    text, codes = _conditions(cluster)["root" if of_groups_too else "g"]
    assert text.endswith("failed to assume the subtree: node n1 is gone")
    assert codes == [*(["childFailed"] if of_groups_too else []), "assumeFailed"]


async def test_a_group_without_claims_has_none_to_release() -> None:
    cluster = _Cluster([1], post_filters=("DynamicResources",))
    cluster.group(pod_group("g", 2))
    for number in range(2):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["minimumNotMet", "noClaimToRelease"]


async def test_a_group_of_which_some_run_and_no_other_pod_fits() -> None:
    cluster = _Cluster([1])
    cluster.group(pod_group("g", 1))
    cluster.occupy("runs", "n0", "g")
    cluster.add("p0", "g")
    await cluster.run()
    assert _conditions(cluster)["g"] == ("no pods were schedulable", ["noPodPlaced"])


async def test_a_group_that_is_gone_when_its_turn_comes() -> None:
    cluster = _Cluster([3])
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    batch = cluster.queue.pop(1_000_000.0, 9)
    assert batch is not None
    cluster.groups.remove_group("ns/g", "uid-of-g", 1_000_000.0)
    await cluster.run_group(batch)
    ((found, _),) = cluster.failures["p0"].statuses
    assert [(reason.code, reason.parameters) for reason in found.reasons] == [("groupNotFound", (("group", "g"),))]


async def test_a_group_that_was_refused_before_any_pod_was_tried() -> None:
    cluster = _Cluster([3], post_filters=("DynamicResources",))
    cluster.group(pod_group("g", 2))
    cluster.add("p0", "g")
    cluster.add("p1", "g")
    batch = cluster.queue.pop(1_000_000.0, 9)
    assert batch is not None
    cluster.queue.delete("ns/p1", "uid-p1", 1_000_000.0)
    await cluster.run_group(batch)
    assert _conditions(cluster)["g"][1] == ["failed"]


async def test_claims_that_are_released_with_success_add_no_reason() -> None:
    cluster = _Cluster([1], post_filters=("DynamicResources",))
    group = pod_group("g", 2)
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g")
    cluster.release = lambda request: filter_phase_pb2.ListReleasableClaimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_SUCCESS, messages=["released"])
    )
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["minimumNotMet"]


async def test_why_claims_are_not_released_is_a_reason() -> None:
    cluster = _Cluster([1], post_filters=("DynamicResources",))
    group = pod_group("g", 2)
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g")
    reasons = [status_pb2.Reason(code="noClaimToRelease")]
    refused = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["none"], reasons=reasons)
    cluster.release = lambda request: filter_phase_pb2.ListReleasableClaimsResponse(status=refused)
    await cluster.run()
    assert _conditions(cluster)["g"][1] == ["minimumNotMet", "noClaimToRelease"]


async def test_a_member_that_is_deleted_while_it_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster([3])
    cluster.group(pod_group("g", 1))
    for number in range(2):
        cluster.add(f"p{number}", "g")
    place = cluster.place

    async def then_delete(*arguments: Any) -> Any:
        answer = await place(*arguments)
        cluster.queue.delete("ns/p1", "uid-p1", 1_000_000.0)
        return answer

    monkeypatch.setattr(cluster, "place", then_delete)
    await cluster.run()
    assert cluster.nodes == {"p0": "n0"}
    assert (cluster.text("p1"), _codes(cluster, "p1")) == ("the pod is gone", ["podGone"])


async def test_a_plugin_that_generates_wrong_placements() -> None:
    class Wrong:
        def generate(self, *_: object) -> Any:
            raise NoPlacementError("no such rack")

    cluster = _Cluster([3], topology=True, generators={"Wrong": Wrong()})
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    await cluster.run()
    assert _conditions(cluster)["g"] == ("no such rack", ["placementInvalid"])
    assert [each.plugin for each, _ in cluster.failures["p0"].statuses][-1] == "Wrong"
