"""Trireme's simulated cluster: what arrives and leaves in the cluster, placed by the scheduler itself."""

from collections.abc import AsyncIterator

import pytest

from tests.helpers.shadow_cluster import Own
from trireme_kube.client.informers.watch import Event, EventKind

_CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.fixture
async def own() -> AsyncIterator[Own]:
    """Two nodes of four CPUs."""
    made = Own("a", "b")
    async with made.scheduling():
        yield made


async def test_an_arriving_pod_is_placed_here_whatever_the_other_scheduler_does(own: Own) -> None:
    """If the other scheduler's binding counted here, both clusters would be the same."""
    own.show(own.pods.event("old", "a", kind=EventKind.LISTED, cpu="3"))
    own.show(own.pods.added("new"))
    await own.until(lambda: own.node_of("new") != "")
    own.show(own.pods.event("new", "a"))
    await own.until(lambda: not own.own.model.is_busy)
    assert own.node_of("new") == "b"
    assert own.node_of("old") == "a"
    assert own.own.counts.bound == 1


async def test_waits_are_measured_in_both_worlds(own: Own) -> None:
    """How long pods wait is the first thing that people compare."""
    own.show(own.pods.added("new"))
    own.clock.now += 0.5
    await own.until(lambda: own.node_of("new") != "")
    assert (own.own.pending_here, own.own.pending_there) == (0, 1)
    own.clock.now += 1.5
    own.show(own.pods.event("new", "a"))
    assert (own.own.pending_here, own.own.pending_there) == (0, 0)
    assert 0.5 <= own.own.waits_here.quantile(0.5) < 0.6
    assert 2.0 <= own.own.waits_there.quantile(0.5) < 2.4


async def test_waits_are_counted_from_the_start_of_the_scheduler() -> None:
    """Listing a large cluster takes seconds, in which the other scheduler works and this one does not run yet."""
    own = Own("a")
    own.show(own.pods.added("early"), own.pods.added("waits"))
    own.clock.now += 40.0
    own.show(own.pods.event("early", "a"))
    own.own.begin()
    async with own.scheduling():
        await own.until(lambda: own.own.counts.bound == 2)
        own.clock.now += 1.0
        own.show(own.pods.event("waits", "a"))
    assert own.own.waits_here.quantile(0.99) < 1.0
    assert (own.own.waits_there.count, own.own.waits_there.quantile(0.5) < 1.2) == (1, True)


async def test_a_pod_that_leaves_the_cluster_leaves_this_world(own: Own) -> None:
    """Its room would stay taken here forever."""
    own.show(own.pods.added("large", cpu="4"))
    await own.until(lambda: own.node_of("large") != "")
    node = own.node_of("large")
    own.show(own.pods.deleted("large", "a", cpu="4"))
    own.show(own.pods.added("next", cpu="4", nodeSelector={"kubernetes.io/hostname": node}))
    await own.until(lambda: own.node_of("next") == node)


async def test_a_pod_with_a_claim_goes_where_the_other_scheduler_puts_it(own: Own) -> None:
    """Its volume is in one place: two clusters cannot have it in two."""
    own.show(own.pods.added("stateful", volumes=_CLAIM))
    await own.until(lambda: not own.own.model.is_busy)
    assert own.node_of("stateful") == ""
    own.show(own.pods.event("stateful", "b", volumes=_CLAIM))
    assert own.node_of("stateful") == "b"
    assert (own.own.counts.followed, own.own.counts.arrivals) == (1, 0)


async def test_an_evicted_pod_with_a_controller_comes_back(own: Own) -> None:
    """Its controller would create another one; without that, preemption would empty the cluster for nothing."""
    own.show(*(own.pods.added(name, cpu="4", priority=0) for name in ("low-a", "low-b")))
    await own.until(lambda: own.own.counts.bound == 2)
    own.show(own.pods.added("high", cpu="4", priority=1000))
    await own.until(lambda: own.node_of("high") != "")
    assert own.own.counts.evicted == 1
    assert own.own.pending_here == 1
    own.show(own.pods.deleted("high", "a", cpu="4", priority=1000))
    await own.until(lambda: own.node_of("low-a") != "" and own.node_of("low-b") != "")
    assert own.own.pending_here == 0


async def test_an_evicted_pod_without_a_controller_is_gone(own: Own) -> None:
    """Nobody would create it again."""
    alone = {"metadata": {"ownerReferences": []}}
    own.show(*(own.pods.added(name, cpu="4", priority=0, **alone) for name in ("low-a", "low-b")))
    await own.until(lambda: own.own.counts.bound == 2)
    own.show(own.pods.added("high", cpu="4", priority=1000))
    await own.until(lambda: own.node_of("high") != "")
    assert (own.own.counts.evicted, own.own.pending_here) == (1, 0)
    for name in ("low-a", "low-b"):
        own.show(own.pods.deleted(name, "a", cpu="4"))
    assert own.own.pending_here == 0


async def test_after_a_list_what_is_missing_is_gone_and_what_is_placed_stays(own: Own) -> None:
    """A relist names the other scheduler's nodes, and must neither move pods nor keep those that left."""
    own.show(own.pods.added("stays"), own.pods.added("leaves"))
    await own.until(lambda: own.own.counts.bound == 2)
    node = own.node_of("stays")
    other = "a" if node == "b" else "b"
    listed = own.pods.event("stays", other, kind=EventKind.LISTED)
    own.show(Event(EventKind.LIST_START, None), listed, Event(EventKind.LIST_END, None))
    assert own.node_of("stays") == node
    assert own.node_of("leaves") == ""
    assert own.own.pending_there == 0


async def test_a_nomination_of_the_other_scheduler_does_not_count_here(own: Own) -> None:
    """Room would be kept here for a pod that is not going to be there."""
    status = {"nominatedNodeName": "a"}
    own.show(own.pods.added("waits", cpu="9", status=status))
    own.show(own.pods.added("fits", cpu="4", nodeSelector={"kubernetes.io/hostname": "a"}))
    await own.until(lambda: own.node_of("fits") == "a")


async def test_a_list_removes_pods_that_are_missing_or_follow_here(own: Own) -> None:
    """A simulated cluster that lacks them cannot tell that they left: they would count as pending forever."""
    alone = {"metadata": {"ownerReferences": []}}
    own.show(*(own.pods.added(name, cpu="4", priority=0, **alone) for name in ("low-a", "low-b")))
    await own.until(lambda: own.own.counts.bound == 2)
    own.show(own.pods.added("high", cpu="4", priority=1000), own.pods.added("stateful", volumes=_CLAIM))
    await own.until(lambda: own.node_of("high") != "")
    assert (own.own.missing, own.own.pending_there) == (1, 3)
    own.show(Event(EventKind.LIST_START, None), Event(EventKind.LIST_END, None))
    assert (own.own.missing, own.own.pending_there, own.own.pending_here) == (0, 0, 0)
    own.show(own.pods.event("stateful", "b", volumes=_CLAIM))
    assert own.own.counts.followed == 0


async def test_an_evicted_pod_that_was_there_before_the_start_is_pending(own: Own) -> None:
    """Trireme would preempt at no cost: its victims would neither be placed nor wait."""
    own.show(
        *(own.pods.event(name, name[-1], kind=EventKind.LISTED, cpu="4", priority=0) for name in ("low-a", "low-b"))
    )
    own.show(own.pods.added("high", cpu="4", priority=1000))
    await own.until(lambda: own.node_of("high") != "")
    assert (own.own.counts.evicted, own.own.pending_here, own.own.pending_there) == (1, 1, 1)
