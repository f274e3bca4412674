"""What must hold of each call of bind that ends well: it has answered about each pod or action, once.

A frontend tries what has no answer again, so that nothing but time is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from tests.simulation import simulated_process
from trireme.bind import service as bind_service


def _of_classes(request: Any) -> int:
    return sum(len(each.items) for each in request.requests)


# By method, how much a request asks about.
_SIZES: dict[str, Callable[[Any], int]] = {
    "PreBindPreFlight": _of_classes,
    "PreBind": _of_classes,
    "Bind": lambda request: len(request.items),
    "Apply": lambda request: len(request.actions),
}


class AnswerChecks:
    """Observes all replicas of bind. `violations` are in the order in which they happened."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        for name, size in _SIZES.items():
            self._observe(name, size)

    def _observe(self, name: str, size: Callable[[Any], int]) -> None:
        owner: Any = bind_service.BindPhase
        original = getattr(owner, name)

        async def answer(service: Any, request: Any, context: Any) -> AsyncIterator[Any]:
            answered: list[int] = []
            async with aclosing(original(service, request, context)) as responses:
                async for response in responses:
                    answered += [each.index for each in response.results]
                    yield response
            if sorted(answered) != list(range(size(request))):
                process = simulated_process.current()
                of = "" if process is None else process.name
                self.violations.append(f"{name} of {of} answers about {sorted(answered)} of {size(request)}")

        setattr(owner, name, answer)
