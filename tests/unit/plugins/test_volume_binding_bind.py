"""VolumeBinding's PreBind against objects in memory: what it writes, what it waits for, and how it fails."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from trireme.plugin_kit import bind_phase_plugin
from trireme.plugins.volume_binding import bind as volume_binding
from trireme.plugins.volume_binding import volume_bindings
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2
from trireme_kube.apimachinery import api_writes
from trireme_kube.client import writes

Json = dict[str, Any]

VOLUME = "/api/v1/persistentvolumes/pv"
CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/claim"
NODE = "/api/v1/nodes/node"
POD = "/api/v1/namespaces/default/pods/pod"

SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"
CONFLICT = "the object has been modified"


class Store(writes.Writer):
    """Objects by path; writes hold for the version that they name. `lost`: answers of writes do not arrive."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {
            VOLUME: {"metadata": {"name": "pv", "resourceVersion": "1"}, "spec": {"capacity": {"storage": "1Gi"}}},
            CLAIM: {
                "metadata": {"name": "claim", "namespace": "default", "uid": "u", "resourceVersion": "1"},
                "spec": {},
            },
            NODE: {"metadata": {"name": "node", "labels": {"zone": "a"}}},
            POD: {"metadata": {"name": "pod", "uid": "pod-uid"}},
        }
        self.patched: list[str] = []
        self.lost = False

    async def get(self, path: str, deadline: float) -> api_writes.Outcome:
        if path not in self.objects:
            return api_writes.Gone(f"{path} not found")
        return api_writes.Written(copy.deepcopy(self.objects[path]))

    async def get_pod(self, pod: api_writes.PodName, deadline: float) -> api_writes.Outcome:
        return await self.get(POD, deadline)

    async def patch(
        self, path: str, patch: Mapping[str, Any], deadline: float, content_type: str = api_writes.STRATEGIC_MERGE
    ) -> api_writes.Outcome:
        assert content_type == api_writes.MERGE
        obj = self.objects[path]
        if patch["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            return api_writes.Conflict(CONFLICT)
        self.patched.append(path)
        _merge(obj, patch)
        obj["metadata"]["resourceVersion"] = str(int(obj["metadata"]["resourceVersion"]) + 1)
        return api_writes.Uncertain("no answer") if self.lost else api_writes.Written(copy.deepcopy(obj))

    def change(self, path: str, **parts: Any) -> None:
        """Somebody else changes the object."""
        _merge(self.objects[path], parts)
        version = self.objects[path]["metadata"]["resourceVersion"]
        self.objects[path]["metadata"]["resourceVersion"] = str(int(version) + 1)


def _merge(obj: Json, patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, Mapping):
            _merge(obj.setdefault(key, {}), value)
        elif value is None:
            obj.pop(key, None)
        else:
            obj[key] = value


TO_BIND = volume_bindings.VolumeBindings((volume_bindings.VolumeToBind("pv", "1", True, "default", "claim", "u", "1"),))
TO_PROVISION = volume_bindings.VolumeBindings((), (volume_bindings.SelectedNodeWrite("default", "claim", "1"),))


class Pod:
    """One pod that goes through PreBind; its state goes from call to call."""

    def __init__(self, store: Store, bindings: volume_bindings.VolumeBindings | None, timeout: object = 30) -> None:
        args = {"p": {} if timeout is None else {"bindTimeoutSeconds": timeout}}
        unused: Any = None
        self._plugin = volume_binding.make(bind_phase_plugin.BindContext(args, {}, store, unused, lambda: 0))
        self.state = b"" if bindings is None else bindings.to_bytes()

    def _item(self) -> bind_pb2.BindItem:
        state = bind_phase_pb2.PluginStates(plugin_states={volume_binding.SPEC.name: self.state})
        return bind_pb2.BindItem(
            pod=cycle_pb2.PodIdentity(namespace="default", name="pod", uid="pod-uid"),
            node_name="node",
            state=state.SerializeToString(),
        )

    async def pre_flight(self) -> status_pb2.Status:
        request = bind_pb2.PreBindPreFlightRequest(cycle=cycle_pb2.Cycle(profile="p"), items=[self._item()])
        (result,) = await self._plugin.pre_bind_pre_flight(request)
        return result

    async def pre_bind(self) -> bind_pb2.PreBindResult:
        request = bind_pb2.PreBindRequest(cycle=cycle_pb2.Cycle(profile="p"), items=[self._item()])
        assert self._plugin.pre_bind is not None
        (result,) = await self._plugin.pre_bind(request)
        self.state = result.state or self.state
        return result

    async def failure(self) -> str:
        """The text of an answer that must be an error."""
        result = await self.pre_bind()
        assert result.status.code == status_pb2.CODE_ERROR
        return result.status.messages[0]


@pytest.mark.parametrize(("stated", "expected"), [(0, 0), (None, 600), (30, 30)], ids=["none", "unset", "some"])
async def test_a_timeout_of_zero_is_no_timeout_unset(stated: object, expected: int) -> None:
    """0 says that nothing is to be waited for; ten minutes is for where nothing is said."""
    result = await Pod(Store(), TO_BIND, stated).pre_bind()
    assert (result.status.code, result.timeout.seconds) == (status_pb2.CODE_WAIT, expected)


async def test_a_pod_without_volumes_is_skipped() -> None:
    """Most pods: a write, or a wait, for each of them would be felt."""
    pod = Pod(Store(), None)
    assert (await pod.pre_flight()).code == status_pb2.CODE_SKIP
    assert (await pod.pre_bind()).status.code == status_pb2.CODE_SKIP


@pytest.mark.parametrize("bindings", [TO_BIND, TO_PROVISION], ids=["to-bind", "to-provision"])
async def test_the_pre_flight_reports_work_and_writes_nothing(
    bindings: volume_bindings.VolumeBindings,
) -> None:
    """The pod's status names the node before the work begins, so it has to be known beforehand."""
    store = Store()
    assert (await Pod(store, bindings).pre_flight()).code == status_pb2.CODE_SUCCESS
    assert not store.patched


async def test_a_volume_gets_the_claims_name_and_is_waited_for() -> None:
    """The volume controller goes by claimRef and the annotation; the pod must not be bound before it is done."""
    store = Store()
    pod = Pod(store, TO_BIND)
    result = await pod.pre_bind()
    assert result.status.code == status_pb2.CODE_WAIT
    assert {(key.kind, key.name) for key in result.wait_for} == {
        ("persistent_volume", "pv"),
        ("persistent_volume_claim", "claim"),
    }
    assert result.timeout.seconds == 30
    written = store.objects[VOLUME]
    assert written["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert {key: written["spec"]["claimRef"][key] for key in ("kind", "namespace", "name", "uid")} == {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "claim",
        "uid": "u",
    }
    assert (await pod.pre_bind()).status.code == status_pb2.CODE_WAIT
    store.change(CLAIM, spec={"volumeName": "pv"}, metadata={"annotations": {COMPLETED: "yes"}})
    assert (await pod.pre_bind()).status.code == status_pb2.CODE_SUCCESS
    assert store.patched == [VOLUME]


async def test_a_claim_names_the_node_until_its_volume_is_made() -> None:
    """Provisioners go by the annotation."""
    store = Store()
    pod = Pod(store, TO_PROVISION)
    assert (await pod.pre_bind()).status.code == status_pb2.CODE_WAIT
    assert store.objects[CLAIM]["metadata"]["annotations"] == {SELECTED: "node"}
    store.change(CLAIM, spec={"volumeName": "pv"}, metadata={"annotations": {COMPLETED: "yes"}})
    assert (await pod.pre_bind()).status.code == status_pb2.CODE_SUCCESS


@pytest.mark.parametrize("bindings", [TO_BIND, TO_PROVISION], ids=["to-bind", "to-provision"])
async def test_a_lost_answer_is_found_again(bindings: volume_bindings.VolumeBindings) -> None:
    """The write may have happened: it is read back, on this replica or by a call with the old state on another."""
    store = Store()
    store.lost = True
    assert (await Pod(store, bindings).pre_bind()).status.code == status_pb2.CODE_WAIT
    store.lost = False
    assert (await Pod(store, bindings).pre_bind()).status.code == status_pb2.CODE_WAIT
    assert len(store.patched) == 1


@pytest.mark.parametrize(
    ("bindings", "path"), [(TO_BIND, VOLUME), (TO_PROVISION, CLAIM)], ids=["to-bind", "to-provision"]
)
async def test_an_object_that_has_changed_since_is_not_written(
    bindings: volume_bindings.VolumeBindings, path: str
) -> None:
    """Somebody else may have taken the volume: the pod goes back and looks again."""
    store = Store()
    store.change(path, metadata={"labels": {"changed": "yes"}})
    text = await Pod(store, bindings).failure()
    assert text == f'running PreBind plugin "VolumeBinding": {CONFLICT}'
    assert not store.patched


def _affinity(zone: str) -> Json:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


async def _gone(store: Store, path: str) -> None:
    del store.objects[path]


@pytest.mark.parametrize(
    ("path", "change", "text"),
    [
        (VOLUME, {"spec": {"claimRef": None}}, 'ClaimRef got reset for pv "pv"'),
        (
            VOLUME,
            {"spec": _affinity("b")},
            'pv "pv" node affinity doesn\'t match node "node": no matching NodeSelectorTerms',
        ),
        (VOLUME, None, 'failed to check binding: persistentvolumes "pv" not found'),
        (CLAIM, None, 'failed to check binding: persistentvolumeclaims "default/claim" not found'),
        (POD, None, 'pod does not exist any more: pod "pod" not found'),
        (NODE, None, 'failed to get node "node": node "node" not found'),
    ],
    ids=["claim-ref-reset", "out-of-reach", "volume-gone", "claim-gone", "pod-gone", "node-gone"],
)
async def test_errors_that_end_the_wait_for_a_volume(path: str, change: Json | None, text: str) -> None:
    """Each in kube-scheduler's words; the pod is tried again."""
    store = Store()
    pod = Pod(store, TO_BIND)
    await pod.pre_bind()
    if change is None:
        await _gone(store, path)
    else:
        store.change(path, **change)
    assert await pod.failure() == f'running PreBind plugin "VolumeBinding": binding volumes: {text}'


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({SELECTED: None}, 'selectedNode annotation reset for PVC "claim"'),
        ({SELECTED: None, "other": "kept"}, 'provisioning failed for PVC "claim"'),
        ({SELECTED: "elsewhere"}, 'provisioning failed for PVC "claim"'),
    ],
    ids=["no-annotations", "given-up", "another-node"],
)
async def test_errors_that_end_the_wait_for_provisioning(annotations: Json, text: str) -> None:
    """A provisioner that gives up takes the node away from the claim."""
    store = Store()
    pod = Pod(store, TO_PROVISION)
    await pod.pre_bind()
    store.change(CLAIM, metadata={"annotations": annotations})
    assert await pod.failure() == f'running PreBind plugin "VolumeBinding": binding volumes: {text}'


async def test_a_claim_that_has_its_volume_is_not_bound_to_a_node_that_is_gone() -> None:
    """Any node reaches the volume, so nothing but the node itself says that it is gone."""
    store = Store()
    pod = Pod(store, TO_PROVISION)
    await pod.pre_bind()
    store.change(CLAIM, metadata={"annotations": {COMPLETED: "yes"}}, spec={"volumeName": "pv"})
    await _gone(store, NODE)
    text = 'failed to get node "node": node "node" not found'
    assert await pod.failure() == f'running PreBind plugin "VolumeBinding": binding volumes: {text}'


async def test_a_claim_waits_for_the_volume_that_it_was_given_too() -> None:
    """The volume's node affinity may change before the claim is bound."""
    store = Store()
    pod = Pod(store, TO_PROVISION)
    await pod.pre_bind()
    store.change(CLAIM, spec={"volumeName": "pv"})
    result = await pod.pre_bind()
    assert [(key.kind, key.name) for key in result.wait_for] == [
        ("persistent_volume_claim", "claim"),
        ("persistent_volume", "pv"),
    ]


NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["another"]}]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(_affinity("a"), id="its-label"),
        pytest.param({"nodeAffinity": {"required": {"nodeSelectorTerms": [NAMED]}}}, id="names-are-passed-over"),
    ],
)
async def test_a_volume_in_reach_does_not_end_the_wait(spec: Json) -> None:
    """The node's labels are compared, not only looked for, and its name is not, as in Filter."""
    store = Store()
    pod = Pod(store, TO_BIND)
    await pod.pre_bind()
    store.change(VOLUME, spec=spec)
    assert (await pod.pre_bind()).status.code == status_pb2.CODE_WAIT


@pytest.mark.parametrize(
    "state",
    [
        b"not json",
        b"[]",
        b'{"to_bind":[1],"to_provision":[]}',
        b'{"to_bind":[],"to_provision":[{"namespace":1,"claim":"c","claim_version":"1"}]}',
    ],
)
async def test_invalid_state_fails_only_its_pod(state: bytes) -> None:
    """Bytes that Reserve never gave must not end the call for other pods."""
    pod = Pod(Store(), None)
    pod.state = state
    assert "not what Reserve gave" in await pod.failure()
