"""Deciding golden cases: the questions that a frontend asks filter and score, and their answers in the golden format.

`Decider.decide` is one scheduling cycle: PreFilter and Filter, then PreScore, Score and NormalizeScore of what passed,
or PostFilter where nothing did; and each filter plugin alone. All over gRPC, of the replica whose turn it is, or of an
engine in this process. The answer has the form of a row's `expect`; fields that are empty are left out, as there.
"""

import random
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import DecisionCluster, Json
from tests.conformance.decision_phases import Filtered, Phases
from tests.conformance.golden_rows import Row
from tests.conformance.in_process_phases import InProcessPhases
from trireme.evaluation.scoring import placement
from trireme.framework import status
from trireme.scheduling import fit_error
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_pb2
from trireme.wire import status as wire_status
from trireme.wire.post_filter_result import PostFilterResult
from trireme_kube.apimachinery import encode

LEFT_OUT = "NotInPreFilterNodes"

# Who is asked: processes behind gRPC, or an engine in this one.
AnyPhases = Phases | InProcessPhases


class Decider:
    """Asks one set of phases about cases, one after the other. `setups` has the configuration of each case."""

    def __init__(self, phases: AnyPhases, setups: decision_profiles.Setups) -> None:
        self._phases = phases
        self._setups = setups

    def decide(self, row: Row, refused_elsewhere: Iterable[str] = ()) -> Json:
        """The answer to a case.

        `refused_elsewhere` are nodes that a plugin which is not there would have refused: they are not scored.
        """
        setup = self._setups.of(row)
        cluster = self._bring_about(row, setup)
        return _Cycle(self._phases, setup, row["case"], cluster).decide(frozenset(refused_elsewhere))

    def _bring_about(self, row: Row, setup: decision_profiles.Setup) -> DecisionCluster:
        """The cluster of the case, in the cache and in all replicas."""
        case = row["case"]
        self._phases.next_leader(setup.configuration)
        cluster = DecisionCluster(case)
        if self._phases.follows_deltas:
            self._by_deltas(row, cluster, setup)
        cluster.fill()
        self._tell_others(cluster)
        self._phases.sync_first(cluster.cache.full_sync(), cluster.cache.generation)
        return cluster

    def _by_deltas(self, row: Row, cluster: DecisionCluster, setup: decision_profiles.Setup) -> None:
        """Bring the replicas that follow deltas near the case, and let them evaluate the class on the way."""
        draw = random.Random(zlib.crc32(row["name"].encode()))
        for step, _ in enumerate(cluster.grow(draw)):
            class_id = cluster.class_of(row["case"]["pod"])
            arguments = decision_profiles.arguments_of(row["case"])
            if step == 0:
                cluster.cache.take_delta()
                self._phases.sync_others(cluster.cache.full_sync(), cluster.cache.generation)
            else:
                self._tell_others(cluster)
            names = [decision_profiles.default_profile(arguments)]
            names += [decision_profiles.only(plugin, arguments) for plugin in setup.filters]
            # Some each time: what was not asked lately is brought up to date by more than one delta.
            self._prepare(cluster, class_id, draw.sample(names, len(names) // 2))

    def _tell_others(self, cluster: DecisionCluster) -> None:
        delta = cluster.cache.take_delta()
        if delta is not None:
            self._phases.tell_others(delta)

    def _prepare(self, cluster: DecisionCluster, class_id: int, profiles: Iterable[str]) -> None:
        for name in profiles:
            self._phases.prepare_others(_cycle_of(self._phases, name, cluster, class_id))


class _Cycle:
    """One pod's scheduling cycle."""

    def __init__(self, phases: AnyPhases, setup: decision_profiles.Setup, case: Json, cluster: DecisionCluster) -> None:
        self._phases = phases
        self._setup = setup
        self._case = case
        self._cluster = cluster
        self._arguments = decision_profiles.arguments_of(case)
        self._profile = decision_profiles.default_profile(self._arguments)
        self._names = sorted(node["metadata"]["name"] for node in case["nodes"])
        self._slots = {name: cluster.cache.slot_of(name) for name in self._names}
        self._class = cluster.class_of(case["pod"])

    def decide(self, refused_elsewhere: frozenset[str]) -> Json:
        """All fields of the answer."""
        filtered = self._phases.ask_filter(self._cycle(self._profile))
        answer = self._described(filtered)
        feasible = [name for name in answer["feasible"] if name not in refused_elsewhere]
        errors = [entry for entry in answer.get("filter", {}).values() if entry["code"] == "Error"]
        if errors or answer.get("preFilter", {}).get("code") == "Error":
            texts = {reason for entry in errors for reason in entry["reasons"]}
            answer |= {"message": texts.pop()} if len(texts) == 1 else {}
        elif feasible:
            answer |= self._score(feasible)
            answer |= self._reserve(feasible, filtered) if "scores" in answer else {}
            if "total" in answer and feasible == answer["feasible"]:
                self._place(answer["total"], filtered)
        elif not answer["feasible"]:
            answer |= self._post_filter(filtered)
        alone = {name: self._alone(name) for name in self._setup.filters}
        return answer | _some("byPlugin", {name: said for name, said in alone.items() if said})

    def _cycle(self, profile: str) -> cycle_pb2.Cycle:
        return _cycle_of(self._phases, profile, self._cluster, self._class)

    def _described(self, filtered: Filtered) -> Json:
        if filtered.refusal is not None:
            return {"preFilter": _status(filtered.refusal), "feasible": []}
        left_in = set(self._names) if filtered.narrowed is None else filtered.narrowed
        statuses = self._statuses(filtered)
        said = {name: _status(statuses[name]) for name in self._names if name in statuses and name in left_in}
        feasible = [name for name in self._names if name not in statuses]
        nodes = _some("preFilterNodes", None if filtered.narrowed is None else sorted(left_in))
        return {**nodes, **_some("filter", said), "feasible": feasible}

    def _alone(self, plugin: str) -> Json:
        answer = self._described(self._phases.ask_filter(self._cycle(decision_profiles.only(plugin, self._arguments))))
        left_in = set(answer.get("preFilterNodes", self._names))
        outside = {name: {"code": LEFT_OUT, "plugin": plugin} for name in self._names if name not in left_in}
        said = {} if "preFilter" in answer else {**answer.get("filter", {}), **outside}
        return {**_some("preFilter", answer.get("preFilter")), **_some("filter", said)}

    def _statuses(self, filtered: Filtered) -> dict[str, status.Status]:
        """Why each node refuses; nodes that pass are left out."""
        columns = filtered.refused
        indexes = {name: int(columns.index[slot]) for name, slot in self._slots.items()}
        for name, slot in self._slots.items():
            # A capacity and a refusal exclude each other: that is what Place goes by.
            assert indexes[name] or columns.capacity[slot] > 0, f"{name} passes, but nothing fits"
        return {name: columns.statuses[index - 1] for name, index in indexes.items() if index}

    def _score(self, feasible: list[str]) -> Json:
        slots = np.array([self._slots[name] for name in feasible], dtype=np.intp)
        said = self._phases.ask_scores(self._cycle(self._profile), slots)
        if isinstance(said, status.Status):
            # The pod is given up with that.
            return {"message": ", ".join(said.messages)}
        scores: dict[str, dict[str, int]] = {name: {} for name in feasible}
        for each in said:
            if each.scores is not None:
                weighted = placement.apply_weight(each.scores, each.weight).tolist()
                for name, score in zip(feasible, weighted, strict=True):
                    scores[name][each.plugin] = score
        return {"scores": scores, "total": {name: sum(scores[name].values()) for name in feasible}}

    def _place(self, totals: Mapping[str, int], filtered: Filtered) -> None:
        """Place goes by the same scores: the pod gets one of the best nodes."""
        slot, total = self._phases.ask_place(self._cycle(self._profile), filtered)
        best = max(totals.values())
        assert slot in [self._slots[name] for name, each in totals.items() if each == best], (slot, totals)
        # Where there is no choice nothing is scored.
        assert total == (best if len(totals) > 1 else 0), (total, totals)

    def _reserve(self, feasible: list[str], filtered: Filtered) -> Json:
        """What Reserve keeps for the claims that have no allocation yet, node by node."""
        if not filtered.needs_reserve:
            return {}
        metadata = self._case["pod"]["metadata"]
        pod = cycle_pb2.PodIdentity(namespace=metadata["namespace"], name=metadata["name"], uid=metadata.get("uid", ""))
        open_claims = {
            claim["metadata"]["name"]
            for claim in self._case.get("resourceClaims") or ()
            if not (claim.get("status") or {}).get("allocation")
        }
        out: dict[str, Json] = {}
        statuses: dict[str, list[Json]] = {}
        for name in feasible:
            placed = filter_pb2.Placement(pod=pod, node_name=name, slot=self._slots[name])
            reservation = self._phases.ask_reserve(self._cycle(self._profile), placed)
            claims = [entry.resource_claim for entry in reservation.assumed if entry.HasField("resource_claim")]
            allocations = {
                claim.metadata.name: _without_share_ids(encode.encode(claim.status.allocation))
                for claim in claims
                if claim.metadata.name in open_claims
            }
            out |= _some(name, allocations)
            statuses |= _some(name, [encode.encode(each) for each in reservation.claim_statuses])
        return _some("allocations", out) | _some("claimStatuses", statuses)

    def _post_filter(self, filtered: Filtered) -> Json:
        refusals = fit_error.nodes_by_status(filtered.refused.statuses, filtered.refused.index)
        answer = self._phases.ask_post_filter(self._cycle(self._profile), filtered)
        text = PostFilterResult.from_message(answer).message
        message = fit_error.message(len(self._names), filtered.refusal, refusals, text)
        return {"preemption": post_filter_answer(answer), "message": message}


def post_filter_answer(answer: filter_pb2.PostFilterResponse) -> Json:
    """What PostFilter said, as `preemption` of an answer has it."""
    said = wire_status.from_message(answer.status)
    messages = [text for each in (answer.status, *answer.refusals) for text in each.messages]
    return {
        "status": {**_status(said), **_some("reasons", messages)},
        **_some("nominatedNode", answer.nominated_node),
        **_some("victims", sorted(action.pod.name for action in answer.actions if action.HasField("evict"))),
        **_some("deallocated", sorted(_deallocated(answer.actions))),
    }


def _cycle_of(phases: AnyPhases, profile: str, cluster: DecisionCluster, class_id: int) -> cycle_pb2.Cycle:
    metadata = cluster.pod["metadata"]
    pod = core_pb2.Pod()
    pod.metadata.namespace, pod.metadata.name = metadata["namespace"], metadata["name"]
    pod.metadata.uid = metadata.get("uid", "")
    pod.status.nominated_node_name = (cluster.pod.get("status") or {}).get("nominatedNodeName", "")
    return phases.cycle(profile, class_id, cluster.cache.generation, pod)


def _status(value: status.Status) -> Json:
    plugin = _some("plugin", value.plugin)
    return {"code": value.code.label, **plugin, **_some("reasons", list(value.messages))}


def _some(name: str, value: Any) -> Json:
    """The field where it is not empty."""
    return {name: value} if value else {}


def _deallocated(actions: Iterable[bind_pb2.Action]) -> Iterable[str]:
    """Claims that stay without their devices; not those that are deleted."""
    return (one.deallocate.name for one in actions if one.HasField("deallocate") and not one.deallocate.delete)


def _without_share_ids(allocation: Mapping[str, Any]) -> Json:
    """The allocation as the golden data have it: share IDs are random."""
    out = dict(allocation)
    if "devices" in out and "results" in out["devices"]:
        results = [{key: value for key, value in one.items() if key != "shareID"} for one in out["devices"]["results"]]
        out["devices"] = {**out["devices"], "results": results}
    return out
