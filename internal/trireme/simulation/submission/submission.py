"""Submits manifests in a simulation: first what pods need, then the pods that controllers would make.

What the API server and controllers do to objects of a cluster is done here as far as scheduling sees it: defaults,
priorities of classes, claims for volumes and devices, ReplicaSets. Pods that a workload has in the cluster leave first:
the answer is about the state after its rollout.

Also change: internal/trireme_kube/embedded/cluster.py (priority classes of the system).
Also change: internal/trireme/insight/simulations/simulator.py (what manifests must not set).
Also change: protos/trireme/v1/simulation.proto (the limits).

Tests: tests/unit/insight/simulations/test_verdicts.py.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme.cache import pod_projection
from trireme.simulation import budgets, manifests, node_copies, pacing, scenario, simulation, workloads
from trireme.simulation.submission import claims, documents, workload_pods
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2

Json = dict[str, Any]

_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_VOLUME_CLAIM = "PersistentVolumeClaim"
_OWN_PART = frozenset({"Pod", "Node", "ReplicaSet", "StatefulSet", "ReplicationController"})


@dataclass(slots=True)
class Submitted:
    """A document, the UIDs of its pods, and what to know about it."""

    document: documents.Document
    uids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Submission:
    """Submits documents, once; `submitted` are those that make pods or groups, in the order of the documents."""

    def __init__(self, sim: simulation.Simulation) -> None:
        self._sim = sim
        self._priorities = dict(_SYSTEM_PRIORITIES)
        self._default_priority = 0
        self._templates: dict[tuple[str, str], Json] = {}
        self._pods = 0
        self._absent_keys: set[str] = set()
        self._object_notes: list[str] = []
        self.submitted: list[Submitted] = []

    def not_simulated(self) -> list[str]:
        """What the answer leaves out, in words, once the simulation has run."""
        keys = ", ".join(sorted(self._absent_keys))
        text = (
            f"no selector in the cluster uses the label {keys}, so which of its pods have it is not known: none, here"
        )
        return [*self._object_notes, *([text] if keys else [])]

    async def make(self, found: Sequence[documents.Document]) -> None:
        """Submit all. Raises: DocumentError, UnknownLabelKeyError, SimulationLimitError."""
        self._absent_keys = self._sim.take_unknown_labels_as_absent()
        self._read_looked_up(found)
        for document in found:
            entry = Submitted(document)
            if document.kind in documents.WORKLOADS or document.kind == "PodGroup":
                self.submitted.append(entry)
            if document.kind not in (*documents.WORKLOADS, _VOLUME_CLAIM):
                self._apply(entry)
        # Claims last: they are bound by classes and volumes, which may come behind them in the file.
        for document in found:
            if document.kind == _VOLUME_CLAIM:
                self._apply(Submitted(document))
        for entry in self.submitted:
            if entry.document.kind in documents.WORKLOADS:
                await self._make_pods(entry)
        for entry in self.submitted:
            if entry.document.kind == "PodGroup":
                entry.uids = self._members(entry.document)

    def _read_looked_up(self, found: Sequence[documents.Document]) -> None:
        """Note priority classes and claim templates, wherever they are among the documents."""
        for document in found:
            if document.kind == "PriorityClass":
                value = int(document.raw.get("value") or 0)
                self._priorities[document.name] = value
                if document.raw.get("globalDefault"):
                    self._default_priority = value
            elif document.kind == "ResourceClaimTemplate":
                self._templates[document.namespace, document.name] = document.raw

    def _apply(self, entry: Submitted) -> None:
        """Create or replace an object that makes no pods; kinds without a part in scheduling are passed over."""
        document = entry.document
        if document.resource is None:
            text = f"{document.kind} {document.name}: which pods {document.raw['apiVersion']} makes of it is not known"
            self._object_notes.append(text)
            return
        try:
            if document.kind == _VOLUME_CLAIM:
                note = claims.add_volume_claim(self._sim, document.raw)
                self._object_notes += [note] if note else []
            elif document.kind == "Node":
                self._sim.set_node(manifests.read_node(document.raw))
            elif manifests.takes_part(document.kind):
                self._set_object(document)
        except manifests.ManifestError as error:
            raise _about(document, error) from error

    def _set_object(self, document: documents.Document) -> None:
        kind, entry = manifests.read_object(document.raw)
        if document.kind == "PersistentVolume" and not entry.status.phase:
            entry.status.phase = "Available"
        self._sim.set_object(kind.field, entry)
        if kind.field == budgets.KIND and "status" not in document.raw:
            self._sim.publish()
            self._sim.set_object(budgets.KIND, budgets.with_status(entry, self._sim.snap, self._sim.pending_pods()))

    async def _make_pods(self, entry: Submitted) -> None:
        """Make the pods of a workload, in place of those that it has."""
        document = entry.document
        made = workload_pods.pods_of(document, self._nodes)
        self._pods += made.count
        if self._pods > scenario.MAX_PODS:
            raise document.error("spec", f"at most {scenario.MAX_PODS} pods can be simulated at once")
        self._remove_present(entry)
        try:
            if made.replica_set is not None:
                kind, replica_set = manifests.read_object(made.replica_set)
                self._sim.set_object(kind.field, replica_set)
            elif document.kind in _OWN_PART and document.kind != "Pod":
                self._set_object(document)
            async for batch in pacing.paced(made.batches):
                pods = list(self._read_batch(entry, batch))
                entry.uids += [pod.uid for pod in pods]
                await self._sim.add_many_pods(pods, simulation.Origin.ADDED)
            entry.notes += made.notes
        except manifests.ManifestError as error:
            raise _about(document, error) from error
        except scenario.ScenarioError as error:
            raise document.error(error.field.lstrip(".") or "spec", error.text) from error

    def _read_batch(self, entry: Submitted, batch: workload_pods.PodBatch) -> Iterator[pod_projection.ParsedPod]:
        """The pods of a batch, with the claims that are made for them. Raises: ManifestError, ScenarioError."""
        first: manifests.PodOfManifest | None = None
        self._set_priority(entry, batch.manifest)
        gates = ", ".join(gate["name"] for gate in batch.manifest["spec"].get("schedulingGates") or ())
        self._note(entry, f"scheduling gates hold it back: {gates}" if gates else "")
        generated = entry.document.kind == "Pod" and not batch.manifest["metadata"].get("name")
        for claim in batch.volume_claims:
            self._note(entry, claims.add_volume_claim(self._sim, claim, own=True))
        for wanted in batch.names:
            name = self._sim.new_name(wanted) if generated else wanted
            uid = self._sim.new_uid(name)
            if first is not None and not first.base_has_name:
                yield first.parsed._replace(name=name, uid=uid)
                continue
            for note in claims.add_ephemeral_claims(self._sim, batch.manifest, name, uid):
                self._note(entry, note)
            devices = claims.add_device_claims(self._sim, batch.manifest, name, uid, self._templates)
            pod = manifests.read_pod(batch.manifest, name, uid, self._sim.setup.reads.paths, devices)
            if first is None:
                first = pod
                where = ".".join(documents.template_path(entry.document.kind))
                scenario.check_pod(self._sim, where, pod)
                _check_node(where, pod)
            yield pod.parsed

    def _set_priority(self, entry: Submitted, pod: Json) -> None:
        """Set the priority of the pod's class, as admission does; classes of the cluster are not known."""
        spec = pod["spec"]
        name = spec.get("priorityClassName")
        if spec.get("priority") is None and not name:
            spec["priority"] = self._default_priority
        elif spec.get("priority") is None and name in self._priorities:
            spec["priority"] = self._priorities[name]
        elif spec.get("priority") is None:
            text = f"priority 0 was taken: insight does not know the cluster's PriorityClass {name}"
            self._note(entry, f"{text}; add it to the documents, or set spec.priority")

    def _remove_present(self, entry: Submitted) -> None:
        """Remove the pods that the workload has in the cluster, or the pod of that name."""
        document = entry.document
        if document.kind == "Pod":
            known = (
                self._sim.uid_of(document.namespace, document.name) if document.raw["metadata"].get("name") else None
            )
            present = [known] if known is not None else []
        else:
            present = workloads.uids_of(self._sim, document.kind, document.namespace, document.name)
        for uid in present:
            self._sim.remove_pod(uid, replace=False)
        if present:
            pods = "1 pod that is" if len(present) == 1 else f"{len(present)} pods that are"
            self._note(entry, f"in place of the {pods} there now")

    def _note(self, entry: Submitted, text: str) -> None:
        if text and text not in entry.notes:
            entry.notes.append(text)

    def _nodes(self) -> Collection[core_pb2.Node]:
        """The nodes, by name."""
        self._sim.publish()
        return _Nodes(self._sim.snap)

    def _members(self, group: documents.Document) -> list[str]:
        """The UIDs of the pods of the documents that are members of the group."""
        every = itertools.chain.from_iterable(each.uids for each in self.submitted if each.document.kind != "PodGroup")
        pods = ((uid, self._sim.pods[uid].parsed) for uid in every if uid in self._sim.pods)
        return [uid for uid, pod in pods if (pod.namespace, pod.group) == (group.namespace, group.name)]


class _Nodes(Collection[core_pb2.Node]):
    """The nodes of a snapshot by name, each made when it is iterated."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = snap
        self._slots = snap.nodes.slot_of_name

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, node: object) -> bool:
        return isinstance(node, core_pb2.Node) and node.metadata.name in self._slots

    def __iter__(self) -> Iterator[core_pb2.Node]:
        return (node_copies.node_at(self._snap, self._slots[name]) for name in sorted(self._slots))


def _check_node(where: str, pod: manifests.PodOfManifest) -> None:
    """Raises: ScenarioError: the pod has a node."""
    if pod.parsed.node_name:
        raise scenario.ScenarioError(f"{where}.spec.nodeName", "must not be set: the pod would not be scheduled")


def _about(document: documents.Document, error: manifests.ManifestError) -> documents.DocumentError:
    """The error about the document of a manifest that was made of it: its fields are in the document's template."""
    path, separator, text = str(error).partition(": ")
    if not separator:
        return document.error("manifest", str(error))
    prefix = ".".join(documents.template_path(document.kind)) if document.kind in documents.WORKLOADS else ""
    return document.error(f"{prefix}.{path}" if prefix else path, text)
