"""Plugins written on the Python SDK from PostFilter to PostBind, called by the clients of the phases."""

import math
from contextlib import aclosing, nullcontext
from typing import Any

import pytest

from tests.contract.sdk_hosts import CYCLE, Stack, item
from trireme import sdk
from trireme.framework import status
from trireme.remote import (
    remote_bind,
    remote_connection,
)
from trireme.v1 import (
    bind_pb2,
    core_pb2,
    cycle_pb2,
    filter_pb2,
    snapshot_pb2,
    status_pb2,
)


class Reserving:
    """Evicts, reserves and gives back."""

    info = sdk.Info("Reserving")

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.pods: list[core_pb2.Pod] = []

    def post_filter(self, call: sdk.Call, columns: filter_pb2.NodeColumns) -> Any:
        self.pods.append(call.pod)
        if columns.size != 4:
            return sdk.unschedulable("no way out")
        action = bind_pb2.Action(nominate=bind_pb2.Nominate(node_name="node-1"))
        return filter_pb2.PostFilterResponse(
            status=status_pb2.Status(code=status_pb2.CODE_SUCCESS), actions=[action], nominated_node="node-1"
        )

    def reserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> Any:
        self.pods.append(call.pod)
        if placement.node_name == "full":
            return sdk.unschedulable("no licence left")
        claim = snapshot_pb2.ClusterObject(assumed=True)
        claim.persistent_volume_claim.metadata.name = placement.pod.name
        done = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
        return filter_pb2.Reservation(status=done, assumed=[claim], state=b"licence 7")

    def unreserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> None:
        self.pods.append(call.pod)
        self.given_back.append(placement.pod.name)


async def test_the_steps_after_filter(stack: Stack) -> None:
    """If this fails, a remote plugin cannot make room, reserve, or give back."""
    plugin = Reserving()
    hosts = await stack.host(plugin)
    way_out = await hosts.run_post_filter(4)
    assert way_out is not None
    assert (way_out.nominated_node, len(way_out.actions)) == ("node-1", 1)
    none = await hosts.run_post_filter(3, status.unresolvable("X", "no"))
    assert none is not None
    assert (none.status.plugin, list(none.status.messages)) == ("Reserving", ["no way out"])

    placements = [
        filter_pb2.Placement(pod=cycle_pb2.PodIdentity(name=name), node_name=node)
        for name, node in (("a", "node-1"), ("b", "full"))
    ]
    reservations = await hosts.reserve.reserve(CYCLE, placements, hosts.pod_class, hosts.snap)
    assert [entry.status.code for entry in reservations] == [status_pb2.CODE_SUCCESS, status_pb2.CODE_UNSCHEDULABLE]
    assert reservations[0].assumed[0].persistent_volume_claim.metadata.name == "a"
    assert reservations[0].state == b"licence 7"
    await hosts.reserve.unreserve(CYCLE, placements[:1], hosts.pod_class)
    assert plugin.given_back == ["a"]
    preemptor = core_pb2.Pod()
    preemptor.CopyFrom(hosts.pod_class.pod)
    preemptor.metadata.name, preemptor.status.nominated_node_name = "preemptor", "node-3"
    assert plugin.pods == [preemptor] * 2 + [hosts.pod_class.pod] * 3, "each call has the pod of its class"


class Binding:
    """Permit lets pods wait, PreBind waits for objects, Bind binds them, and PostBind keeps which were bound."""

    info = sdk.Info("Binding")

    def __init__(self) -> None:
        self.bound: list[str] = []

    def permit(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        waits = {"wait": sdk.Wait(90, "no quota left"), "long": sdk.Wait(math.inf), "short": sdk.Wait(1e-12)}
        return {**waits, "no": sdk.unschedulable("not now")}.get(item.pod.name)

    def pre_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        if item.state != b"licence 7":
            return sdk.SKIP
        awaited = snapshot_pb2.ObjectKey(kind="persistent_volume_claim", name="a")
        return sdk.PreBindWait([awaited], 5, "low tide", state={"licence": 7})

    async def bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        if item.pod.name == "other":
            return sdk.SKIP
        if item.pod.name == "boom":
            raise OSError("no answer")
        return None

    def post_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> None:
        self.bound.append(item.pod.name)


async def bound(bind: remote_bind.RemoteBindPlugin, *items: bind_pb2.BindItem) -> list[Any]:
    """The results of a batch, and what ended it if something did."""
    out: list[Any] = []
    try:
        async with aclosing(bind.bind(CYCLE, items, nullcontext)) as results:
            async for result in results:
                out.append((result.index, result.status.code))  # noqa: PERF401  (what came before an error stays)
    except remote_connection.PluginError as error:
        out.append(str(error))
    return out


@pytest.mark.parametrize("seconds", [0, -1, math.nan, -math.inf])
def test_a_wait_that_does_not_end_after_some_time_is_refused(seconds: float) -> None:
    """If this fails, the scheduler refuses the answer, and the author does not see which line made it."""
    with pytest.raises(ValueError, match="more than 0 seconds"):
        sdk.Wait(seconds)
    with pytest.raises(ValueError, match="more than 0 seconds"):
        sdk.PreBindWait([snapshot_pb2.ObjectKey()], seconds)
    with pytest.raises(ValueError, match="names an object"):
        sdk.PreBindWait([], 5)


async def test_the_steps_of_binding(stack: Stack) -> None:
    """If this fails, a remote plugin cannot delay, prepare or do the binding."""
    plugin = Binding()
    bind = (await stack.host(plugin)).bind
    permits = await bind.permit(CYCLE, [item("a"), item("wait"), item("no"), item("long"), item("short")])
    assert isinstance(permits, list)
    expected = [
        status_pb2.CODE_SUCCESS,
        status_pb2.CODE_WAIT,
        status_pb2.CODE_UNSCHEDULABLE,
        *[status_pb2.CODE_WAIT] * 2,
    ]
    assert [result.status.code for result in permits] == expected
    assert permits[1].timeout.seconds == 90
    assert [list(result.status.messages) for result in permits[1::2]] == [["no quota left"], []]
    assert permits[3].timeout.seconds == 315_576_000_000  # the most that the message may have
    assert permits[4].timeout.nanos == 1

    done = await bind.pre_bind(CYCLE, [item("a"), item("b", Binding=b"licence 7", Other=b"x")], nullcontext)
    assert isinstance(done, list)
    assert [result.status.code for result in done] == [status_pb2.CODE_SKIP, status_pb2.CODE_WAIT]
    assert done[1].wait_for[0].name == "a"
    assert (list(done[1].status.messages), done[1].timeout.seconds, done[1].state) == (
        ["low tide"],
        5,
        b'{"licence":7}',
    )
    flights = await bind.pre_bind_pre_flight(CYCLE, [item("a"), item("b")])
    assert isinstance(flights, list)
    assert [flight.code for flight in flights] == [status_pb2.CODE_SUCCESS] * 2

    codes = [(0, status_pb2.CODE_SUCCESS), (1, status_pb2.CODE_SKIP)]
    assert await bound(bind, item("a"), item("other")) == codes
    await bind.post_bind(CYCLE, [item("a"), item("b")])
    assert plugin.bound == ["a", "b"]


async def test_an_interrupted_bind_reports_the_results_so_far(stack: Stack) -> None:
    """If this fails, a pod whose binding is uncertain counts as bound, or as not bound."""
    bind = (await stack.host(Binding())).bind
    first, second = await bound(bind, item("a"), item("boom"), item("c"))
    assert first == (0, status_pb2.CODE_SUCCESS)
    assert "INTERNAL: plugin Binding: Bind: bind failed: OSError: no answer" in second
