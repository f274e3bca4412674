"""The state machine of one binding: what follows each outcome, and that no outcome is ever a guess."""

import dataclasses
from typing import TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.bind.binding_retries import (
    BOUND,
    READ_BACK,
    RESOLVE_SECONDS,
    SETTLE_SECONDS,
    WAITS_SECONDS,
    BindingRetries,
    PostStep,
    ReadStep,
    Step,
)
from trireme.framework import status
from trireme.plugin_kit.pod_binder import BindTarget
from trireme_kube.apimachinery import api_writes

TARGET = BindTarget(api_writes.PodName("default", "web-1", "u1"), "node-a")
CONFLICT = 'Operation cannot be fulfilled on pods/binding "web-1": pod web-1 is already assigned to node "node-b"'
DELETED = (
    'Operation cannot be fulfilled on pods/binding "web-1": pod web-1 is being deleted, cannot be assigned to a host'
)


def is_not_bound(step: Step) -> TypeGuard[status.Status]:
    """The outcome is certain, and an error."""
    return isinstance(step, status.Status) and step.code is status.Code.ERROR


def attempt() -> BindingRetries:
    return BindingRetries(TARGET, lambda: 0.0)


@pytest.mark.parametrize(
    ("outcome", "message", "reason"),
    [
        pytest.param(api_writes.Gone('pods "web-1" not found'), 'pods "web-1" not found', "podNotFound", id="gone"),
        pytest.param(api_writes.Refused("pods is forbidden", 403), "pods is forbidden", "refused", id="forbidden"),
        pytest.param(api_writes.Unavailable("refused"), "refused", "unreachable", id="unreachable"),
    ],
)
def test_a_certain_refusal_is_final(outcome: api_writes.Outcome, message: str, reason: str) -> None:
    """A POST that certainly had no effect costs no reading; the message is the API server's."""
    step = attempt().on_post(outcome, 0.0)
    assert is_not_bound(step)
    assert (step.message, step.reasons[0].code) == (message, reason)
    assert step.reasons[0].parameters == ((("status", "403"),) if reason == "refused" else ())


def test_a_success_is_final() -> None:
    """The common case is one POST."""
    assert attempt().on_post(api_writes.Written({}), 0.0) is BOUND


@pytest.mark.parametrize(
    "outcome", [api_writes.Conflict(CONFLICT), api_writes.Uncertain("no answer")], ids=["409", "lost"]
)
def test_a_doubt_is_resolved_by_reading(outcome: api_writes.Outcome) -> None:
    """A 409 may be the echo of our own POST whose reply was lost: only reading tells."""
    one = attempt()
    assert one.on_post(outcome, 0.0) == ReadStep(0.0)
    assert one.on_read(api_writes.Written({}), 0.0, True) is READ_BACK


@pytest.mark.parametrize(
    ("post", "read", "message", "reason"),
    [
        pytest.param(
            api_writes.Conflict(CONFLICT), api_writes.Conflict("…"), CONFLICT, "alreadyAssigned", id="api-words"
        ),
        pytest.param(
            api_writes.Uncertain("no answer"),
            api_writes.Conflict('pod web-1 is already assigned to node "node-b"'),
            CONFLICT,
            "alreadyAssigned",
            id="own-words",
        ),
        pytest.param(api_writes.Conflict(DELETED), api_writes.Unbound("not bound"), DELETED, "conflict", id="deleted"),
        pytest.param(api_writes.Uncertain("x"), api_writes.Gone("gone"), "gone", "podNotFound", id="gone"),
    ],
)
def test_a_reading_that_shows_it_is_not_ours_is_final(
    post: api_writes.Outcome, read: api_writes.SettledBinding, message: str, reason: str
) -> None:
    """The message is what kube-scheduler would have said, also where the API server's own words were lost."""
    one = attempt()
    one.on_post(post, 0.0)
    step = one.on_read(read, 0.0, True)
    assert is_not_bound(step)
    assert (step.message, step.reasons[0].code) == (message, reason)


def test_an_unbound_pod_is_posted_again_a_few_times() -> None:
    """A lost POST is repeated with growing waits, and in the end the failure is confirmed by a second reading."""
    one = attempt()
    for wait in WAITS_SECONDS:
        assert one.on_post(api_writes.Uncertain("no answer"), 0.0) == ReadStep(0.0)
        assert one.on_read(api_writes.Unbound("not bound"), 0.0, True) == PostStep(wait)
    assert one.on_post(api_writes.Uncertain("no answer"), 0.0) == ReadStep(0.0)
    assert one.on_read(api_writes.Unbound("not bound"), 0.0, True) == ReadStep(SETTLE_SECONDS)
    step = one.on_read(api_writes.Unbound("not bound"), 0.0, True)
    assert is_not_bound(step)
    assert step.message == "no answer"


def test_nothing_is_posted_for_a_leader_that_is_gone() -> None:
    """A deposed leader's pod is resolved by reading alone."""
    one = attempt()
    one.on_post(api_writes.Uncertain("no answer"), 0.0)
    assert one.on_read(api_writes.Unbound("not bound"), 0.0, False) == ReadStep(SETTLE_SECONDS)
    assert is_not_bound(one.on_read(api_writes.Unbound("not bound"), 0.0, False))


@pytest.mark.parametrize("doubt", [False, True], ids=["certain", "in-doubt"])
def test_a_withdrawn_binding_reads_only_where_there_is_a_doubt(doubt: bool) -> None:
    """What is withdrawn before its second POST has still to answer for its first."""
    one = attempt()
    if doubt:
        one.on_post(api_writes.Uncertain("no answer"), 0.0)
    step = one.on_posting_ended("the leader's lease ran out", 0.0)
    if doubt:
        assert step == ReadStep(0.0)
    else:
        assert is_not_bound(step)
        assert step.reasons[0].code == "notBegun"


def test_the_first_post_of_a_pod_in_doubt_waits_for_nothing() -> None:
    """A new leader joins while the pod of the old one's call is read back, and finds it unbound.

    Only a POST that is repeated waits.
    """
    one = BindingRetries(dataclasses.replace(TARGET, outcome_unknown=True), lambda: 0.5)
    assert one.on_posting_ended("the leader's lease ran out", 0.0) == ReadStep(0.0)
    step = one.on_read(api_writes.Unbound("not bound"), 0.1, active=True)
    assert step == PostStep(0.0)


def test_an_unreadable_binding_stays_open() -> None:
    """A pod that cannot be read must not pass for unbound: the step is Uncertain, after trying for a while."""
    one = attempt()
    now = 0.0
    step = one.on_post(api_writes.Uncertain("no answer"), now)
    waits = []
    while isinstance(step, ReadStep):
        waits.append(step.after)
        now += step.after + 5.0
        step = one.on_read(api_writes.Uncertain("connection refused"), now, True)
    assert isinstance(step, api_writes.Uncertain)
    assert "no answer" in step.message
    assert "connection refused" in step.message
    assert now >= RESOLVE_SECONDS
    assert waits[1:] == sorted(waits[1:])


@dataclasses.dataclass
class _Server:
    """An API server with one pod, whose requests may take effect late, or not at all."""

    node: str = ""
    uid: str = "u1"
    exists: bool = True
    #: What a request that was given up will do, and when.
    late: tuple[float, str] | None = None

    def advance(self, now: float) -> None:
        if self.late is not None and now >= self.late[0]:
            if self.exists and self.uid == "u1" and not self.node:
                self.node = self.late[1]
            self.late = None

    def post(self, fate: str, now: float) -> api_writes.Outcome:
        self.advance(now)
        if fate == "unavailable":
            return api_writes.Unavailable("connection refused")
        if fate == "lost":
            return api_writes.Uncertain("no answer")
        if fate == "late":
            self.late = (now + SETTLE_SECONDS * 0.9, "node-a")
            return api_writes.Uncertain("no answer")
        if not self.exists:
            return api_writes.Uncertain("no answer") if fate == "reply-lost" else api_writes.Gone("not found")
        if self.uid != "u1" or self.node:
            return api_writes.Uncertain("no answer") if fate == "reply-lost" else api_writes.Conflict(CONFLICT)
        self.node = "node-a"
        return api_writes.Uncertain("no answer") if fate == "reply-lost" else api_writes.Written({})

    def read(self, fate: str, now: float) -> api_writes.SettledBinding:
        self.advance(now)
        if fate == "fails":
            return api_writes.Uncertain("connection refused")
        if not self.exists or self.uid != "u1":
            return api_writes.Gone("not found")
        if self.node == "node-a":
            return api_writes.Written({})
        return api_writes.Conflict("elsewhere") if self.node else api_writes.Unbound("not bound")

    def meanwhile(self, event: str) -> None:
        if event == "deleted":
            self.exists = False
        elif event == "replaced":
            self.uid, self.node = "u2", ""
        elif event == "bound-elsewhere" and not self.node:
            self.node = "node-b"


@given(
    posts=st.lists(st.sampled_from(["ok", "reply-lost", "lost", "late", "unavailable"]), min_size=4, max_size=4),
    reads=st.lists(st.sampled_from(["ok", "ok", "fails"]), max_size=12),
    events=st.lists(st.sampled_from(["", "", "", "deleted", "replaced", "bound-elsewhere"]), max_size=8),
    active=st.lists(st.booleans(), max_size=8),
)
def test_an_outcome_is_the_truth(posts: list[str], reads: list[str], events: list[str], active: list[bool]) -> None:
    """Whatever is lost, late or changed meanwhile: SUCCESS means bound by us, an error not bound, now and later."""
    server, one, now = _Server(), attempt(), 0.0
    step = one.on_post(server.post(posts.pop(0), now), now)
    while isinstance(step, (PostStep, ReadStep)):
        now += step.after
        if events:
            server.meanwhile(events.pop(0))
        if isinstance(step, PostStep):
            step = one.on_post(server.post(posts.pop(0), now), now)
        else:
            fate = reads.pop(0) if reads else "ok"
            step = one.on_read(server.read(fate, now), now, active.pop(0) if active else True)
        now += 0.001
    bound_by_us = server.exists and server.uid == "u1" and server.node == "node-a"
    server.advance(now + 10 * SETTLE_SECONDS)
    bound_later = server.exists and server.uid == "u1" and server.node == "node-a"
    if step in (BOUND, READ_BACK):
        assert bound_by_us
    elif is_not_bound(step):
        assert not bound_later


@pytest.mark.parametrize("text", ["forbidden", ""], ids=["refused", "withdrawn"])
def test_the_message_of_a_pod_that_was_read_unbound_says_why_it_was_not_bound(text: str) -> None:
    """By the last answer of the API server, or if there was none by what ended posting."""
    one = BindingRetries(dataclasses.replace(TARGET, outcome_unknown=True), lambda: 0.5)
    if text:
        one.on_post(api_writes.Uncertain("no answer"), 0.0)
        assert one.on_post(api_writes.Refused(text, 403), 0.0) == ReadStep(0.0)
    one.on_posting_ended("the lease ran out", 0.0)
    assert one.on_read(api_writes.Unbound("not bound"), 0.0, False) == ReadStep(SETTLE_SECONDS)
    step = one.on_read(api_writes.Unbound("not bound"), 0.0, False)
    assert is_not_bound(step)
    assert step.message == (text or "the lease ran out")


def test_after_another_post_the_pod_is_read_unbound_twice_again() -> None:
    """The POST between may bind it yet."""
    one = attempt()
    one.on_post(api_writes.Uncertain("no answer"), 0.0)
    assert one.on_read(api_writes.Unbound("not bound"), 0.0, False) == ReadStep(SETTLE_SECONDS)
    assert isinstance(one.on_read(api_writes.Unbound("not bound"), 0.0, True), PostStep)
    one.on_post(api_writes.Uncertain("no answer"), 0.0)
    assert one.on_read(api_writes.Unbound("not bound"), 0.0, False) == ReadStep(SETTLE_SECONDS)


def test_a_pod_that_cannot_be_read_is_read_again_after_waits_that_grow_and_begin_anew_with_each_post() -> None:
    one = attempt()
    for _ in range(2):
        one.on_post(api_writes.Uncertain("no answer"), 0.0)
        waits = []
        for _ in range(7):
            step = one.on_read(api_writes.Uncertain("refused"), 1.0, True)
            assert isinstance(step, ReadStep)
            waits.append(step.after)
        jitter = waits[-1]
        assert [round(wait / jitter, 3) for wait in waits] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    assert isinstance(one.on_read(api_writes.Uncertain("refused"), RESOLVE_SECONDS - 0.1, True), ReadStep)
    assert isinstance(one.on_read(api_writes.Uncertain("refused"), RESOLVE_SECONDS, True), api_writes.Uncertain)


def test_a_joining_call_that_tells_of_another_replicas_post_brings_its_doubt_along() -> None:
    one = attempt()
    one.note_post_by_other_replica()
    assert one.on_post(api_writes.Refused("forbidden", 403), 0.0) == ReadStep(0.0)


def test_waits_are_longer_by_up_to_their_length() -> None:
    """Pods that failed together would all be tried again at the same moment."""
    machine = BindingRetries(TARGET, lambda: 0.5)
    machine.on_post(api_writes.Uncertain("late"), 0.0)
    failed = machine.on_read(api_writes.Uncertain("late"), 0.0, True)
    assert failed == ReadStep(pytest.approx(0.1 * 1.5))
    assert machine.on_read(api_writes.Unbound("no node"), 0.0, True) == PostStep(pytest.approx(WAITS_SECONDS[0] * 1.5))
