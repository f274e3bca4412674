"""DefaultBinder's Bind: what becomes of the binder's outcomes, and of pods whose fate nobody knows."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from trireme.framework import status
from trireme.plugin_kit import bind_phase_plugin
from trireme.plugin_kit.pod_binder import BindOutcome, BindTarget
from trireme.plugins.default_binder import bind
from trireme.rpc.fencing import EpochGuard, Leader, Tenure
from trireme.v1 import bind_pb2, cycle_pb2, status_pb2
from trireme_kube.apimachinery import api_writes
from trireme_kube.componentbase.logs import klog

TENURE = Tenure(EpochGuard(), lambda: 0.0, Leader("", 0), 1.0)


class Binder:
    """Answers the outcome that a pod's name stands for, one batch a pod."""

    def __init__(self, **outcomes: BindOutcome) -> None:
        self._outcomes = outcomes
        self.targets: list[BindTarget] = []

    async def bind(
        self, targets: Sequence[BindTarget], tenure: Tenure
    ) -> AsyncGenerator[list[tuple[int, BindOutcome]], None]:
        self.targets.extend(targets)
        for index, target in enumerate(targets):
            yield [(index, self._outcomes[target.pod.name])]


def _call(binder: Binder, *names: str) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
    unused: Any = None
    plugin = bind.make(bind_phase_plugin.BindContext({}, {}, unused, binder, lambda: 0))
    assert plugin.bind is not None
    items = [
        bind_pb2.BindItem(
            pod=cycle_pb2.PodIdentity(namespace="ns", name=name, uid=f"uid-{name}"),
            node_name="node",
            outcome_unknown=name == "again",
        )
        for name in names
    ]
    return plugin.bind(bind_pb2.BindRequest(items=items), TENURE)


async def test_each_pod_has_the_result_of_its_binding() -> None:
    binder = Binder(again=status.SUCCESS, full=status.error("", "no room"))
    results = [result async for batch in _call(binder, "again", "full") for result in batch]
    assert [(result.index, result.status.code) for result in results] == [
        (0, status_pb2.CODE_SUCCESS),
        (1, status_pb2.CODE_ERROR),
    ]
    assert list(results[1].status.messages) == ['running Bind plugin "DefaultBinder": no room']
    assert [(target.pod.uid, target.node, target.outcome_unknown) for target in binder.targets] == [
        ("uid-again", "node", True),
        ("uid-full", "node", False),
    ]


async def test_a_pod_whose_fate_is_open_has_no_result_and_the_call_ends_with_an_error() -> None:
    """Taken for a failure, it would place the pod twice; the others' results come first."""
    results: list[bind_pb2.BindResult] = []

    async def collect() -> None:
        async for batch in _call(Binder(lost=api_writes.Uncertain("no answer"), fine=status.SUCCESS), "lost", "fine"):
            results.extend(batch)

    with pytest.raises(
        bind_phase_plugin.BindResultUnknown, match="1 pods may be bound or not; the first: ns/lost: no answer"
    ):
        await collect()
    assert [result.index for result in results] == [1]


@pytest.mark.parametrize(("verbosity", "lines"), [(2, 0), (3, 2)], ids=["below", "at-three"])
async def test_an_attempt_is_logged_once_for_each_pod(
    caplog: pytest.LogCaptureFixture, verbosity: int, lines: int
) -> None:
    """As in kube-scheduler, at verbosity 3."""
    with caplog.at_level(klog.level_of(verbosity), logger=bind.log.name):
        assert [batch async for batch in _call(Binder(one=status.SUCCESS, two=status.SUCCESS), "one", "two")]
    assert [record.getMessage() for record in caplog.records] == ["Attempting to bind pod to node"] * lines
