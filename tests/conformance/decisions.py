"""Deciding golden cases: the questions that a frontend asks filter and score, and their answers in the golden format.

`Decider.decide` is one scheduling cycle: PreFilter and Filter, then PreScore, Score and NormalizeScore of what passed,
or PostFilter where nothing did; and each filter plugin alone. All over gRPC, of the replica whose turn it is. The
answer has the form of a row's `expect`; fields that are empty are left out, as there.
"""

import random
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import decision_profiles
from decision_cluster import DecisionCluster, Json
from decision_phases import DEADLINE, Phases
from golden_rows import Row

from trireme.framework import status
from trireme.scheduling import fit_error
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_pb2, score_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import encode

LEFT_OUT = "NotInPreFilterNodes"


class Decider:
    """Asks one set of phases about cases, one after the other. `setups` has the configuration of each case."""

    def __init__(self, phases: Phases, setups: decision_profiles.Setups) -> None:
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
        if self._phases.others():
            self._by_deltas(row, cluster, setup)
        cluster.fill()
        self._tell_others(cluster)
        self._phases.sync(self._phases.first(), cluster.cache.full_sync(), cluster.cache.generation)
        return cluster

    def _by_deltas(self, row: Row, cluster: DecisionCluster, setup: decision_profiles.Setup) -> None:
        """Bring the replicas that follow deltas near the case, and let them evaluate the class on the way."""
        draw = random.Random(zlib.crc32(row["name"].encode()))
        for step, _ in enumerate(cluster.grow(draw)):
            class_id = cluster.class_of(row["case"]["pod"])
            arguments = decision_profiles.arguments_of(row["case"])
            if step == 0:
                cluster.cache.take_delta()
                self._phases.sync(self._phases.others(), cluster.cache.full_sync(), cluster.cache.generation)
            else:
                self._tell_others(cluster)
            names = [decision_profiles.default_profile(arguments)]
            names += [decision_profiles.only(plugin, arguments) for plugin in setup.filters]
            # Some each time: what was not asked lately is brought up to date by more than one delta.
            self._prepare(cluster, class_id, draw.sample(names, len(names) // 2))

    def _tell_others(self, cluster: DecisionCluster) -> None:
        delta = cluster.cache.take_delta()
        if delta is not None:
            for replica in self._phases.others():
                replica.tell([delta])

    def _prepare(self, cluster: DecisionCluster, class_id: int, profiles: Iterable[str]) -> None:
        for name in profiles:
            cycle = _cycle_of(self._phases, name, cluster, class_id)
            for replica in self._phases.filters[1:]:
                replica.filter.Filter(filter_pb2.FilterRequest(cycle=cycle, prepare=True), timeout=DEADLINE)
            for replica in self._phases.scores[1:]:
                replica.score.Place(score_pb2.PlaceRequest(cycle=cycle, count=1, prepare=True), timeout=DEADLINE)


class _Cycle:
    """One pod's scheduling cycle."""

    def __init__(self, phases: Phases, setup: decision_profiles.Setup, case: Json, cluster: DecisionCluster) -> None:
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
        response = self._filter(self._profile)
        answer = self._filtered(response)
        feasible = [name for name in answer["feasible"] if name not in refused_elsewhere]
        errors = [entry for entry in answer.get("filter", {}).values() if entry["code"] == "Error"]
        if errors or answer.get("preFilter", {}).get("code") == "Error":
            texts = {reason for entry in errors for reason in entry["reasons"]}
            answer |= {"message": texts.pop()} if len(texts) == 1 else {}
        elif feasible:
            answer |= self._score(feasible)
            answer |= self._reserve(feasible, response) if "scores" in answer else {}
        elif not answer["feasible"]:
            answer |= self._post_filter(response)
        alone = {name: self._alone(name) for name in self._setup.filters}
        return answer | _some("byPlugin", {name: said for name, said in alone.items() if said})

    def _cycle(self, profile: str) -> cycle_pb2.Cycle:
        return _cycle_of(self._phases, profile, self._cluster, self._class)

    def _filter(self, profile: str) -> filter_pb2.FilterResponse:
        request = filter_pb2.FilterRequest(cycle=self._cycle(profile), count=1)
        response: filter_pb2.FilterResponse = self._phases.filter().Filter(request, timeout=DEADLINE)
        return response

    def _filtered(self, response: filter_pb2.FilterResponse) -> Json:
        refusal = wire_status.from_message(response.pre_filter.status) if _refused(response) else None
        if refusal is not None:
            return {"preFilter": _status(refusal), "feasible": []}
        narrowed = response.pre_filter.narrowed
        left_in = set(response.pre_filter.node_names) if narrowed else set(self._names)
        statuses = self._statuses(response)
        said = {name: _status(statuses[name]) for name in self._names if name in statuses and name in left_in}
        feasible = [name for name in self._names if name not in statuses]
        nodes = _some("preFilterNodes", sorted(left_in) if narrowed else None)
        return {**nodes, **_some("filter", said), "feasible": feasible}

    def _alone(self, plugin: str) -> Json:
        response = self._filter(decision_profiles.only(plugin, self._arguments))
        answer = self._filtered(response)
        left_in = set(answer.get("preFilterNodes", self._names))
        outside = {name: {"code": LEFT_OUT, "plugin": plugin} for name in self._names if name not in left_in}
        said = {} if "preFilter" in answer else {**answer.get("filter", {}), **outside}
        return {**_some("preFilter", answer.get("preFilter")), **_some("filter", said)}

    def _statuses(self, response: filter_pb2.FilterResponse) -> dict[str, status.Status]:
        """Why each node refuses; nodes that pass are left out."""
        columns = node_columns.unpack(response.columns)
        indexes = {name: int(columns.index[slot]) for name, slot in self._slots.items()}
        for name, slot in self._slots.items():
            # A capacity and a refusal exclude each other: that is what Place goes by.
            assert indexes[name] or columns.capacity[slot] > 0, f"{name} passes, but nothing fits"
        return {name: columns.statuses[index - 1] for name, index in indexes.items() if index}

    def _score(self, feasible: list[str]) -> Json:
        nodes = filter_pb2.NodeSelection(slots=[self._slots[name] for name in feasible])
        cycle = self._cycle(self._profile)
        service = self._phases.score()
        prepared = service.PreScore(score_pb2.PreScoreRequest(cycle=cycle, nodes=nodes), timeout=DEADLINE)
        said = wire_status.from_message(prepared.status)
        if said.code is status.Code.ERROR:
            # The pod is given up with that.
            return {"message": ", ".join(said.messages)}
        raw = service.Score(score_pb2.ScoreRequest(cycle=cycle, nodes=nodes), timeout=DEADLINE)
        _succeeded(raw)
        request = score_pb2.NormalizeScoreRequest(cycle=cycle, nodes=nodes, columns=raw.columns)
        normal = self._phases.score().NormalizeScore(request, timeout=DEADLINE)
        _succeeded(normal)
        scores: dict[str, dict[str, int]] = {name: {} for name in feasible}
        for column in normal.columns:
            if not column.skipped:
                for name, score in zip(feasible, column.scores, strict=True):
                    scores[name][column.plugin] = score * column.weight
        return {"scores": scores, "total": {name: sum(scores[name].values()) for name in feasible}}

    def _reserve(self, feasible: list[str], response: filter_pb2.FilterResponse) -> Json:
        """What Reserve keeps for the claims that have no allocation yet, node by node."""
        if not response.needs_reserve:
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
            placement = filter_pb2.Placement(pod=pod, node_name=name, slot=self._slots[name])
            request = filter_pb2.ReserveRequest(cycle=self._cycle(self._profile), placements=[placement])
            reservation = self._phases.filter().Reserve(request, timeout=DEADLINE).reservations[0]
            claims = [entry.resource_claim for entry in reservation.assumed if entry.HasField("resource_claim")]
            allocations = {
                claim.metadata.name: _without_share_ids(encode.encode(claim.status.allocation))
                for claim in claims
                if claim.metadata.name in open_claims
            }
            out |= _some(name, allocations)
            statuses |= _some(name, [encode.encode(each) for each in reservation.claim_statuses])
        return _some("allocations", out) | _some("claimStatuses", statuses)

    def _post_filter(self, response: filter_pb2.FilterResponse) -> Json:
        refusal = wire_status.from_message(response.pre_filter.status) if _refused(response) else None
        request = filter_pb2.PostFilterRequest(cycle=self._cycle(self._profile))
        refusals: list[tuple[status.Status, int]] = []
        if refusal is not None:
            request.pre_filter.CopyFrom(response.pre_filter.status)
        else:
            request.columns.CopyFrom(response.columns)
            columns = node_columns.unpack(response.columns)
            refusals = fit_error.counted(columns.statuses, columns.index)
        answer = self._phases.filter().PostFilter(request, timeout=DEADLINE)
        message = fit_error.message(len(self._names), refusal, refusals, ", ".join(answer.status.messages))
        return {"preemption": way_out(answer), "message": message}


def way_out(answer: filter_pb2.PostFilterResponse) -> Json:
    """What PostFilter said, as `preemption` of an answer has it."""
    said = wire_status.from_message(answer.status)
    return {
        "status": {**_status(said), **_some("reasons", list(answer.status.messages))},
        **_some("nominatedNode", answer.nominated_node),
        **_some("victims", sorted(action.pod.name for action in answer.actions if action.HasField("evict"))),
        **_some("deallocated", sorted(_deallocated(answer.actions))),
    }


def _cycle_of(phases: Phases, profile: str, cluster: DecisionCluster, class_id: int) -> cycle_pb2.Cycle:
    metadata = cluster.pod["metadata"]
    pod = core_pb2.Pod()
    pod.metadata.namespace, pod.metadata.name = metadata["namespace"], metadata["name"]
    pod.metadata.uid = metadata.get("uid", "")
    pod.status.nominated_node_name = (cluster.pod.get("status") or {}).get("nominatedNodeName", "")
    return phases.cycle(profile, class_id, cluster.cache.generation, pod)


def _refused(response: filter_pb2.FilterResponse) -> bool:
    return response.HasField("pre_filter") and wire_status.from_message(response.pre_filter.status) != status.SUCCESS


def _status(value: status.Status) -> Json:
    plugin = _some("plugin", value.plugin)
    return {"code": value.code.label, **plugin, **_some("reasons", list(value.messages))}


def _some(name: str, value: Any) -> Json:
    """The field where it is not empty."""
    return {name: value} if value else {}


def _succeeded(response: Any) -> None:
    said = wire_status.from_message(response.status)
    assert said.code is status.Code.SUCCESS, said


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
