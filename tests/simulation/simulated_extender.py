"""An HTTP extender of a simulation: answers in the place of the network, and never the same twice.

`install` replaces the client of extenders in this interpreter; import it after `substituted_sources.install`.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import orjson

from tests.simulation.pod_demands import LICENSE_RESOURCE
from trireme.config import scheduler_configuration
from trireme.extenders import extender_client, extender_wire
from trireme_kube.embedded.api.resources import Object

# How late an answer is, at most. Units: seconds.
_LATE_SECONDS = 0.05
_FAILURES = 0.03
_BEST_SCORE = 10

CONFIGURATION: Object = {
    "urlPrefix": "http://licenses.example:8888",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "weight": 3,
    "nodeCacheCapable": True,
    "managedResources": [{"name": LICENSE_RESOURCE}],
}
"""The configuration of an extender that filters, scores and preempts for pods with licenses."""


def install(seed: int) -> collections.Counter[str]:
    """Have all extenders answered by this module, by what follows from the seed. Returns the answers given, by verb."""
    pick, answers = random.Random(f"extender {seed}"), collections.Counter[str]()

    class Client(extender_client.ExtenderClient):
        def __init__(
            self, session: aiohttp.ClientSession, config: scheduler_configuration.Extender, *clock: Callable[[], float]
        ) -> None:
            super().__init__(session, config, *clock)

        async def send(self, verb: str, body: bytes) -> Any:
            await asyncio.sleep(pick.uniform(0.0, _LATE_SECONDS))
            if pick.random() < _FAILURES:
                raise extender_wire.ExtenderError(f"failed {verb}: no licenses are known")
            answers[verb] += 1
            question = orjson.loads(body)
            if verb == "preempt":
                return _kept_candidates(pick, question["NodeNameToMetaVictims"])
            names = question["NodeNames"]
            if verb == "prioritize":
                return [{"Host": name, "Score": pick.randint(0, _BEST_SCORE)} for name in names]
            return _filtered(pick, names)

    extender_client.ExtenderClient = Client  # type: ignore[misc]  # a class, replaced for the whole interpreter
    return answers


def _filtered(pick: random.Random, names: Sequence[str]) -> Object:
    """Pass some nodes, refuse some with a reason that others may resolve or not, and leave some out silently."""
    found: Object = {"NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}}
    for name in names:
        chance = pick.random()
        if chance < 0.6:
            found["NodeNames"].append(name)
        elif chance < 0.8:
            found["FailedNodes"][name] = "all licenses are in use"
        elif chance < 0.95:
            found["FailedAndUnresolvableNodes"][name] = "licensed for others"
    return found


def _kept_candidates(pick: random.Random, victims: Object) -> Object:
    """Keep most candidates of preemption, and now and then none."""
    share = pick.choice((0.0, 0.5, 0.9, 1.0))
    return {"NodeNameToMetaVictims": {node: each for node, each in victims.items() if pick.random() < share}}
