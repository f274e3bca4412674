"""What nodes do to the pods of the simulated cluster: none may vanish there that the cluster still has."""

import pathlib
from collections.abc import AsyncIterator

import pytest

from tests.helpers.shadow_cluster import Json, Own, node_event
from trireme.scheduling import in_memory
from trireme.shadow import measures, settings
from trireme.v1 import bind_pb2
from trireme_kube.client.informers.watch import Event, EventKind

_CORDON: Json = {"unschedulable": True}
_ALONE: Json = {"metadata": {"ownerReferences": []}}


def _taint(effect: str) -> Json:
    return {"taints": [{"key": "broken", "effect": effect}]}


@pytest.fixture
async def own() -> AsyncIterator[Own]:
    """A node "a" of four CPUs, and the scheduler of the simulated cluster."""
    made = Own("a")
    async with made.scheduling():
        yield made


async def _place_on_a_here_and_on_b_there(own: Own, *names: str, **more: object) -> None:
    """The pods get the node "a" in the simulated cluster, which has no other then, and "b" in the cluster."""
    own.show(*(own.pods.added(name, **more) for name in names))
    await own.until(lambda: all(own.node_of(name) == "a" for name in names))
    own.own.on_nodes([node_event("b")])
    own.show(*(own.pods.event(name, "b", **more) for name in names))


def _measured(own: Own) -> measures.Measures:
    own.own.model.publish()
    return measures.measure(own.own.model.snap)


async def test_pods_of_a_removed_node_are_placed_anew(own: Own) -> None:
    """They run in the cluster, so no deletion of them ever comes: there would be less to do from then on."""
    await _place_on_a_here_and_on_b_there(own, "one", "two")
    own.own.on_nodes([node_event("a", kind=EventKind.DELETED)])
    assert (own.own.pending_here, own.own.pending_there, own.own.counts.node_losses) == (2, 0, 2)
    await own.until(lambda: own.own.pending_here == 0)
    assert {own.node_of(name) for name in ("one", "two")} == {"b"}
    assert (_measured(own).pods, _measured(own).cpu) == (2, 0.5)


@pytest.mark.slow
async def test_pods_of_a_removed_node_wait_where_there_is_no_room(own: Own) -> None:
    """What does not fit any more must be seen as pending: that is what a comparison is for."""
    await _place_on_a_here_and_on_b_there(own, "one")
    own.own.on_nodes([node_event("a", kind=EventKind.DELETED), node_event("b", kind=EventKind.DELETED)])
    await own.until(lambda: not own.own.model.is_busy)
    assert (own.own.pending_here, own.own.counts.node_losses) == (1, 1)
    own.own.on_nodes([node_event("c")])
    await own.until(lambda: own.node_of("one") == "c")
    assert own.own.pending_here == 0


async def test_a_pod_without_a_controller_is_placed_anew_too(own: Own) -> None:
    """It still runs in the cluster, which did not place it on that node: without it the two loads would differ."""
    await _place_on_a_here_and_on_b_there(own, "alone", **_ALONE)
    own.own.on_nodes([node_event("a", kind=EventKind.DELETED)])
    await own.until(lambda: own.node_of("alone") == "b")
    assert (own.own.missing, own.own.counts.evicted) == (0, 0)


@pytest.mark.parametrize("batches", [1, 2], ids=["at-once", "one-after-another"])
async def test_a_node_that_returns_under_its_name_has_no_pods(own: Own, batches: int) -> None:
    """The pods of the node before would come alive on a machine that never had them."""
    await _place_on_a_here_and_on_b_there(own, "one")
    own.own.on_nodes([node_event("b", kind=EventKind.MODIFIED, spec=_CORDON)])
    events = [node_event("a", kind=EventKind.DELETED), node_event("a", uid="second")]
    for batch in [events] if batches == 1 else [[event] for event in events]:
        own.own.on_nodes(batch)
    assert own.own.counts.node_losses == 1
    assert own.own.pending_here == 1
    await own.until(lambda: own.node_of("one") == "a")


@pytest.mark.parametrize("uid", ["", "second"], ids=["gone", "another-of-its-name"])
async def test_a_node_that_a_list_leaves_out_is_removed(own: Own, uid: str) -> None:
    """No event of a removal comes while the watch is interrupted."""
    await _place_on_a_here_and_on_b_there(own, "one")
    listed = [node_event("b", kind=EventKind.LISTED)]
    if uid:
        listed.append(node_event("a", kind=EventKind.LISTED, uid=uid))
    own.own.on_nodes([Event(EventKind.LIST_START, None), *listed, Event(EventKind.LIST_END, None)])
    assert own.own.counts.node_losses == 1
    await own.until(lambda: own.own.pending_here == 0 and own.node_of("one") != "")


async def test_a_pod_that_the_cluster_has_on_the_removed_node_leaves_as_the_watch_says(own: Own) -> None:
    """The cluster deletes it and makes another, which arrives in both: placed anew, it would be there twice."""
    own.show(own.pods.event("old", "a", kind=EventKind.LISTED))
    own.own.on_nodes([node_event("b"), node_event("a", kind=EventKind.DELETED)])
    assert (own.own.counts.node_losses, own.own.pending_here) == (0, 0)
    assert _measured(own).pods == 0
    own.show(own.pods.added("new"), own.pods.deleted("old", "a"))
    await own.until(lambda: own.node_of("new") == "b")
    assert _measured(own).pods == 1


async def test_a_pod_that_is_terminating_is_not_placed_anew(own: Own) -> None:
    """It leaves the cluster, and its replacement has arrived already."""
    await _place_on_a_here_and_on_b_there(own, "one")
    own.show(own.pods.event("one", "b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    own.own.on_nodes([node_event("a", kind=EventKind.DELETED)])
    assert (own.own.counts.node_losses, own.own.pending_here) == (0, 0)
    own.show(own.pods.deleted("one", "b"))
    assert list(own.own.model.cache.pods()) == []


@pytest.mark.slow
async def test_a_pod_whose_node_is_removed_before_it_is_bound_is_placed_anew(own: Own) -> None:
    """It is not bound to the node, so it has lost none."""
    own.show(own.pods.added("one"))
    await own.until(lambda: any(pod.assumed for pod in own.own.model.cache.pods()))
    own.own.on_nodes([node_event("a", kind=EventKind.DELETED)])
    await own.until(lambda: not list(own.own.model.cache.pods()))
    assert (own.own.pending_here, own.own.counts.node_losses) == (1, 0)
    own.own.on_nodes([node_event("b")])
    await own.until(lambda: own.node_of("one") == "b")


@pytest.mark.slow
async def test_a_pod_that_is_bound_while_its_node_is_removed_is_placed_anew(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal comes between the binding and its event, when the pod is on no node yet."""
    bind = in_memory.Binder.bind
    removed = iter([node_event("a", kind=EventKind.DELETED)])

    async def bind_and_remove(
        self: in_memory.Binder, request: bind_pb2.BindRequest
    ) -> AsyncIterator[bind_pb2.BindResult]:
        async for result in bind(self, request):
            own.own.on_nodes(list(removed))
            yield result

    monkeypatch.setattr(in_memory.Binder, "bind", bind_and_remove)
    own.show(own.pods.added("one"))
    await own.until(lambda: own.own.counts.node_losses == 1)
    assert own.own.pending_here == 1
    own.own.on_nodes([node_event("b")])
    await own.until(lambda: own.node_of("one") == "b")


async def test_a_pod_that_loses_its_node_within_a_list_is_still_there_after_it(own: Own) -> None:
    """The list has shown the pod under its earlier UID; its end must not remove the pod under the new one."""
    await _place_on_a_here_and_on_b_there(own, "one")
    own.show(Event(EventKind.LIST_START, None), own.pods.event("one", "b", kind=EventKind.LISTED))
    own.own.on_nodes([node_event("a", kind=EventKind.DELETED)])
    own.show(Event(EventKind.LIST_END, None))
    await own.until(lambda: own.node_of("one") == "b")
    assert own.own.pending_here == 0


async def test_a_node_that_the_cluster_drains_is_emptied_here(own: Own) -> None:
    """The cluster evicts its own pods of the node; the others here would stay on it, and have more room than there."""
    await _place_on_a_here_and_on_b_there(own, "elsewhere")
    own.show(own.pods.added("there", "a"))
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_CORDON)])
    assert own.node_of("elsewhere") == "a"
    own.show(own.pods.deleted("there", "a"))
    await own.until(lambda: own.node_of("elsewhere") == "b")
    assert own.own.counts.node_losses == 1
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED)])
    assert own.node_of("elsewhere") == "b"


@pytest.mark.parametrize("step", ["terminating", "list"])
async def test_a_drain_is_over_when_the_last_pod_there_is_on_its_way_out(own: Own, step: str) -> None:
    """A pod may take its time to stop, or may leave while the watch is interrupted."""
    await _place_on_a_here_and_on_b_there(own, "elsewhere")
    own.show(own.pods.added("there", "a"))
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_CORDON)])
    if step == "list":
        listed = own.pods.event("elsewhere", "b", kind=EventKind.LISTED)
        own.show(Event(EventKind.LIST_START, None), listed, Event(EventKind.LIST_END, None))
    else:
        own.show(own.pods.event("there", "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    await own.until(lambda: own.node_of("elsewhere") == "b")


async def test_a_cordon_alone_moves_no_pod(own: Own) -> None:
    """The cluster's pods stay on a cordoned node: those here do too."""
    await _place_on_a_here_and_on_b_there(own, "elsewhere")
    own.show(own.pods.added("there", "a"))
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_CORDON)])
    own.show(own.pods.event("there", "a"))
    await own.until(lambda: not own.own.model.is_busy)
    assert (own.node_of("elsewhere"), own.own.counts.node_losses) == ("a", 0)


async def test_a_drain_leaves_what_a_drain_leaves(own: Own) -> None:
    """Pods of DaemonSets stay, and pods that tolerate the cordon would be placed there again, forever."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    kinds: dict[str, Json] = {
        "daemon": {"metadata": {"ownerReferences": [owner]}},
        "tolerant": {"tolerations": [{"operator": "Exists"}]},
    }
    own.show(*(own.pods.added(name, **more) for name, more in kinds.items()))
    await own.until(lambda: own.own.counts.bound == 2)
    own.own.on_nodes([node_event("b")])
    own.show(*(own.pods.event(name, "b", **more) for name, more in kinds.items()))
    own.show(own.pods.added("agent", "a", metadata={"ownerReferences": [owner]}))
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_CORDON)])
    own.show(own.pods.event("agent", "a", metadata={"ownerReferences": [owner]}))
    await own.until(lambda: not own.own.model.is_busy)
    assert own.own.counts.node_losses == 0


async def test_a_scheduler_that_ignores_cordons_places_a_pod_once(tmp_path: pathlib.Path) -> None:
    """Placed there and taken away again without end, it would take all of the processor."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {disabled: [{name: NodeUnschedulable}]}}}]\n"
    )
    own = Own("a", configured=settings.load(str(path), [], ""))
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_CORDON)])
    own.clock.now += 10.0
    async with own.scheduling():
        own.show(own.pods.added("one"))
        await own.until(lambda: own.node_of("one") == "a")
        own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_CORDON, other="label")])
        await own.until(lambda: not own.own.model.is_busy)
    assert (own.own.counts.node_losses, own.node_of("one")) == (0, "a")


async def test_a_taint_evicts_pods_here_as_it_does_there(own: Own) -> None:
    """The cluster's taint manager evicts its own pods of a broken node; those here would run on it as if it were well.

    A toleration delays that by its seconds, or forever.
    """
    broken = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    await _place_on_a_here_and_on_b_there(own, "now")
    own.own.on_nodes([node_event("b", kind=EventKind.MODIFIED, spec=_CORDON)])
    for name, seconds in (("later", {"tolerationSeconds": 300}), ("never", {})):
        own.show(own.pods.added(name, tolerations=[{**broken, **seconds}]))
    await own.until(lambda: own.node_of("later") == "a" and own.node_of("never") == "a")
    own.own.on_nodes([node_event("b", kind=EventKind.MODIFIED)])
    own.show(own.pods.added("there", "a"))
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_taint("NoExecute"))])
    own.own.evict_by_taints()
    await own.until(lambda: own.node_of("now") == "b")
    own.clock.now += 299.0
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_taint("NoExecute"), other="label")])
    own.own.evict_by_taints()
    assert own.own.counts.node_losses == 1
    own.clock.now += 1.0
    own.own.evict_by_taints()
    assert own.own.counts.node_losses == 2
    assert own.node_of("later") == ""
    own.clock.now += 1e6
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED)])
    own.own.evict_by_taints()
    assert (own.node_of("never"), own.node_of("there")) == ("a", "a")


async def test_a_taint_without_execution_moves_no_pod(own: Own) -> None:
    """NoSchedule is about pods that come."""
    await _place_on_a_here_and_on_b_there(own, "one")
    own.own.on_nodes([node_event("a", kind=EventKind.MODIFIED, spec=_taint("NoSchedule"))])
    own.clock.now += 1e6
    own.own.evict_by_taints()
    assert own.own.counts.node_losses == 0
