"""DynamicResources' PreBind: writes which devices claims get, and who uses them.

Then it waits for devices that have to be prepared.

A claim is written in two steps, as kube-scheduler does: first protected from deletion, by a patch that needs no
reading, then its status with allocation and user. If another client has changed it in between, it is read again; if it
has been allocated meanwhile, the pod goes back. The claim for extended resources is made here, and its name recorded in
the pod's status.

A claim of a PodGroup is reserved for the group by whichever of its pods comes first, and stays so while the group is
there. If several pods of a batch share a claim, each writes the same: the second one finds the devices there.

A call that is repeated because its answer was lost finds its own writes and takes them for done.
Source: pkg/scheduler/framework/plugins/dynamicresources (PreBind, bindClaim).

Tests: tests/unit/plugins/dynamic_resources/test_pre_bind.py.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf import duration_pb2

from trireme.framework import status
from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugin_kit import bind_phase_plugin
from trireme.plugins.dynamic_resources import (
    args,
    binding_conditions,
    claim_api_calls,
    claim_bodies,
    extended_claims,
    features,
    reserve_state,
)
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.v1 import bind_pb2, resource_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery import api_writes, decode, timestamps

Json = Mapping[str, Any]


class _PreBindError(Exception):
    """PreBind fails, and the pod returns to the queue; the text is kube-scheduler's."""


def make(context: bind_phase_plugin.BindContext) -> bind_phase_plugin.BindPhasePlugin:
    """Make the plugin of the bind phase, which writes allocations and users into claims (PreBind).

    If the gates say so, it waits until devices are prepared, as long as the profile's arguments allow.
    """
    timeouts = {profile: args.binding_timeout(stated) for profile, stated in context.args.items()}
    waits = features.of_gates(context.features).binding_conditions

    async def pre_bind(request: bind_pb2.PreBindRequest) -> Sequence[bind_pb2.PreBindResult]:
        timeout = timeouts.get(request.cycle.profile, args.DEFAULT_BINDING_TIMEOUT.seconds) if waits else None
        pods = (_PodClaimsToBind(context.writer, item, timeout, context.wall) for item in request.items)
        return await asyncio.gather(*(pod.pre_bind() for pod in pods))

    pre_flight = bind_phase_plugin.pre_flight_of_state(SPEC.name, reserve_state.DeviceClaims.from_bytes)
    return bind_phase_plugin.BindPhasePlugin(SPEC.name, pre_bind=pre_bind, pre_bind_pre_flight=pre_flight, writes=True)


class _PodClaimsToBind:
    """The claims of one pod that is to be bound. `timeout` None: devices are not waited for."""

    def __init__(
        self, writer: ApiWriter, item: bind_pb2.BindItem, timeout: float | None, wall: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._item = item
        self._timeout = timeout
        self._wall = wall

    async def pre_bind(self) -> bind_pb2.PreBindResult:
        """Reserve the pod's claims for it, or go on with what an earlier call left (WAIT); SKIP without claims.

        Any failure is an error status of this pod; claims written until then stay written, and Unreserve undoes them.
        """
        try:
            state = bind_phase_plugin.own_state(SPEC.name, self._item)
            if not state:
                return bind_phase_plugin.result_with_code(status_pb2.CODE_SKIP)
            claims = reserve_state.DeviceClaims.from_bytes(state)
            written = [await self._create_and_reserve_claim(claim) for claim in claims.claims]
            made = next((claim.name for claim, _ in written if claim.make), "")
            await self._write_node_allocatable_status(_with_claim_name(claims.node_allocatable, made))
            timeout = self._timeout
            waiting = timeout is not None and [
                claim for _, claim in written if not self._are_devices_ready(claim, timeout)
            ]
        except (_PreBindError, ValueError) as failure:
            error_status = status.error(SPEC.name, f'running PreBind plugin "{SPEC.name}": {failure}')
            return bind_pb2.PreBindResult(status=to_message(error_status))
        if not waiting or timeout is None:
            return bind_phase_plugin.result_with_code(status_pb2.CODE_SUCCESS)
        return self._wait_for_devices_result(replace(claims, claims=tuple(one for one, _ in written)), timeout)

    def _wait_for_devices_result(self, claims: reserve_state.DeviceClaims, timeout: float) -> bind_pb2.PreBindResult:
        """Answer WAIT until a claim changes; the message is what the pod fails with when the time is over."""
        text = f'running PreBind plugin "{SPEC.name}": device binding timeout: context deadline exceeded'
        result = bind_pb2.PreBindResult(
            status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=SPEC.name, messages=[text]),
            state=claims.to_bytes(),
        )
        for claim in claims.claims:
            result.wait_for.add(kind="resource_claim", namespace=claim.namespace, name=claim.name)
        result.timeout.CopyFrom(duration_pb2.Duration(seconds=int(timeout)))
        return result

    def _are_devices_ready(self, raw: Json, timeout: float) -> bool:
        """Whether the claim's devices are prepared. Raises: _PreBindError where they will not be."""
        claim = decode.decode(raw, resource_pb2.ResourceClaim)
        if not binding_conditions.has_conditions(claim):
            return True
        try:
            ready = binding_conditions.are_devices_ready(claim)
        except binding_conditions.BindingFailedError as error:
            raise _PreBindError(str(error)) from error
        if not ready and binding_conditions.timed_out(claim, timeout, self._wall() / 1e9):
            raise _PreBindError(f"device binding timeout: claim={claim.metadata.name}")
        return ready

    # Writing

    async def _create_and_reserve_claim(
        self, one: reserve_state.ClaimToReserve
    ) -> tuple[reserve_state.ClaimToReserve, Json]:
        """Create the claim if need be, and reserve it; return its updated entry and the claim as it is now.

        A claim that was created here is deleted if reserving it fails. Raises: _PreBindError.
        """
        if one.make and not one.name:
            one = await self._create_extended_claim(one)
        try:
            claim = await self._allocate_and_reserve(one)
            if one.make:
                await self._write_extended_resource_status(one)
        except _PreBindError:
            if one.make:
                await claim_api_calls.delete_claim(self._writer, one.namespace, one.name, one.uid)
            raise
        return replace(one, reserved=True), claim

    async def _create_extended_claim(self, one: reserve_state.ClaimToReserve) -> reserve_state.ClaimToReserve:
        """Create the claim for the pod's extended resources, in place of a stale one; return its entry, named.

        Raises: _PreBindError.
        """
        pod = self._item.pod
        if one.stale:
            left = await claim_api_calls.delete_claim(self._writer, one.namespace, one.stale, "")
            if left is not None and not isinstance(left, api_writes.Written):
                raise _PreBindError(f"delete claim {one.namespace}/{one.stale}: {left.message}")
        collection = claim_api_calls.claims_path(one.namespace)
        try:
            made = await extended_claims.create_claim(
                self._writer, collection, pod, one, claim_api_calls.DEADLINE_SECONDS
            )
        except extended_claims.ClaimNotCreatedError as error:
            raise _PreBindError(f"create claim for extended resources {one.namespace}/: {error}") from error
        return replace(one, name=made["metadata"]["name"], uid=made["metadata"]["uid"])

    async def _allocate_and_reserve(self, one: reserve_state.ClaimToReserve) -> Json:
        """Write allocation and user into the claim; returns the claim as written, or as found if that was done before.

        A conflict, or a doubtful outcome, has it read and tried again. Raises: _PreBindError.
        """
        path, full = claim_api_calls.claim_path(one.namespace, one.name), f"{one.namespace}/{one.name}"
        doing, why = "", ""
        unread = await self._add_finalizer_without_read(one)
        for _ in range(claim_api_calls.ROUNDS):
            found, unread = unread or await self._writer.get(path, claim_api_calls.DEADLINE_SECONDS), None
            if one.reserved and isinstance(found, api_writes.Gone):
                raise _PreBindError(f'could not find ResourceClaim "{full}"')
            if not isinstance(found, api_writes.Written):
                raise _PreBindError(f"get updated claim {full} after conflict: {found.message}")
            claim = found.obj
            if one.uid and claim["metadata"].get("uid") != one.uid:
                raise _PreBindError(f"claim {full} is another one now")
            if self._is_reserved_for_pod(one, claim):
                return claim
            if one.reserved:
                raise _PreBindError(f"claim {full} got deallocated elsewhere in the meantime")
            doing, outcome = await self._try_to_put_reservation(one, claim)
            if isinstance(outcome, api_writes.Written):
                return outcome.obj
            why = outcome.message
            if not isinstance(outcome, (api_writes.Conflict, api_writes.Uncertain)):
                break
        raise _PreBindError(f"{doing}: {why}")

    async def _try_to_put_reservation(
        self, one: reserve_state.ClaimToReserve, claim: Json
    ) -> tuple[str, api_writes.Outcome]:
        """Add the claim's finalizer if it lacks it, and write its status, once.

        Returns the name of the last step and its outcome, for the message if it failed.
        """
        path, full = claim_api_calls.claim_path(one.namespace, one.name), f"{one.namespace}/{one.name}"
        reserved = self._claim_with_reservation(one, claim)
        if reserved is None:
            outcome = await self._writer.put(
                path, claim_bodies.protected_claim(claim), claim_api_calls.DEADLINE_SECONDS
            )
            if not isinstance(outcome, api_writes.Written):
                return f"add finalizer to claim {full}", outcome
            reserved = self._claim_with_reservation(one, outcome.obj)
            assert reserved is not None, "it is protected now"
        doing = f"add {'reservation' if one.allocation is None else 'allocation and reservation'} to claim {full}"
        return doing, await self._writer.put(f"{path}/status", reserved, claim_api_calls.DEADLINE_SECONDS)

    async def _add_finalizer_without_read(self, one: reserve_state.ClaimToReserve) -> api_writes.Written | None:
        """Patch the finalizer onto a claim that was not read; None: the claim has to be read first.

        Most claims need not be read, which spares a request.
        """
        if one.allocation is None or one.reserved or one.make:
            return None
        patch = claim_bodies.protection_patch(one.uid)
        outcome = await self._writer.patch(
            claim_api_calls.claim_path(one.namespace, one.name), patch, claim_api_calls.DEADLINE_SECONDS
        )
        return outcome if isinstance(outcome, api_writes.Written) else None

    def _is_reserved_for_pod(self, one: reserve_state.ClaimToReserve, claim: Json) -> bool:
        """Whether the claim is reserved for the pod or, where that counts, for its group."""
        users = (claim.get("status") or {}).get("reservedFor") or ()
        uid, group = self._item.pod.uid, claim_bodies.group_user(one.group, "")
        return any(user.get("uid") == uid or (one.group and {**user, "uid": ""} == group) for user in users)

    def _claim_with_reservation(self, one: reserve_state.ClaimToReserve, claim: Json) -> Json | None:
        """Return the claim as it is to be written; None: it has to be protected from deletion first.

        Raises: _PreBindError if it is being deleted, or was allocated or deallocated by others meanwhile.
        """
        full = f"{one.namespace}/{one.name}"
        if claim["metadata"].get("deletionTimestamp"):
            raise _PreBindError(f"claim {full} got deleted in the meantime")
        known = (claim.get("status") or {}).get("allocation")
        allocation = one.allocation
        if allocation is not None and known and _are_same_devices(allocation, known):
            # Another pod of its group was faster.
            allocation = None
        if allocation is not None:
            if known:
                raise _PreBindError(f"claim {full} got allocated elsewhere in the meantime")
            if claim_bodies.DELETE_PROTECTION not in (claim["metadata"].get("finalizers") or ()):
                return None
        elif not known:
            raise _PreBindError(f"claim {full} got deallocated elsewhere in the meantime")
        now = None if self._timeout is None else timestamps.rfc3339_seconds(self._wall())
        pod = self._item.pod
        user = claim_bodies.group_user(one.group, one.group_uid) if one.group_uid else claim_bodies.pod_user(pod)
        return claim_bodies.reserved_claim(claim, allocation, user, now)

    async def _write_extended_resource_status(self, one: reserve_state.ClaimToReserve) -> None:
        """Write into the pod's status which requests of the claim give containers their extended resources."""
        if not one.mappings:
            return
        pod = self._item.pod
        noted = {"requestMappings": list(one.mappings), "resourceClaimName": one.name}
        outcome = await self._writer.patch_pod_status(
            api_writes.PodName(pod.namespace, pod.name, pod.uid),
            {"status": {"extendedResourceClaimStatus": noted}},
            claim_api_calls.DEADLINE_SECONDS,
        )
        if not isinstance(outcome, api_writes.Written):
            full = f"{pod.namespace}/{pod.name}"
            raise _PreBindError(f"update pod {full} ExtendedResourceClaimStatus: {outcome.message}")

    async def _write_node_allocatable_status(self, statuses: Sequence[Json]) -> None:
        """Write into the pod's status what its claims take of the node's own resources."""
        if not statuses:
            return
        pod = self._item.pod
        outcome = await self._writer.patch_pod_status(
            api_writes.PodName(pod.namespace, pod.name, pod.uid),
            {"metadata": {"uid": pod.uid}, "status": {claim_bodies.CLAIM_STATUSES: list(statuses)}},
            claim_api_calls.DEADLINE_SECONDS,
        )
        if not isinstance(outcome, api_writes.Written):
            full = f"{pod.namespace}/{pod.name}"
            raise _PreBindError(f"updating pod {full} NodeAllocatableResourceClaimStatuses: {outcome.message}")


def _with_claim_name(statuses: Iterable[Json], made: str) -> list[Json]:
    """The statuses, that of the claim for extended resources with the name that it has in the API server, `made`."""
    return [
        {**each, "resourceClaimName": made}
        if each.get("resourceClaimName", "").startswith(reserve_state.IN_MEMORY)
        else each
        for each in statuses
    ]


def _are_same_devices(reserved: Json, known: Json) -> bool:
    """Whether two allocations, as JSON, are the same apart from their timestamps."""
    one, other = (decode.decode(each, resource_pb2.AllocationResult) for each in (reserved, known))
    one.ClearField("allocation_timestamp")
    other.ClearField("allocation_timestamp")
    return one == other
