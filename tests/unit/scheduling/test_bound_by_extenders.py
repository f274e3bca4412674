"""Pods that an HTTP extender binds: they are reported as others are, and go back if it does not bind them."""

from collections.abc import Iterator

import pytest

from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from tests.helpers.metric_values import counts, sums
from trireme.extenders import reported_bound
from trireme.framework import status
from trireme.v1 import bind_pb2


@pytest.fixture(name="extended")
def _extended() -> Iterator[World]:
    """One node of three CPUs, and an extender that binds."""
    world = World(extended=True)
    world.api.put_node("n0", 3)
    world.deliver("nodes", 1)
    yield world
    world.close()


def test_a_pod_that_an_extender_bound_is_reported_and_notified_as_others(
    extended: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    notified: list[str] = []

    async def post_bind(request: bind_pb2.PostBindRequest) -> None:
        notified.extend(item.pod.name for item in request.items)

    monkeypatch.setattr(extended.frontend.phases.links.binders, "post_bind", post_bind)
    extended.frontend.scheduling.roles.post_bind.add(PROFILE)
    extended.create("p", 1)
    extended.answer_until("ExtenderBind")
    extended.loop.advance(2.5)
    extended.answer(extended.pending_calls[0], "good")
    instruments = extended.frontend.context.metrics.instruments
    assert sums(instruments.point_seconds)[f"Bind Success {PROFILE}"] == (1, 2.5)
    assert counts(instruments.schedule_attempts) == {f"scheduled {PROFILE}": 1}
    assert notified == ["p"]
    assert extended.frontend.scheduling.binding.binding_count == 0


def test_a_pod_that_an_ignorable_extender_fails_to_bind_is_bound_without_it(extended: World) -> None:
    extended.create("p", 1)
    extended.answer_until("ExtenderBind")
    assert "Bind" not in extended.pending_rpcs()
    extended.answer(extended.pending_calls[0], "down")
    assert "Bind" in extended.pending_rpcs()
    extended.answer_all()
    assert extended.api.pods["p"]["spec"]["nodeName"] == "n0"
    assert extended.frontend.scheduling.binding.binding_count == 0


@pytest.mark.parametrize("leads", [True, False])
def test_a_pod_that_an_extender_only_says_it_bound_is_requeued_while_this_frontend_leads(
    extended: World, leads: bool
) -> None:
    extended.create("p", 1)
    extended.answer_until("ExtenderBind")
    extended.answer(extended.pending_calls[0], "lie")
    if not leads:
        extended.loop.run_until_complete(extended.frontend.scheduling.close())
    extended.loop.advance(reported_bound.BELIEVED_SECONDS + 1)
    requeued = counts(extended.frontend.context.metrics.instruments.schedule_attempts).get(f"error {PROFILE}", 0)
    assert requeued == (1 if leads else 0)
    statuses = extended.frontend.scheduling.reporter.last_statuses(extended.api.pods["p"]["metadata"]["uid"])
    reason = status.Reason.of("boundByExtender", {"node": "n0"})
    assert [each.reasons for each, _ in statuses] == ([(reason,)] if leads else [])


def test_pods_of_a_class_that_extenders_look_at_are_tried_one_by_one(extended: World) -> None:
    """Their answers are about one pod."""
    extended.create("first", 1)
    for name in ("a", "b"):
        extended.create(name, 1)
    while extended.pending_calls:
        extended.answer_all()
    for each in ("first", "a", "b"):
        assert extended.api.pods[each]["spec"]["nodeName"] == "n0"
    asked = counts(extended.frontend.context.metrics.instruments.batch_attempts)
    assert asked == {f"{PROFILE} no_hint": 3}


def test_a_pod_that_its_extender_does_not_bind_is_requeued(extended: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> status.Status:
        return status.error("", "no licence")

    monkeypatch.setattr(extended.frontend.scheduling.binding._http_extenders, "bind", refuse)
    extended.create("p", 1)
    while extended.pending_calls and extended.pending_calls[0].rpc != "Apply":
        extended.answer(extended.pending_calls[0], "good")
    assert extended.frontend.scheduling.binding.binding_count == 0
    assert extended.frontend.cluster.cache.statistics().assumed_pods == 0
    assert counts(extended.frontend.context.metrics.instruments.schedule_attempts) == {f"error {PROFILE}": 1}
