"""DynamicResources' PreBind: writes down which devices claims get and that the pod uses them, then waits for devices
that have to be prepared.

A claim is written in two steps, as kube-scheduler does: first protected from deletion, by a patch that needs no
reading, then its status with allocation and user. Somebody else's change in between is met by reading the claim again;
where it has been allocated meanwhile, the pod goes back. The claim for extended resources is made here, and its name
noted in the pod's status.

A claim of a PodGroup is reserved for the group by whichever of its pods comes first, and stays so while the group is
there. Pods that were promised one claim together write the same: who comes second finds the devices there.

A call that is repeated because its answer was lost finds its own writes and takes them for done.
Source: pkg/scheduler/framework/plugins/dynamicresources (PreBind, bindClaim, Unreserve).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from google.protobuf import duration_pb2

from trireme.bind import bodies, extended_claims, host
from trireme.framework import status
from trireme.plugins.dynamic_resources import features, readiness
from trireme.v1 import bind_pb2, cycle_pb2, resource_pb2, snapshot_pb2, status_pb2
from trireme.wire import device_claims, profiles
from trireme.wire.status import to_message
from trireme_kube.apimachinery import api_writes, decode, durations, timestamps
from trireme_kube.client import writes

NAME = "DynamicResources"

DEADLINE_SECONDS = 10.0
"""For each write and each read, with repetitions."""

ROUNDS = 5
"""How often a claim is read again after somebody else's change."""

DEFAULT_TIMEOUT_SECONDS = 600.0

_GROUP = "/apis/resource.k8s.io/v1"

# The field of a pod's status that says what its claims take of the node.
_RESOURCES = "nodeAllocatableResourceClaimStatuses"

Json = Mapping[str, Any]


class _Failed(Exception):
    """The pod goes back; the text is kube-scheduler's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How long devices are waited for, in seconds, by profile; and whether they are waited for at all."""

    timeouts: Mapping[str, float]
    binding_conditions: bool = True


def plugin(writer: writes.Writer, settings: Settings, wall: Callable[[], int]) -> host.Plugin:
    """`wall`: nanoseconds since 1970."""

    async def pre_bind(request: bind_pb2.PreBindRequest) -> Sequence[bind_pb2.PreBindResult]:
        timeout = settings.timeouts.get(request.cycle.profile, DEFAULT_TIMEOUT_SECONDS)
        waits = settings.binding_conditions
        pods = (_PodClaims(writer, item, timeout if waits else None, wall) for item in request.items)
        return await asyncio.gather(*(pod.pre_bind(request.preflight) for pod in pods))

    return host.Plugin(NAME, pre_bind=pre_bind, writes=True)


def settings_of(configuration: snapshot_pb2.Configuration) -> Settings:
    """The settings in the arguments of all profiles, and in the feature gates."""
    out = {}
    for profile in configuration.profiles:
        args = orjson.loads(profiles.args_of(profile, NAME) or b"{}")
        stated = args.get("bindingTimeout")
        out[profile.scheduler_name] = durations.seconds(stated) if stated else DEFAULT_TIMEOUT_SECONDS
    return Settings(out, features.of_gates(configuration.feature_gates).binding_conditions)


def claims_of(state: bytes) -> device_claims.DeviceClaims | None:
    """What Reserve left in the state of all plugins; None: nothing. Raises: ValueError."""
    found = bind_pb2.HostState.FromString(state).plugin_states.get(NAME, b"")
    return device_claims.DeviceClaims.from_bytes(found) if found else None


def path_of(namespace: str, name: str) -> str:
    """Where the API has the claim."""
    return f"{_GROUP}/namespaces/{namespace}/resourceclaims/{name}"


class _PodClaims:
    """The claims of one pod that is to be bound. `timeout` None: devices are not waited for."""

    def __init__(
        self, writer: writes.Writer, item: bind_pb2.BindItem, timeout: float | None, wall: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._item = item
        self._timeout = timeout
        self._wall = wall

    async def pre_bind(self, preflight: bool) -> bind_pb2.PreBindResult:
        """One call."""
        try:
            claims = claims_of(self._item.state)
            if claims is None:
                return _result(status_pb2.CODE_SKIP)
            if preflight:
                return _result(status_pb2.CODE_SUCCESS)
            written = []
            for claim in claims.claims:
                written.append(await self._write(claim))
            await self._note_resources(claims.node_allocatable)
            timeout = self._timeout
            waiting = timeout is not None and [claim for _, claim in written if not self._ready(claim, timeout)]
        except (_Failed, ValueError) as failure:
            said = status.error(NAME, f'running PreBind plugin "{NAME}": {failure}')
            return bind_pb2.PreBindResult(status=to_message(said))
        if not waiting or timeout is None:
            return _result(status_pb2.CODE_SUCCESS)
        return self._wait(replace(claims, claims=tuple(one for one, _ in written)), timeout)

    def _wait(self, claims: device_claims.DeviceClaims, timeout: float) -> bind_pb2.PreBindResult:
        """Until a claim changes; the message is what the pod fails with when the time is over."""
        text = f'running PreBind plugin "{NAME}": device binding timeout: context deadline exceeded'
        result = bind_pb2.PreBindResult(
            status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=NAME, messages=[text]),
            state=claims.to_bytes(),
        )
        for claim in claims.claims:
            result.wait_for.add(kind="resource_claim", namespace=claim.namespace, name=claim.name)
        result.timeout.CopyFrom(duration_pb2.Duration(seconds=int(timeout)))
        return result

    def _ready(self, raw: Json, timeout: float) -> bool:
        """Whether the claim's devices are prepared. Raises: _Failed where they will not be."""
        claim = decode.decode(raw, resource_pb2.ResourceClaim)
        if not readiness.waited_for(claim):
            return True
        try:
            ready = readiness.ready(claim)
        except readiness.BindingFailedError as error:
            raise _Failed(str(error)) from error
        if not ready and readiness.timed_out(claim, timeout, self._wall() / 1e9):
            raise _Failed(f"device binding timeout: claim={claim.metadata.name}")
        return ready

    # Writing

    async def _write(self, one: device_claims.ToReserve) -> tuple[device_claims.ToReserve, Json]:
        """Write what is not written yet; answers the claim as it is now."""
        if one.make and not one.name:
            one = await self._make(one)
        try:
            claim = await self._reserve(one)
            if one.make:
                await self._note(one)
        except _Failed:
            if one.make:
                await unmake(self._writer, one.namespace, one.name, one.uid)
            raise
        return replace(one, reserved=True), claim

    async def _make(self, one: device_claims.ToReserve) -> device_claims.ToReserve:
        pod = self._item.pod
        if one.stale:
            left = await unmake(self._writer, one.namespace, one.stale, "")
            if left is not None and not isinstance(left, api_writes.Written):
                raise _Failed(f"delete claim {one.namespace}/{one.stale}: {left.message}")
        collection = f"{_GROUP}/namespaces/{one.namespace}/resourceclaims"
        try:
            made = await extended_claims.make(self._writer, collection, pod, one, DEADLINE_SECONDS)
        except extended_claims.NotMadeError as error:
            raise _Failed(f"create claim for extended resources {one.namespace}/: {error}") from error
        return replace(one, name=made["metadata"]["name"], uid=made["metadata"]["uid"])

    async def _reserve(self, one: device_claims.ToReserve) -> Json:
        """Write allocation and user; answers the claim. Raises: _Failed."""
        path, full = path_of(one.namespace, one.name), f"{one.namespace}/{one.name}"
        doing, why = "", ""
        unread = await self._protect(one)
        for _ in range(ROUNDS):
            found, unread = unread or await self._writer.get(path, DEADLINE_SECONDS), None
            if not isinstance(found, api_writes.Written):
                raise _Failed(f"get updated claim {full} after conflict: {found.message}")
            claim = found.obj
            if one.uid and claim["metadata"].get("uid") != one.uid:
                raise _Failed(f"claim {full} is another one now")
            if self._uses(one, claim):
                return claim
            if one.reserved:
                raise _Failed(f"claim {full} got deallocated elsewhere in the meantime")
            wanted = self._wanted(one, claim)
            if wanted is None:
                protected = bodies.protected(claim)
                doing = f"add finalizer to claim {full}"
                outcome = await self._writer.put(path, protected, DEADLINE_SECONDS)
                if not isinstance(outcome, api_writes.Written):
                    why = outcome.message
                    if isinstance(outcome, (api_writes.Conflict, api_writes.Uncertain)):
                        continue
                    break
                wanted = self._wanted(one, outcome.obj)
                assert wanted is not None, "it is protected now"
            doing = f"add {'reservation' if one.allocation is None else 'allocation and reservation'} to claim {full}"
            outcome = await self._writer.put(f"{path}/status", wanted, DEADLINE_SECONDS)
            if isinstance(outcome, api_writes.Written):
                return outcome.obj
            why = outcome.message
            if not isinstance(outcome, (api_writes.Conflict, api_writes.Uncertain)):
                break
        raise _Failed(f"{doing}: {why}")

    async def _protect(self, one: device_claims.ToReserve) -> api_writes.Written | None:
        """The claim, protected from deletion without having been read first, which spares a request; None where it has
        to be read.
        """
        if one.allocation is None or one.reserved or one.make:
            return None
        patch = bodies.protection(one.uid)
        outcome = await self._writer.patch(path_of(one.namespace, one.name), patch, DEADLINE_SECONDS)
        return outcome if isinstance(outcome, api_writes.Written) else None

    def _uses(self, one: device_claims.ToReserve, claim: Json) -> bool:
        """Whether the claim is reserved for the pod or, where that counts, for its group."""
        users = (claim.get("status") or {}).get("reservedFor") or ()
        uid, group = self._item.pod.uid, bodies.group_user(one.group, "")
        return any(user.get("uid") == uid or (one.group and {**user, "uid": ""} == group) for user in users)

    def _wanted(self, one: device_claims.ToReserve, claim: Json) -> Json | None:
        """The claim as it is to be; None: it has to be protected from deletion first. Raises: _Failed."""
        full = f"{one.namespace}/{one.name}"
        if claim["metadata"].get("deletionTimestamp"):
            raise _Failed(f"claim {full} got deleted in the meantime")
        known = (claim.get("status") or {}).get("allocation")
        allocation = one.allocation
        if allocation is not None and known and _same(allocation, known):
            # Another pod of its group was faster.
            allocation = None
        if allocation is not None:
            if known:
                raise _Failed(f"claim {full} got allocated elsewhere in the meantime")
            if bodies.DELETE_PROTECTION not in (claim["metadata"].get("finalizers") or ()):
                return None
        elif not known:
            raise _Failed(f"claim {full} got deallocated elsewhere in the meantime")
        now = None if self._timeout is None else timestamps.seconds(self._wall())
        pod = self._item.pod
        user = bodies.group_user(one.group, one.group_uid) if one.group_uid else bodies.pod_user(pod)
        return bodies.reserved(claim, allocation, user, now)

    async def _note(self, one: device_claims.ToReserve) -> None:
        """Tell in the pod's status which requests give its containers what they ask for."""
        if not one.mappings:
            return
        pod = self._item.pod
        noted = {"requestMappings": list(one.mappings), "resourceClaimName": one.name}
        outcome = await self._writer.patch_pod_status(
            api_writes.PodName(pod.namespace, pod.name, pod.uid),
            {"status": {"extendedResourceClaimStatus": noted}},
            DEADLINE_SECONDS,
        )
        if not isinstance(outcome, api_writes.Written):
            full = f"{pod.namespace}/{pod.name}"
            raise _Failed(f"update pod {full} ExtendedResourceClaimStatus: {outcome.message}")

    async def _note_resources(self, statuses: Sequence[Json]) -> None:
        """Tell in the pod's status what its claims take of the node."""
        if not statuses:
            return
        pod = self._item.pod
        outcome = await self._writer.patch_pod_status(
            api_writes.PodName(pod.namespace, pod.name, pod.uid),
            {"metadata": {"uid": pod.uid}, "status": {_RESOURCES: list(statuses)}},
            DEADLINE_SECONDS,
        )
        if not isinstance(outcome, api_writes.Written):
            full = f"{pod.namespace}/{pod.name}"
            raise _Failed(f"updating pod {full} NodeAllocatableResourceClaimStatuses: {outcome.message}")


async def release(writer: writes.Writer, pod: api_writes.PodName, state: bytes) -> api_writes.Outcome | None:
    """Give back what PreBind wrote for the pod; None: all of it was, else the write that failed. Raises: ValueError."""
    claims = claims_of(state)
    for one in () if claims is None else claims.claims:
        if one.make:
            failed = await _unmake_for(writer, pod, one)
        else:
            failed = await _leave(writer, one, pod.uid)
        if failed is not None:
            return failed
    return await _take_back_resources(writer, pod) if claims is not None and claims.node_allocatable else None


async def _take_back_resources(writer: writes.Writer, pod: api_writes.PodName) -> api_writes.Outcome | None:
    """The pod's claims take nothing of a node any more. A list that is empty, since one that is missing may be an old
    client's.
    """
    patch = {"metadata": {"uid": pod.uid}, "status": {_RESOURCES: list[Json]()}}
    outcome = await writer.patch(f"{pod.path}/status", patch, DEADLINE_SECONDS, api_writes.MERGE)
    return None if isinstance(outcome, (api_writes.Written, api_writes.Gone, api_writes.Conflict)) else outcome


async def _leave(writer: writes.Writer, one: device_claims.ToReserve, uid: str) -> api_writes.Outcome | None:
    """The pod does not use the claim any more."""
    path = path_of(one.namespace, one.name)
    found = await writer.get(path, DEADLINE_SECONDS)
    if isinstance(found, api_writes.Gone):
        return None
    if not isinstance(found, api_writes.Written):
        return found
    users = (found.obj.get("status") or {}).get("reservedFor") or ()
    if not any(user.get("uid") == uid for user in users):
        return None
    patch = bodies.without_user(found.obj["metadata"]["uid"], uid)
    outcome = await writer.patch(f"{path}/status", patch, DEADLINE_SECONDS)
    return None if isinstance(outcome, (api_writes.Written, api_writes.Gone)) else outcome


async def _unmake_for(
    writer: writes.Writer, pod: api_writes.PodName, one: device_claims.ToReserve
) -> api_writes.Outcome | None:
    """Delete the claim that was made for the pod's extended resources, whether or not its name was noted."""
    found = await writer.get_pod(pod, DEADLINE_SECONDS)
    if isinstance(found, api_writes.Gone):
        # The claim goes with its owner.
        return None
    if not isinstance(found, api_writes.Written):
        return found
    noted = ((found.obj.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    names = [noted] if noted else []
    if not noted and not one.name:
        identity = cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        collection = f"{_GROUP}/namespaces/{one.namespace}/resourceclaims"
        names = [name async for name in extended_claims.made(writer, collection, identity, one, DEADLINE_SECONDS)]
    for name in names or ([one.name] if one.name else []):
        failed = await unmake(writer, pod.namespace, name, "")
        if failed is not None:
            return failed
    return None


async def unmake(writer: writes.Writer, namespace: str, name: str, uid: str) -> api_writes.Outcome | None:
    """Delete a claim that the scheduler made, protected or not; None: it is gone, else the write that failed."""
    path = path_of(namespace, name)
    outcome: api_writes.Outcome = api_writes.Uncertain("")
    for _ in range(ROUNDS):
        outcome = await writer.get(path, DEADLINE_SECONDS)
        if not isinstance(outcome, api_writes.Written) or (uid and outcome.obj["metadata"].get("uid") != uid):
            break
        claim, freed = outcome.obj, bodies.unprotected(outcome.obj)
        if freed is not None:
            outcome = await writer.put(path, freed, DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Written):
            outcome = await writer.delete(path, claim["metadata"].get("uid", ""), DEADLINE_SECONDS)
        if not isinstance(outcome, (api_writes.Conflict, api_writes.Uncertain)):
            break
    return None if isinstance(outcome, (api_writes.Written, api_writes.Gone)) else outcome


def _same(wanted: Json, known: Json) -> bool:
    """Whether both are the same devices; when they were given is not looked at."""
    one, other = (decode.decode(each, resource_pb2.AllocationResult) for each in (wanted, known))
    one.ClearField("allocation_timestamp")
    other.ClearField("allocation_timestamp")
    return one == other


def _result(code: status_pb2.Code.ValueType) -> bind_pb2.PreBindResult:
    return bind_pb2.PreBindResult(status=status_pb2.Status(code=code))
