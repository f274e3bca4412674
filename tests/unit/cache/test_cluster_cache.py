"""What the cache does and takes back: afterwards it is as before, for replicas and in memory."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.helpers.held_entries import held_entries
from tests.helpers.snapshot_views import node_of, view
from trireme.cache import class_registry, cluster_cache, delta_chunks, pod_projection
from trireme.framework import amounts
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

_UNKNOWN = "n9"


class Followed:
    """A cache of two nodes and a pod on each, whose deltas a snapshot follows."""

    def __init__(self) -> None:
        self.registry = class_registry.ClassRegistry(idle_classes=0, rules=amounts.Rules(claims=True))
        self.registry.add_selector_keys(["app", "other"])
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.snap = snapshot.Snapshot()
        for name in ("n0", "n1"):
            self.cache.set_node(node_of(name))
            self.show_pod(f"on-{name}", name)
        for chunk in self.cache.full_sync():
            self.snap.apply(chunk)
        self.take()

    def take(self) -> None:
        while (delta := self.cache.take_delta()) is not None:
            self.snap.apply(delta)

    def parsed(self, uid: str, node: str, **more: Any) -> Any:
        labels, status = more.pop("labels", {"app": "x"}), more.pop("status", {})
        metadata = {"namespace": "ns", "name": uid, "uid": uid, "labels": labels, **more.pop("metadata", {})}
        containers = [{"name": "c", "resources": {"requests": {"cpu": more.pop("cpu", "1")}}}]
        spec = {"nodeName": node, "containers": containers, **more}
        return pod_projection.parse({"metadata": metadata, "spec": spec, "status": status})

    def show_pod(self, uid: str, node: str, **more: Any) -> None:
        parsed = self.parsed(uid, node, **more)
        base = self.registry.intern_base(parsed.base)
        self.cache.set_pod(parsed, self.registry.intern(base, parsed.labels), base)

    def assume(self, uid: str, node: str, **more: Any) -> None:
        parsed = self.parsed(uid, "", **more)
        base = self.registry.intern_base(parsed.base)
        class_id = self.registry.intern(base, parsed.labels)
        self.cache.assume(parsed.key, uid, node, base, parsed.labels, class_id)
        self.registry.release(class_id)

    def nominate(self, node: str) -> None:
        identity = cycle_pb2.PodIdentity(namespace="ns", name="w", uid="w")
        class_id = self.cache.pod("on-n0").class_id  # type: ignore[union-attr]
        self.cache.nominate_node(snapshot_pb2.Nomination(pod=identity, pod_class=class_id), node)

    def seen(self) -> Any:
        """What replicas see; by name, as rows and slots are given anew, and classes get new numbers."""
        self.take()
        found = view(self.snap)
        texts = found.pop("classes")
        pods = sorted((uid, texts[number], flags) for uid, _, number, _, _, flags in found.pop("pods").values())
        nodes = {name: {**each, "slot": None} for name, each in found.pop("nodes").items()}
        return pods, nodes, sorted(texts.values()), found

    def held(self) -> dict[str, int]:
        return dict(held_entries(self.cache, self.registry))


def _claim(*devices: str) -> snapshot_pb2.ClusterObject:
    entry = snapshot_pb2.ClusterObject()
    metadata = entry.resource_claim.metadata
    metadata.namespace, metadata.name, metadata.uid = "ns", "c", "c"
    for device in devices:
        entry.resource_claim.status.allocation.devices.results.add(driver="d", pool="p", device=device)
    return entry


def _count_claim(followed: Followed) -> None:
    followed.assume("new", "n0")
    counted = core_pb2.NodeAllocatableResourceClaimStatus(resource_claim_name="c")
    counted.overhead.add(name="cpu").per_pod.string = "2"
    followed.cache.count_claim_resources("new", [counted])


def _service(followed: Followed) -> None:
    service = core_pb2.Service()
    service.metadata.namespace, service.metadata.name = "ns", "s"
    followed.cache.set_object(snapshot_pb2.ClusterObject(service=service))


Step = Callable[[Followed], object]
# Taken back before a delta had it, these leave nothing to publish: replicas never knew them.
_NEW = {"node", "pod", "pod of another class", "assumed", "assumed with claims", "nominated", "object"}
_PAIRS: dict[str, tuple[Step, Step]] = {
    "node": (lambda it: it.cache.set_node(node_of("new")), lambda it: it.cache.remove_node("new")),
    "known node": (
        lambda it: it.cache.set_node(node_of("n0", labels={"a": "b"})),
        lambda it: it.cache.set_node(node_of("n0")),
    ),
    "pod": (lambda it: it.show_pod("new", "n0"), lambda it: it.cache.remove_pod("new")),
    "pod of another class": (lambda it: it.show_pod("new", "n0", cpu="3"), lambda it: it.cache.remove_pod("new")),
    "pod that changes": (lambda it: it.show_pod("on-n0", "n0", cpu="3"), lambda it: it.show_pod("on-n0", "n0")),
    "pod that moves": (lambda it: it.show_pod("on-n0", "n1"), lambda it: it.show_pod("on-n0", "n0")),
    "labels": (
        lambda it: it.show_pod("on-n0", "n0", labels={"other": "y"}),
        lambda it: it.show_pod("on-n0", "n0"),
    ),
    "terminating": (
        lambda it: it.show_pod("on-n0", "n0", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        lambda it: it.show_pod("on-n0", "n0"),
    ),
    "assumed": (lambda it: it.assume("new", "n0"), lambda it: it.cache.forget("new")),
    "assumed with claims": (_count_claim, lambda it: it.cache.forget("new")),
    "evicting": (
        lambda it: it.cache.set_evicting("on-n0", True),
        lambda it: it.cache.set_evicting("on-n0", False),
    ),
    "hidden": (
        lambda it: it.cache.hide_from_replicas(["on-n0", "on-n1", "nobody"]),
        lambda it: it.cache.show_to_replicas(["on-n0", "on-n1", "nobody"]),
    ),
    "nominated": (lambda it: it.nominate("n0"), lambda it: it.nominate("")),
    "object": (_service, lambda it: it.cache.remove_object("service", "ns", "s")),
}


@pytest.mark.parametrize("published", [True, False], ids=["published", "at once"])
@pytest.mark.parametrize("name", _PAIRS)
def test_what_is_taken_back_leaves_nothing(name: str, published: bool) -> None:
    """Neither with replicas, whether or not a delta had it, nor in memory; and both steps end speculation."""
    do, undo = _PAIRS[name]
    followed = Followed()
    before, statistics = followed.seen(), followed.cache.statistics()
    held: dict[str, int] = {}
    for number in range(3):
        if number == 2:
            held = followed.held()
        revision = followed.cache.revision
        do(followed)
        assert followed.cache.revision > revision
        assert followed.cache.has_changes
        if published:
            assert followed.seen() != before
        revision = followed.cache.revision
        undo(followed)
        assert followed.cache.revision > revision
        if name in _NEW and not published:
            assert not followed.cache.has_changes
        assert followed.seen() == before
        assert not followed.cache.has_changes
    after = followed.cache.statistics()
    counted = (after.nodes, after.pods, after.assumed_pods, after.classes)
    assert counted == (statistics.nodes, statistics.pods, statistics.assumed_pods, statistics.classes)
    assert {key: count for key, count in followed.held().items() if count > held.get(key, 0)} == {}


def test_a_pod_and_a_nomination_that_were_known_before_their_node_are_on_it_once_it_comes() -> None:
    followed = Followed()
    before = followed.seen()
    followed.show_pod("early", _UNKNOWN)
    followed.nominate(_UNKNOWN)
    assert followed.seen()[0] == before[0]
    assert not followed.snap.nominations
    followed.cache.set_node(node_of(_UNKNOWN))
    followed.take()
    slot = followed.cache.slot_of(_UNKNOWN)
    assert [nominee.slot for nominee in followed.snap.nominations.values()] == [slot]
    assert "early" in [uid for uid, *_ in followed.seen()[0]]
    followed.cache.remove_node(_UNKNOWN)
    assert followed.seen()[0] == before[0]
    assert not followed.snap.nominations
    followed.cache.set_node(node_of(_UNKNOWN))
    followed.take()
    assert len(followed.snap.nominations) == 1, "its pod still waits for the node"
    followed.nominate("")
    followed.cache.set_node(node_of(_UNKNOWN, labels={"a": "b"}))
    followed.cache.remove_node(_UNKNOWN)
    followed.cache.set_node(node_of(_UNKNOWN))
    followed.take()
    assert not followed.snap.nominations


def test_a_pod_that_was_not_hidden_is_not_shown_again() -> None:
    """Its former row would stay with the replicas, and it would count twice."""
    followed = Followed()
    before = followed.seen()
    followed.cache.show_to_replicas(["on-n0", "nobody"])
    assert not followed.cache.has_changes
    assert followed.seen() == before


def test_all_claims_of_a_pod_are_counted() -> None:
    followed = Followed()
    claims = []
    for name, cpus in (("c", "2"), ("d", "3")):
        counted = core_pb2.NodeAllocatableResourceClaimStatus(resource_claim_name=name)
        counted.overhead.add(name="cpu").per_pod.string = cpus
        claims.append(counted)
    found = set()
    for number, some in enumerate(([], claims[:1], claims[1:], claims)):
        followed.assume(f"p{number}", "n0")
        followed.cache.count_claim_resources(f"p{number}", some)
        placed = followed.cache.pod(f"p{number}")
        assert placed is not None
        found.add(placed.class_id)
    assert len(found) == 4


def test_a_hidden_pod_that_goes_meanwhile_is_not_shown_again() -> None:
    followed = Followed()
    followed.cache.hide_from_replicas(["on-n0"])
    followed.take()
    followed.cache.remove_pod("on-n0")
    followed.cache.show_to_replicas(["on-n0"])
    assert [uid for uid, *_ in followed.seen()[0]] == ["on-n1"]


def test_a_hidden_pod_whose_node_goes_meanwhile_is_not_shown_again() -> None:
    followed = Followed()
    followed.cache.hide_from_replicas(["on-n0"])
    followed.take()
    followed.cache.remove_node("n0")
    followed.cache.show_to_replicas(["on-n0"])
    assert [uid for uid, *_ in followed.seen()[0]] == ["on-n1"]


def test_a_heartbeat_is_no_change_of_where_pods_fit() -> None:
    """Speculation would end every few seconds."""
    followed = Followed()

    def beat(seconds: int, status: str = "True") -> core_pb2.Node:
        node = node_of("n0")
        node.metadata.resource_version = str(seconds)
        condition = node.status.conditions.add(type="Ready", status=status)
        condition.last_heartbeat_time.seconds = seconds
        return node

    followed.cache.set_node(beat(1))
    revision = followed.cache.revision
    assert followed.cache.set_node(beat(2))[0]
    assert followed.cache.revision == revision
    assert followed.cache.set_node(beat(3, "False"))[0]
    assert followed.cache.revision > revision
    revision = followed.cache.revision
    assert not followed.cache.set_node(beat(2))[0], "an older version"
    assert not followed.cache.set_node(beat(3, "False"))[0], "the same"
    assert followed.cache.revision == revision


def test_what_is_seen_again_as_it_was_is_no_change() -> None:
    """Informers list everything again now and then: all of the cluster would go to the replicas."""
    followed = Followed()
    followed.show_pod("on-n0", "n0", metadata={"resourceVersion": "1"})
    assert followed.cache.set_node(node_of("n0", labels={"a": "b"})) == (True, node_of("n0"))
    assert followed.cache.set_node(node_of("n2")) == (True, None)
    followed.take()
    revision = followed.cache.revision
    followed.show_pod("on-n0", "n0", metadata={"resourceVersion": "2"})
    assert followed.cache.set_node(node_of("n2")) == (False, node_of("n2"))
    assert not followed.cache.has_changes
    assert followed.cache.revision == revision


@pytest.mark.parametrize(
    ("uid", "version", "taken"),
    [("a", "8", True), ("a", "7", True), ("a", "6", False), ("b", "8", True), ("b", "6", True)],
)
def test_only_an_older_version_of_the_same_node_is_not_taken(uid: str, version: str, taken: bool) -> None:
    """A node that was made again has any version; the same version may show more than before."""
    followed = Followed()

    def node(uid: str, version: str, **more: Any) -> core_pb2.Node:
        made = node_of("n0", **more)
        made.metadata.uid, made.metadata.resource_version = uid, version
        return made

    followed.cache.set_node(node("a", "7"))
    assert followed.cache.set_node(node(uid, version, labels={"a": "b"}))[0] is taken
    stored = followed.cache.node("n0")
    assert stored is not None
    assert ("a" in stored.metadata.labels) is taken


def test_the_last_chunk_of_a_full_sync_and_no_other_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica answers nothing before it, and with half a cluster after an earlier one."""
    monkeypatch.setattr(delta_chunks, "CHUNK_BYTES", 1)
    chunks = list(Followed().cache.full_sync())
    assert len(chunks) > 3
    assert [chunk.partial for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert [chunk.reset for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    assert len({chunk.to_generation for chunk in chunks}) == 1


def test_all_pods_of_a_node_go_and_come_with_it() -> None:
    followed = Followed()
    followed.show_pod("beside", "n0")
    before = followed.seen()
    followed.cache.remove_node("n0")
    assert [uid for uid, *_ in followed.seen()[0]] == ["on-n1"]
    followed.cache.set_node(node_of("n0"))
    assert followed.seen() == before


def test_all_nominations_of_a_node_go_and_come_with_it_and_no_others() -> None:
    followed = Followed()
    for uid, node in (("a", "n1"), ("b", "n0"), ("c", "n0"), ("d", "n1")):
        nomination = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=uid))
        followed.cache.nominate_node(nomination, node)
    seen = []
    for change in (
        lambda: None,
        lambda: followed.cache.remove_node("n0"),
        lambda: followed.cache.set_node(node_of("n0")),
    ):
        change()
        followed.take()
        seen.append(sorted(followed.snap.nominations))
    assert seen == [["a", "b", "c", "d"], ["a", "d"], ["a", "b", "c", "d"]]


@pytest.mark.parametrize("version", ["x", "²", "9" * 5000], ids=["word", "superscript", "endless"])
def test_a_node_whose_version_is_no_number_is_no_older_one(version: str) -> None:
    """One odd node would end the informer, and the frontend with it."""
    followed = Followed()
    for each in ("5", version, "4"):
        node = node_of("n0")
        node.metadata.resource_version = each
        assert followed.cache.set_node(node)[0]


@contextmanager
def _called(register: Callable[[Callable[[], None]], Callable[[], None]]) -> Iterator[list[str]]:
    calls: list[str] = []
    register(lambda: calls.append("called"))
    yield calls


@pytest.mark.parametrize("how", ["removed", "terminating", "forgotten"])
def test_the_end_of_a_pod_is_told_once(how: str) -> None:
    followed = Followed()
    if how == "forgotten":
        followed.assume("p", "n0")
    else:
        followed.show_pod("p", "n0")
    with _called(lambda callback: followed.cache.call_on_deletion("p", callback)) as calls:
        if how == "removed":
            followed.cache.remove_pod("p")
        elif how == "forgotten":
            assert followed.cache.forget("p")
        else:
            for _ in range(2):
                followed.show_pod("p", "n0", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert calls == ["called"]


def test_the_end_of_a_node_is_told_once_and_to_nobody_who_has_given_up() -> None:
    followed = Followed()
    with _called(lambda callback: followed.cache.call_on_node_removal("n0", callback)) as calls:
        given_up = followed.cache.call_on_node_removal("n0", lambda: calls.append("given up"))
        given_up()
        followed.cache.remove_node("n1")
        assert calls == []
        followed.cache.remove_node("n0")
        followed.cache.set_node(node_of("n0"))
        followed.cache.remove_node("n0")
    assert calls == ["called"]


def test_callbacks_that_are_cancelled_leave_nothing_and_the_others_stay() -> None:
    """Each call about a pod registers one, and most pods live on."""
    followed = Followed()
    followed.show_pod("p", "n0")
    before = held_entries(followed.cache)
    calls: list[str] = []
    first, second = (
        followed.cache.call_on_deletion("p", lambda name=name: calls.append(name)) for name in ("first", "second")
    )
    first()
    first()
    assert held_entries(followed.cache) != before
    second()
    assert held_entries(followed.cache) == before
    third = followed.cache.call_on_deletion("p", lambda: calls.append("third"))
    second()
    followed.cache.remove_pod("p")
    third()
    assert calls == ["third"]


def test_an_object_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no known kind"):
        Followed().cache.set_object(snapshot_pb2.ClusterObject())


def test_a_pod_that_is_seen_bound_is_assumed_no_more() -> None:
    followed = Followed()
    followed.assume("p", "n0")
    assert followed.cache.is_assumed("p")
    assert followed.cache.assumed_count == 1
    with pytest.raises(ValueError, match="pod ns/p is on node n0 already"):
        followed.assume("p", "n1")
    followed.show_pod("p", "n0")
    assert not followed.cache.is_assumed("p")
    assert not followed.cache.forget("p")
    pod = followed.cache.pod("p")
    assert pod is not None
    assert (pod.assumed, followed.cache.assumed_count) == (False, 0)


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "forgotten"])
def test_objects_that_were_assumed_for_a_pod_go_with_it(removed: bool) -> None:
    """A device that stays assumed for a pod without a node is lost for all others."""
    followed = Followed()
    followed.cache.set_object(_claim())
    followed.assume("p", "n0")
    revision = followed.cache.revision
    assert [
        len(after.resource_claim.status.allocation.devices.results)
        for _, after in followed.cache.assume_objects("p", [_claim("d1")])
        if after is not None
    ] == [1]
    assert followed.cache.revision > revision
    assert len(followed.cache.objects_assumed_for("p")) == 1
    followed.take()
    (claim,) = followed.snap.objects.all("resource_claim")
    assert len(claim.status.allocation.devices.results) == 1
    if removed:
        followed.cache.remove_pod("p")
    else:
        followed.cache.forget("p")
    assert followed.cache.objects_assumed_for("p") == []
    followed.take()
    (claim,) = followed.snap.objects.all("resource_claim")
    assert len(claim.status.allocation.devices.results) == 0


def test_without_followers_nothing_is_kept_for_them() -> None:
    """A scheduler without replicas would fill its memory with changes."""
    followed = Followed()
    generation = followed.cache.generation
    held = followed.held()
    for number in range(5):
        followed.assume(f"p{number}", "n0")
        followed.cache.forget(f"p{number}")
        followed.nominate("n0")
        followed.nominate("")
        _service(followed)
        followed.cache.remove_object("service", "ns", "s")
        followed.cache.drop_delta()
    assert not followed.cache.has_changes
    assert followed.cache.generation >= generation
    assert followed.cache.take_delta() is None
    kept = {key: count for key, count in followed.held().items() if count > held.get(key, 0)}
    assert set(kept) <= {"DeltaLog._free_rows"}


@pytest.mark.parametrize("published", [True, False], ids=["published", "at once"])
def test_slots_and_rows_are_given_again(published: bool) -> None:
    """The columns of all replicas would grow with each node and pod that ever was."""
    followed = Followed()
    slots, rows = set(), set()
    for number in range(6):
        followed.cache.set_node(node_of(f"new-{number}"))
        followed.assume(f"p-{number}", f"new-{number}")
        pod = followed.cache.pod(f"p-{number}")
        assert pod is not None
        slots.add(pod.slot)
        rows.add(pod.row)
        if published:
            followed.take()
        followed.cache.forget(f"p-{number}")
        followed.cache.remove_node(f"new-{number}")
        if published:
            followed.take()
    assert (len(slots), len(rows)) == (1, 1)


def test_what_is_at_a_slot_depends_on_when_it_was_seen() -> None:
    """An answer about the node before must place no pod on the one that has its slot now."""
    followed = Followed()
    followed.cache.set_node(node_of("new"))
    slot, before = followed.cache.slot_of("new"), followed.cache.generation
    assert followed.cache.node_at(slot, before) is None, "no replica has seen it yet"
    followed.take()
    assert followed.cache.node_at(slot, followed.cache.generation) == "new"
    assert followed.cache.node_at(slot, before) is None
    followed.cache.remove_node("new")
    assert followed.cache.node_at(slot, followed.cache.generation) is None
    assert followed.cache.slot_of("new") < 0


def test_a_nomination_that_moves_to_an_unknown_node_is_seen_by_no_replica() -> None:
    followed = Followed()
    followed.nominate("n0")
    followed.take()
    assert len(followed.snap.nominations) == 1
    followed.nominate(_UNKNOWN)
    followed.take()
    assert not followed.snap.nominations


def test_nothing_is_kept_of_nodes_that_were_only_heard_of() -> None:
    followed = Followed()
    held: dict[str, int] = {}
    for number in range(4):
        followed.show_pod("p", f"unknown-{number}")
        followed.cache.remove_pod("p")
        if number == 1:
            held = followed.held()
    assert {key: count for key, count in followed.held().items() if count > held.get(key, 0)} == {}


def test_a_pod_that_is_gone_is_found_by_no_label_that_it_had() -> None:
    followed = Followed()
    followed.show_pod("p", "n0", labels={"app": "x"})
    followed.show_pod("p", "n0", labels={"other": "y"})
    followed.cache.reclassify(frozenset({"app", "other"}))
    followed.cache.remove_pod("p")
    followed.cache.reclassify(frozenset({"app", "other"}))
    assert followed.cache.pod("p") is None


def test_changes_that_are_dropped_are_in_no_later_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if some of their deltas have been taken."""
    monkeypatch.setattr(delta_chunks, "CHUNK_BYTES", 1)
    followed = Followed()
    for number in range(4):
        followed.cache.set_node(node_of(f"new-{number}"))
    assert followed.cache.take_delta() is not None
    assert followed.cache.has_changes
    followed.cache.drop_delta()
    assert followed.cache.take_delta() is None
    assert not followed.cache.has_changes


def test_nothing_that_is_dropped_is_no_generation() -> None:
    """It is asked for with each cycle while nobody follows."""
    followed = Followed()
    followed.seen()
    before = followed.cache.generation
    followed.cache.drop_delta()
    assert followed.cache.generation == before
    followed.show_pod("p", "n0")
    followed.cache.drop_delta()
    followed.cache.drop_delta()
    assert followed.cache.generation == before + 1


def test_a_heartbeat_counts_where_extenders_are_sent_whole_nodes() -> None:
    """Their answers may depend on what no plugin reads."""
    followed = Followed()
    followed.cache.set_node(node_of("n0"), b'{"beat": 1}')
    revision = followed.cache.revision
    followed.cache.set_node(node_of("n0"), b'{"beat": 2}')
    assert followed.cache.revision > revision


@pytest.mark.parametrize("group", ["g", ""], ids=["shared", "not shared"])
def test_the_end_of_sharing_changes_only_what_is_shared(group: str) -> None:
    followed = Followed()
    claim = _claim("d1")
    claim.open_to_group = group
    followed.cache.set_object(_claim())
    followed.cache.assume_objects("u", [claim])
    followed.take()
    followed.cache.end_object_sharing(["another"])
    assert not followed.cache.has_changes
    followed.cache.end_object_sharing(["u"])
    assert followed.cache.has_changes == bool(group)
    assert [entry.open_to_group for entry in followed.cache.objects_assumed_for("u")] == [""]


def test_marking_a_victim_again_or_one_that_is_gone_changes_nothing() -> None:
    followed = Followed()
    followed.cache.set_evicting("on-n0", True)
    followed.take()
    revision = followed.cache.revision
    followed.cache.set_evicting("on-n0", True)
    followed.cache.set_evicting("nobody", True)
    assert followed.cache.revision == revision
    assert not followed.cache.has_changes


def test_an_assumed_pod_is_neither_terminating_nor_a_victim_and_has_no_version() -> None:
    followed = Followed()
    followed.assume("p", "n0")
    pod = followed.cache.pod("p")
    assert pod is not None
    assert (pod.flags, pod.evicting, pod.version, pod.generation, pod.start) == (0, 0, 0, 0, 0)


def test_deletion_callbacks_run_when_a_pod_is_terminating_or_deleted() -> None:
    """A preemptor would be held back forever, and its room stay empty."""
    registry = class_registry.ClassRegistry()
    cache = cluster_cache.ClusterCache(registry)
    told: list[str] = []
    for uid in ("a", "b"):
        _show(cache, registry, uid)
        cache.call_on_deletion(uid, functools.partial(told.append, uid))
        _show(cache, registry, uid)
    assert told == []
    _show(cache, registry, "a", deletionTimestamp="2026-01-01T00:00:00Z")
    cache.remove_pod("b")
    assert told == ["a", "b"]
    cache.remove_pod("a")
    assert told == ["a", "b"]
    _show(cache, registry, "c")
    cancels = [cache.call_on_deletion("c", functools.partial(told.append, text)) for text in ("one", "two")]
    for _ in range(2):
        cancels[0]()
    cache.remove_pod("c")
    cancels[1]()
    assert told == ["a", "b", "two"]
    assert not cache._deletion_callbacks


def _show(cache: cluster_cache.ClusterCache, registry: class_registry.ClassRegistry, uid: str, **metadata: str) -> None:
    raw = {"metadata": {"namespace": "ns", "name": uid, "uid": uid, **metadata}, "spec": {"nodeName": "node"}}
    parsed = pod_projection.parse(raw)
    base = registry.intern_base(parsed.base)
    cache.set_pod(parsed, registry.intern(base, parsed.labels), base)
