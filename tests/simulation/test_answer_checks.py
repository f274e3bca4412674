"""A call of bind that leaves something out is found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.simulation.answer_checks import _SIZES, AnswerChecks
from trireme.bind import service as bind_service
from trireme.v1 import bind_pb2, bind_phase_pb2

_ITEMS = bind_phase_pb2.BindPhasePreBindRequest(requests=[{"items": [{}, {}]}, {"items": [{}]}])


@pytest.mark.parametrize(
    ("name", "request_", "response"),
    [
        ("PreBind", _ITEMS, bind_phase_pb2.BindPhasePreBindResponse),
        ("PreBindPreFlight", _ITEMS, bind_phase_pb2.BindPhasePreBindPreFlightResponse),
        ("Bind", bind_pb2.BindRequest(items=[{}, {}, {}]), bind_pb2.BindResponse),
        ("Apply", bind_phase_pb2.ApplyRequest(actions=[{}, {}, {}]), bind_phase_pb2.ApplyResponse),
    ],
)
@pytest.mark.parametrize(
    ("answered", "complete"), [([[0, 2], [], [1]], True), ([[0, 1]], False), ([[0, 1, 2], [1]], False), ([[]], False)]
)
def test_each_pod_and_action_has_one_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, request_: Any, response: Any, answered: Any, complete: bool
) -> None:
    """If this fails, pods without an answer are tried again, and no simulation says so."""

    async def answer(service: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        for indices in answered:
            yield response(results=[{"index": index} for index in indices])

    for each in _SIZES:
        monkeypatch.setattr(bind_service.BindPhase, each, getattr(bind_service.BindPhase, each))
    monkeypatch.setattr(bind_service.BindPhase, name, answer)
    checks = AnswerChecks()

    async def call() -> int:
        method: Any = getattr(bind_service.BindPhase, name)
        return len([each async for each in method(None, request_, None)])

    assert asyncio.run(call()) == len(answered)
    assert len(checks.violations) == (not complete)
