"""Valid requests of bind and of the frontend's service for plugins, as inputs: the first byte chooses the method."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from tests.helpers import phase_calls
from tools.fuzz import fuzzed_services
from tools.fuzz.fuzzed_services import QUEUED, UID, WAITING
from trireme.plugins.dynamic_resources import reserve_state
from trireme.plugins.volume_binding import volume_bindings
from trireme.v1 import bind_pb2, bind_phase_pb2, core_pb2, cycle_pb2, frontend_pb2, meta_pb2

# In the order of the contract.
_BIND_METHODS = ("Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind", "Apply", "Fence")
_HANDLE_METHODS = ("Allow", "Reject", "Activate")
# What a method's number gets added in a request that is sent as it is, instead of as the leader's.
_AS_IT_IS = 128


def of_bind() -> list[bytes]:
    """Calls of BindPhase: pods that wait, are refused or go on, with all kinds of state, and each action."""
    methods = {name: number for number, name in enumerate(_BIND_METHODS)}
    return [bytes([methods[name]]) + request.SerializeToString() for name, request in _bind_requests()]


def of_handle() -> list[bytes]:
    """Calls of HandleService: about pods that wait, are in the queue, or are unknown."""
    methods = {name: number for number, name in enumerate(_HANDLE_METHODS)}
    return [
        bytes([methods[name] + more]) + request.SerializeToString()
        for name, request in _handle_requests()
        for more in (0, _AS_IT_IS)
    ]


def _pod(name: str, uid: str = UID) -> cycle_pb2.PodIdentity:
    return cycle_pb2.PodIdentity(namespace="d", name=name, uid=uid)


def _states() -> Iterator[bytes]:
    """What Reserve leaves for PreBind."""
    allocation = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "n0", "device": "x"}]}}
    claims = (
        reserve_state.ClaimToReserve("d", "c0", UID, allocation),
        reserve_state.ClaimToReserve("d", "c1", UID),
        reserve_state.ClaimToReserve("d", "c2", UID, group="g", group_uid="v"),
        reserve_state.ClaimToReserve(
            "d",
            "",
            "",
            allocation,
            make=True,
            requests=({"name": "r", "exactly": {"deviceClassName": "g"}},),
            mappings=({"containerName": "c", "resourceName": "example.com/x", "requestName": "r"},),
            stale="s0",
        ),
    )
    for chosen in ((claim,) for claim in claims):
        yield _state("DynamicResources", reserve_state.DeviceClaims(chosen).to_bytes())
    counted = reserve_state.DeviceClaims(claims, node_allocatable=({"resourceClaimName": "c0"},))
    yield _state("DynamicResources", counted.to_bytes())
    for written in (False, True):
        bindings = volume_bindings.VolumeBindings(
            (volume_bindings.VolumeToBind("v0", "1", True, "d", "c0", UID, "1", written),),
            (volume_bindings.SelectedNodeWrite("d", "c1", "1", written),),
        )
        yield _state("VolumeBinding", bindings.to_bytes())
    yield _state("VolumeBinding", b"{}")
    yield b""


def _state(plugin: str, state: bytes) -> bytes:
    return bind_phase_pb2.PluginStates(plugin_states={plugin: state}).SerializeToString()


def _bind_requests() -> Iterator[tuple[str, Message]]:
    for pods in (("a0", "w0", "r0"), ("a5",), ("a6",), ("a7", "deleted")):
        items = [bind_pb2.BindItem(pod=_pod(name, f"u{name}"), node_name="n0") for name in pods]
        yield "Permit", bind_pb2.PermitRequest(items=items)
        yield "Bind", bind_pb2.BindRequest(items=items)
        items[0].outcome_unknown = True
        yield "Bind", bind_pb2.BindRequest(items=[items[0], *items])
        yield "PostBind", bind_pb2.PostBindRequest(items=items)
    for state in _states():
        items = [bind_pb2.BindItem(pod=_pod("a0"), node_name="n0", state=state)]
        flights = [bind_pb2.PreBindPreFlightRequest(items=items)]
        yield (
            "PreBindPreFlight",
            bind_phase_pb2.BindPhasePreBindPreFlightRequest(requests=flights, timeout_ms=5000),
        )
        parts = [bind_pb2.PreBindRequest(items=items)] * 2
        yield "PreBind", bind_phase_pb2.BindPhasePreBindRequest(requests=parts, timeout_ms=5000)
        undone = bind_pb2.Action(pod=_pod("a0"), undo_pre_bind=bind_pb2.UndoPreBind(state=state))
        yield "Apply", bind_phase_pb2.ApplyRequest(actions=[undone])
    for name in ("a0", "a5", "a6", "a7", "a8", "a9", "deleted"):
        actions = list(_actions(name))
        yield "Apply", bind_phase_pb2.ApplyRequest(actions=actions)
        for action in actions:
            yield "Apply", bind_phase_pb2.ApplyRequest(actions=[action])
    fence = bind_phase_pb2.FenceRequest(config_hash=phase_calls.HASH)
    yield "Fence", fence
    fence.configuration.CopyFrom(fuzzed_services.bind_configuration())
    yield "Fence", fence
    fence.config_hash += 1
    yield "Fence", fence


def _actions(name: str) -> Iterator[bind_pb2.Action]:
    pod = _pod(name)
    claim = {"namespace": "d", "name": name, "uid": UID}
    condition = core_pb2.PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="m")
    for observed in (0, 2):
        evict = bind_pb2.Evict(message="m", observed_generation=observed, preemptor=_pod("b0"), node_name="n0")
        yield bind_pb2.Action(pod=pod, evict=evict)
    yield bind_pb2.Action(pod=pod, nominate=bind_pb2.Nominate(node_name="n0"))
    yield bind_pb2.Action(pod=pod, clear_nomination=bind_pb2.ClearNomination())
    for delete in (False, True):
        yield bind_pb2.Action(pod=pod, deallocate=bind_pb2.Deallocate(**claim, delete=delete, user_uid="other"))
    yield bind_pb2.Action(pod=pod, set_condition=bind_pb2.SetCondition(condition=condition, nominated_node_name=""))
    group = meta_pb2.Condition(type="PodGroupScheduled", status="False", reason="Unschedulable", message="m")
    yield bind_pb2.Action(pod=pod, set_group_condition=bind_pb2.SetGroupCondition(condition=group))
    yield bind_pb2.Action(pod=pod, remove_claim_user=bind_pb2.RemoveClaimUser(**claim, user_uid="other"))


def _handle_requests() -> Iterator[tuple[str, Message]]:
    for name in (*WAITING, *QUEUED, "unknown"):
        pod = cycle_pb2.PodIdentity(namespace="ns", name=name, uid=f"uid-{name}")
        yield "Allow", frontend_pb2.AllowRequest(pod=pod, plugin=fuzzed_services.PLUGIN)
        yield "Reject", frontend_pb2.RejectRequest(pod=pod, plugin=fuzzed_services.PLUGIN, message="no")
        yield "Activate", frontend_pb2.ActivateRequest(pods=[pod, pod])
    yield "Allow", frontend_pb2.AllowRequest(plugin="other")
