"""Verdicts about manifests: whether their pods fit, after whose eviction, or why not and what would help.

Tests: tests/unit/insight/simulations/test_verdicts.py.
"""

import collections
from collections.abc import Mapping, Sequence

from google.protobuf import json_format, struct_pb2

from trireme.insight.proposals import search
from trireme.insight.simulations import answers, group_proposals
from trireme.simulation import known_classes, simulation
from trireme.simulation.submission import submission
from trireme.v1 import cycle_pb2, insight_pb2, simulation_pb2, snapshot_pb2

# Reasons for which changes that would help are searched for: a search takes two seconds at most.
_SEARCHES = 5
_NODES = 1000


class Verdicts:
    """Writes the verdicts of a simulation that has run."""

    def __init__(self, sim: simulation.Simulation) -> None:
        self._sim = sim
        self._searches = 0
        # By the first UID: what would help pods of one reason, once for all documents that have some.
        self._proposals: dict[str, Sequence[insight_pb2.Proposal]] = {}

    async def write(self, submitted: Sequence[submission.Submitted], response: simulation_pb2.SimulateResponse) -> None:
        """Write a verdict for each. Raises: PhaseFault, PhaseUnavailable."""
        by_uid: dict[str, list[simulation_pb2.PodEviction]] = collections.defaultdict(list)
        for eviction in response.evictions:
            preemptor = eviction.preemptor
            by_uid[preemptor.uid or f"{preemptor.namespace}/{preemptor.name}"].append(eviction)
        for each in submitted:
            await self._write_one(each, by_uid, response.verdicts.add())

    async def _write_one(
        self,
        submitted: submission.Submitted,
        evictions: Mapping[str, list[simulation_pb2.PodEviction]],
        out: simulation_pb2.ManifestVerdict,
    ) -> None:
        document, sim = submitted.document, self._sim
        out.document, out.kind = document.number, document.kind
        out.namespace, out.name = document.namespace, document.name
        out.notes.extend(submitted.notes)
        out.pod_count = len(submitted.uids)
        placed = [(uid, node) for uid in submitted.uids if (node := sim.node_of(uid))]
        out.placed_count = len(placed)
        on_nodes = collections.Counter(node for _, node in placed)
        for name, count in sorted(on_nodes.items(), key=lambda entry: (-entry[1], entry[0]))[:_NODES]:
            out.nodes.add(node_name=name, pods=count)
        keys = dict.fromkeys(key for uid in submitted.uids for key in self._preemptor_keys(uid))
        for key in keys:
            out.evictions.extend(evictions.get(key, ()))
        groups = await answers.pending_groups(sim, [uid for uid in submitted.uids if not sim.node_of(uid)])
        for uids, group in groups:
            unplaced = out.unplaced.add(pending=group)
            if group.message:
                unplaced.proposals.extend(_as_struct(each) for each in await self._search(uids[0]))
        out.verdict = _verdict(out)

    def _preemptor_keys(self, uid: str) -> Sequence[str]:
        """The pod, and its group, as evictions name who they are for."""
        parsed = self._sim.pods[uid].parsed if uid in self._sim.pods else None
        if parsed is None or not parsed.group:
            return (uid,)
        return uid, f"{parsed.namespace}/{parsed.group}"

    async def _search(self, uid: str) -> Sequence[insight_pb2.Proposal]:
        """What would let the pod be scheduled on the cluster as it is in the end."""
        if uid in self._proposals or self._searches == _SEARCHES:
            return self._proposals.get(uid, ())
        self._searches += 1
        sim = self._sim
        pending = sim.pending(uid)
        if pending is None or not pending.class_id:
            return ()
        parsed = pending.parsed
        cycle = sim.evaluators.cycle(parsed.scheduler_name, pending.class_id, sim.snap.generation)
        works = self._check_of_group(uid) if parsed.group else None
        found = await search.ProposalSearch().search(sim.engine, cycle, works)
        self._proposals[uid] = found.proposals
        return found.proposals

    def _check_of_group(self, uid: str) -> group_proposals.GroupCheck:
        """What checks a proposal for a member on its whole group."""
        sim, group = self._sim, self._sim.pods[uid].parsed.group
        members = [
            each
            for each in sim.pods
            if sim.pods[each].parsed.group == group
            and sim.pods[each].parsed.namespace == sim.pods[uid].parsed.namespace
            and not sim.node_of(each)
        ]
        queued = {each: self._queued(each) for each in members}
        known = known_classes.of_snapshot(sim.snap)
        return group_proposals.GroupCheck(sim.setup, known, queued[uid], list(queued.values()))

    def _queued(self, uid: str) -> snapshot_pb2.QueuedPod:
        """The pod as one of the queue."""
        parsed, pending = self._sim.pods[uid].parsed, self._sim.pending(uid)
        identity = cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=uid)
        class_id = 0 if pending is None else pending.class_id
        return snapshot_pb2.QueuedPod(
            pod=identity, pod_class=class_id, profile=parsed.scheduler_name, pod_group=parsed.group
        )


def _verdict(of: simulation_pb2.ManifestVerdict) -> simulation_pb2.Verdict.ValueType:
    """The verdict in one word."""
    if not of.pod_count:
        return simulation_pb2.VERDICT_NO_PODS
    if of.placed_count == of.pod_count:
        return simulation_pb2.VERDICT_FITS_AFTER_EVICTIONS if of.evictions else simulation_pb2.VERDICT_FITS
    if any(each.pending.message for each in of.unplaced):
        return simulation_pb2.VERDICT_DOES_NOT_FIT
    return simulation_pb2.VERDICT_HELD_BACK


def _as_struct(proposal: insight_pb2.Proposal) -> struct_pb2.Struct:
    """The proposal in protobuf's JSON mapping."""
    out = struct_pb2.Struct()
    out.update(json_format.MessageToDict(proposal))
    return out
