"""RemoteEvaluators: what is answered from an older snapshot than the call named does not count."""

from tests.helpers import frontend_world


def test_an_answer_from_an_older_snapshot_places_nothing() -> None:
    with frontend_world.one_node() as world:
        world.create("p", 1)
        world.loop.advance(1.0)
        call = world.pending_call("Filter")
        call.answer.evaluated_generation = call.request.cycle.generation - 1
        world.answer(call, "good")
        assert not [each for each in world.pending_calls if each.rpc in ("Place", "Bind")]
        condition = world.pending_call("Apply").request.set_condition.condition
        assert condition.reason == "SchedulerError"
        assert "filter answered by generation" in condition.message
