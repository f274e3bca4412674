"""Pods as controllers create them: which pod comes when is drawn from a seed, so every side gets the same ones.

Tests: tools/bench/test_bench_workload.py.
"""

from __future__ import annotations

import dataclasses
import random

from tools.bench.driver import step
from tools.bench.driver.template import Value

# So many controllers create pods at the same time: a pod's neighbours in the queue are of several.
AT_ONCE = 4


@dataclasses.dataclass(frozen=True, slots=True)
class ControllerPod:
    """One pod, and where it stands in its controller."""

    kind: step.ControllerKind
    controller: int
    index: int
    size: int

    @property
    def values(self) -> dict[str, Value]:
        """The numbers that templates know."""
        return {"Controller": self.controller, "Index": self.index, "Size": self.size}


def draw(controllers: step.Controllers, count: int) -> list[ControllerPod]:
    """The pods in the order in which they are created: the first `count`, and what completes the last controllers.

    Sizes are drawn evenly. The next controller is of the kind that lacks most of its share of the pods so far, so that
    shares come out exactly, but for one controller.
    """
    source = random.Random(controllers.seed)
    made = dict.fromkeys(range(len(controllers.kinds)), 0)
    total = serial = 0
    running: list[list[ControllerPod]] = []
    pods: list[ControllerPod] = []
    while total < count or running:
        while total < count and len(running) < AT_ONCE:
            number = max(made, key=lambda each: controllers.kinds[each].share * (total + 1) - 100 * made[each])
            kind = controllers.kinds[number]
            size = source.randint(*kind.sizes)
            running.append([ControllerPod(kind, serial, index, size) for index in reversed(range(size))])
            made[number] += size
            total += size
            serial += 1
        chosen = source.choice(running)
        pods.append(chosen.pop())
        if not chosen:
            running.remove(chosen)
    return pods
