"""AttemptReporter: the condition of a pod whose attempt failed is written, and only where it says something new."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest

from tests.helpers import queue_builders
from tests.helpers.virtual_time import on_virtual_time
from trireme.framework import status
from trireme.scheduling import attempt_reporter, failure, status_outbox
from trireme.v1 import bind_pb2
from trireme.wire import status as wire_status


class _Bind:
    """Executes actions; as many as `failures` fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.messages: list[str] = []

    async def apply(
        self, actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]
    ) -> None:
        for index, action in enumerate(actions):
            self.messages.append(action.set_condition.condition.message)
            outcome = status.SUCCESS if self.failures <= 0 else status.error("", "a fault was injected")
            self.failures -= 1
            on_result(index, bind_pb2.BindResult(index=index, status=wire_status.to_message(outcome)))


async def _messages(failures: int, attempts: Sequence[str]) -> list[str]:
    """The messages that bind is sent when a pod fails so often, with these messages."""
    bind = _Bind(failures)
    outbox = status_outbox.StatusOutbox(bind.apply)
    queue = queue_builders.queue()
    unused: Any = mock.Mock()
    reporter = attempt_reporter.AttemptReporter(
        queue,
        unused,
        pending=lambda uid: queue_builders.pending("p", uid),
        execute=lambda instructions: None,
        outbox=outbox,
        now=lambda: queue_builders.T0,
        wall=lambda: 1_800_000_000.0,
        observer=unused,
    )
    queue.add(queue_builders.record("p"), queue_builders.T0)
    task = asyncio.create_task(outbox.run())
    for number, message in enumerate(attempts):
        (pod,) = queue_builders.popped(queue, queue_builders.T0 + 1000 * number)
        reporter.report_failure(pod, failure.Failure(message, frozenset({"Fit"})))
        await asyncio.sleep(1)
        queue.activate([(pod.key, pod.uid)], queue_builders.T0 + 1000 * number)
    task.cancel()
    await asyncio.wait([task])
    return bind.messages


@pytest.mark.parametrize(
    ("failures", "attempts", "messages"),
    [
        pytest.param(0, ["no", "no", "no"], ["no"], id="the-same"),
        pytest.param(0, ["no", "never"], ["no", "never"], id="another"),
        pytest.param(1, ["no", "no", "no"], ["no", "no"], id="the-first-fails"),
        pytest.param(2, ["no", "no", "no", "no"], ["no", "no", "no"], id="two-fail"),
        pytest.param(1, ["no", "never", "never"], ["no", "never"], id="the-first-fails-and-another"),
    ],
)
def test_a_condition_is_sent_until_it_is_written(failures: int, attempts: list[str], messages: list[str]) -> None:
    @on_virtual_time
    async def sent() -> None:
        assert await _messages(failures, attempts) == messages

    sent()
