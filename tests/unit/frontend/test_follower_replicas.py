"""Which replica is called about a class, when another one is, and what is kept of those that are gone."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import follower_replicas, replica_link
from trireme.rpc import dialing, in_process
from trireme.scheduling import ports

Code = grpc.StatusCode
DEADLINE = 10.0


class Link:
    """The link to a replica that follows and is called; it is silent while `silent_for` says so."""

    def __init__(self, address: str, *_: object, takes_decisions: bool = False) -> None:
        self.address, self.channel = address, f"channel of {address}"
        self.in_step = self.synced = self.streaming = True
        self.takes_decisions = takes_decisions
        self.silent_for = 0.0
        self.probes = 0
        self.heard: list[object] = []
        self.failures = self

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def drain(self) -> None:
        self.heard.append("drained")

    async def close(self) -> None:
        self.heard.append("closed")

    def restart(self) -> None:
        self.heard.append("restarted")

    def publish(self, *args: object) -> None:
        self.heard.append(args)

    def on_answer(self) -> None:
        self.heard.append("answered")

    def error_text(self, error: aio.AioRpcError) -> str:
        return error.code().name

    def request_acknowledgement(self) -> None:
        self.probes += 1

    # Its log of failures

    def log_failure(self, kind: str, text: str) -> None:
        self.heard.append(("failed", kind))

    def clear(self) -> None:
        self.heard.append("cleared")


class Replicas:
    """The replicas of filter, with links that a test reads."""

    def __init__(self, *addresses: str, shared: dict[str, replica_link.ReplicaLink] | None = None) -> None:
        self.changes = 0
        self.replicas = follower_replicas.FollowerReplicas(
            "filter",
            SimpleNamespace(),  # type: ignore[arg-type]
            dialing.Dialer(),
            DEADLINE,
            lambda: asyncio.get_running_loop().time(),
            self._note_change,
            takes_decisions=True,
            shared=shared,
        )
        self.replicas.set_endpoints(addresses)

    def _note_change(self) -> None:
        self.changes += 1

    @property
    def links(self) -> dict[str, Any]:
        return dict(self.replicas._links)


@pytest.fixture(autouse=True)
def _fake_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_link, "ReplicaLink", Link)


@on_virtual_time
async def test_a_replica_that_is_gone_is_drained_and_closed_and_the_others_stay() -> None:
    setting = Replicas("a", "b", "c")
    before, tasks = setting.links, dict(setting.replicas._tasks)
    setting.replicas.set_endpoints(["b", "d"])
    assert setting.changes == 2
    await asyncio.sleep(1.0)
    assert {address: each.heard for address, each in before.items()} == {
        "a": ["drained", "closed"],
        "b": [],
        "c": ["drained", "closed"],
    }
    assert list(setting.links) == ["b", "d"] == list(setting.replicas._tasks)
    assert setting.links["b"] is before["b"]
    assert {address: task.done() for address, task in tasks.items()} == {"a": True, "b": False, "c": True}
    assert [address for address, _ in setting.replicas.channels()] == ["b", "d"]
    await setting.replicas.close()
    assert [each.heard for each in setting.links.values()] == [["closed"]] * 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


@on_virtual_time
async def test_what_serves_two_phases_in_this_process_follows_once_and_is_called_by_both() -> None:
    shared: dict[str, replica_link.ReplicaLink] = {}
    own, other = in_process.InProcessServer("both").address, in_process.InProcessServer("other").address
    filters, scores = Replicas(own, "a", shared=shared), Replicas(own, "a", other, shared=shared)
    link = filters.links[own]
    assert scores.links[own] is link
    assert scores.links["a"] is not filters.links["a"], "that is another process for each"
    assert list(filters.replicas._tasks) == [own, "a"]
    assert list(scores.replicas._tasks) == ["a", other]
    for each in (filters, scores):
        assert each.replicas.answering() == list(each.links)
        each.replicas.publish(b"delta", 3)
        each.replicas.restart()
    assert link.heard == [(b"delta", 3, b""), "restarted"]
    assert [address for each in (filters, scores) for address, _ in each.replicas.channels()] == [own, "a", "a", other]
    link.heard.clear()
    scores.replicas.set_endpoints(["a"])
    await asyncio.sleep(1.0)
    assert (link.heard, list(scores.links)) == ([], ["a"])
    filters.replicas.set_endpoints(["a"])
    await asyncio.sleep(1.0)
    assert (link.heard, shared) == (["drained", "closed"], {})
    scores.replicas.set_endpoints([own])
    assert list(scores.replicas._tasks) == [own], "nobody else has it follow any more"
    for each in (filters, scores):
        await each.replicas.close()


@on_virtual_time
async def test_who_borrows_a_link_does_not_close_it() -> None:
    shared: dict[str, replica_link.ReplicaLink] = {}
    own = in_process.InProcessServer("both").address
    filters, scores = Replicas(own, shared=shared), Replicas(own, shared=shared)
    link = filters.links[own]
    await scores.replicas.close()
    assert link.heard == []
    await filters.replicas.close()
    assert link.heard == ["closed"]


@pytest.mark.parametrize("name", ["in_step", "synced", "streaming"])
@on_virtual_time
async def test_the_state_of_all_follows_from_that_of_each(name: str) -> None:
    """Scheduling goes on with one replica in step; a plugin is in use once all of its replicas have the cluster."""
    setting = Replicas("a", "b")
    states = []
    for down in ((), ("a",), ("b",), ("a", "b")):
        for address, link in setting.links.items():
            setattr(link, name, address not in down)
        replicas = setting.replicas
        states.append((replicas.available, replicas.synced, replicas.followed, replicas.answering()))
    some = [True, True, True, False]
    assert [available for available, *_ in states] == (some if name == "in_step" else [True] * 4)
    assert [synced for _, synced, *_ in states] == ([True, False, False, False] if name == "synced" else [True] * 4)
    assert [followed for *_, followed, _ in states] == (some if name == "streaming" else [True] * 4)
    answering = [["a", "b"], ["b"], ["a"], []] if name == "in_step" else [["a", "b"]] * 4
    assert [each for *_, each in states] == answering
    await setting.replicas.close()


@on_virtual_time
async def test_decisions_are_wanted_while_a_replica_with_a_stream_takes_them() -> None:
    setting = Replicas("a", "b")
    first, second = setting.links.values()
    seen = []
    for takes, streaming in ((True, True), (False, True), (True, False)):
        first.takes_decisions, first.streaming = takes, streaming
        second.takes_decisions, second.streaming = False, True
        seen.append(setting.replicas.takes_decisions)
        first.takes_decisions, second.takes_decisions = second.takes_decisions, first.takes_decisions
        first.streaming, second.streaming = second.streaming, first.streaming
        seen.append(setting.replicas.takes_decisions)
    assert seen == [True, True, False, False, False, False]
    await setting.replicas.close()


@on_virtual_time
async def test_all_get_what_is_published_and_decisions_are_taken_once() -> None:
    setting = Replicas("a", "b")
    decisions = [b"first", b"second"]
    setting.replicas.take_decisions = lambda: decisions.pop(0)
    setting.replicas.publish(b"delta", 7)
    setting.replicas.restart()
    assert [link.heard for link in setting.links.values()] == [[(b"delta", 7, b"first"), "restarted"]] * 2
    await setting.replicas.close()


@on_virtual_time
async def test_a_class_prefers_the_same_replica_whatever_others_there_are() -> None:
    """Each replica that comes or goes would have all columns made anew."""
    setting = Replicas(*"abcd")
    keys = [(profile, class_id) for profile in ("p", "q") for class_id in range(40)]

    def preferred() -> list[list[str]]:
        return [[link.address for link in setting.replicas.preferred(*key)] for key in keys]

    before = preferred()
    assert {each[0] for each in before} == set("abcd")
    assert before[:40] != before[40:]
    left = [*"abcd"]
    for gone in "bda":
        setting.links[gone].in_step = False
        left.remove(gone)
        assert preferred() == [[address for address in each if address in left] for each in before]
    await setting.replicas.close()


def _calls(behaviours: list[Any], called: list[str]) -> Callable[[Any], Any]:
    """Calls, each of which takes so many seconds, or fails so."""

    async def call(link: Any) -> str:
        called.append(link.address)
        behaviour = behaviours[len(called) - 1]
        if isinstance(behaviour, float):
            await asyncio.sleep(behaviour)
            return f"by {link.address}"
        raise aio.AioRpcError(behaviour, aio.Metadata(), aio.Metadata(), "it failed")

    return call


_ELSEWHERE = {
    Code.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED,
    Code.RESOURCE_EXHAUSTED,
    Code.CANCELLED,
    Code.ABORTED,
    Code.FAILED_PRECONDITION,
}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK], ids=lambda code: code.name)
@on_virtual_time
async def test_a_call_goes_on_to_another_replica_unless_that_would_answer_the_same(code: grpc.StatusCode) -> None:
    setting = Replicas(*"abc")
    first, second, third = setting.replicas.preferred("p", 1)
    called: list[str] = []
    call = setting.replicas.call("p", 1, _calls([code, 0.0], called))
    if code not in _ELSEWHERE:
        with pytest.raises(aio.AioRpcError):
            await call
        assert called == [first.address]
    else:
        assert await call == f"by {second.address}"
        heard: list[Any] = [each.heard for each in (first, second, third)]  # type: ignore[attr-defined]
        assert heard == [[("failed", code.name)], ["answered", "cleared"], []]
    await setting.replicas.close()


@pytest.mark.parametrize("replicas", [0, 2])
@on_virtual_time
async def test_a_call_that_no_replica_answers_says_why_the_last_did_not(replicas: int) -> None:
    setting = Replicas(*"ab"[:replicas])
    last = f"{setting.replicas.preferred('p', 1)[-1].address}: UNAVAILABLE" if replicas else "no replica is in step"
    with pytest.raises(ports.PhaseUnavailable) as raised:
        await setting.replicas.call("p", 1, _calls([Code.ABORTED, Code.UNAVAILABLE], []))
    assert str(raised.value) == f"filter: {last}"
    await setting.replicas.close()


PROBE = follower_replicas.PROBE_SECONDS


@pytest.mark.parametrize(
    ("silent_for", "in_step", "probes", "seconds"),
    [
        (0.0, True, round(DEADLINE / PROBE) - 1, DEADLINE),
        (2 * PROBE, True, round(DEADLINE / PROBE) - 1, DEADLINE),
        (2 * PROBE + 0.01, True, 0, PROBE),
        (0.0, False, 0, PROBE),
    ],
    ids=["computes for long", "just heard of", "silent", "out of step"],
)
@on_virtual_time
async def test_a_replica_is_waited_for_while_it_acknowledges(
    silent_for: float, in_step: bool, probes: int, seconds: float
) -> None:
    """If this fails, a replica whose node is gone holds each call up to its deadline, or a busy one is given up."""
    setting = Replicas("a", "b")
    first, second = (setting.links[each.address] for each in setting.replicas.preferred("p", 1))
    called: list[str] = []
    started = asyncio.get_running_loop().time()
    first.silent_for = silent_for
    running = asyncio.create_task(setting.replicas.call("p", 1, _calls([3600.0, 0.0], called)))
    await asyncio.sleep(PROBE / 2)
    first.in_step = in_step
    assert await running == f"by {second.address}"
    assert asyncio.get_running_loop().time() - started == pytest.approx(seconds, abs=PROBE * 1.01)
    assert first.probes == pytest.approx(probes, abs=1)
    assert first.heard == [("failed", "silent")]
    await setting.replicas.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "the call was cancelled"


@on_virtual_time
async def test_the_last_replica_may_be_silent_until_the_deadline() -> None:
    """If no other replica can be called, a busy one is better than none."""
    setting = Replicas("a")
    link = setting.links["a"]
    link.silent_for = DEADLINE
    assert await setting.replicas.call("p", 1, _calls([DEADLINE - 1.0], [])) == "by a"
    assert link.probes > 1
    with pytest.raises(ports.PhaseUnavailable, match="filter: a: it does not answer"):
        await setting.replicas.call("p", 1, _calls([DEADLINE + 1.0], []))
    await setting.replicas.close()


@on_virtual_time
async def test_a_caller_that_is_cancelled_cancels_the_call() -> None:
    setting = Replicas("a")
    running = asyncio.create_task(setting.replicas.call("p", 1, _calls([3600.0], [])))
    await asyncio.sleep(1.0)
    running.cancel()
    await asyncio.wait({running})
    await setting.replicas.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
