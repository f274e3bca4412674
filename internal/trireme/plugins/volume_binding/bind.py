"""VolumeBinding's PreBind: writes what Reserve assumed, then waits until the volumes are bound.

A volume that was chosen gets the claim's name; a claim whose volume is to be made gets the node's. Both are patches
that hold only for the version that was looked at when the node was chosen: where somebody was faster, the pod goes
back. The rest is done by the volume controller and by provisioners. The frontend, which watches, calls again whenever
one of the objects, the node or the pod has changed; each call reads them afresh, so it does not matter which replica is
called. The frontend keeps the state between calls: `scheduling/pre_binding.py`.

A call that is repeated because its answer was lost finds its own writes and takes them for done.
Source: pkg/scheduler/framework/plugins/volumebinding (binder.BindPodVolumes).

Also change: internal/trireme/plugins/dynamic_resources/claim_api_calls.py,
internal/trireme/bind/action_executor.py (deadlines of writes in PreBind).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf import duration_pb2

from trireme.framework import status
from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugin_kit import bind_phase_plugin, volumes_nodes, volumes_objects, volumes_translation
from trireme.plugins.volume_binding import args, volume_bindings
from trireme.plugins.volume_binding.spec import SPEC
from trireme.v1 import bind_pb2, core_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery import api_writes, decode
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


DEADLINE_SECONDS = 10.0
"""For each write and each read, with repetitions."""


_LOGGER = f"PreBind.{SPEC.name}"


_Done = Callable[[Mapping[str, Any]], bool]


class _PreBindError(Exception):
    """PreBind fails, and the pod returns to the queue; the text is kube-scheduler's."""


class _NotYetBoundError(Exception):
    """Nothing is wrong, but a volume or claim is not bound yet: the pod waits."""


def make(context: bind_phase_plugin.BindContext) -> bind_phase_plugin.BindPhasePlugin:
    """Make the plugin of the bind phase (PreBind); the time-out of binding is in each profile's arguments."""
    default = float(args.DEFAULT_BIND_TIMEOUT_SECONDS)
    timeouts = {
        profile: float(default if (stated := stated_args.get("bindTimeoutSeconds")) is None else stated)
        for profile, stated_args in context.args.items()
    }

    async def pre_bind(request: bind_pb2.PreBindRequest) -> Sequence[bind_pb2.PreBindResult]:
        timeout = timeouts.get(request.cycle.profile, default)
        pods = (_PodVolumesToBind(context.writer, item, timeout) for item in request.items)
        return await asyncio.gather(*(pod.pre_bind() for pod in pods))

    pre_flight = bind_phase_plugin.pre_flight_of_state(SPEC.name, volume_bindings.VolumeBindings.from_bytes)
    return bind_phase_plugin.BindPhasePlugin(SPEC.name, pre_bind=pre_bind, pre_bind_pre_flight=pre_flight, writes=True)


class _PodVolumesToBind:
    """The volumes of one pod that is to be bound, for one call of PreBind."""

    def __init__(self, writer: ApiWriter, item: bind_pb2.BindItem, timeout: float) -> None:
        self._writer = writer
        self._item = item
        self._timeout = timeout
        self._node_labels: Mapping[str, str] = {}
        # The volumes that were made for claims, as far as they are known.
        self._provisioned: set[str] = set()

    async def pre_bind(self) -> bind_pb2.PreBindResult:
        """Write the pod's volume bindings, or check whether they have taken effect; SKIP without work.

        The first call writes and answers WAIT with what was written; later ones answer WAIT until the volume controller
        has bound every claim. A failure is an error status.
        """
        state = bind_phase_plugin.own_state(SPEC.name, self._item)
        if not state:
            return bind_phase_plugin.result_with_code(status_pb2.CODE_SKIP)
        try:
            bindings = volume_bindings.VolumeBindings.from_bytes(state)
            if not _are_all_written(bindings):
                return self._wait_for_volumes_result(await self._write_remaining(bindings))
            try:
                await self._check_all_bound(bindings)
            except _NotYetBoundError:
                return self._wait_for_volumes_result(bindings)
            except _PreBindError as failure:
                raise _PreBindError(f"binding volumes: {failure}") from failure
            klog.info(log, 2, "All PVCs for pod are bound", **klog.named(log, _LOGGER), pod=self._pod_ref_for_log())
        except (_PreBindError, ValueError) as failure:
            error_status = status.error(SPEC.name, f'running PreBind plugin "{SPEC.name}": {failure}')
            return bind_pb2.PreBindResult(status=to_message(error_status))
        return bind_phase_plugin.result_with_code(status_pb2.CODE_SUCCESS)

    def _pod_ref_for_log(self) -> klog.Ref:
        return klog.Ref(f"{self._item.pod.namespace}/{self._item.pod.name}")

    def _wait_for_volumes_result(self, bindings: volume_bindings.VolumeBindings) -> bind_pb2.PreBindResult:
        """Answer WAIT until a volume or claim changes; the message is what the pod fails with when the time is over."""
        text = f'running PreBind plugin "{SPEC.name}": binding volumes: context deadline exceeded'
        result = bind_pb2.PreBindResult(
            status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=SPEC.name, messages=[text]),
            state=bindings.to_bytes(),
        )
        for bound in bindings.to_bind:
            result.wait_for.add(kind="persistent_volume", name=bound.volume)
            result.wait_for.add(kind="persistent_volume_claim", namespace=bound.namespace, name=bound.claim)
        for wanted in bindings.to_provision:
            result.wait_for.add(kind="persistent_volume_claim", namespace=wanted.namespace, name=wanted.claim)
        for volume in sorted(self._provisioned):
            result.wait_for.add(kind="persistent_volume", name=volume)
        result.timeout.CopyFrom(duration_pb2.Duration(seconds=int(self._timeout)))
        return result

    # Writing

    async def _write_remaining(self, bindings: volume_bindings.VolumeBindings) -> volume_bindings.VolumeBindings:
        """Write the bindings that are not written yet, volumes first; return all, marked as written.

        What was written stays where a later write fails.
        """
        to_bind = [one if one.written else await self._write_claim_ref(one) for one in bindings.to_bind]
        to_provision = [one if one.written else await self._write_selected_node(one) for one in bindings.to_provision]
        return volume_bindings.VolumeBindings(tuple(to_bind), tuple(to_provision))

    async def _write_claim_ref(self, one: volume_bindings.VolumeToBind) -> volume_bindings.VolumeToBind:
        """Write into the volume which claim it is for; returns the entry as written.

        If another version of the volume was written meanwhile, it fails, unless the volume names the claim already.
        """
        claim_ref = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": one.namespace,
            "name": one.claim,
            "uid": one.claim_uid,
            "resourceVersion": one.claim_version,
        }
        metadata: dict[str, Any] = {"resourceVersion": one.volume_version}
        if one.by_controller:
            metadata["annotations"] = {volumes_objects.BOUND_BY_CONTROLLER: "yes"}
        patch = {"metadata": metadata, "spec": {"claimRef": claim_ref}}

        def names_claim(obj: Mapping[str, Any]) -> bool:
            known = (obj.get("spec") or {}).get("claimRef") or {}
            return bool(one.claim_uid) and known.get("uid") == one.claim_uid

        version = await self._patch_object(_volume_path(one.volume), patch, names_claim)
        text = "Updated PersistentVolume with claim. Waiting for binding to complete"
        claim = klog.Ref(f"{one.namespace}/{one.claim}")
        klog.info(
            log, 2, text, **klog.named(log, _LOGGER), pod=self._pod_ref_for_log(), PV=klog.Ref(one.volume), PVC=claim
        )
        return replace(one, volume_version=version, written=True)

    async def _write_selected_node(self, one: volume_bindings.SelectedNodeWrite) -> volume_bindings.SelectedNodeWrite:
        """Write the chosen node into the claim's annotations, for the provisioner; return the entry as written."""
        node = self._item.node_name
        annotations = {volumes_objects.SELECTED_NODE: node}
        patch = {"metadata": {"resourceVersion": one.claim_version, "annotations": annotations}}

        def has_selected_node(obj: Mapping[str, Any]) -> bool:
            return (obj["metadata"].get("annotations") or {}).get(volumes_objects.SELECTED_NODE) == node

        version = await self._patch_object(_claim_path(one.namespace, one.claim), patch, has_selected_node)
        return replace(one, claim_version=version, written=True)

    async def _patch_object(self, path: str, patch: Mapping[str, Any], done: _Done) -> str:
        """Patch the object and return its resourceVersion; after a conflict, `done` says whether it is so already."""
        outcome = await self._writer.patch(path, patch, DEADLINE_SECONDS, content_type=api_writes.MERGE)
        if isinstance(outcome, (api_writes.Conflict, api_writes.Uncertain)):
            # It may have been this very write, sent before.
            found = await self._writer.get(path, DEADLINE_SECONDS)
            if isinstance(found, api_writes.Written) and done(found.obj):
                outcome = found
        if isinstance(outcome, api_writes.Written):
            return str(outcome.obj["metadata"]["resourceVersion"])
        raise _PreBindError(outcome.message)

    # Waiting

    async def _check_all_bound(self, bindings: volume_bindings.VolumeBindings) -> None:
        """Return once all claims are bound as chosen. Raises: _NotYetBoundError, _PreBindError."""
        self._node_labels = await self._read_node_labels()
        await self._check_pod_exists()
        for to_bind in bindings.to_bind:
            await self._check_bound_to_claim(to_bind)
        for to_provision in bindings.to_provision:
            await self._check_provisioned(to_provision)

    async def _check_bound_to_claim(self, binding: volume_bindings.VolumeToBind) -> None:
        """Check that a volume is bound to its claim. Raises: _NotYetBoundError; _PreBindError if it never will be."""
        volume = await self._read_volume(binding.volume)
        claim = await self._read_claim(binding.namespace, binding.claim, "failed to check binding")
        if volume is None:
            raise _PreBindError(f'failed to check binding: persistentvolumes "{binding.volume}" not found')
        await self._check_reachable_from_node(volume, "failed to translate pv to csi: ")
        if not volume.spec.claim_ref.uid:
            raise _PreBindError(f'ClaimRef got reset for pv "{binding.volume}"')
        if not volumes_objects.fully_bound(claim):
            raise _NotYetBoundError

    async def _check_provisioned(self, provisioning: volume_bindings.SelectedNodeWrite) -> None:
        """Check that the claim got its volume on the node. Raises: _NotYetBoundError; _PreBindError if that failed."""
        claim = await self._read_claim(provisioning.namespace, provisioning.claim, "failed to check provisioning pvc")
        if not claim.metadata.annotations:
            raise _PreBindError(f'selectedNode annotation reset for PVC "{provisioning.claim}"')
        if claim.metadata.annotations.get(volumes_objects.SELECTED_NODE) != self._item.node_name:
            raise _PreBindError(f'provisioning failed for PVC "{provisioning.claim}"')
        if claim.spec.volume_name:
            self._provisioned.add(claim.spec.volume_name)
            volume = await self._read_volume(claim.spec.volume_name)
            if volume is None:
                raise _NotYetBoundError
            await self._check_reachable_from_node(volume, "")
        if not volumes_objects.fully_bound(claim):
            raise _NotYetBoundError

    async def _check_pod_exists(self) -> None:
        """Check that the pod still exists. Raises: _PreBindError if not; _NotYetBoundError if it cannot be read now."""
        pod = self._item.pod
        outcome = await self._writer.get_pod(api_writes.PodName(pod.namespace, pod.name, pod.uid), DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Gone):
            raise _PreBindError(f'pod does not exist any more: pod "{pod.name}" not found')
        _object_of_outcome(outcome)

    async def _read_volume(self, name: str) -> core_pb2.PersistentVolume | None:
        """Read a volume; None if it does not exist. Raises: _NotYetBoundError, _PreBindError."""
        outcome = await self._writer.get(_volume_path(name), DEADLINE_SECONDS)
        return (
            None
            if isinstance(outcome, api_writes.Gone)
            else decode.decode(_object_of_outcome(outcome), core_pb2.PersistentVolume)
        )

    async def _read_claim(self, namespace: str, name: str, doing: str) -> core_pb2.PersistentVolumeClaim:
        """Read a claim; `doing` begins the message if it does not exist. Raises: _PreBindError, _NotYetBoundError."""
        outcome = await self._writer.get(_claim_path(namespace, name), DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Gone):
            raise _PreBindError(f'{doing}: persistentvolumeclaims "{namespace}/{name}" not found')
        return decode.decode(_object_of_outcome(outcome), core_pb2.PersistentVolumeClaim)

    async def _check_reachable_from_node(self, volume: core_pb2.PersistentVolume, doing: str) -> None:
        """Check that the volume can be reached from the node, whose labels may have changed. Raises: _PreBindError."""
        kind = volumes_translation.in_tree_kind_of_volume(volume)
        migratable = kind is not None and kind.migrated
        if not migratable and not volume.spec.node_affinity.HasField("required"):
            return
        affinity: core_pb2.VolumeNodeAffinity | None = volume.spec.node_affinity
        if kind is not None and migratable and kind.plugin in await self._read_migrated_plugins():
            try:
                affinity = volumes_translation.translated_affinity(kind, volume)
            except volumes_translation.TranslationError as error:
                raise _PreBindError(f"{doing}could not translate pv: {error}") from error
        terms = volumes_nodes.volume_terms(affinity)
        if terms is not None and not any(term.matches("", self._node_labels) for term in terms):
            name, node = volume.metadata.name, self._item.node_name
            why = "no matching NodeSelectorTerms"
            raise _PreBindError(f'pv "{name}" node affinity doesn\'t match node "{node}": {why}')

    async def _read_node_labels(self) -> Mapping[str, str]:
        """Read the labels of the pod's node. Raises: _PreBindError if it is gone; _NotYetBoundError."""
        name = self._item.node_name
        outcome = await self._writer.get(f"/api/v1/nodes/{name}", DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Gone):
            raise _PreBindError(f'failed to get node "{name}": node "{name}" not found')
        labels: Mapping[str, str] = _object_of_outcome(outcome)["metadata"].get("labels") or {}
        return labels

    async def _read_migrated_plugins(self) -> frozenset[str]:
        """Read which in-tree plugins are migrated to CSI on the node. Raises: _PreBindError, _NotYetBoundError."""
        outcome = await self._writer.get(f"/apis/storage.k8s.io/v1/csinodes/{self._item.node_name}", DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Gone):
            return frozenset()
        annotations = _object_of_outcome(outcome)["metadata"].get("annotations") or {}
        return frozenset(filter(None, annotations.get(volumes_nodes.MIGRATED_PLUGINS, "").split(",")))


def _are_all_written(bindings: volume_bindings.VolumeBindings) -> bool:
    return all(one.written for one in bindings.to_bind) and all(one.written for one in bindings.to_provision)


def _volume_path(name: str) -> str:
    return f"/api/v1/persistentvolumes/{name}"


def _claim_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"


def _object_of_outcome(outcome: api_writes.Outcome) -> Mapping[str, Any]:
    """Return the object that was read.

    Raises: _NotYetBoundError where it cannot be read now, so that the pod waits; _PreBindError where it never can.
    """
    if isinstance(outcome, api_writes.Written):
        return outcome.obj
    if isinstance(outcome, api_writes.Refused):
        raise _PreBindError(outcome.message)
    raise _NotYetBoundError
