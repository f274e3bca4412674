"""One attempt: what is placed, refused or failed of some pods of one class, and what is left assumed."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.helpers.pod_group_builders import PROFILE
from tests.helpers.pod_group_cluster import T0, Cluster
from trireme.cache import pod_projection
from trireme.extenders import extenders
from trireme.queueing.pending_pod import PendingPod
from trireme.queueing.pod_info import make_pod_info
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.scheduling_queue import PodBatch
from trireme.scheduling.attempt import Attempt, identifying_fields
from trireme.scheduling.trial_scope import GroupPlacement, TrialScope
from trireme.wire.node_columns import NodeColumns
from trireme.wire.phase_answers import FilterAnswer


def _pods(cluster: Cluster, count: int) -> list[QueuedPodInfo]:
    """Pods of one class and no group, taken from the queue."""
    for number in range(count):
        cluster.add(f"p{number}", "")
    batch = cluster.queue.pop(T0, count)
    assert isinstance(batch, PodBatch)
    return batch.pods


async def _attempt(cluster: Cluster, pods: list[QueuedPodInfo], within: TrialScope | None = None) -> Attempt:
    return await cluster.attempts.attempt((PROFILE, pods[0].record.class_id), pods, within)


def _after_place(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, change: Callable[[], object]) -> None:
    """Have something happen while score is called."""
    place = cluster.place

    async def slow(*arguments: Any) -> Any:
        answer = await place(*arguments)
        change()
        return answer

    monkeypatch.setattr(cluster, "place", slow)


async def test_pods_that_fit_are_assumed_in_order() -> None:
    """If this fails, pods of a batch get each other's nodes."""
    cluster = Cluster([1, 2])
    made = await _attempt(cluster, _pods(cluster, 3))
    assert made.placed is not None
    assert [(one.pod.key, one.node_name) for one in made.placed.assumed] == [
        ("ns/p0", "n0"),
        ("ns/p1", "n1"),
        ("ns/p2", "n1"),
    ]
    assert cluster.nodes == {"p0": "n0", "p1": "n1", "p2": "n1"}


async def test_without_room_all_pods_are_refused_and_none_is_assumed() -> None:
    """If this fails, PostFilter does not run for pods that fit nowhere."""
    cluster = Cluster([0, 0])
    made = await _attempt(cluster, _pods(cluster, 2))
    assert made.refused is not None
    assert (made.placed, made.error, len(made.pods), cluster.nodes) == (None, None, 2, {})


async def test_without_nodes_nothing_is_called() -> None:
    """If this fails, an empty cluster costs calls, and its message is not kube-scheduler's."""
    cluster = Cluster([])
    made = await _attempt(cluster, _pods(cluster, 2))
    assert made.error is not None
    assert (made.error.message, made.error.unschedulable) == ("no nodes available to schedule pods", True)
    assert cluster.asked == []


async def test_if_a_node_vanishes_the_pods_behind_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a pod is assumed on no node, or a later pod takes the turn of an earlier one."""
    cluster = Cluster([1, 1, 1])
    pods = _pods(cluster, 3)
    _after_place(monkeypatch, cluster, lambda: cluster.cache.remove_node("n1"))
    made = await _attempt(cluster, pods)
    assert made.placed is not None
    assert [one.pod.key for one in made.placed.assumed] == ["ns/p0"]
    assert cluster.nodes == {"p0": "n0"}


async def test_a_pod_deleted_meanwhile_is_not_assumed_and_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a deleted pod takes room until the scheduler is restarted."""
    cluster = Cluster([1, 1, 1])
    pods = _pods(cluster, 3)
    _after_place(monkeypatch, cluster, lambda: cluster.queue.delete("ns/p1", "uid-p1", T0))
    made = await _attempt(cluster, pods)
    assert made.placed is not None
    assert [one.pod.key for one in made.placed.assumed] == ["ns/p0", "ns/p2"]
    assert cluster.nodes == {"p0": "n0", "p2": "n2"}


async def test_a_pod_that_reserve_refuses_is_unassumed_alone() -> None:
    """If this fails, one missing volume fails a whole batch, or its pod stays assumed."""
    cluster = Cluster([3])
    cluster.reserving = True
    cluster.unreservable = {"p1"}
    made = await _attempt(cluster, _pods(cluster, 3))
    assert made.placed is not None
    assert [(one.pod.key, one.reserved) for one in made.placed.assumed] == [("ns/p0", True), ("ns/p2", True)]
    assert [(pod.key, failure.message) for pod, failure in made.placed.unreserved] == [
        ("ns/p1", "0/1 nodes are available: 1 no volume left.")
    ]
    assert set(cluster.nodes) == {"p0", "p2"}


async def test_an_attempt_cancelled_in_reserve_leaves_nothing_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the trial of a group that ends in between takes room forever."""
    cluster = Cluster([2])
    cluster.reserving = True
    pods = _pods(cluster, 2)
    monkeypatch.setattr(cluster, "reserve", lambda *_: asyncio.sleep(3600))
    task = asyncio.create_task(_attempt(cluster, pods))
    while not cluster.nodes:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cluster.nodes == {}


async def test_within_a_placement_only_its_nodes_count() -> None:
    """If this fails, members of a group end up in several domains. One node is not known to filter yet."""
    cluster = Cluster([1, 1, 1])
    made = await _attempt(cluster, _pods(cluster, 1), TrialScope("g", GroupPlacement("rack", (2, 9))))
    assert made.placed is not None
    assert [one.node_name for one in made.placed.assumed] == ["n2"]


async def test_extenders_are_called_only_about_nodes_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extender would be sent an empty list for each pod that fits nowhere, and may refuse it as wrong."""
    called: list[str] = []

    class Extenders:
        async def filter_and_prioritize(self, uid: str, class_id: int, filtered: Any, slot: int) -> Any:
            called.append(uid)
            return filtered, ()

    for room, calls in ((0, []), (1, ["uid-p0"])):
        cluster = Cluster([room])
        monkeypatch.setattr(cluster.attempts, "_http_extenders", Extenders())
        made = await _attempt(cluster, _pods(cluster, 1))
        assert (made.refused is None, called) == (bool(room), calls)


def test_what_sets_a_pod_apart_is_its_identity_and_its_nomination() -> None:
    """If this fails, preemption makes room on a second node for a pod that has been promised one."""
    metadata = {"namespace": "ns", "name": "p", "uid": "uid-p", "labels": {"app": "web"}}
    raw = {"metadata": metadata, "spec": {"priority": 7}, "status": {"nominatedNodeName": "n1"}}
    pending = PendingPod(pod_projection.parse(raw), 1, 1)
    found = identifying_fields(QueuedPodInfo(make_pod_info("ns/p", "uid-p", 1, PROFILE, 7, pod=pending), T0))
    assert (found.metadata.namespace, found.metadata.name, found.metadata.uid) == ("ns", "p", "uid-p")
    assert found.status.nominated_node_name == "n1"
    assert not found.HasField("spec")
    assert not found.metadata.labels


@pytest.mark.parametrize(
    ("nodes", "tried"),
    [
        (["n0", "n1", "n2"], [0, 1, 2]),
        (["n0", "n0", "n1"], [0]),
        (["n0", "", "n1"], [0]),
        (["n0", "gone", "n1"], [0]),
        (["", "n0"], []),
    ],
    ids=["all", "the same", "one without", "a node that is gone", "the first without"],
)
async def test_nominated_pods_are_tried_together_as_long_as_their_nodes_are_different_ones(
    nodes: list[str], tried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict about a node counts for one pod there, not for two."""
    cluster = Cluster([1, 1, 1])
    pods = _pods(cluster, len(nodes))
    for pod, node in zip(pods, nodes, strict=True):
        if node:
            cluster.queue.nominator.nominate(pod.record, node)
    called: list[list[int]] = []

    async def filter_nominated(
        profile: str, class_id: int, generation: int, nominees: list[Any], slots: list[int]
    ) -> FilterAnswer:
        assert [nominee.metadata.uid for nominee in nominees] == [pod.uid for pod in pods[: len(slots)]]
        called.append(list(slots))
        columns = NodeColumns.complete(generation, (), np.zeros(3, dtype=np.int16), np.ones(3, dtype=np.int32))
        return FilterAnswer(columns=columns, admitted=len(slots))

    monkeypatch.setattr(cluster, "filter_nominated", filter_nominated, raising=False)
    made = await cluster.attempts.attempt_nominated((PROFILE, pods[0].record.class_id), pods)
    assert called == ([tried] if tried else [])
    assert (made is None) == (not tried)
    if made is not None and made.placed is not None:
        assert [one.slot for one in made.placed.assumed] == tried
        left = [bool(cluster.queue.nominator.node_of(pod.uid)) for pod in pods]
        assert left[: len(tried)] == [False] * len(tried), "what is assumed needs no nomination"


async def test_a_nomination_of_a_pod_that_is_tried_in_a_group_stays_until_the_group_is_bound() -> None:
    """It is withheld, not given up: the group may not fit."""
    cluster = Cluster([1, 1])
    (pod,) = _pods(cluster, 1)
    cluster.queue.nominator.nominate(pod.record, "n1")
    await _attempt(cluster, [pod], TrialScope("g", None))
    assert cluster.queue.nominator.node_of(pod.uid) == "n1"
    alone = Cluster([1, 1])
    (pod,) = _pods(alone, 1)
    alone.queue.nominator.nominate(pod.record, "n1")
    made = await _attempt(alone, [pod])
    assert made.placed is not None
    assert [one.node_name for one in made.placed.assumed] == ["n1"]
    assert alone.queue.nominator.node_of(pod.uid) == ""
    assert alone.asked == [("filter", pod.record.class_id, 1)], "score is not called"


async def test_an_extender_that_fails_ends_the_attempt_by_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Extenders:
        async def filter_and_prioritize(self, *_: object) -> None:
            raise extenders.ExtenderError("no licence")

    cluster = Cluster([1])
    monkeypatch.setattr(cluster.attempts, "_http_extenders", Extenders())
    made = await _attempt(cluster, _pods(cluster, 1))
    assert made.error is not None
    assert (made.error.message, made.error.unschedulable, made.error.nominated_node) == ("no licence", False, "")
    assert [reason.code for each, _ in made.error.statuses for reason in each.reasons] == ["extenderFailed"]
    assert cluster.nodes == {}


@pytest.mark.parametrize("nominated", [False, True])
async def test_a_deferred_resize_that_has_room_places_nothing(nominated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet resizes the pod where it is."""
    cluster = Cluster([1, 1])
    (pod,) = _pods(cluster, 1)
    pending = pod.record.pod
    pod.record = pod.record._replace(pod=dataclasses.replace(pending, parsed=pending.parsed._replace(node_name="n0")))

    async def filter_nominated(*_: object) -> FilterAnswer:
        columns = NodeColumns.complete(1, (), np.zeros(2, dtype=np.int16), np.ones(2, dtype=np.int32))
        return FilterAnswer(columns=columns, admitted=1)

    monkeypatch.setattr(cluster, "filter_nominated", filter_nominated, raising=False)
    if nominated:
        cluster.queue.nominator.nominate(pod.record, "n0")
        made = await cluster.attempts.attempt_nominated((PROFILE, pod.record.class_id), [pod])
    else:
        made = await _attempt(cluster, [pod])
    assert made is not None
    assert made.error is not None
    assert made.error.message == "pod uid-p0(ns/p0) is in the cache, so can't be assumed"
    assert [reason.code for each, _ in made.error.statuses for reason in each.reasons] == ["resizeFits"]
    assert (made.placed, cluster.nodes) == (None, {})
