"""A small cluster with filter and score services over it, driven as the frontend drives them: for tests of batches.

Also change: tests/helpers/recorded_decisions.py (clusters for tests).
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.helpers.cluster_objects import to_cluster_object
from tests.helpers.phase_calls import context
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.filter import service as filter_service
from trireme.frontend.phase_clients import class_answers
from trireme.registry import default_profile, remote_makers
from trireme.score import service as score_service
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, plugin_pb2, score_phase_pb2, snapshot_pb2
from trireme.wire import node_columns
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

PROFILE = "default-scheduler"
HASH = 7

FILTERS = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity")
SCORES = default_profile.WEIGHTS

DEVICES = "DynamicResources"

# The affinity of pods that would rather be in the zone z0.
PREFERS_ZONE_0: Json = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 50,
                "preference": {
                    "matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z0"]}]
                },
            }
        ]
    }
}

# Longer than any step of these tests takes.
SECONDS = 10.0


@dataclass
class Filtered:
    """Filter's answer by node name: status messages of those refused, capacities of all."""

    refused: dict[str, tuple[str, ...]]
    capacity: dict[str, int]


@dataclass
class Cluster:
    """The frontend's cache, and one filter and one score service that follow it. `args`: of plugins, by name.

    `filters` are the filter plugins, in order. `remote`: a plugin that is both an AsyncFilter and an AsyncScore.
    """

    args: Mapping[str, Json] = field(default_factory=dict)
    filters: Sequence[str] = FILTERS
    registry: class_registry.ClassRegistry = field(default_factory=class_registry.ClassRegistry)
    remote: Any = None

    def __post_init__(self) -> None:
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.snap = snapshot.Snapshot()
        make = remote_makers.no_remote_plugin if self.remote is None else self._make_remote
        self.filter = filter_service.FilterPhase(self.snap, make)
        self.score = score_service.ScorePhase(self.snap, make)
        self._loop = asyncio.new_event_loop()
        self._configure()
        self._placed = 0
        self._answers = class_answers.ClassAnswers()
        self.most_at_once = 0

    def _make_remote(self, config: snapshot_pb2.RemotePlugin, profile: str) -> Any:
        return self.remote

    def close(self) -> None:
        """Give back the event loop."""
        self._loop.close()

    def add_node(self, node: Json) -> None:
        """The node is this from now on."""
        self.cache.set_node(decode.decode(node, core_pb2.Node))

    def remove_node(self, name: str) -> None:
        """The node is gone, and its pods with it."""
        for pod in list(self.cache.pods()):
            if pod.node_name == name:
                self.cache.remove_pod(pod.uid)
        self.cache.remove_node(name)

    def add_object(self, entry: Json) -> None:
        """The object is this from now on."""
        self.cache.set_object(to_cluster_object(entry, self.registry))
        self.cache.reclassify(self.registry.take_new_selector_keys())

    def place(self, pod: Json, node: str, *, terminating: bool = False) -> str:
        """A pod like this is on the node; answers its uid."""
        self._placed += 1
        uid = f"placed-{self._placed}"
        metadata = {**pod["metadata"], "name": uid, "uid": uid}
        if terminating:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        parsed = pod_projection.parse({**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}})
        base = self.registry.intern_base(parsed.base)
        class_id = self.registry.intern(base, parsed.labels)
        self.cache.set_pod(parsed, class_id, base)
        while keys := self.registry.take_new_selector_keys():
            self.cache.reclassify(keys)
        return uid

    def class_of(self, pod: Json) -> int:
        """The pod's class."""
        parsed = pod_projection.parse(pod)
        base = self.registry.intern_base(parsed.base)
        class_id = self.registry.intern(base, parsed.labels)
        while keys := self.registry.take_new_selector_keys():
            self.cache.reclassify(keys)
            class_id = self.registry.intern(base, parsed.labels)
        return class_id

    def follow(self) -> None:
        """Bring the snapshot to the cache's state."""
        if not self.snap.synced:
            self.cache.take_delta()
            for delta in self.cache.full_sync():
                self.snap.apply(delta)
            return
        change = self.cache.take_delta()
        if change is not None:
            self.snap.apply(snapshot_pb2.Delta.FromString(change.SerializeToString()))

    def ask_filter(self, class_id: int, count: int = 1, known: int = 0) -> filter_phase_pb2.FilterPhaseFilterResponse:
        """Filter's answer."""
        self.follow()
        request = filter_phase_pb2.FilterPhaseFilterRequest(
            cycle=self._cycle(class_id), count=count, base_generation=known
        )
        return self._run(self.filter.Filter(request, context(SECONDS)))

    def ask_place(self, class_id: int, count: int, answer: filter_phase_pb2.FilterPhaseFilterResponse) -> list[int]:
        """The slots that Place chooses by Filter's answer."""
        request = score_phase_pb2.PlaceRequest(
            cycle=self._cycle(class_id), count=count, capacities=answer.columns, constraints=answer.constraints
        )
        placed = self._run(self.score.Place(request, context(SECONDS)))
        assert not placed.status.messages, placed.status
        return list(placed.slots)

    def prepare(self, pod: Json) -> None:
        """Have both services make ready for a class that comes later."""
        class_id = self.class_of(pod)
        self.follow()
        cycle = self._cycle(class_id)
        asked = filter_phase_pb2.FilterPhasePrepareRequest(cycle=cycle)
        self._run(self.filter.Prepare(asked, context(SECONDS)))
        scored = score_phase_pb2.ScorePhasePrepareRequest(cycle=cycle)
        self._run(self.score.Prepare(scored, context(SECONDS)))

    def schedule_by_patches(self, pod: Json, count: int) -> list[str]:
        """As `schedule` with all at once, from an older answer of filter.

        What filter answered about the class before is only brought up to date, as the frontend has it done.
        """
        class_id = self.class_of(pod)
        known = self._answers.get_or_add((PROFILE, class_id)).columns
        hosts: list[str] = []
        while len(hosts) < count:
            answer = self.ask_filter(class_id, count - len(hosts), known.generation)
            if answer.pre_filter.status.messages:
                break
            known.update(node_columns.from_message(answer.columns))
            if not known.has_feasible_node:
                break
            answer.columns.CopyFrom(node_columns.to_message(known))
            slots = self.ask_place(class_id, min(count - len(hosts), answer.max_batch or count), answer)
            assert slots, "filter found nodes, and score placed none"
            hosts += self._take(pod, slots)
        return hosts

    def _take(self, pod: Json, slots: list[int]) -> list[str]:
        self.most_at_once = max(self.most_at_once, len(slots))
        hosts = []
        for slot in slots:
            name = self.cache.node_at(slot, self.snap.generation)
            assert name is not None
            hosts.append(name)
            self.place(pod, name)
        return hosts

    def schedule_with_devices(self, pods: Sequence[Json], at_once: int, *, ahead: bool) -> list[tuple[str, str]]:
        """Place these pods in order: those in a row that are of one class together, at most `at_once` by one answer.

        Of each its node and what Reserve assumed for it; both empty where it does not fit. `ahead`: both
        services make ready for the pods that come next.
        """
        out: list[tuple[str, str]] = []
        while len(out) < len(pods):
            class_ids = [self.class_of(pod) for pod in pods[len(out) : len(out) + at_once]]
            alike = next((at for at, each in enumerate(class_ids) if each != class_ids[0]), len(class_ids))
            if ahead:
                for pod in pods[len(out) :]:
                    self.prepare(pod)
            out += self._place_with_devices(pods[len(out) : len(out) + alike], class_ids[0])
        return out

    def _place_with_devices(self, pods: Sequence[Json], class_id: int) -> list[tuple[str, str]]:
        """Place the first of these pods, of one class; all of them fail where the first does."""
        answer = self.ask_filter(class_id, len(pods))
        columns = node_columns.from_message(answer.columns)
        if answer.pre_filter.status.messages or not ((columns.index == 0) & (columns.capacity > 0)).any():
            return [("", "")] * len(pods)
        slots = self.ask_place(class_id, min(len(pods), answer.max_batch or len(pods)), answer)
        self.most_at_once = max(self.most_at_once, len(slots))
        parsed = [pod_projection.parse(pod) for pod in pods[: len(slots)]]
        names = [self.cache.node_at(slot, self.snap.generation) or "" for slot in slots]
        request = filter_pb2.ReserveRequest(cycle=self._cycle(class_id))
        for pod, slot, name in zip(parsed, slots, names, strict=True):
            identity = cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid)
            request.placements.add(pod=identity, node_name=name, slot=slot)
        reserved = self._run(self.filter.Reserve(request, context(SECONDS)))
        out = []
        for pod, name, each in zip(parsed, names, reserved.reservations, strict=True):
            assert not each.status.messages, each.status
            self.cache.assume(pod.key, pod.uid, name, self.registry.intern_base(pod.base), pod.labels, class_id)
            self.cache.assume_objects(pod.uid, each.assumed)
            results = [claim.resource_claim.status.allocation.devices.results for claim in each.assumed]
            out.append((name, " ".join(f"{given.request}={given.device}" for given in itertools.chain(*results))))
        return out

    def filtered(self, pod: Json) -> Filtered:
        """Filter's answer about a pod, by node."""
        class_id = self.class_of(pod)
        response = self.ask_filter(class_id)
        assert not response.pre_filter.status.messages, response.pre_filter.status
        columns = node_columns.from_message(response.columns)
        slots = {name: self.cache.slot_of(name) for name in self.cache.node_names()}
        refused = {
            name: columns.statuses[columns.index[slot] - 1].messages
            for name, slot in slots.items()
            if columns.index[slot]
        }
        return Filtered(refused, {name: int(columns.capacity[slot]) for name, slot in slots.items()})

    def schedule(self, pod: Json, count: int, at_once: int) -> list[str]:
        """Place pods like this, at most `at_once` by one answer; the nodes in order, fewer where no more fit."""
        class_id = self.class_of(pod)
        hosts: list[str] = []
        while len(hosts) < count:
            wanted = min(at_once, count - len(hosts))
            answer = self.ask_filter(class_id, wanted)
            if answer.pre_filter.status.messages:
                break
            columns = node_columns.from_message(answer.columns)
            if not ((columns.index == 0) & (columns.capacity > 0)).any():
                break
            slots = self.ask_place(class_id, min(wanted, answer.max_batch or wanted), answer)
            assert slots, "filter found nodes, and score placed none"
            hosts += self._take(pod, slots)
        return hosts

    def schedule_in_turn(self, pods: Sequence[tuple[Json, int]]) -> list[list[str]]:
        """Place pods of several classes (pod, count) by one call of each service; the nodes of the first classes."""
        classes = [(self.class_of(pod), count) for pod, count in pods]
        self.follow()
        filtered = self.ask_filter_classes(classes)
        if not filtered.answers:
            return []
        placed = self.ask_place_classes(classes, filtered)
        hosts = []
        for (pod, _), answer in zip(pods, placed.answers, strict=False):
            assert not answer.status.messages, answer.status
            hosts.append(self._take(pod, list(answer.slots)))
        return hosts

    def ask_filter_classes(self, classes: Sequence[tuple[int, int]]) -> filter_phase_pb2.FilterClassesResponse:
        """Filter's answer about several classes, each with its number of pods."""
        asked = filter_phase_pb2.FilterClassesRequest(cycle=self._cycle(0))
        for class_id, count in classes:
            asked.classes.add(pod_class=class_id, count=count)
        answer: filter_phase_pb2.FilterClassesResponse = self._run(self.filter.FilterClasses(asked, context(SECONDS)))
        return answer

    def ask_place_classes(
        self, classes: Sequence[tuple[int, int]], filtered: filter_phase_pb2.FilterClassesResponse
    ) -> score_phase_pb2.PlaceClassesResponse:
        """The places of the classes that filter answered about."""
        wanted = score_phase_pb2.PlaceClassesRequest(cycle=self._cycle(0))
        for (class_id, count), answer in zip(classes, filtered.answers, strict=False):
            wanted.classes.add(pod_class=class_id, count=count, admitted=answer.admitted, demand=answer.demand)
        placed: score_phase_pb2.PlaceClassesResponse = self._run(self.score.PlaceClasses(wanted, context(SECONDS)))
        return placed

    def _cycle(self, class_id: int) -> cycle_pb2.Cycle:
        return cycle_pb2.Cycle(
            fence=cycle_pb2.Fence(epoch=1, lease_valid_ms=15_000),
            generation=self.snap.generation,
            config_hash=HASH,
            profile=PROFILE,
            pod_class=class_id,
        )

    def _configure(self) -> None:
        profile = snapshot_pb2.Profile(scheduler_name=PROFILE)
        filters = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
        scores = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE)
        for name in self.filters:
            filters.plugins.add(name=name)
        for name, weight in SCORES.items():
            scores.plugins.add(name=name, weight=weight)
        if DEVICES in self.filters:
            profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_RESERVE).plugins.add(name=DEVICES)
        for name, args in self.args.items():
            profile.plugin_args.add(name=name, args_json=orjson.dumps(args))
        remotes = []
        if self.remote is not None:
            filters.plugins.add(name=self.remote.name)
            scores.plugins.add(name=self.remote.name, weight=2)
            remotes.append(snapshot_pb2.RemotePlugin(name=self.remote.name, endpoints=["unix:nowhere"]))
        configuration = snapshot_pb2.Configuration(profiles=[profile], remote_plugins=remotes)
        hello = snapshot_pb2.Hello(
            fence=cycle_pb2.Fence(epoch=1, lease_valid_ms=15_000), config_hash=HASH, configuration=configuration
        )
        for each in (self.filter, self.score):
            at = each.follow.statistics().generation
            # It changes nothing; but what was there before the frontend came is not the frontend's.
            delta = snapshot_pb2.Delta(from_generation=at, to_generation=at)
            requests = [snapshot_pb2.SyncRequest(hello=hello), snapshot_pb2.SyncRequest(delta=delta)]
            self._run(each.follow.Sync(_stream(requests), context(SECONDS)))

    def _run(self, call: Any) -> Any:
        return self._loop.run_until_complete(call)


async def _stream(requests: Iterable[snapshot_pb2.SyncRequest]) -> AsyncIterator[snapshot_pb2.SyncRequest]:
    for request in requests:
        yield request


def node(name: str, labels: Mapping[str, str], **fields: Any) -> Json:
    """A node; fields as cpu, pods, amounts, images, taints (key, value, effect)."""
    taints = [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in fields.get("taints", ())]
    amounts = {"cpu": str(fields.get("cpu", 4)), "memory": "8Gi", "pods": str(fields.get("pods", 110))}
    images = [{"names": [image], "sizeBytes": 300 << 20} for image in fields.get("images", ())]
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"taints": taints},
        "status": {"allocatable": {**amounts, **fields.get("amounts", {})}, "images": images},
    }


def pod(labels: Mapping[str, str] | None = None, *, namespace: str = "default", **spec: Any) -> Json:
    """A pod with one container; `spec` as in the API."""
    requests = spec.pop("requests", {"cpu": "100m", "memory": "64Mi"})
    owners, ports = spec.pop("owners", []), spec.pop("ports", [])
    metadata = {
        "name": "p", "uid": "p", "namespace": namespace, "labels": dict(labels or {}), "ownerReferences": owners,
    }  # fmt: skip
    containers = [{"name": "c", "image": "app:v1", "resources": {"requests": requests}, "ports": ports}]
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


def spread(key: str, hard: bool, labels: Mapping[str, str] | None, max_skew: int = 1, **fields: Any) -> Json:
    """A topology spread constraint over pods with these labels."""
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    out = {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": action, **fields}
    return out if labels is None else {**out, "labelSelector": {"matchLabels": dict(labels)}}


def term(key: str, labels: Mapping[str, str], **fields: Any) -> Json:
    """An affinity term about pods with these labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **fields}


def affinity(
    near: Iterable[Json] = (),
    apart: Iterable[Json] = (),
    rather_near: Iterable[tuple[int, Json]] = (),
    rather_apart: Iterable[tuple[int, Json]] = (),
) -> Json:
    """Pod affinity and anti-affinity, required and preferred (weight, term)."""
    return {
        name: {
            "requiredDuringSchedulingIgnoredDuringExecution": list(required),
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": each} for weight, each in preferred
            ],
        }
        for name, required, preferred in (
            ("podAffinity", near, rather_near),
            ("podAntiAffinity", apart, rather_apart),
        )
    }


def to_nodes(*names: str) -> Json:
    """The affinity of a pod for these nodes, by name, as a DaemonSet's pods have it."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def cluster_of(
    nodes: Sequence[Json], placed: Sequence[tuple[Json, int]] = (), args: Mapping[str, Json] | None = None
) -> Cluster:
    """These nodes, with pods on those of these numbers; host ports count."""
    cluster = Cluster(args=args or {}, filters=(*FILTERS, "NodePorts"))
    for each in nodes:
        cluster.add_node(each)
    for each, at in placed:
        cluster.place(each, nodes[at % len(nodes)]["metadata"]["name"])
    cluster.follow()
    return cluster


@contextlib.contextmanager
def ten_nodes() -> Iterator[Cluster]:
    """Nodes n0 to n9 in two zones, for a block."""
    labels = ({"kubernetes.io/hostname": f"n{at}", "topology.kubernetes.io/zone": f"z{at % 2}"} for at in range(10))
    with contextlib.closing(cluster_of([node(f"n{at}", each) for at, each in enumerate(labels)])) as cluster:
        yield cluster
