"""DynamicResources' PreBind against objects in memory: what it writes, what it waits for, and how it fails."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from trireme.plugin_kit import bind_phase_plugin
from trireme.plugins.dynamic_resources import bind as binding
from trireme.plugins.dynamic_resources import extended_claims, reserve_state, unreserve
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2
from trireme_kube.apimachinery import api_writes
from trireme_kube.client import writes

Json = dict[str, Any]

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLAIM = f"{CLAIMS}/claim"
POD = cycle_pb2.PodIdentity(namespace="default", name="pod", uid="pod-uid")
NAME = api_writes.PodName("default", "pod", "pod-uid")
FINALIZER = "resource.kubernetes.io/delete-protection"
NOW = 1_800_000_000
ALLOCATION: Json = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
USER = {"resource": "pods", "name": "pod", "uid": "pod-uid"}


class Store(writes.Writer):
    """Objects by path; writes hold for the version that they name.

    `lost`: answers of writes do not arrive. `before` is done before the next write, by somebody else. So many of the
    next patches get the answer 409, as `conflicts` says; `replaced`: another pod has the name.
    """

    def __init__(self) -> None:
        metadata = {"name": "claim", "namespace": "default", "uid": "u", "resourceVersion": "1"}
        self.objects: dict[str, Json] = {CLAIM: {"metadata": metadata, "spec": {"devices": {}}}}
        self.pod_status: Json = {}
        self.written: list[str] = []
        self.read: list[str] = []
        self.lost = False
        self.refuse_pod = False
        self.replaced = False
        self.conflicts = 0
        self.before: Any = None

    async def get(self, path: str, deadline: float) -> api_writes.Outcome:
        self.read.append(path)
        if path not in self.objects:
            return api_writes.Gone("not found")
        return api_writes.Written(copy.deepcopy(self.objects[path]))

    async def get_pod(self, pod: api_writes.PodName, deadline: float) -> api_writes.Outcome:
        if self.replaced:
            return api_writes.Gone("another one has its name")
        return api_writes.Written({"metadata": {"uid": pod.uid}, "status": copy.deepcopy(self.pod_status)})

    async def put(self, path: str, obj: Mapping[str, Any], deadline: float) -> api_writes.Outcome:
        if self.before is not None:
            before, self.before = self.before, None
            before()
        known = self.objects.get(path.removesuffix("/status"))
        if known is None:
            return api_writes.Gone("not found")
        if obj["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            return api_writes.Conflict("the object has been modified")
        self.written.append(path)
        part = "status" if path.endswith("/status") else "metadata"
        known[part] = copy.deepcopy(dict(obj[part]))
        self.touch(path.removesuffix("/status"))
        return api_writes.Uncertain("no answer") if self.lost else api_writes.Written(copy.deepcopy(known))

    async def create(self, collection: str, obj: Mapping[str, Any], deadline: float) -> api_writes.Outcome:
        made = copy.deepcopy(dict(obj))
        path = f"{collection}/{made['metadata']['name']}"
        if path in self.objects:
            return api_writes.Conflict("it exists already")
        made["metadata"] |= {"uid": "made", "resourceVersion": "1"}
        self.objects[path] = made
        return api_writes.Uncertain("no answer") if self.lost else api_writes.Written(copy.deepcopy(made))

    async def patch(
        self, path: str, patch: Mapping[str, Any], deadline: float, content_type: str = api_writes.STRATEGIC_MERGE
    ) -> api_writes.Outcome:
        if self.conflicts or (self.replaced and path == f"{NAME.path}/status"):
            self.conflicts = max(self.conflicts - 1, 0)
            return api_writes.Conflict("the object has been modified")
        if path == f"{NAME.path}/status":
            assert content_type == api_writes.MERGE
            assert patch["metadata"] == {"uid": NAME.uid}
            self.pod_status |= patch["status"]
            return api_writes.Written({})
        claim = self.objects.get(path.removesuffix("/status"))
        if claim is None:
            return api_writes.Gone("not found")
        if patch["metadata"]["uid"] != claim["metadata"]["uid"]:
            return api_writes.Conflict("another UID")
        if "finalizers" in patch["metadata"]:
            return self._protect(path, claim, patch["metadata"]["finalizers"])
        (gone,) = patch["status"]["reservedFor"]
        assert gone["$patch"] == "delete"
        left = [user for user in claim["status"]["reservedFor"] if user["uid"] != gone["uid"]]
        claim["status"]["reservedFor"] = left
        return api_writes.Written(claim)

    def _protect(self, path: str, claim: Json, finalizers: list[str]) -> api_writes.Outcome:
        if claim["metadata"].get("deletionTimestamp"):
            return api_writes.Refused("no new finalizers can be added if the object is being deleted", 422)
        if claim["metadata"].get("finalizers") != finalizers:
            self.written.append(path)
            claim["metadata"]["finalizers"] = finalizers
            self.touch(path)
        return api_writes.Uncertain("no answer") if self.lost else api_writes.Written(copy.deepcopy(claim))

    async def patch_pod_status(
        self, pod: api_writes.PodName, patch: Mapping[str, Any], deadline: float
    ) -> api_writes.Outcome:
        if self.refuse_pod:
            return api_writes.Refused("no", 403)
        self.pod_status |= patch["status"]
        return api_writes.Written({})

    async def delete(self, path: str, uid: str, deadline: float) -> api_writes.Outcome:
        claim = self.objects[path]
        assert claim["metadata"]["uid"] == uid
        assert FINALIZER not in claim["metadata"].get("finalizers", ())
        del self.objects[path]
        return api_writes.Written({})

    def touch(self, path: str) -> None:
        """The object has another version from now on."""
        metadata = self.objects[path]["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    def set_status(self, **status: Any) -> None:
        """Somebody else changes the claim's status."""
        self.objects[CLAIM].setdefault("status", {}).update(status)
        self.touch(CLAIM)


UNUSED_BINDER: Any = None


def _to_allocate(**allocation: Any) -> reserve_state.ClaimToReserve:
    return reserve_state.ClaimToReserve("default", "claim", "u", {**ALLOCATION, **allocation})


TO_USE = reserve_state.ClaimToReserve("default", "claim", "u")
TO_MAKE = reserve_state.ClaimToReserve(
    "default",
    "",
    "",
    ALLOCATION,
    make=True,
    requests=({"name": "container-0-request-0", "exactly": {"deviceClassName": "c"}},),
    mappings=({"containerName": "c", "resourceName": "x/y", "requestName": "container-0-request-0"},),
)


def _state(*claims: reserve_state.ClaimToReserve, node_allocatable: tuple[Json, ...] = ()) -> bytes:
    return reserve_state.DeviceClaims(claims, node_allocatable=node_allocatable).to_bytes()


async def _pre_bind(
    store: Store,
    *claims: reserve_state.ClaimToReserve,
    now: int = NOW,
    node_allocatable: tuple[Json, ...] = (),
    binding_conditions: bool = True,
) -> bind_pb2.PreBindResult:
    state = bind_phase_pb2.PluginStates(
        plugin_states={binding.SPEC.name: _state(*claims, node_allocatable=node_allocatable)}
    )
    item = bind_pb2.BindItem(pod=POD, node_name="node", state=state.SerializeToString())
    gates = {"DRADeviceBindingConditions": binding_conditions}
    args = {"default-scheduler": {"bindingTimeout": "60s"}}
    plugin = binding.make(bind_phase_plugin.BindContext(args, gates, store, UNUSED_BINDER, lambda: now * 10**9))
    assert plugin.pre_bind is not None
    cycle = cycle_pb2.Cycle(profile="default-scheduler")
    (result,) = await plugin.pre_bind(bind_pb2.PreBindRequest(cycle=cycle, items=[item]))
    return result


async def test_allocation_and_user_are_written_after_the_claim_is_protected() -> None:
    """Two writes, as kube-scheduler does: a claim that has devices cannot be deleted."""
    store = Store()
    result = await _pre_bind(store, _to_allocate())
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.written == [CLAIM, f"{CLAIM}/status"]
    assert store.read == [], "with a low rate limit each request is a delay for all pods"
    claim = store.objects[CLAIM]
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    allocation = {**ALLOCATION, "allocationTimestamp": "2027-01-15T08:00:00Z"}
    assert claim["status"] == {"allocation": allocation, "reservedFor": [USER]}


async def test_a_claim_that_others_use_gets_one_user_more() -> None:
    """Shared claims: nobody is put out."""
    store = Store()
    other = {"resource": "pods", "name": "other", "uid": "other"}
    store.set_status(allocation={**ALLOCATION, "allocationTimestamp": "2027-01-01T00:00:00Z"}, reservedFor=[other])
    result = await _pre_bind(store, TO_USE)
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.objects[CLAIM]["status"]["reservedFor"] == [other, USER]


async def test_a_call_that_is_repeated_finds_its_own_writes() -> None:
    """The answer was lost; the claim is not written twice."""
    store = Store()
    store.lost = True
    result = await _pre_bind(store, _to_allocate())
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.written == [CLAIM, f"{CLAIM}/status"]


async def test_a_conflicting_update_is_retried() -> None:
    """A conflict is no reason to give the pod back."""
    store = Store()
    store.before = lambda: store.touch(CLAIM)
    result = await _pre_bind(store, _to_allocate())
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.objects[CLAIM]["status"]["reservedFor"] == [USER]


@pytest.mark.parametrize(
    ("claim", "status", "metadata", "text"),
    [
        pytest.param(
            _to_allocate(),
            {"allocation": {"devices": {}}},
            {},
            "claim default/claim got allocated elsewhere in the meantime",
            id="allocated",
        ),
        pytest.param(TO_USE, {}, {}, "claim default/claim got deallocated elsewhere in the meantime", id="deallocated"),
        pytest.param(
            _to_allocate(),
            {},
            {"deletionTimestamp": "2027-01-01T00:00:00Z"},
            "claim default/claim got deleted in the meantime",
            id="deleted",
        ),
    ],
)
async def test_a_claim_that_is_not_as_it_was_sends_the_pod_back(
    claim: reserve_state.ClaimToReserve, status: Json, metadata: Json, text: str
) -> None:
    """What somebody else wrote meanwhile counts."""
    store = Store()
    store.objects[CLAIM] |= {"status": status}
    store.objects[CLAIM]["metadata"] |= metadata
    result = await _pre_bind(store, claim)
    assert result.status.code == status_pb2.CODE_ERROR
    assert list(result.status.messages) == [f'running PreBind plugin "DynamicResources": {text}']
    # A claim that somebody else allocated has the finalizer already.
    assert f"{CLAIM}/status" not in store.written


WAITS = {"devices": {"results": [{**ALLOCATION["devices"]["results"][0], "bindingConditions": ["attached"]}]}}
WAITS["devices"]["results"][0]["bindingFailureConditions"] = ["broken"]


def _said(condition: str) -> Json:
    said = {"type": condition, "status": "True", "reason": "R", "message": "m"}
    return {"driver": "d", "pool": "p", "device": "x", "conditions": [said]}


async def test_devices_that_must_be_prepared_are_waited_for() -> None:
    """The claim is written, the pod waits for it, and goes on once the device's conditions are true."""
    store = Store()
    result = await _pre_bind(store, _to_allocate(**WAITS))
    assert result.status.code == status_pb2.CODE_WAIT
    assert [(key.kind, key.namespace, key.name) for key in result.wait_for] == [("resource_claim", "default", "claim")]
    assert result.timeout.seconds == 60
    again = reserve_state.DeviceClaims.from_bytes(result.state).claims
    store.set_status(devices=[_said("attached")])
    result = await _pre_bind(store, *again)
    assert result.status.code == status_pb2.CODE_SUCCESS, result


async def test_a_claim_that_is_deleted_while_its_devices_are_prepared_is_named() -> None:
    """In kube-scheduler's words; no conflict took place."""
    store = Store()
    waiting = await _pre_bind(store, _to_allocate(**WAITS))
    del store.objects[CLAIM]
    result = await _pre_bind(store, *reserve_state.DeviceClaims.from_bytes(waiting.state).claims)
    text = 'could not find ResourceClaim "default/claim"'
    assert list(result.status.messages) == [f'running PreBind plugin "DynamicResources": {text}']


@pytest.mark.parametrize(
    ("condition", "now", "text"),
    [
        pytest.param("broken", NOW, 'device binding failed: claim=claim, reason=R, message="m"', id="failed"),
        pytest.param("other", NOW + 61, "device binding timeout: claim=claim", id="too late"),
    ],
)
async def test_devices_that_cannot_be_prepared_send_the_pod_back(condition: str, now: int, text: str) -> None:
    """Filter then finds the claim lost, and PostFilter frees it."""
    store = Store()
    waiting = await _pre_bind(store, _to_allocate(**WAITS))
    store.set_status(devices=[_said(condition)])
    result = await _pre_bind(store, *reserve_state.DeviceClaims.from_bytes(waiting.state).claims, now=now)
    assert list(result.status.messages) == [f'running PreBind plugin "DynamicResources": {text}']


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"namespace": 1}, id="number-as-namespace"),
        pytest.param({"allocation": "x"}, id="text-as-allocation"),
        pytest.param({"requests": ["x"]}, id="text-as-request"),
        pytest.param({"mappings": 3}, id="number-as-mappings"),
        pytest.param({"other": 3}, id="unknown-field"),
    ],
)
def test_state_that_reserve_did_not_leave_is_refused(fields: Json) -> None:
    """Whatever reads it would fail somewhere else, with an error that says nothing about its cause."""
    claim = {**orjson.loads(_state(TO_MAKE))["claims"][0], **fields}
    with pytest.raises(ValueError, match="not what Reserve gave"):
        reserve_state.DeviceClaims.from_bytes(
            orjson.dumps({"claims": [claim], "reported": False, "node_allocatable": []})
        )


async def test_the_claim_for_extended_resources_is_created_and_recorded() -> None:
    """It belongs to the pod, whose status says which request is whose."""
    store = Store()
    result = await _pre_bind(store, TO_MAKE)
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    (path,) = _made(store)
    claim, name = store.objects[path], path.removeprefix(f"{CLAIMS}/")
    assert name.startswith("pod-extended-resources-")
    assert claim["metadata"]["generateName"] == "pod-extended-resources-"
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod-uid", "controller": True}
    assert claim["metadata"]["ownerReferences"] == [owner]
    assert claim["spec"] == {"devices": {"requests": list(TO_MAKE.requests)}}
    assert claim["status"]["reservedFor"] == [USER]
    noted = {"requestMappings": list(TO_MAKE.mappings), "resourceClaimName": name}
    assert store.pod_status == {"extendedResourceClaimStatus": noted}


async def test_a_claim_that_was_left_by_an_earlier_attempt_is_deleted() -> None:
    """The pod would have two claims, and one of them devices that nobody uses."""
    store = Store()
    result = await _pre_bind(store, dataclasses.replace(TO_MAKE, stale="claim"))
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert len(store.objects) == len(_made(store)) == 1


def _made(store: Store) -> list[str]:
    """The claims that were made for extended resources."""
    return [path for path in store.objects if path.startswith(f"{CLAIMS}/pod-extended-resources-")]


@pytest.mark.parametrize("calls", [2, 3])
async def test_a_call_that_is_repeated_makes_no_second_claim(calls: int) -> None:
    store = Store()
    for _ in range(calls):
        result = await _pre_bind(store, TO_MAKE)
        assert result.status.code == status_pb2.CODE_SUCCESS, result
    (path,) = _made(store)
    assert store.objects[path]["status"]["reservedFor"] == [USER]


async def test_a_claim_whose_answer_is_lost_is_found() -> None:
    """The server has made it: to make another one would leave this one without a user."""
    store = Store()
    store.lost = True
    await _pre_bind(store, TO_MAKE)
    assert len(_made(store)) == 1
    store.lost = False
    result = await _pre_bind(store, TO_MAKE)
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert len(_made(store)) == 1


async def test_a_foreign_claim_of_the_same_name_is_not_used() -> None:
    """Names have few characters of their own: two pods may come to one name."""
    store, other = Store(), Store()
    await _pre_bind(other, TO_MAKE)
    (path,) = _made(other)
    theirs = other.objects[path]
    theirs["metadata"]["ownerReferences"][0]["uid"] = "other-uid"
    store.objects[path] = copy.deepcopy(theirs)
    for _ in range(2):
        result = await _pre_bind(store, TO_MAKE)
        assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.objects[path] == theirs
    assert len(_made(store)) == 2


async def test_a_long_name_is_cut_as_generated_ones_are() -> None:
    """The API server refuses names that are longer, so that the pod would never be bound."""
    pod = cycle_pb2.PodIdentity(namespace="default", name="p" * 200, uid="pod-uid")
    store = Store()
    await extended_claims.create_claim(store, CLAIMS, pod, TO_MAKE, 1.0)
    (name,) = (path.removeprefix(f"{CLAIMS}/") for path in store.objects if path != CLAIM)
    assert len(name) == 63


async def test_an_unrecorded_claim_is_deleted() -> None:
    """The call ended between making the claim and noting its name: else its devices stay taken."""
    store = Store()
    await extended_claims.create_claim(store, CLAIMS, POD, TO_MAKE, 1.0)
    assert store.pod_status == {}
    assert await unreserve.unreserve(store, NAME, _state(TO_MAKE)) is None
    assert list(store.objects) == [CLAIM]


RESOURCES: Json = {"resourceClaimName": "claim", "mapping": [{"name": "cpu", "quantity": "2"}]}


async def test_node_resources_of_extended_resources_name_the_claim_that_was_made() -> None:
    """kubernetes/kubernetes#141556: the API server refused the name that the claim had in memory."""
    store = Store()
    in_memory = {**RESOURCES, "resourceClaimName": reserve_state.IN_MEMORY}
    result = await _pre_bind(store, _to_allocate(), TO_MAKE, node_allocatable=(in_memory, RESOURCES))
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    (path,) = _made(store)
    made = {**RESOURCES, "resourceClaimName": path.removeprefix(f"{CLAIMS}/")}
    assert store.pod_status["nodeAllocatableResourceClaimStatuses"] == [made, RESOURCES]


async def test_node_resources_of_claims_are_written_and_removed() -> None:
    store = Store()
    result = await _pre_bind(store, _to_allocate(), node_allocatable=(RESOURCES,))
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.pod_status == {"nodeAllocatableResourceClaimStatuses": [RESOURCES]}
    assert await unreserve.unreserve(store, NAME, _state(_to_allocate(), node_allocatable=(RESOURCES,))) is None
    assert store.pod_status == {"nodeAllocatableResourceClaimStatuses": []}
    store.refuse_pod = True
    result = await _pre_bind(store, _to_allocate(), node_allocatable=(RESOURCES,))
    assert result.status.code == status_pb2.CODE_ERROR
    assert "updating pod default/pod NodeAllocatableResourceClaimStatuses: no" in result.status.messages[0]


async def test_a_conflict_is_not_taken_for_node_resources_that_are_removed() -> None:
    store, state = Store(), _state(node_allocatable=(RESOURCES,))
    store.pod_status = {"nodeAllocatableResourceClaimStatuses": [RESOURCES]}
    store.conflicts = 2
    assert await unreserve.unreserve(store, NAME, state) is None
    assert store.pod_status == {"nodeAllocatableResourceClaimStatuses": []}
    store.conflicts = 1000
    assert isinstance(await unreserve.unreserve(store, NAME, state), api_writes.Conflict)


async def test_node_resources_of_a_pod_that_was_replaced_are_left_alone() -> None:
    """The pod that has its name now has resources of its own, and this one's are gone with it."""
    store, state = Store(), _state(node_allocatable=(RESOURCES,))
    store.pod_status = {"nodeAllocatableResourceClaimStatuses": [RESOURCES]}
    store.replaced = True
    assert await unreserve.unreserve(store, NAME, state) is None
    assert store.pod_status == {"nodeAllocatableResourceClaimStatuses": [RESOURCES]}


async def test_a_pod_whose_removal_from_a_claim_conflicts_is_removed_again() -> None:
    store = Store()
    store.set_status(allocation=ALLOCATION, reservedFor=[USER])
    store.conflicts = 2
    assert await unreserve.unreserve(store, NAME, _state(TO_USE)) is None
    assert store.objects[CLAIM]["status"]["reservedFor"] == []
    store.set_status(reservedFor=[USER])
    store.conflicts = 1000
    assert isinstance(await unreserve.unreserve(store, NAME, _state(TO_USE)), api_writes.Conflict)


async def test_without_binding_conditions_nothing_is_awaited_or_timestamped() -> None:
    """With the gate off devices are there as soon as they are allocated."""
    store = Store()
    waiting = {"request": "r", "driver": "d", "pool": "p", "device": "x", "bindingConditions": ["ready"]}
    result = await _pre_bind(store, _to_allocate(devices={"results": [waiting]}), binding_conditions=False)
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert "allocationTimestamp" not in store.objects[CLAIM]["status"]["allocation"]


async def test_a_claim_that_was_made_in_vain_is_deleted() -> None:
    store = Store()
    store.refuse_pod = True
    result = await _pre_bind(store, TO_MAKE)
    assert result.status.code == status_pb2.CODE_ERROR
    assert list(store.objects) == [CLAIM]


async def test_unreserve_reverts_what_was_written() -> None:
    """The pod is not bound after all: it uses the claims no more, and the one that was made for it is deleted."""
    store = Store()
    await _pre_bind(store, _to_allocate(), TO_MAKE)
    assert await unreserve.unreserve(store, NAME, _state(_to_allocate(), TO_MAKE)) is None
    assert list(store.objects) == [CLAIM]
    assert store.objects[CLAIM]["status"]["reservedFor"] == []
    assert store.objects[CLAIM]["status"]["allocation"], "the devices stay: the next attempt finds them allocated"
    assert await unreserve.unreserve(store, NAME, _state(_to_allocate())) is None, "again is no fault"


GROUP_USER = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group-uid"}
OF_GROUP = dataclasses.replace(_to_allocate(), group="g", group_uid="group-uid")


async def test_a_claim_of_a_group_is_reserved_for_the_group_once() -> None:
    """With each pod's own entry the claim would be full after so many pods, and free when these are gone."""
    store = Store()
    for _ in range(2):
        result = await _pre_bind(store, OF_GROUP)
        assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.objects[CLAIM]["status"]["reservedFor"] == [GROUP_USER]
    assert store.written == [CLAIM, f"{CLAIM}/status"]


@pytest.mark.parametrize("user", [{**GROUP_USER, "name": "h"}, {**GROUP_USER, "resource": "pods"}, USER | {"uid": "x"}])
async def test_a_reservation_for_another_consumer_is_not_the_groups(user: Json) -> None:
    """A pod would be bound that nobody reserved its devices for."""
    store = Store()
    store.set_status(allocation={**ALLOCATION, "allocationTimestamp": "2027-01-01T00:00:00Z"}, reservedFor=[user])
    result = await _pre_bind(store, dataclasses.replace(OF_GROUP, allocation=None))
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.objects[CLAIM]["status"]["reservedFor"] == [user, GROUP_USER]


async def test_the_second_of_two_pods_with_one_claim_finds_it_allocated() -> None:
    """It has the devices that it was promised, so it need not go back."""
    store = Store()
    other = {"resource": "pods", "name": "other", "uid": "other"}
    known = {**ALLOCATION, "allocationTimestamp": "2027-01-01T00:00:00Z"}
    store.before = lambda: store.set_status(allocation=known, reservedFor=[other])
    result = await _pre_bind(store, _to_allocate())
    assert result.status.code == status_pb2.CODE_SUCCESS, result
    assert store.objects[CLAIM]["status"] == {"allocation": known, "reservedFor": [other, USER]}


async def test_a_pod_that_is_not_bound_leaves_its_groups_claim_to_the_others() -> None:
    """The other pods of the group would lose their devices."""
    store = Store()
    await _pre_bind(store, OF_GROUP)
    assert await unreserve.unreserve(store, NAME, _state(OF_GROUP)) is None
    assert store.objects[CLAIM]["status"]["reservedFor"] == [GROUP_USER]
