"""Short pods pass by a standby and a leader: what the frontend holds depends on what exists, not on what existed."""

import gc
import resource
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import frontend_world
from trireme.cache import object_kinds, pod_projection
from trireme.cache.pod_projection import ParsedPod
from trireme.frontend import app
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

NODES = 10
PODS_PER_JOB = 5
JOBS_AT_ONCE = 200
# After so many pods nothing may grow any more.
WARM_UP = 20_000
# What the allocator may keep beside what is in use: a twentieth of what 60,000 leaked pods take.
RSS_SLACK_BYTES = 16 << 20

ATTRIBUTES = (dict, OrderedDict, list, set, deque)


class _Follower:
    """Filter and score as the publisher sees them: a replica that applies each delta."""

    def __init__(self) -> None:
        self.followed = True
        self.snapshot = snapshot.Snapshot()

    def publish(self, request: bytes, generation: int) -> None:
        """Apply the delta."""
        self.snapshot.apply(snapshot_pb2.SyncRequest.FromString(request).delta)


class _Passage:
    """Jobs that come, run and go, as the informers of one frontend show them."""

    def __init__(self, *arguments: str) -> None:
        self.world = frontend_world.World(*arguments)
        self.frontend: app.App = self.world.frontend
        self.follower = _Follower()
        self.leads = False
        for followers in (self.frontend.phases.links.filters, self.frontend.phases.links.scores):
            self.frontend.phases.publisher.remove_followers(followers)
        self._version = 0
        self._jobs = 0
        nodes = [
            decode.decode(
                {"metadata": {"name": f"n{number}"}, "status": {"allocatable": {"cpu": "64", "pods": "5000"}}},
                core_pb2.Node,
            )
            for number in range(NODES)
        ]
        self.frontend.inbox.on_nodes([Event(EventKind.ADDED, node) for node in nodes])

    def lead(self) -> None:
        """Publish to a replica from now on."""
        follower: Any = self.follower
        self.leads = True
        self.frontend.phases.publisher.add_followers(follower)
        for request in self.frontend.phases.publisher.full_sync():
            self.follower.publish(request, 0)

    def run(self, jobs: int, schedule: Callable[[list[ParsedPod]], None], objects: bool) -> None:
        """So many jobs are created, scheduled, done and deleted."""
        for start in range(0, jobs, JOBS_AT_ONCE):
            pods = [pod for _ in range(min(JOBS_AT_ONCE, jobs - start)) for pod in self._job(grouped=objects)]
            made = list(self._objects(pods)) if objects else []
            self._show_objects(EventKind.ADDED, made)
            self._show(EventKind.ADDED, pods)
            schedule(pods)
            placed = [pod._replace(node_name=f"n{number % NODES}") for number, pod in enumerate(pods)]
            self._show(EventKind.MODIFIED, placed)
            self._show(EventKind.DELETED, placed)
            self._show_objects(EventKind.DELETED, made)

    def schedule(self, pods: list[ParsedPod]) -> None:
        """The leader assumes all pods, and binds them."""
        frontend = self.frontend
        number = {pod.uid: number for number, pod in enumerate(pods)}
        while batch := frontend.scheduling.queue.pop(1000.0, 64):
            frontend.phases.publisher.publish()
            for pod in batch.pods:
                pending = frontend.scheduling.pending.get(pod.uid)
                assert pending is not None
                frontend.cluster.cache.assume(
                    pod.key,
                    pod.uid,
                    f"n{number[pod.uid] % NODES}",
                    pending.base,
                    pending.parsed.labels,
                    pending.class_id,
                )
                frontend.scheduling.queue.done(pod.uid, 1000.0)
        frontend.phases.publisher.publish()

    def _show(self, kind: EventKind, pods: list[ParsedPod]) -> None:
        self._version += 1
        self.frontend.inbox.on_pods([Event(kind, pod._replace(resource_version=self._version)) for pod in pods])

    def _show_objects(self, kind: EventKind, made: list[tuple[object_kinds.ObjectKind, Any]]) -> None:
        for of_kind, entry in made:
            self.frontend.inbox.on_objects(of_kind, [Event(kind, entry)])

    def _job(self, *, grouped: bool) -> Iterator[ParsedPod]:
        self._jobs += 1
        name = f"job-{self._jobs}"
        spec: dict[str, Any] = {
            "schedulerName": "default-scheduler",
            "priority": self._jobs % 7,
            "containers": [{"name": "main", "image": "job", "resources": {"requests": {"cpu": "1m"}}}],
        }
        # A leader tries the members of a group together, which is another matter.
        if grouped and not self.leads:
            spec["schedulingGroup"] = {"podGroupName": name}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
        labels = {"job-name": name, "app": "batch"}
        metadata = {"namespace": "ns", "name": name, "uid": "", "labels": labels, "ownerReferences": [owner]}
        parsed = pod_projection.parse({"metadata": metadata, "spec": spec})
        for number in range(PODS_PER_JOB):
            yield parsed._replace(name=f"{name}-{number}", uid=f"{name}-{number}-uid")

    def _objects(self, pods: list[ParsedPod]) -> Iterator[tuple[object_kinds.ObjectKind, Any]]:
        kinds = {kind.field: kind for kind in object_kinds.KINDS}
        for number, pod in enumerate(pods):
            names = {} if number % PODS_PER_JOB else {"pod_group": pod.group or f"group-{pod.name}"}
            for field, name in {**names, "persistent_volume_claim": pod.name, "resource_claim": pod.name}.items():
                entry = kinds[field].message()
                entry.metadata.namespace, entry.metadata.name = pod.namespace, name
                entry.metadata.uid, entry.metadata.resource_version = f"{field}-{name}", "1"
                if field == "pod_group":
                    entry.spec.scheduling_policy.basic.SetInParent()
                yield kinds[field], entry


def _sizes(root: Any) -> dict[str, int]:
    """How many elements each container has that is reachable from our own objects, by owner and attribute."""
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(type(root).__name__, root)]
    while waiting:
        name, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ATTRIBUTES):
            sizes[name] = sizes.get(name, 0) + len(value)
            elements = value.values() if isinstance(value, dict) else value
            waiting.extend((f"{name}[]", element) for element in elements)
        elif isinstance(value, tuple):
            waiting.extend((f"{name}[]", element) for element in value)
        elif value is root or (type(value).__module__.startswith("trireme.") and not hasattr(value, "DESCRIPTOR")):
            slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
            attributes = {*slots, *getattr(value, "__dict__", ())}
            waiting += [(f"{type(value).__name__}.{each}", getattr(value, each, None)) for each in attributes]
    return sizes


def _resident_bytes() -> int:
    gc.collect()
    statm = Path("/proc/self/statm").read_text()
    return int(statm.split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.timeout(600)  # half a minute alone
@pytest.mark.parametrize("leads", [False, True], ids=["standby", "leader"])
@pytest.mark.parametrize(
    ("objects", "total"), [pytest.param(False, 80_000, id="pods"), pytest.param(True, 50_000, id="pods with objects")]
)
def test_memory_is_flat_while_short_pods_pass_by(leads: bool, objects: bool, total: int) -> None:
    """A frontend's memory does not grow with every job that ever ran."""
    arguments = ["--feature-gates=GenericWorkload=true"] if objects else []
    passage = _Passage(*arguments)
    if leads:
        passage.lead()
    schedule = passage.schedule if leads else lambda pods: None
    passage.run(WARM_UP // PODS_PER_JOB, schedule, objects)
    before, resident = (_sizes(passage.frontend), _sizes(passage.follower)), _resident_bytes()
    assert len(passage.frontend.cluster.registry) > 1000
    passage.run((total - WARM_UP) // PODS_PER_JOB, schedule, objects)
    after, grown = (_sizes(passage.frontend), _sizes(passage.follower)), _resident_bytes() - resident
    passage.world.close()
    for first, last in zip(before, after, strict=True):
        assert {name: (first.get(name, 0), size) for name, size in last.items() if size > first.get(name, 0)} == {}
    assert grown < RSS_SLACK_BYTES
