"""What insight proposes for a pod whose claim is bound to a volume that only full nodes reach."""

from collections.abc import Sequence
from typing import Any

from tests.helpers.phase_calls import context
from tests.helpers.simulated_insight import SimulatedInsight, stored
from trireme.cli import proposals_display
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

ZONE = "topology.kubernetes.io/zone"
FULL, WAITING = 1, 2


def node(zone: str) -> dict[str, Any]:
    """The fields of a node of two CPUs in a zone."""
    return {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "20"}, "labels": {ZONE: zone}}


IN_ZONE_A = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}


def volume_objects(bound: bool, terms: Sequence[dict[str, Any]]) -> list[snapshot_pb2.ClusterObject]:
    """A volume that nodes of these terms reach, a claim for it and their class."""
    volume = {
        "metadata": {"name": "disk"},
        "spec": {
            "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "metadata": {
            "namespace": "default",
            "name": "data",
            "uid": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"} if bound else {},
        },
        "spec": {"volumeName": "disk"} if bound else {"storageClassName": "none"},
        "status": {"phase": "Bound" if bound else "Pending"},
    }
    return [
        snapshot_pb2.ClusterObject(persistent_volume=decode.decode(volume, core_pb2.PersistentVolume)),
        snapshot_pb2.ClusterObject(persistent_volume_claim=decode.decode(claim, core_pb2.PersistentVolumeClaim)),
    ]


async def proposals(
    bound: bool = True, full: int = 2, terms: Sequence[dict[str, Any]] = (IN_ZONE_A,)
) -> list[insight_pb2.Proposal]:
    """What helps a pod with the claim, where so many of the two nodes of zone a are full, and one of zone b is not."""
    insight = await SimulatedInsight(a0=node("a"), a1=node("a"), b0=node("b")).start()
    insight.builder.apply(objects=volume_objects(bound, terms))
    insight.builder.add_class(FULL, stored(cpu="2", priority=9))
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    insight.builder.add_class(WAITING, stored(cpu="1", volumes=volumes))
    insight.builder.place(FULL, *["a0", "a1"][:full])
    insight.queue(("waiting", WAITING))
    pod = cycle_pb2.PodIdentity(namespace="default", name="waiting", uid="uid-of-waiting")
    response = await insight.service.Explain(insight_pb2.ExplainRequest(pod=pod, proposals=True), context())
    assert bool(response.feasible_count) == (full < 2)
    return list(response.proposals)


async def test_a_volume_that_only_full_nodes_reach_is_named() -> None:
    *others, found = [each for each in await proposals() if each.WhichOneof("change") == "drop_constraint"]
    assert not others
    drop = found.drop_constraint
    assert drop.field == "spec.volumes[v]"
    assert (drop.bound_volume.claim_name, drop.bound_volume.volume_name) == ("data", "disk")
    assert drop.bound_volume.reaching_count == 2
    assert (found.feasible_count, list(found.example_nodes)) == (1, ["b0"])
    assert proposals_display.change_text(found) == (
        f"drop the volume of claim data, bound to disk, which 2 nodes reach ({ZONE} In (a))"
    )


async def test_volumes_know_nodes_by_labels_alone() -> None:
    """The filter passes over fields of terms, and the proposal counted the named node alone."""
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a0"]}], **IN_ZONE_A}
    (found,) = [each for each in await proposals(terms=[named]) if each.WhichOneof("change") == "drop_constraint"]
    assert found.drop_constraint.bound_volume.reaching_count == 2


async def test_the_volume_is_the_last_of_the_changes_of_the_pod() -> None:
    """Its data are there; a node more in the zone changes no pod, but takes longer than any change of a template."""
    kinds = [each.WhichOneof("change") for each in await proposals()]
    assert kinds == ["drop_constraint", "add_node"]


async def test_a_claim_that_is_not_bound_is_not_to_be_dropped() -> None:
    """It waits for its pod, or for a controller."""
    assert "drop_constraint" not in [each.WhichOneof("change") for each in await proposals(bound=False)]


async def test_nothing_is_proposed_where_a_node_of_the_volume_has_room() -> None:
    """The pod needs no change."""
    assert not await proposals(full=1)
