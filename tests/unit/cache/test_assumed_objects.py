"""Objects that are assumed to be as PreBind will write them, and waiting for their changes."""

import asyncio

import pytest

from trireme.cache import assumed_objects, class_registry, cluster_cache, object_waits
from trireme.v1 import snapshot_pb2

KEY = ("persistent_volume", "", "pv")


def _volume(version: str, claim: str = "") -> snapshot_pb2.ClusterObject:
    entry = snapshot_pb2.ClusterObject()
    entry.persistent_volume.metadata.name = "pv"
    entry.persistent_volume.metadata.resource_version = version
    if claim:
        entry.persistent_volume.spec.claim_ref.name = claim
    return entry


def _cache() -> cluster_cache.ClusterCache:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    cache.set_object(_volume("1"))
    cache.take_delta()
    return cache


def _streamed(cache: cluster_cache.ClusterCache) -> str | None:
    """The claim of the volume as replicas get it; None: they do not."""
    delta = cache.take_delta()
    if delta is None:
        return None
    return delta.objects[0].persistent_volume.spec.claim_ref.name


def _synced(cache: cluster_cache.ClusterCache) -> str:
    """The claim of the volume as a replica gets it that comes now."""
    (entry,) = [entry for delta in cache.full_sync() for entry in delta.objects]
    return entry.persistent_volume.spec.claim_ref.name


def test_an_assumption_is_streamed_and_restored() -> None:
    cache = _cache()
    cache.assume_objects("uid", [_volume("1", "claim")])
    assert _streamed(cache) == "claim"
    assert _synced(cache) == "claim"
    cache.forget_objects("uid")
    assert _streamed(cache) == ""
    assert _synced(cache) == ""


def test_all_objects_that_are_assumed_for_a_pod_are_streamed_and_restored() -> None:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    entries = [entry for _, entry in sorted(_volumes("a", "b", "c").items())]
    for entry in entries:
        cache.set_object(entry)
    cache.take_delta()
    for change in (lambda: cache.assume_objects("uid", entries[:2]), lambda: cache.forget_objects("uid")):
        change()
        delta = cache.take_delta()
        assert delta is not None
        assert sorted(entry.persistent_volume.metadata.name for entry in delta.objects) == ["a", "b"]


def test_a_later_version_from_the_informer_replaces_the_assumed_one() -> None:
    """Somebody else took the volume: an assumption that outlived that would hide it."""
    cache = _cache()
    cache.assume_objects("uid", [_volume("1", "claim")])
    cache.take_delta()
    cache.set_object(_volume("2", "another"))
    assert _streamed(cache) == "another"
    cache.forget_objects("uid")
    assert _streamed(cache) is None


def test_the_same_version_delivered_again_changes_nothing() -> None:
    """A list made anew shows what is known: what is assumed of it stays."""
    cache = _cache()
    cache.assume_objects("uid", [_volume("1", "claim")])
    cache.take_delta()
    cache.set_object(_volume("1"))
    assert _synced(cache) == "claim"


def test_an_object_that_goes_takes_the_assumption_with_it() -> None:
    """A volume that is gone must not be promised any more."""
    cache = _cache()
    cache.assume_objects("uid", [_volume("1", "claim")])
    cache.take_delta()
    cache.remove_object(*KEY)
    delta = cache.take_delta()
    assert delta is not None
    assert [key.name for key in delta.removed_objects] == ["pv"]
    assert not [entry for chunk in cache.full_sync() for entry in chunk.objects]


@pytest.mark.parametrize("shown", ["2", None], ids=["another-version", "gone"])
def test_an_old_version_is_not_assumed(shown: str | None) -> None:
    """Filter looked at a version that is not there any more: what it chose may be somebody else's."""
    cache = _cache()
    if shown is None:
        cache.remove_object(*KEY)
    else:
        cache.set_object(_volume(shown))
    cache.take_delta()
    with pytest.raises(assumed_objects.OutOfSyncError, match="pv"):
        cache.assume_objects("uid", [_volume("1", "claim")])
    assert cache.take_delta() is None


def test_each_pod_gives_back_what_is_its_own() -> None:
    """Taking one pod back must not free what another was promised."""
    cache = _cache()
    cache.assume_objects("uid", [_volume("1", "claim")])
    cache.take_delta()
    cache.forget_objects("another")
    assert _streamed(cache) is None
    assert _synced(cache) == "claim"


async def test_a_change_between_question_and_wait_is_not_missed() -> None:
    """The volume is bound while bind's answer is on its way: waiting for the next change would take forever."""
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as recording:
        waits.record([KEY])
        await asyncio.wait_for(recording.wait_for_change([KEY]), 20)
        recording.start_over()
        waiting = asyncio.create_task(recording.wait_for_change([KEY]))
        await asyncio.sleep(0)
        assert not waiting.done()
        waits.record([KEY])
        await asyncio.wait_for(waiting, 20)


async def test_only_the_objects_named_end_the_wait() -> None:
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as recording:
        waiting = asyncio.create_task(recording.wait_for_change([KEY]))
        await asyncio.sleep(0)
        waits.record([("persistent_volume", "", "another")])
        await asyncio.sleep(0)
        assert not waiting.done()
        waits.record([KEY])
        await asyncio.wait_for(waiting, 20)


async def test_changes_that_every_waiter_has_seen_are_dropped() -> None:
    """Where there was always a pod in PreBind, each object that ever changed was remembered."""
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as calling, waits.record_changes() as idle:
        waiting = asyncio.create_task(idle.wait_for_change([KEY]))
        await asyncio.sleep(0)
        for number in range(20 * object_waits.MIN_RECORDS):
            if number % 100 == 0:
                calling.start_over()
                waits.record([KEY])
            waits.record([("resource_claim", "default", f"claim-{number}")])
        assert len(waits) <= object_waits.MIN_RECORDS + 100
        await asyncio.wait_for(waiting, 20)
        last = ("resource_claim", "default", f"claim-{20 * object_waits.MIN_RECORDS - 90}")
        await asyncio.wait_for(calling.wait_for_change([last]), 20)
    assert len(waits) == 0


async def test_changes_that_a_waiter_has_not_seen_are_kept_however_many() -> None:
    """A call takes long, and what the pod waits for happens at its beginning: it would wait for the next change."""
    waits = object_waits.ObjectWaits()
    with waits.record_changes() as recording:
        waits.record([KEY])
        for number in range(5 * object_waits.MIN_RECORDS):
            with waits.record_changes():
                waits.record([("resource_claim", "default", f"claim-{number}")])
        await asyncio.wait_for(recording.wait_for_change([KEY]), 20)


def _device_claim(
    version: str, *, allocated: bool = False, uid: str = "u", owner: str = ""
) -> snapshot_pb2.ClusterObject:
    out = snapshot_pb2.ClusterObject()
    metadata = out.resource_claim.metadata
    metadata.namespace, metadata.name, metadata.uid, metadata.resource_version = "default", "claim", uid, version
    if allocated:
        out.resource_claim.status.allocation.devices.results.add(device="x")
    if owner:
        metadata.owner_references.add(uid=owner, controller=True)
    return out


DEVICE_CLAIM = ("resource_claim", "default", "claim")


def test_an_assumed_allocation_holds_until_the_claim_has_one() -> None:
    """An allocation takes two writes; after the first the claim has another version and no devices yet."""
    shown = {DEVICE_CLAIM: _device_claim("1")}
    assumed = assumed_objects.AssumedObjects(shown)
    assumed.assume("pod", {DEVICE_CLAIM: _device_claim("1", allocated=True)})
    shown[DEVICE_CLAIM] = _device_claim("2")
    assumed.on_informer_change(DEVICE_CLAIM)
    entry = assumed.get(DEVICE_CLAIM)
    assert entry is not None
    assert entry.resource_claim.status.HasField("allocation"), "the device would be given twice"
    shown[DEVICE_CLAIM] = _device_claim("3", allocated=True)
    assumed.on_informer_change(DEVICE_CLAIM)
    assert len(assumed) == 0


@pytest.mark.parametrize("now", [None, _device_claim("2", uid="another")], ids=["gone", "another one"])
def test_nothing_is_assumed_of_a_claim_that_is_gone(now: snapshot_pb2.ClusterObject | None) -> None:
    shown = {DEVICE_CLAIM: _device_claim("1")}
    assumed = assumed_objects.AssumedObjects(shown)
    assumed.assume("pod", {DEVICE_CLAIM: _device_claim("1", allocated=True)})
    del shown[DEVICE_CLAIM]
    if now is not None:
        shown[DEVICE_CLAIM] = now
    assumed.on_informer_change(DEVICE_CLAIM)
    assert len(assumed) == 0


def test_a_claim_that_is_only_to_be_made_is_there_until_the_real_one_is() -> None:
    """It is streamed like any other, and ends with the first that is made for its pod and has devices."""
    shown: dict[assumed_objects.Key, snapshot_pb2.ClusterObject] = {}
    assumed = assumed_objects.AssumedObjects(shown)
    made = ("resource_claim", "default", "to be made")
    assumed.assume("pod", {made: _device_claim("", allocated=True)})
    assert len(list(assumed.all())) == 1, "a replica that is synchronised anew would not know of it"
    for owner, allocated, left in (("other", True, 1), ("pod", False, 1), ("pod", True, 0)):
        shown[DEVICE_CLAIM] = _device_claim("1", allocated=allocated, owner=owner)
        assert assumed.on_informer_change(DEVICE_CLAIM) == ([] if left else [made])
        assert len(assumed) == left


def _open_claim(version: str = "1", group: str = "g") -> snapshot_pb2.ClusterObject:
    entry = _device_claim(version, allocated=True)
    entry.open_to_group = group
    return entry


def test_a_shared_claim_is_assumed_until_its_last_pod_restores_it() -> None:
    assumed = assumed_objects.AssumedObjects({DEVICE_CLAIM: _device_claim("1")})
    for uid in ("first", "second"):
        assumed.assume(uid, {DEVICE_CLAIM: _open_claim()})
    assert assumed.forget("first") == {}
    assert list(assumed.forget("second")) == [DEVICE_CLAIM]
    assert len(assumed) == 0


def test_another_pod_of_the_group_shares_it_though_the_claim_was_touched_meanwhile() -> None:
    """Its finalizer is written first: pods that share the promise do not look at the version again."""
    shown = {DEVICE_CLAIM: _device_claim("1")}
    assumed = assumed_objects.AssumedObjects(shown)
    assumed.assume("first", {DEVICE_CLAIM: _open_claim()})
    shown[DEVICE_CLAIM] = _device_claim("2")
    assumed.on_informer_change(DEVICE_CLAIM)
    assumed.assume("second", {DEVICE_CLAIM: _open_claim()})
    assert assumed.forget("first") == {}


@pytest.mark.parametrize("group", ["", "h"], ids=["no group", "another group"])
def test_a_pod_outside_the_group_does_not_share_the_claim(group: str) -> None:
    """One that only looks the same is another promise, and the first pod has none any more."""
    assumed = assumed_objects.AssumedObjects({DEVICE_CLAIM: _device_claim("1")})
    assumed.assume("first", {DEVICE_CLAIM: _open_claim()})
    assumed.assume("other", {DEVICE_CLAIM: _open_claim(group=group)})
    assert assumed.forget("first") == {}
    assert list(assumed.forget("other")) == [DEVICE_CLAIM]


def test_claims_of_a_finished_group_trial_are_closed_to_the_group() -> None:
    """A pod that comes later could be bound before the claim is written, or after it was given back."""
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    cache.set_object(_device_claim("1"))
    cache.assume_objects("first", [_open_claim()])
    delta = cache.take_delta()
    assert delta is not None
    assert [entry.open_to_group for entry in delta.objects] == ["g"]
    cache.end_object_sharing({"other"})
    assert cache.take_delta() is None
    cache.end_object_sharing({"first"})
    delta = cache.take_delta()
    assert delta is not None
    assert [(entry.assumed, entry.open_to_group) for entry in delta.objects] == [(False, "")]
    assert delta.objects[0].resource_claim.status.HasField("allocation"), "it is promised still"


def _named_claim(name: str, uid: str) -> snapshot_pb2.ClusterObject:
    entry = snapshot_pb2.ClusterObject(open_to_group="g")
    entry.resource_claim.metadata.name = name
    entry.resource_claim.metadata.uid = uid
    return entry


def _open_assumptions(*entries: snapshot_pb2.ClusterObject) -> assumed_objects.AssumedObjects:
    assumed = assumed_objects.AssumedObjects({})
    assumed.assume("first", {("resource_claim", "", entry.resource_claim.metadata.name): entry for entry in entries})
    return assumed


def test_members_of_a_group_share_a_claim_until_the_last_leaves() -> None:
    claim = _named_claim("claim", "1")
    assumed = _open_assumptions(claim)
    assumed.assume("second", {("resource_claim", "", "claim"): claim})
    assert assumed.assumed_for("first") == assumed.assumed_for("second") == [claim]
    assert assumed.assumed_for("third") == []
    assert assumed.forget("first") == {}
    assert list(assumed.forget("second").values()) == [claim]
    assert assumed.assumed_for("second") == []


def test_another_claim_of_the_same_name_is_not_shared() -> None:
    """It was deleted and made again: the former one's devices are not the later one's."""
    assumed = _open_assumptions(_named_claim("claim", "1"))
    again = _named_claim("claim", "2")
    assumed.assume("second", {("resource_claim", "", "claim"): again})
    assert list(assumed.forget("second").values()) == [again]


def test_no_claim_of_the_pods_is_open_once_sharing_ends() -> None:
    assumed = _open_assumptions(_named_claim("one", "1"), _named_claim("two", "2"))
    assumed.assume("other", {("resource_claim", "", "three"): _named_claim("three", "3")})
    closed = assumed.end_sharing({"first"})
    assert [name for _, _, name in closed] == ["one", "two"]
    assert [entry.open_to_group for entry in assumed.assumed_for("first")] == ["", ""]
    assert [entry.open_to_group for entry in assumed.assumed_for("other")] == ["g"]


@pytest.mark.parametrize("group", ["", "other"])
def test_a_claim_of_another_group_or_none_is_not_shared(group: str) -> None:
    assumed = _open_assumptions(_named_claim("claim", "1"))
    claim = _named_claim("claim", "1")
    claim.open_to_group = group
    assumed.assume("second", {("resource_claim", "", "claim"): claim})
    assert assumed.assumed_for("first") == []


def test_a_claim_that_is_open_to_no_group_is_not_shared() -> None:
    """What was found for the last pod is assumed, and goes with it."""
    assumed = assumed_objects.AssumedObjects({})
    claims = [_named_claim("claim", "1") for _ in range(2)]
    for claim in claims:
        claim.ClearField("open_to_group")
    claims[1].resource_claim.status.allocation.devices.results.add(driver="d", pool="p", device="x")
    for uid, claim in zip(("first", "second"), claims, strict=True):
        assumed.assume(uid, {("resource_claim", "", "claim"): claim})
    assert (assumed.assumed_for("first"), assumed.assumed_for("second")) == ([], [claims[1]])
    assert list(assumed.forget("second").values()) == [claims[1]]


def _volumes(*names: str, version: str = "1") -> dict[assumed_objects.Key, snapshot_pb2.ClusterObject]:
    entries = {("persistent_volume", "", name): _volume(version) for name in names}
    for (_, _, name), entry in entries.items():
        entry.persistent_volume.metadata.name = name
    return entries


@pytest.mark.parametrize("version", ["0", ""], ids=["out of date", "to be created, though it is there"])
def test_all_objects_are_assumed_or_none(version: str) -> None:
    claim = _named_claim("claim", "1")
    assumed = assumed_objects.AssumedObjects(_volumes("a", "b"))
    shared = {("resource_claim", "", "claim"): claim}
    assumed.assume("first", shared)
    created = {("resource_claim", "", "new"): _named_claim("new", "2")}
    with pytest.raises(assumed_objects.OutOfSyncError):
        assumed.assume("second", shared | created | _volumes("a") | _volumes("b", version=version))
    assert assumed.assumed_for("second") == []


def test_all_objects_of_a_pod_are_assumed_and_forgotten_together() -> None:
    informed = _volumes("a", "b", "c")
    assumed = assumed_objects.AssumedObjects(informed)
    chosen = _volumes("a", "b")
    for entry in chosen.values():
        entry.persistent_volume.spec.claim_ref.name = "claim"
    assumed.assume("pod", chosen)
    assert list(assumed.all()) == [*chosen.values(), informed["persistent_volume", "", "c"]]
    assert assumed.forget("pod") == chosen
    assert list(assumed.all()) == list(informed.values())


def _allocated_claim(owner: str, *, controller: bool = True) -> snapshot_pb2.ClusterObject:
    entry = snapshot_pb2.ClusterObject()
    entry.resource_claim.metadata.resource_version = "5"
    entry.resource_claim.metadata.owner_references.add(uid=owner, controller=controller)
    entry.resource_claim.status.allocation.SetInParent()
    return entry


@pytest.mark.parametrize(
    ("shown", "ends"),
    [
        (_allocated_claim("pod"), True),
        (_allocated_claim("other"), False),
        (_allocated_claim("pod", controller=False), False),
        (_volume("2"), False),
    ],
    ids=["its own", "of another pod", "of a pod that does not control it", "another kind"],
)
def test_the_claims_that_were_to_be_created_end_with_the_pods_allocated_claim(
    shown: snapshot_pb2.ClusterObject, ends: bool
) -> None:
    """What exists already, or has a version, was not to be created."""
    informed = {("resource_claim", "", "there"): _named_claim("there", "3"), **_volumes("versioned")}
    created = {("resource_claim", "", name): _named_claim(name, name) for name in ("one", "two")}
    assumed = assumed_objects.AssumedObjects(informed)
    assumed.assume(
        "pod",
        {**created, **_volumes("versioned"), ("resource_claim", "", "there"): informed["resource_claim", "", "there"]},
    )
    key = (shown.WhichOneof("object") or "", "", "shown")
    informed[key] = shown
    assert assumed.on_informer_change(key) == (list(created) if ends else [])
    assert len(assumed) == (2 if ends else 4)


@pytest.mark.parametrize(("namespace", "name"), [("ns", "ns/v"), ("", "v")])
def test_what_is_out_of_date_is_named_with_its_versions(namespace: str, name: str) -> None:
    """The pod's event is all that its owner sees of it."""
    key = ("persistent_volume_claim", namespace, "v")
    entries = {}
    for version in ("1", "2"):
        entries[version] = snapshot_pb2.ClusterObject()
        entries[version].persistent_volume_claim.metadata.resource_version = version
    for informed, text in (
        ({}, f'"{name}" is not there any more'),
        ({key: entries["2"]}, f'"{name}" is out of sync (stored: 2, assume: 1)'),
    ):
        with pytest.raises(assumed_objects.OutOfSyncError) as raised:
            assumed_objects.AssumedObjects(informed).assume("pod", {key: entries["1"]})
        assert str(raised.value) == text
