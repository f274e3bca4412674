"""Calls to bind that would be too large for a server: they are divided, and nothing is repeated forever."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.helpers import fake_binder
from trireme.frontend.phase_clients import divided_calls
from trireme.rpc import message_sizes
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, cycle_pb2, status_pb2


class Bind(fake_binder.FakeBinder):
    """Takes what a server would, and knows each pod again by its name."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.refuses = ""

    def receive(self, items: Sequence[Any], size: int) -> None:
        assert size <= message_sizes.MAX_PLUGIN_BYTES
        names = [item.pod.name for item in items]
        if self.refuses in names:
            raise ports.PhaseFault("refused")
        self.calls.append(names)

    async def permit_pod(self, item: bind_pb2.BindItem) -> bind_pb2.PermitResult:
        return bind_pb2.PermitResult(status=_status(item.pod.name))

    async def check_pod(self, item: ports.PreBindItem) -> status_pb2.Status:
        return _status(item.item.pod.name)

    def address_for(self, item: ports.PreBindItem) -> str:
        return item.item.pod.name

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        return bind_pb2.PreBindResult(status=_status(item.item.pod.name))

    async def bind_pod(self, item: bind_pb2.BindItem) -> status_pb2.Status:
        return _status(item.pod.name)

    async def execute_action(self, action: bind_pb2.Action) -> status_pb2.Status:
        return _status(action.pod.name)


def _status(name: str) -> status_pb2.Status:
    return status_pb2.Status(code=status_pb2.CODE_SUCCESS, messages=[name])


async def _pre_flight(
    bind: Bind, items: Sequence[ports.PreBindItem], note: Callable[[int, status_pb2.Status], None]
) -> None:
    async def send(part: Sequence[int]) -> None:
        await bind.pre_bind_pre_flight(
            [items[index] for index in part], lambda position, status: note(part[position], status)
        )

    await divided_calls.send_items(items, note, send)


class Pods:
    """Pods with states of these sizes, in all kinds of requests; each answers by its name."""

    def __init__(self, *sizes: int) -> None:
        self.bind = Bind()
        self.items = [
            bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name=f"p{number}"), state=b"x" * size)
            for number, size in enumerate(sizes)
        ]
        self.answers: dict[int, str] = {}

    def _note(self, index: int, status: status_pb2.Status) -> None:
        assert index not in self.answers
        self.answers[index] = status.messages[0]

    async def permit(self) -> None:
        response = await divided_calls.permit(self.bind.permit, bind_pb2.PermitRequest(items=self.items))
        for index, result in enumerate(response.results):
            self._note(index, result.status)

    async def pre_bind_pre_flight(self) -> None:
        cycle = cycle_pb2.Cycle()
        await _pre_flight(self.bind, [ports.PreBindItem(cycle, item) for item in self.items], self._note)

    async def pre_bind(self) -> None:
        started: dict[int, str] = {}
        cycle = cycle_pb2.Cycle()
        items = [ports.PreBindItem(cycle, item) for item in self.items]

        async def send(part: Sequence[int]) -> None:
            await self.bind.pre_bind(
                [items[index] for index in part],
                lambda position, result: self._note(part[position], result.status),
                lambda position, address: started.update({part[position]: address}),
            )

        await divided_calls.send_items(items, self._note, send)
        assert all(self.answers[index] == name for index, name in started.items())

    async def bind_all(self) -> None:
        async for result in divided_calls.bind(self.bind.bind, bind_pb2.BindRequest(items=self.items)):
            self._note(result.index, result.status)

    async def apply(self) -> None:
        actions = [
            bind_pb2.Action(pod=item.pod, undo_pre_bind=bind_pb2.UndoPreBind(state=item.state)) for item in self.items
        ]

        async def send(part: Sequence[int]) -> None:
            await self.bind.apply(
                [actions[index] for index in part],
                lambda position, result: self._note(part[position], result.status),
            )

        await divided_calls.send_actions(actions, self._note, send)


CALLS = [
    pytest.param(Pods.permit, id="Permit"),
    pytest.param(Pods.pre_bind_pre_flight, id="PreBindPreFlight"),
    pytest.param(Pods.pre_bind, id="PreBind"),
    pytest.param(Pods.bind_all, id="Bind"),
    pytest.param(Pods.apply, id="Apply"),
]


@pytest.mark.parametrize("call", CALLS)
async def test_what_is_too_large_for_one_call_is_sent_in_several(call: Callable[[Pods], Any]) -> None:
    """PreBind of 500 pods with 40 KiB each was repeated every half second, and none of them was ever bound."""
    pods = Pods(*[40 << 10] * 500)
    await call(pods)
    assert pods.answers == {number: f"p{number}" for number in range(500)}
    assert 5 <= len(pods.bind.calls) <= 6


@pytest.mark.parametrize("call", CALLS)
async def test_a_pod_that_is_too_large_for_any_call_gets_an_error(call: Callable[[Pods], Any]) -> None:
    """It would be tried forever, without a word to anybody."""
    pods = Pods(10, 20 << 20, 5 << 20, 10)
    await call(pods)
    assert pods.bind.calls == [["p0"], ["p2"], ["p3"]]
    assert (pods.answers[0], pods.answers[2], pods.answers[3]) == ("p0", "p2", "p3")
    assert "is too large for a call to bind" in pods.answers[1]


@pytest.mark.parametrize("call", CALLS)
async def test_each_pod_that_is_too_large_gets_its_own_error(call: Callable[[Pods], Any]) -> None:
    pods = Pods(20 << 20, 21 << 20)
    await call(pods)
    assert pods.bind.calls == []
    sizes = [int(text.split(" bytes")[0].rpartition(" ")[2]) >> 20 for _, text in sorted(pods.answers.items())]
    assert sizes == [20, 21]


async def test_the_error_of_a_pod_that_is_too_large_has_its_reason() -> None:
    request = bind_pb2.PermitRequest(items=Pods(20 << 20).items)
    (result,) = (await divided_calls.permit(Bind().permit, request)).results
    (reason,) = result.status.reasons
    assert (result.status.code, reason.code) == (status_pb2.CODE_ERROR, "podTooLarge")
    assert dict(reason.parameters) == {"bytes": str(request.items[0].ByteSize())}


async def test_a_pod_with_its_cycle_counts_towards_the_size_of_a_call() -> None:
    """Remote plugins get the pod, which may be as large as its states."""
    bind = Bind()
    answers: list[int] = []
    items = []
    for number in range(40):
        cycle = cycle_pb2.Cycle()
        cycle.pod.metadata.annotations["a"] = "x" * (1 << 20)
        items.append(ports.PreBindItem(cycle, bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name=f"p{number}"))))
    await _pre_flight(bind, items, lambda index, status: answers.append(index))
    assert answers == list(range(40))
    assert len(bind.calls) > 10


async def test_post_bind_reaches_the_plugins_for_all_pods_but_those_that_fail() -> None:
    """All pods of a call that was too large were left out."""
    pods = Pods(3 << 20, 3 << 20, 20 << 20, 3 << 20)
    pods.bind.refuses = "p1"
    with pytest.raises(ports.PhaseFault, match=r"too large for a call to bind; refused"):
        await divided_calls.post_bind(pods.bind.post_bind, bind_pb2.PostBindRequest(items=pods.items))
    assert pods.bind.calls == [["p0"], ["p3"]]


async def test_permit_that_answers_about_other_pods_fails() -> None:
    """Its results would be taken for those of others."""
    pods = Pods(3 << 20, 3 << 20)

    async def nothing(request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        return bind_pb2.PermitResponse()

    pods.bind.permit = nothing
    with pytest.raises(ports.PhaseFault, match="other pods"):
        await pods.permit()


async def test_what_succeeds_in_parts_is_no_failure() -> None:
    parts: list[int] = []

    async def call(request: bind_pb2.PostBindRequest) -> None:
        parts.append(len(request.items))

    items = [bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(uid="u" * 100)) for _ in range(3)]
    await divided_calls.post_bind(call, bind_pb2.PostBindRequest(items=items))
    assert sum(parts) == 3
