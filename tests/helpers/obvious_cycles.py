"""Random clusters, and what a pod's cycle decides there if all plugins are called about all nodes: the obvious way."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.helpers.domain_cluster import PREFERS_ZONE_0, affinity, spread, term, to_nodes
from tests.helpers.snapshot_views import Json, SnapshotBuilder, pod_of, requesting
from trireme.evaluation.scoring import placement
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.registry import filter_plugins
from trireme.snapshot import classes, overlay, snapshot
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

FILTERS = (
    "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread",
    "InterPodAffinity",
)  # fmt: skip
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DEFERRED: Json = {"conditions": [{"type": "PodResizePending", "reason": "Deferred", "status": "True"}]}
NOT_FOR_RESIZES = frozenset({"NodeAffinity", "TaintToleration"})

# What pods state beside requests and names of nodes: nothing about other pods, or something, or what they would rather
# have.
PLAIN: tuple[Json, ...] = (
    *[{}] * 4,
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
    {"nodeSelector": {ZONE: "z1"}},
    {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"affinity": PREFERS_ZONE_0},
    {"tolerations": [{"key": "p", "operator": "Exists", "effect": "PreferNoSchedule"}]},
)
RELATED: tuple[Json, ...] = (
    {"topologySpreadConstraints": [spread(ZONE, True, {"app": "a"})]},
    {"affinity": affinity([term(ZONE, {"app": "a"})])},
    {"affinity": affinity((), [term(HOST, {"app": "b"})])},
)
RATHER: tuple[Json, ...] = (
    {"affinity": affinity(rather_near=[(10, term(ZONE, {"app": "a"}))])},
    {"affinity": affinity(rather_apart=[(10, term(HOST, {"app": "a"}))])},
    {"topologySpreadConstraints": [spread(ZONE, False, {"app": "a"})]},
    {"topologySpreadConstraints": [spread(HOST, False, {"app": "b"}), spread(ZONE, True, {"app": "b"}, 2)]},
)
REQUESTS: tuple[Json, ...] = ({}, {"cpu": "1"}, {"cpu": "3"}, {"cpu": "1", "example.com/gpu": "1"})
NAMES = (("n0",), ("n1",), ("n2",), ("n2", "n3", "gone"), ("gone",))


@dataclass(frozen=True)
class Kind:
    """What pods of a class state."""

    stated: Json
    requests: Json
    names: tuple[str, ...] = ()
    app: str = "a"
    priority: int = 0
    deferred: bool = False

    def pod(self) -> core_pb2.Pod:
        spec = {**self.stated, "priority": self.priority}
        container = {**requesting(**self.requests)["containers"][0], **spec.pop("containers", [{}])[0]}
        if self.names:
            spec["affinity"] = {**spec.get("affinity", {}), **to_nodes(*self.names)}
        status = DEFERRED if self.deferred else None
        return pod_of({**spec, "containers": [container]}, labels={"app": self.app}, status=status)


def filters() -> list[Any]:
    """The filter plugins of these tests."""
    return [filter_plugins.make_filter_plugin(name, b"{}", {}) for name in FILTERS]


class Cluster:
    """Nodes, pods, nominated pods and objects that come, change and go."""

    def __init__(self, draw: random.Random, stated: Sequence[Json], naming: float = 0.4) -> None:
        """Pods state one of `stated`; so large a part of them names nodes."""
        self.draw, self.builder, self.stated, self.naming = draw, SnapshotBuilder(), stated, naming
        self.snap = self.builder.snap
        self.nodes = [f"n{number}" for number in range(draw.choice([5, 12, 24]))]
        self.nominates = draw.random() < 0.4
        self.kinds: list[Kind] = []
        self.rows: dict[int, str] = {}
        self.nominated: dict[str, str] = {}
        self.objects: dict[str, int] = {"service": 0, "namespace": 0}
        for name in self.nodes[:-1]:
            self.set_node(name)
        for _ in range(5):
            self.add_class()

    def set_node(self, name: str) -> None:
        draw = self.draw
        self.builder.set_node(
            name,
            labels={HOST: name, **draw.choice([{ZONE: "z0"}, {ZONE: "z1"}, {ZONE: "z1"}, {}])},
            taints=draw.choice(
                [*[[]] * 6, [("k", "v", "NoSchedule")], [("j", "v", "NoExecute")], [("p", "v", "PreferNoSchedule")]]
            ),
            unschedulable=draw.random() < 0.05,
            allocatable={"cpu": draw.choice("269"), "pods": draw.choice("259"), "example.com/gpu": draw.choice("02")},
        )

    def add_class(self) -> int:
        """A class comes: any, or one that differs from another in requests or in the nodes that it names alone."""
        draw = self.draw
        if self.kinds and draw.random() < 0.7:
            kind = draw.choice(self.kinds)
            if kind.names and draw.random() < 0.6:
                kind = replace(kind, names=draw.choice(NAMES))
            else:
                kind = replace(kind, requests=draw.choice(REQUESTS))
        else:
            names = draw.choice(NAMES) if draw.random() < self.naming else ()
            kind = Kind(draw.choice(self.stated), draw.choice(REQUESTS), names, draw.choice("ab"), draw.choice([0, 5]))
            kind = replace(kind, deferred=draw.random() < 0.1)
        self.kinds.append(kind)
        self.builder.add_class(len(self.kinds), kind.pod())
        return len(self.kinds)

    def change(self) -> None:
        draw = self.draw
        kinds = [*["node"] * 4, "gone", *["pod"] * 4, "removed", "object", "none"]
        kinds += ["nominated", "nominated", "denominated"] if self.nominates else []
        kind, name = draw.choice(kinds), draw.choice(self.nodes)
        alive = name in self.snap.nodes.slot_of_name
        if kind == "node":
            self.set_node(name)
        elif kind == "gone" and alive:
            self.remove_pods([row for row, node in self.rows.items() if node == name])
            self.denominate([uid for uid, node in self.nominated.items() if node == name])
            self.builder.remove_node(name)
        elif kind == "pod" and alive:
            number = draw.choice(list(self.snap.classes))
            self.rows.update(dict.fromkeys(self.builder.place(number, *[name] * draw.choice([1, 1, 2])), name))
        elif kind == "removed" and self.rows:
            self.remove_pods(draw.sample(list(self.rows), min(3, len(self.rows))))
        elif kind == "object":
            self.change_object(draw.choice(list(self.objects)))
        elif kind == "nominated" and alive:
            uid, number = draw.choice("uvwxy"), draw.choice(list(self.snap.classes))
            slot = self.snap.nodes.slot_of_name[name]
            pod = cycle_pb2.PodIdentity(uid=uid)
            self.builder.apply(nominations=[snapshot_pb2.Nomination(pod=pod, pod_class=number, slot=slot)])
            self.nominated[uid] = name
        elif kind == "denominated" and self.nominated:
            self.denominate([draw.choice(list(self.nominated))])

    def change_object(self, kind: str) -> None:
        self.objects[kind] += 1
        entry = snapshot_pb2.ClusterObject()
        getattr(entry, kind).metadata.name = f"{kind}-{self.objects[kind]}"
        self.builder.apply(objects=[entry])

    def remove_pods(self, rows: list[int]) -> None:
        if rows:
            self.builder.remove(*rows)
        for row in rows:
            del self.rows[row]

    def denominate(self, uids: list[str]) -> None:
        if uids:
            self.builder.apply(removed_nominations=uids)
        for uid in uids:
            del self.nominated[uid]


class Obvious:
    """The verdicts of all plugins on a pod of the class as the cluster is now. `but`: the pod itself is nominated."""

    def __init__(self, snap: snapshot.Snapshot, plugins: Iterable[Any], of: classes.PodClass, but: str = "") -> None:
        self.snap, self.of, self.but = snap, of, but
        self.table = interfaces.StatusTable()
        skipping = NOT_FOR_RESIZES if of.resize_deferred else ()
        self.plugins = [each for each in plugins if each.name not in skipping]
        self.answers = {each.name: each.pre_filter(of, snap, self.table) for each in self.plugins}
        self.refusal: status.Status | None = None
        # The plugins that narrow the nodes; none where one refuses the pod before all were asked.
        self.narrowing: list[str] = []
        self.narrowed: frozenset[str] | None = None
        self._merge()
        self.plugins = [each for each in self.plugins if not self.answers[each.name].skip]
        self.slots = snap.nodes.live_slots()
        self.nodes: dict[int, tuple[status.Status | None, int]] = {}
        if self.refusal is None:
            found = self._first_refusals(snap, self.slots, by_domain=True)
            for slot, (refusal, capacity) in zip(self.slots.tolist(), found, strict=True):
                self.nodes[slot] = self._with_nominees(slot, refusal, capacity)

    @property
    def passing(self) -> set[int]:
        return {slot for slot, (refusal, capacity) in self.nodes.items() if refusal is None and capacity > 0}

    def _merge(self) -> None:
        for name, answer in self.answers.items():
            if answer.status is not None:
                self.refusal = answer.status
                if answer.status.code != status.Code.UNSCHEDULABLE:
                    self.narrowing.clear()
                    return
            if answer.nodes is not None:
                self.narrowing.append(name)
                self.narrowed = answer.nodes if self.narrowed is None else self.narrowed & answer.nodes
                if not self.narrowed:
                    reason = status.Reason.of("noCommonNode", {"plugins": ",".join(self.narrowing)})
                    one = len(self.narrowing) == 1
                    several = f"node(s) didn't satisfy plugin(s) [{' '.join(self.narrowing)}] simultaneously"
                    text = f"node(s) didn't satisfy plugin {self.narrowing[0]}" if one else several
                    self.refusal = status.unresolvable("", text, reasons=(reason,))
                    return

    def _first_refusals(self, view: Any, slots: Any, *, by_domain: bool) -> list[tuple[status.Status | None, int]]:
        """The first refusal and the least capacity; `by_domain`: where a domain alone refuses, others may fit later."""
        out: list[tuple[status.Status | None, int]] = [(None, interfaces.UNLIMITED)] * slots.shape[0]
        for plugin in self.plugins:
            answer = self.answers[plugin.name]
            if view is not self.snap and plugin.depends_on == interfaces.Dependency.CLUSTER:
                answer = plugin.pre_filter(self.of, view, self.table)
            if answer.skip:
                continue
            verdicts = plugin.filter(self.of, view, answer.state, slots, self.table)
            for at, number in enumerate(verdicts.index.tolist()):
                refusal, capacity = out[at]
                if number and refusal is None:
                    refusal = self.table.statuses[number - 1]
                of_domain = by_domain and verdicts.domain_refused is not None and bool(verdicts.domain_refused[at])
                if number and not of_domain:
                    capacity = 0
                limit = interfaces.UNLIMITED if verdicts.capacity is None else int(verdicts.capacity[at])
                out[at] = refusal, min(capacity, limit)
        return out

    def _with_nominees(
        self, slot: int, refusal: status.Status | None, capacity: int
    ) -> tuple[status.Status | None, int]:
        """The verdict on a slot, if the pods that are nominated to it and at least as important are there as well."""
        known = self.snap.classes
        nominees = [
            each.pod_class
            for uid, each in self.snap.nominations.items()
            if each.slot == slot and uid != self.but and known[each.pod_class].priority >= self.of.priority
        ]
        if nominees:
            with overlay.SnapshotOverlay(self.snap, overlay.Semantics.DRY_RUN) as over:
                at = np.full(len(nominees), slot, dtype=np.int32)
                over.add(np.array(nominees, dtype=np.int32), at)
                ((also, left),) = self._first_refusals(over, np.array([slot]), by_domain=False)
            refusal, capacity = also or refusal, min(capacity, left)
        if self.narrowed is not None and self.snap.nodes.names[slot] not in self.narrowed:
            names = sorted(self.narrowing)
            reason = status.Reason.of("leftOut", {"plugins": ",".join(names)})
            text = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}]"
            return status.unresolvable("", text, reasons=(reason,)), 0
        return refusal, capacity


def obvious_choice(
    snap: snapshot.Snapshot,
    feasible: Iterable[int],
    of: classes.PodClass,
    plugins: Mapping[Any, int],
    extra: Mapping[int, int],
) -> tuple[int, int] | None:
    """Where a pod of the class goes, if these slots take it, and the total there; None: there is no such slot.

    `plugins` have weights, and `extra` is added by slot. Where there is one node to choose from, nothing is scored.
    """
    slots = np.array(sorted(feasible), dtype=np.intp)
    if slots.shape[0] < 2:
        return (int(slots[0]), 0) if slots.shape[0] else None
    totals = np.array([extra.get(slot, 0) for slot in slots.tolist()])
    for plugin, weight in plugins.items():
        state = plugin.pre_score(of, snap)
        if state is not None:
            totals += weight * _obvious_scores(plugin, snap, of, state, slots)
    ties = placement.tie_order(np.arange(snap.nodes.size))
    total, _, slot = max(zip(totals.tolist(), ties[slots].tolist(), slots.tolist(), strict=True))
    return slot, total


def _obvious_scores(plugin: Any, snap: snapshot.Snapshot, of: classes.PodClass, state: Any, slots: Any) -> Any:
    """The normalised scores of one plugin."""
    if isinstance(plugin, scorers.JointScorePlugin):
        joint = plugin.joint(of, snap, state, slots)
        joint.set_feasible(np.ones(slots.shape[0], dtype=np.bool_))
        return joint.normalized_scores(joint.raw_scores())
    raw = np.zeros_like(slots) if state is scorers.ALL_ZERO else plugin.score(of, snap, state, slots)
    if plugin.normalization == scorers.Normalization.NONE:
        return raw
    most = max(raw.tolist())
    scaled = raw * 100 // most if most else raw
    return 100 - scaled if plugin.normalization == scorers.Normalization.MAX_REVERSED else scaled
