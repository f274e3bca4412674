"""Deletions of pods of lower priority: those that preemption's own dry runs find on one node.

Tests: tests/unit/insight/test_proposals.py.
"""

from collections.abc import Sequence

from trireme.evaluation.preemption import candidate_selection, dry_run
from trireme.insight.proposals import pod_changes, simulated_cluster
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_phase_pb2, insight_pb2


async def find_preemption_candidates(
    cluster: simulated_cluster.SimulatedCluster, pod_class: int
) -> Sequence[dry_run.Candidate]:
    """Find the nodes where preemption would make room for a pod of this class, that of the fewest victims first.

    Candidates that violate a disruption budget are behind the others. None where the profile has no preemption.
    """
    answer = await cluster.filter(pod_class)
    cycle = cluster.cycle_of_class(pod_class)
    metadata = cycle.pod.metadata
    pod = cycle_pb2.PodIdentity(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
    found = await cluster.engine.list_preemption_candidates(
        cycle, answer.columns, answer.refusal, filter_phase_pb2.Preemptor(pod=pod)
    )
    candidates = candidate_selection.from_messages(found.candidates, cluster.snap)
    return sorted(candidates, key=lambda each: (each.violations, len(each.rows), each.slot))


def that_preempts(pod: core_pb2.Pod) -> core_pb2.Pod:
    """A copy of the pod that may preempt: the policy Never forbids the scheduler to evict, not people to delete."""
    out = pod_changes.copy_of(pod)
    out.spec.ClearField("preemption_policy")
    return out


def deletion(snap: snapshot.Snapshot, candidate: dry_run.Candidate) -> insight_pb2.Proposal:
    """The proposal to delete the candidate's victims."""
    pods = [candidate_selection.pod_identity(snap, row) for row in candidate.rows]
    delete = insight_pb2.DeletePods(
        node_name=snap.nodes.names[candidate.slot], pods=pods, budget_violations=candidate.violations
    )
    return insight_pb2.Proposal(delete_pods=delete)
