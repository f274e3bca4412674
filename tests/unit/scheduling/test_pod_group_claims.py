"""Claims of groups and of their members: open to the group while it is tried, and released if they are of no use."""

import itertools
from typing import Any

import pytest

from tests.helpers import pod_group_cluster
from tests.helpers.pod_group_builders import pod_group, too_few
from tests.helpers.pod_group_cluster import Cluster
from trireme.v1 import bind_pb2, filter_phase_pb2, snapshot_pb2, status_pb2

CLAIM = ("resource_claim", "ns", "c")


def _shared_claim(cluster: Cluster) -> None:
    """A claim that Reserve allocates for each pod."""
    entry = snapshot_pb2.ClusterObject()
    entry.resource_claim.metadata.namespace, entry.resource_claim.metadata.name = CLAIM[1:]
    entry.resource_claim.metadata.resource_version = "1"
    cluster.cache.set_object(entry)
    cluster.reserving = True
    assumed = snapshot_pb2.ClusterObject(assumed=True)
    assumed.resource_claim.CopyFrom(entry.resource_claim)
    assumed.resource_claim.status.allocation.devices.results.add(device="d")
    cluster.assuming.append(assumed)


async def test_a_claim_is_open_to_the_group_while_it_is_tried_and_no_longer() -> None:
    """Members share it within one trial; who comes when they are being bound must wait for it."""
    cluster = Cluster([2, 1])
    _shared_claim(cluster)
    cluster.group(pod_group("g", 2))
    for number, kind in enumerate("ab"):
        cluster.add(f"p{number}", "g", kind, now=1_000_000.0 + number)
    seen: list[str] = []

    def meanwhile() -> None:
        entry = cluster.cache.get_assumed(*CLAIM)
        assert entry is not None
        seen.append(entry.open_to_group)

    cluster.meanwhile = meanwhile
    await cluster.run()
    assert cluster.nodes == {"p0": "n0", "p1": "n0"}
    meanwhile()
    assert seen == ["", "g", ""]
    cluster.cache.forget_objects("uid-p0")
    entry = cluster.cache.get_assumed(*CLAIM)
    assert entry is not None
    assert entry.assumed, "the other one still goes for it"


async def test_a_gang_that_does_not_fit_leaves_no_claim_assumed() -> None:
    """Its devices would be nobody's."""
    cluster = Cluster([2])
    _shared_claim(cluster)
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    entry = cluster.cache.get_assumed(*CLAIM)
    assert entry is not None
    assert not entry.resource_claim.status.HasField("allocation")


@pytest.mark.parametrize(("topology", "constrained"), [*itertools.product([False, True], repeat=2)])
async def test_unusable_claims_of_a_group_are_released_without_preemption(topology: bool, constrained: bool) -> None:
    """The group would wait forever for devices where it does not fit; filter is called once, after the trial.

    A group with a topology constraint that counts releases none.
    """
    cluster = Cluster([1], post_filters=("DynamicResources",), racks=["a"], topology=topology)
    group = pod_group("g", 2)
    if constrained:
        group.spec.scheduling_constraints.topology.add(key="rack")
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g")

    def release(
        request: filter_phase_pb2.ListReleasableClaimsRequest,
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        out = filter_phase_pb2.ListReleasableClaimsResponse()
        out.status.code = status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
        out.status.messages.append("ResourceClaim unreserved for PodGroup")
        out.actions.add(pod=request.tried[0].pod, remove_claim_user=bind_pb2.RemoveClaimUser(name="c"))
        return out

    cluster.release = release
    await cluster.run()
    if constrained and topology:
        assert cluster.group_questions == []
        return
    (request,) = cluster.group_questions
    assert request.scheduled == 0
    assert [member.pod.name for member in request.tried] == ["p0", "p1"]
    assert [action.remove_claim_user.name for action in cluster.preempting] == ["c"]
    whole = f"{too_few(2, 1, 1, 0)}, ResourceClaim unreserved for PodGroup"
    ((value, reason, text),) = cluster.conditions
    assert (value, reason, text.endswith(whole)) == ("False", "Unschedulable", True)


async def test_filter_gets_what_reserve_answered_about_members_whose_claims_may_be_released() -> None:
    """Which devices a member would get decides about its claims."""
    cluster = Cluster([1], post_filters=("DynamicResources",))
    cluster.reserving = True
    group = pod_group("g", 2)
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g", str(number), now=1_000_000.0 + number)
    cluster.release = lambda request: filter_phase_pb2.ListReleasableClaimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE)
    )
    await cluster.run()
    (request,) = cluster.group_questions
    assert [member.state for member in request.tried] == [b"p0", b""]


@pytest.mark.parametrize("failed", ["", "forbidden"])
async def test_a_claim_that_is_not_released_is_logged(
    failed: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else shows it: the group waits for devices, and its next attempt tries again."""
    cluster = Cluster([1], post_filters=("DynamicResources",))
    group = pod_group("g", 2)
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g")

    def release(request: filter_phase_pb2.ListReleasableClaimsRequest) -> Any:
        out = filter_phase_pb2.ListReleasableClaimsResponse(
            status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE)
        )
        out.actions.add(pod=request.tried[0].pod, remove_claim_user=bind_pb2.RemoveClaimUser(name="c"))
        return out

    async def execute(_: object) -> str:
        return failed

    cluster.release = release
    monkeypatch.setattr(pod_group_cluster._Preempting, "execute", lambda _, actions: execute(actions))
    await cluster.run()
    logged = [text for text in caplog.messages if "cannot use are not released: forbidden" in text]
    assert len(logged) == bool(failed)


async def test_pods_with_claims_of_their_own_may_have_some_to_release() -> None:
    """Whether or not their group has any."""
    cluster = Cluster([0], post_filters=("DynamicResources",))
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    cluster.release = lambda request: filter_phase_pb2.ListReleasableClaimsResponse(
        status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE)
    )
    await cluster.run()
    assert len(cluster.group_questions) == 1


class _WithoutGroupClaims(Cluster):
    group_claims = False


async def test_claims_of_a_group_count_only_where_that_is_enabled() -> None:
    cluster = _WithoutGroupClaims([1], post_filters=("DynamicResources",))
    group = pod_group("g", 2)
    group.spec.resource_claims.add(name="c", resource_claim_name="c")
    cluster.group(group)
    for number in range(2):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert cluster.group_questions == []
