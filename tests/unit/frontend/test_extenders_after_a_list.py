"""Extenders and a watch that was lost: what they are asked about is what was listed."""

from typing import Any

from tests.helpers.frontend_world import World
from trireme_kube.client.informers.watch import EventKind


def _pods_of_extenders(world: World) -> dict[str, Any]:
    """The metadata of the pods that the extender for Filter is asked about, until nothing is asked any more."""
    asked = {}
    while world.pending_calls:
        call = world.pending_calls[0]
        if call.rpc == "ExtenderFilter":
            metadata = call.request["Pod"]["metadata"]
            asked[metadata["name"]] = metadata
        world.answer(call, "good")
    return asked


def test_extenders_are_asked_about_pods_as_they_were_listed() -> None:
    """An extender decides by a pod as it was before the watch was lost, or is not asked about a pod that came since."""
    world = World(extended=True)
    try:
        world.api.put_node("n0", 3)
        world.deliver("nodes", 1)
        world.create("a", 1, gated=True)
        changed = world.api.pods["a"]
        changed["spec"].pop("schedulingGates")
        changed["metadata"]["labels"] = {"changed": "yes"}
        world.api.record("pods", EventKind.MODIFIED, changed)
        world.api.add_pod("b", 1, 0)
        world.relist("pods", twice=True)
        asked = _pods_of_extenders(world)
        assert asked.keys() == {"a", "b"}
        assert asked["a"]["labels"] == {"changed": "yes"}
    finally:
        world.close()
