"""A PostFilter that fails in the frontend: the pod's failure has a code for it, beside those of the nodes."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.helpers import preemption_world
from tests.helpers.frontend_world import World
from trireme.extenders import extenders
from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.scheduling.failure import Failure
from trireme.scheduling.post_filtering import PostFilters
from trireme.v1 import filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer


@contextlib.contextmanager
def _evicting() -> Iterator[World]:
    """The pod `strong` waits for the eviction of `weak`, in the call that is pending."""
    with contextlib.closing(World("--feature-gates=SchedulerAsyncPreemption=false")) as world:
        world.api.put_node("n0", 1)
        world.deliver("nodes", 1)
        world.create("weak", 1)
        world.answer_all()
        world.deliver("pods", 1000)
        world.create("strong", 1, 100)
        while not any(call.request.HasField("evict") for call in world.pending_calls if call.rpc == "Apply"):
            world.answer(world.pending_calls[0], "good")
        yield world


def test_victims_that_cannot_be_evicted_at_once_have_a_code() -> None:
    with _evicting() as world:
        world.answer(world.pending_call("Apply"), "bad")
        failures = world.frontend.scheduling.reporter
        uid = world.api.pods["strong"]["metadata"]["uid"]
        assert failures.last_failure(uid).endswith(". preemption: the API server says no")
        codes = [(reason.code, nodes) for each, nodes in failures.last_statuses(uid) for reason in each.reasons]
        assert codes == [("refused", 1), ("evictionFailed", 0)]


def test_victims_that_are_evicted_at_once_are_no_failure() -> None:
    with _evicting() as world:
        world.answer(world.pending_call("Apply"), "good")
        uid = world.api.pods["strong"]["metadata"]["uid"]
        statuses = world.frontend.scheduling.reporter.last_statuses(uid)
        assert [reason.code for each, _ in statuses for reason in each.reasons] == ["refused"]
        world.answer_all()
        assert world.api.pods["strong"]["status"]["nominatedNodeName"] == "n0"


class _Reporter:
    failure: Failure

    def report_failures(self, pods: object, failure: Failure) -> None:
        self.failure = failure


async def test_an_extender_that_fails_at_preemption_has_a_code() -> None:
    async def trim(candidates: object) -> object:
        raise extenders.ExtenderError("no licence")

    async def list_candidates(*_: object) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        return filter_phase_pb2.ListPreemptionCandidatesResponse(candidates=[{"node_name": "n0"}])

    reporter = _Reporter()
    fakes: dict[str, Any] = {
        "cache": SimpleNamespace(node_count=1),
        "nominations": SimpleNamespace(node_of=lambda uid: ""),
        "evaluators": SimpleNamespace(list_preemption_candidates=list_candidates),
        "reporter": reporter,
        "observer": SimpleNamespace(clock=lambda: 0.0, on_post_filter_run=lambda *_: None),
        "http_extenders": SimpleNamespace(candidate_trimmer=lambda *_: trim),
        "limit": None,
        "preemptions": None,
        "asynchronous": {"default": True},
    }
    pod = queued_pod.QueuedPodInfo(preemption_world.record("p", 100), 0.0)
    full = status.unschedulable("Fit", "Insufficient cpu")
    columns = node_columns.NodeColumns.complete(1, (full,), np.array([1], dtype=np.int16), np.zeros(1, dtype=np.int32))
    await PostFilters(**fakes).run(("default", 1), [pod], FilterAnswer(columns=columns))
    assert reporter.failure.message == "0/1 nodes are available: 1 Insufficient cpu. preemption: no licence"
    assert [each.reasons[0].code for each, _ in reporter.failure.statuses] == ["refused", "extenderFailed"]
