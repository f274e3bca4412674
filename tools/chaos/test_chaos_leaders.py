"""Two frontends on one cluster, one of them leading: it dies, hangs or ends in the middle of a thousand pods."""

import os
import signal
import time

import pytest

from tests.e2e import clusters, installation
from tools.chaos.test_chaos_kills import LATE_SECONDS, NODES, PODS, before, burst, killed_at_work, relays

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

KILLS = int(os.environ.get("TRIREME_KILLS", "2"))
"""How many leaders in a row are killed on the real control plane."""

MARGIN_SECONDS = 5.0
"""For noticing that it ran out (retry period, stretched by chance), the announcement to bind and the first list."""


async def _two(here: installation.Installation) -> tuple[installation.Process, installation.Process]:
    """A leader that schedules, and another frontend that is ready to."""
    await here.start(configuration=installation.SHORT_LEASE)
    other = here.add_frontend(installation.SHORT_LEASE)
    other.start()
    await here.ready(other)
    return here.frontends[0], other


@pytest.mark.timeout(120 + 120 * KILLS)
@pytest.mark.parametrize(
    ("cluster", "kills"),
    [pytest.param("embedded", 1), pytest.param("real", KILLS, marks=pytest.mark.controlplane)],
    indirect=["cluster"],
)
async def test_leaders_killed_in_the_middle_of_a_burst(cluster: clusters.OpenCluster, kills: int) -> None:
    """After kill -9 of the leader the other goes on within the lease time: nothing is lost, none bound twice.

    Again and again: who was killed is started anew, stands by, and is the next to take over.
    """
    async with cluster(nodes=NODES, cpu="4") as here, relays(here) as between:
        leader, other = await _two(here)
        for _ in range(kills):
            names, creating = burst(here)
            when, _ = await killed_at_work(here, leader, between["bind"])
            await here.logged(other, "Successfully acquired lease", installation.LEASE_SECONDS + MARGIN_SECONDS)
            acquired = time.monotonic()
            # From here on it is work, and takes as long as the machine needs for it.
            await here.leads(other)
            taken = time.monotonic()
            print(f"had the Lease after {acquired - when:.1f} s, scheduled after {taken - when:.1f} s")
            leader.start()
            await creating
            await here.bound(PODS, seconds=180)
            # Until then bind may have ended what the one that was killed had begun.
            excused = before(here, taken - LATE_SECONDS)
            if not other.running:
                # The machine stood still for longer than a Lease: it lost it, and what it had not reported yet.
                print("and lost it again")
                excused = list(here.witness.node_of)
                leader, other = other, leader
                leader.start()
            await here.check_promises(names, excused=excused)
            await here.clear()
            await here.ready(leader)
            leader, other = other, leader


async def test_a_leader_that_is_terminated_during_a_burst_hands_over(cluster: clusters.OpenCluster) -> None:
    """A leader that ends gives the Lease back: the other goes on without waiting for it to run out."""
    async with cluster(nodes=NODES, cpu="4") as here:
        leader, other = await _two(here)
        names, creating = burst(here)
        await here.bound(PODS // 5)
        leader.signal(signal.SIGTERM)
        assert here.witness.bound < PODS, "the burst was over before the end of the leader"
        when = time.monotonic()
        await here.leads(other, installation.LEASE_SECONDS - 2)
        assert await leader.ended() == 0
        await creating
        await here.bound(PODS, seconds=120)
        await here.check_promises(names, excused=before(here, when))


async def test_a_leader_that_hangs_is_deposed_and_does_no_harm(cluster: clusters.OpenCluster) -> None:
    """A leader that wakes up after another has taken over binds nothing more, and ends saying why."""
    async with cluster(nodes=NODES, cpu="4") as here, relays(here) as between:
        leader, other = await _two(here)
        names, creating = burst(here)
        await here.bound(PODS // 5)
        await between["bind"].struck(lambda: leader.signal(signal.SIGSTOP), seconds=30)
        assert here.witness.bound < PODS, "the burst was over before the leader hung"
        when = time.monotonic()
        await here.leads(other, installation.LEASE_SECONDS + MARGIN_SECONDS)
        leader.signal(signal.SIGCONT)
        assert await leader.ended() == 1
        await creating
        await here.bound(PODS, seconds=120)
        await here.check_promises(names, excused=before(here, when))


async def test_a_lease_deleted_in_the_middle_of_a_burst_has_nothing_bound_twice(cluster: clusters.OpenCluster) -> None:
    """The process that creates the Lease again sees what the leader before it bound."""
    async with cluster(nodes=NODES, cpu="4") as here:
        leader, other = await _two(here)
        names, creating = burst(here)
        await here.bound(PODS // 5)
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
        await here.request("DELETE", lease)
        assert here.witness.bound < PODS, "the burst was over before the Lease was deleted"
        when = time.monotonic()
        await creating
        await here.bound(PODS, seconds=120)
        raw = await here.request("GET", lease)
        assert raw["spec"]["leaseTransitions"] == 0
        # Whichever of the two was first has it.
        assert leader.running or other.running
        await here.check_promises(names, excused=before(here, when + installation.LEASE_SECONDS))
