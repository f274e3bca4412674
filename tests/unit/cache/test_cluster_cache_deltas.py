"""The cluster cache against a plain model: a follower of its deltas is where a full sync would have brought it."""

import functools

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.helpers.snapshot_views import node_of, node_view, view
from trireme.cache import class_registry, cluster_cache, delta_chunks, placed_pod, pod_projection
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, meta_pb2, snapshot_pb2

NODES = [f"n{number}" for number in range(4)]
UIDS = [f"u{number}" for number in range(6)]
KEYS = ["app", "tier", "index"]

node_names = st.sampled_from(NODES)
uids = st.sampled_from(UIDS)
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["x", "y"]))
cpus = st.sampled_from(["100m", "1", "0"])
flags = st.sampled_from([0, pod_projection.TERMINATING])
starts = st.sampled_from(["", "2026-01-01T00:00:00Z"])
node_fields = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b"])),
        "taints": st.sampled_from([[], [("k", "v", "NoSchedule")]]),
        "images": st.dictionaries(st.sampled_from(["a:1", "b:1", "c:1"]), st.sampled_from([10, 20])),
        "unschedulable": st.booleans(),
        "features": st.sampled_from([(), ("f",)]),
        "allocatable": st.sampled_from([{"cpu": "4", "pods": "9"}, {"cpu": "4", "example.com/gpu": "2"}]),
    },
)


def _raw(uid: str, node: str, cpu: str, own: dict[str, str], terminating: bool, selected: str) -> dict[str, object]:
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {selected: "x"}}}] if selected else []
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} if terms else {}
    metadata: dict[str, object] = {"namespace": "default", "name": f"pod-{uid}", "uid": uid, "labels": own}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": containers, "affinity": affinity}}


def _placeable(snap: snapshot.Snapshot) -> dict[str, object]:
    """All that says where a pod goes: what classes there are, and since when pods run, does not."""
    seen = view(snap)
    pods = {row: (uid, number, slot, flag) for row, (uid, _, number, slot, _, flag) in seen["pods"].items()}
    return {**seen, "classes": None, "pods": pods}


class CacheMachine(RuleBasedStateMachine):
    """Changes in any order; deltas are taken now and then, and applied by a follower."""

    @initialize(chunk_bytes=st.sampled_from((1, 150, delta_chunks.CHUNK_BYTES)))
    def start(self, chunk_bytes: int) -> None:
        """A follower that begins with a full sync of an empty cache; chunks are of any size."""
        self.usual_chunk_bytes, delta_chunks.CHUNK_BYTES = delta_chunks.CHUNK_BYTES, chunk_bytes
        self.registry = class_registry.ClassRegistry(idle_classes=2)
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.follower = snapshot.Snapshot()
        self.nodes: set[str] = set()
        self.pods: dict[str, tuple[str, str]] = {}  # UID to node and cpu
        self.assumed: set[str] = set()
        self._sync(self.follower)
        self.placeable = (self.cache.revision, _placeable(self.follower))
        self.published_rows: set[int] = set()

    def _sync(self, snap: snapshot.Snapshot) -> None:
        for chunk in self.cache.full_sync():
            snap.apply(chunk)

    @rule(name=node_names, fields=node_fields)
    def set_node(self, name: str, fields: dict[str, object]) -> None:
        """A node is there, or another one than before."""
        changed, before = self.cache.set_node(node_of(name, **fields))
        assert (before is None) == (name not in self.nodes)
        assert changed or before is not None
        self.nodes.add(name)

    @rule(name=node_names)
    def remove_node(self, name: str) -> None:
        """A node is gone; its pods are still known."""
        assert (self.cache.remove_node(name) is None) == (name not in self.nodes)
        self.nodes.discard(name)

    @rule(
        uid=uids, node=node_names, cpu=cpus, own=labels, flag=flags, selected=st.sampled_from(["", *KEYS]), start=starts
    )
    def set_pod(self, uid: str, node: str, cpu: str, own: dict[str, str], flag: int, selected: str, start: str) -> None:
        """The informer shows a pod on a node, known before or not, perhaps assumed."""
        raw = _raw(uid, node, cpu, own, bool(flag), selected)
        parsed = pod_projection.parse({**raw, "status": {"startTime": start} if start else {}})
        base = self.registry.intern_base(parsed.base)
        self.cache.set_pod(parsed, self.registry.intern(base, parsed.labels), base)
        self.pods[uid] = (node, cpu)
        self.assumed.discard(uid)
        self._intern_again()

    @rule(uid=uids)
    def remove_pod(self, uid: str) -> None:
        """A pod is gone."""
        assert (self.cache.remove_pod(uid) is None) == (uid not in self.pods)
        self.pods.pop(uid, None)
        self.assumed.discard(uid)

    @rule(uid=uids, node=node_names, cpu=cpus, own=labels)
    def assume(self, uid: str, node: str, cpu: str, own: dict[str, str]) -> None:
        """A pod is taken to be on a node."""
        if uid in self.pods:
            return
        parsed = pod_projection.parse(_raw(uid, node, cpu, own, False, ""))
        base = self.registry.intern_base(parsed.base)
        class_id = self.registry.intern(base, parsed.labels)
        revision = self.cache.revision
        self.cache.assume(parsed.key, uid, node, base, parsed.labels, class_id)
        # An assumption counts these: one for each, or none where it takes nothing from any node.
        assert self.cache.revision - revision == (node in self.nodes)
        self.registry.release(class_id)
        self.pods[uid] = (node, cpu)
        self.assumed.add(uid)

    @rule(uid=uids)
    def forget(self, uid: str) -> None:
        """A pod is not taken to be on a node any more; one that is bound by now stays."""
        assert self.cache.forget(uid) == (uid in self.assumed)
        if uid in self.assumed:
            self.assumed.discard(uid)
            del self.pods[uid]

    @rule(name=st.sampled_from(["a", "b"]), key=st.sampled_from(KEYS))
    def set_service(self, name: str, key: str) -> None:
        """Another object, which selects by a label key."""
        service = core_pb2.Service(metadata=meta_pb2.ObjectMeta(namespace="default", name=name))
        service.spec.selector[key] = "x"
        self.registry.add_selector_keys([key])
        self.cache.set_object(snapshot_pb2.ClusterObject(service=service))
        self._intern_again()

    @rule(name=st.sampled_from(["a", "b"]))
    def remove_service(self, name: str) -> None:
        """The object is gone."""
        self.cache.remove_object("service", "default", name)

    @rule(uid=st.sampled_from(["w0", "w1"]), name=node_names, own=labels)
    def nominate(self, uid: str, name: str, own: dict[str, str]) -> None:
        """A pod waits for a node."""
        slot = self.cache.slot_of(name)
        if slot == placed_pod.NO_SLOT:
            self.cache.nominate(uid, None)
            return
        parsed = pod_projection.parse(_raw(uid, "", "1", own, False, ""))
        class_id = self.registry.intern(self.registry.intern_base(parsed.base), parsed.labels)
        identity = cycle_pb2.PodIdentity(namespace="default", name=uid, uid=uid)
        self.cache.nominate(uid, snapshot_pb2.Nomination(pod=identity, pod_class=class_id, slot=slot))

    @rule()
    def take_delta(self) -> None:
        """The follower goes on, and is where a full sync would have brought it."""
        while (delta := self.cache.take_delta()) is not None:
            self.follower.apply(delta)
            # Calls may be answered from what any delta makes, so nothing is referred to that is not there.
            assert self.follower.synced
            held = {number for _, _, number, *_ in view(self.follower)["pods"].values()}
            held.update(nominee.pod_class for nominee in self.follower.nominations.values())
            assert held <= self.follower.classes.keys()
        fresh = snapshot.Snapshot()
        self._sync(fresh)
        assert view(self.follower) == view(fresh)
        assert self.follower.generation == fresh.generation == self.cache.generation
        self.published_rows = {pod.row for pod in self.cache.pods()}
        before, self.placeable = self.placeable, (self.cache.revision, _placeable(fresh))
        assert self.placeable[1] == before[1] or self.placeable[0] > before[0]
        self._as_the_model_says()

    @rule()
    def drop_delta(self) -> None:
        """The follower was away, and begins anew."""
        self.cache.drop_delta()
        self.follower = snapshot.Snapshot()
        self._sync(self.follower)
        self.take_delta()

    def _as_the_model_says(self) -> None:
        assert set(self.follower.nodes.slot_of_name) == self.nodes
        for name in self.nodes:
            mine = [cpu for node, cpu in self.pods.values() if node == name]
            seen = node_view(self.follower, name)
            total = sum({"100m": 100, "1": 1000, "0": 0}[cpu] for cpu in mine)
            assert seen["requested"].get("cpu", 0) == total
            assert seen["pods"][1] == len(mine)
        # A nomination never outlives the node at its slot.
        assert all(self.follower.nodes.alive[nominee.slot] for nominee in self.follower.nominations.values())

    @invariant()
    def counts(self) -> None:
        """The cache holds what the model holds."""
        if hasattr(self, "cache"):
            statistics = self.cache.statistics()
            assert (statistics.nodes, statistics.pods) == (len(self.nodes), len(self.pods))
            assert statistics.assumed_pods == len(self.assumed)
            # What came and went since the last delta is not recorded for the next one.
            changes, registry = self.cache._deltas._changes, self.registry
            assert set(registry._added) <= registry._entries.keys()
            assert {row for row, pod in changes.rows.items() if pod is None} <= changes.known_rows
            assert changes.known_rows <= self.published_rows

    def _intern_again(self) -> None:
        keys = self.registry.take_new_selector_keys()
        while keys:
            self.cache.reclassify(keys)
            keys = self.registry.take_new_selector_keys()

    def teardown(self) -> None:
        """Everything ends with a delta."""
        if hasattr(self, "cache"):
            self.take_delta()
            delta_chunks.CHUNK_BYTES = self.usual_chunk_bytes


TestClusterCacheDeltas = CacheMachine.TestCase
TestClusterCacheDeltas.settings = settings(max_examples=150, stateful_step_count=40)


def test_deltas_of_a_trial_are_marked_until_one_ends_it() -> None:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    cache.set_node(core_pb2.Node(metadata={"name": "a"}))
    assert _taken(cache) == [(0, 1, False)]
    cache.begin_trial()
    cache.set_node(core_pb2.Node(metadata={"name": "b"}))
    assert _taken(cache) == [(1, 2, True)]
    assert {delta.trial for delta in cache.full_sync()} == {True}
    cache.end_trial()
    # The generation stays: random choices begin with it, and depend on no mark.
    assert _taken(cache) == [(2, 2, False)]
    assert _taken(cache) == []
    assert {delta.trial for delta in cache.full_sync()} == {False}


@pytest.mark.parametrize("dropped", [False, True], ids=["without deltas", "dropped without followers"])
def test_a_trial_that_no_follower_knows_of_needs_no_end(dropped: bool) -> None:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    cache.begin_trial()
    if dropped:
        cache.set_node(core_pb2.Node(metadata={"name": "a"}))
        assert _taken(cache) == [(0, 1, True)]
        cache.drop_delta()
    cache.end_trial()
    assert _taken(cache) == []


def test_a_trial_that_ends_between_two_of_its_deltas_is_ended_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas would not count what is assumed from then on."""
    monkeypatch.setattr(delta_chunks, "CHUNK_BYTES", 1)
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    cache.begin_trial()
    for name in ("a", "b"):
        cache.set_node(core_pb2.Node(metadata={"name": name}))
    first = cache.take_delta()
    assert first is not None
    cache.end_trial()
    assert [trial for *_, trial in _taken(cache)] == [True, False]


@pytest.mark.parametrize("sizes", [(), (1, 2, 3), (9, 1), (10,), (11,), (11, 11), (1, 11, 1), (5, 5, 5, 1), (0, 12)])
def test_deltas_are_filled_up_in_order_and_none_is_empty(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each goes to every follower: an empty one, or one for each change, costs as much as a full one."""
    monkeypatch.setattr(delta_chunks, "CHUNK_BYTES", 10)
    parts = [
        (size, functools.partial(lambda number, delta: delta.removed_pods.append(number), number))
        for number, size in enumerate(sizes)
    ]
    packed = [list(delta.removed_pods) for delta in delta_chunks.pack_into_deltas(parts, snapshot_pb2.Delta)]
    assert [number for each in packed for number in each] == list(range(len(sizes)))
    assert all(packed) or (packed == [[]] and not sizes)
    totals = [sum(sizes[number] for number in each) for each in packed]
    assert all(total <= 10 or len(each) == 1 or sizes[each[0]] == 0 for total, each in zip(totals, packed, strict=True))
    assert all(total + sizes[after[0]] > 10 for total, after in zip(totals, packed[1:], strict=False))


def _taken(cache: cluster_cache.ClusterCache) -> list[tuple[int, int, bool]]:
    deltas = iter(cache.take_delta, None)
    return [(delta.from_generation, delta.to_generation, delta.trial) for delta in deltas]
