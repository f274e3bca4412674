"""Random stimuli to the queue with groups: whatever happens in whatever order, no member is lost or in two places."""

import itertools
import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.pod_group_builders import T0, grouping_queue, member, of_groups, pod_group
from trireme.queueing import state_machine
from trireme.queueing.groups.queue_groups import GroupAttemptResult
from trireme.queueing.groups.queued_group import QueuedPodGroupInfo
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import CallPreEnqueue, Instruction
from trireme.queueing.scheduling_queue import PodBatch
from trireme.queueing.states import (
    Active,
    BackOff,
    Done,
    Gated,
    GroupInFlight,
    InFlight,
    PreEnqueuePending,
    QueueState,
    WaitingForGroup,
)

GROUPS = ("g", "h")
# Groups. Parents are chosen at random, so they may be missing, go round in a circle, or be their own.
ABOVE = ("x", "y", "z")
STEPS = 120


class Machine:
    """A queue, what should be in it, and the stimuli."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        #: In every other run a plugin in another process has a say; calls (id to UID) without an answer yet.
        remote = PreEnqueueResult.CALL_REMOTE if seed % 2 else PreEnqueueResult.ALLOWED
        self.calls: dict[int, str] = {}
        #: In one of three runs groups may be in groups.
        self.composite = seed % 3 == 0
        self.queue = grouping_queue(
            pre_enqueue=lambda pod: "SchedulingGates" if pod.record.pod.parsed.gates else remote,
            composite=self.composite,
        )
        self.now = T0
        self.uids = 0
        self.gated: dict[str, bool] = {}
        #: Members without a node: uid to (name, group).
        self.pending: dict[str, tuple[str, str]] = {}
        self.placed: dict[str, str] = {}
        self.flying: tuple[QueuedPodGroupInfo, list[QueuedPodInfo]] | None = None
        self.binding: dict[str, QueuedPodInfo] = {}
        for number, name in enumerate(ABOVE[: 2 * self.composite]):
            self.queue.groups.set_group(of_groups(name, parent="".join(ABOVE[:number])), T0)

    def step(self) -> None:
        """One random stimulus."""
        self.now += self.rng.choice((0.0, 0.3, 1.5))
        stimuli: list[Any] = [
            self.add,
            self.add,
            self.change,
            self.delete,
            self.set_group,
            self.remove_group,
            *[self.change_tree] * self.composite,
            self.pop,
            self.pop,
            self.finish,
            self.bind,
            self.fail_to_bind,
            self.remove_placed,
            self.activate,
            self.answer,
            self.answer,
            lambda: self.take(self.queue.flush_backoff(self.now)),
            lambda: self.take(self.queue.flush_unschedulable(self.now)),
        ]
        self.rng.choice(stimuli)()

    def take(self, instructions: Sequence[Instruction]) -> None:
        """Open the calls that the queue instructs."""
        self.calls |= {each.call_id: each.pod.uid for each in instructions if isinstance(each, CallPreEnqueue)}

    def answer(self, refuse: float = 0.3) -> None:
        """A plugin answers, in no particular order; also to calls that are void."""
        if self.calls:
            call_id = self.rng.choice(sorted(self.calls))
            del self.calls[call_id]
            gated_by = "Remote" if self.rng.random() < refuse else ""
            self.take(self.queue.pre_enqueue_answered(call_id, gated_by, self.now))

    def _any(self, uids: Any) -> str:
        return str(self.rng.choice(sorted(uids))) if uids else ""

    def add(self) -> None:
        name, group = f"p{self.rng.randrange(8)}", self.rng.choice(GROUPS)
        if any(known == name for known, _ in self.pending.values()) and self.rng.random() < 0.8:
            return
        for uid in [uid for uid, (known, _) in self.pending.items() if known == name]:
            # Made again under its name; the watch did not show that it was deleted.
            group = self.pending.pop(uid)[1]
            self.binding.pop(uid, None)
        self.uids += 1
        uid = f"u{self.uids}"
        self.pending[uid] = (name, group)
        self.gated[uid] = self.rng.random() < 0.1
        self._send(uid, self.queue.add)

    def _send(self, uid: str, how: Any, *more: Any) -> None:
        name, group = self.pending[uid]
        gates = {"schedulingGates": [{"name": "wait"}]} if self.gated[uid] else {}
        self.take(how(member(name, group, uid=uid, **gates), *more, self.now))

    def change(self) -> None:
        uid = self._any(self.pending)
        if uid:
            self.gated[uid] = False
            name, group = self.pending[uid]
            record = member(name, group, uid=uid)._replace(resource_version=str(self.rng.random()))
            self.take(self.queue.update(record, (), None, None, self.now))

    def delete(self) -> None:
        uid = self._any(self.pending)
        if uid:
            name, _ = self.pending.pop(uid)
            self.binding.pop(uid, None)
            self.take(self.queue.delete(f"ns/{name}", uid, self.now))

    def set_group(self) -> None:
        parent = self.rng.choice(("", "x", "x", "y", "y")) if self.composite else ""
        minimum, priority = self.rng.randrange(4 - 2 * self.composite), self.rng.randrange(3)
        group = pod_group(self.rng.choice(GROUPS), minimum, priority, parent=parent)
        self.take(self.queue.groups.set_group(group, self.now))

    def change_tree(self) -> None:
        name, parent = self.rng.choice(ABOVE), self.rng.choice(("", "", "", *ABOVE))
        if self.rng.random() < 0.8:
            self.take(self.queue.groups.set_group(of_groups(name, self.rng.randrange(3), parent), self.now))
        else:
            self.take(self.queue.groups.remove_group(f"ns/{name}", f"uid-of-{name}", self.now, composite=True))

    def remove_group(self) -> None:
        if self.rng.random() < 0.4:
            name = self.rng.choice(GROUPS)
            self.take(self.queue.groups.remove_group(f"ns/{name}", f"uid-of-{name}", self.now))

    def pop(self) -> None:
        if self.flying is not None:
            return
        ahead = self.queue.peek_next_batch()
        active = [group for group in self.queue.groups.registry if isinstance(group.state, Active)]
        batch = self.queue.pop(self.now, 9)
        if ahead is not None and isinstance(batch, PodBatch):
            assert (ahead.key, ahead.head) == (batch.class_id, batch.pods[0])
        if batch is not None:
            group = batch.group
            assert group.attempt
            assert group.priority == max(each.priority for each in active)
            self.flying = group, [group.members[uid] for uid in sorted(group.attempt)]

    def finish(self) -> None:
        if self.flying is None:
            return
        group, pods = self.flying
        self.flying = None
        how = self.rng.choice(list(GroupAttemptResult))
        for pod in pods:
            if how is GroupAttemptResult.SCHEDULED and self.rng.random() < 0.7:
                self.queue.done(pod.uid, self.now)
                if pod.uid in self.pending:
                    self.binding[pod.uid] = pod
            else:
                self.take(self.queue.requeue(pod, self.now, rejectors=frozenset({"Fit"})))
        self.take(self.queue.groups.finish_attempt(group, how, self.now))

    def bind(self) -> None:
        uid = self._any(self.binding if self.rng.random() < 0.9 else self.pending)
        if uid:
            name, group = self.pending.pop(uid)
            self.binding.pop(uid, None)
            self.placed[uid] = group
            self.take(self.queue.groups.member_placed(f"ns/{group}", uid, self.now))
            self.take(self.queue.delete(f"ns/{name}", uid, self.now))

    def fail_to_bind(self) -> None:
        uid = self._any(self.binding)
        if uid:
            self.take(self.queue.requeue(self.binding.pop(uid), self.now))

    def remove_placed(self) -> None:
        uid = self._any(self.placed)
        if uid:
            del self.placed[uid]
            self.take(self.queue.groups.member_removed(uid, self.now))

    def activate(self) -> None:
        uid = self._any(self.pending)
        if uid:
            self.take(self.queue.activate([(f"ns/{self.pending[uid][0]}", uid)], self.now))

    def check(self) -> None:
        """What must hold at any time."""
        assert {pod.uid for pod in self.queue.contents.pods()} == set(self.pending)
        assert len(self.queue.contents.pods()) == len(self.pending)
        for group in list(self.queue.groups.registry):
            self._check_group(group)
        self._check_statistics()

    def _check_statistics(self) -> None:
        """All pods are counted, each by its state."""
        found = self.queue.statistics()
        pods = Counter(type(pod.state) for pod in self.queue.contents.pods())
        assert found.active == pods[Active]
        assert found.backoff + found.error_backoff == pods[BackOff]
        assert (found.gated, found.pre_enqueue_pending) == (pods[Gated], pods[PreEnqueuePending])
        assert (found.in_flight, found.done) == (pods[InFlight], pods[Done])
        assert (found.waiting_for_group, found.group_in_flight) == (pods[WaitingForGroup], pods[GroupInFlight])
        groups = Counter(type(group.state) for group in self.queue.groups.registry)
        held_back = groups[Gated] + groups[PreEnqueuePending]
        assert found.groups_by_queue == {"active": groups[Active], "backoff": groups[BackOff], "gated": held_back}
        waiting = [pod for pod in self.queue.contents.pods() if not pod.popped]
        assert found.refused_by == Counter((pod.record.profile, name) for pod in waiting for name in pod.rejectors)
        assert self.queue.needs_events() == bool(groups[Gated] + groups[InFlight] + len(self._open_calls()))

    def _open_calls(self) -> list[int]:
        return [call.call_id for group in self.queue.groups.registry for call in group.calls.open.values()]

    def _check_tree(self, group: QueuedPodGroupInfo) -> None:
        """The members belong here, and the tree is as its objects say."""
        for name in {*(self.pending[uid][1] for uid in group.members), *group.placed.values()}:
            assert self.queue.groups.registry.group_for(f"ns/{name}") is group
        names = Counter(self.pending[uid][1] for uid in group.members)
        assert group.known == names + Counter(group.placed.values())
        rooted = self.queue.groups.registry.forest.root(group.group_key) == group.group_key
        assert group.tree == (self.queue.groups.registry.forest.tree(group.group_key) if rooted else None)

    def _check_group(self, group: QueuedPodGroupInfo) -> None:
        self._check_tree(group)
        lacking = bool(group.waiting) and (group.tree is None or group.lacks_pods)
        assert bool(group.waiting_since) == lacking
        for uid, pod in group.members.items():
            held = (uid in group.waiting) + (uid in group.pending) + (pod.popped)
            assert held == 1, f"{pod} is in {held} places"
        if group.attempt is not None:
            assert type(group.state) is InFlight
            assert not group.waiting or group.tree is None
            return
        assert not group.pending
        assert group.queued == (bool(group.waiting) and group.tree is not None)
        places = {type(pod.state) for pod in group.waiting.values()}
        if not group.queued:
            assert places <= {WaitingForGroup}
            return
        assert places == {type(group.state)}
        assert isinstance(group.state, Gated) == bool(group.gated_by)
        open_calls = {call.call_id for call in group.calls.open.values()}
        assert (type(group.state) is PreEnqueuePending) == bool(open_calls)
        assert open_calls <= set(self.calls), "it waits for an answer that will not come"
        stuck = group.lacks_pods or any(self.gated[uid] for uid in group.waiting)
        assert bool(group.gated_by) == (stuck or group.gated_by == "Remote")
        if group.gated_by == "Remote":
            refused = group.calls.refused
            assert refused is not None, "no plugin would be called for it again"
            assert refused.uid in group.waiting

    def check_transitions(self) -> None:
        """Each member went from state to state as the documents draw it."""
        histories: dict[str, list[type[QueueState]]] = {}
        for number in range(8):
            for each in self.queue.contents.transitions_of(f"ns/p{number}"):
                histories.setdefault(each.uid, []).append(each.to)
        for history in histories.values():
            assert all(before is not after for before, after in itertools.pairwise(history))
            assert not state_machine.impossible_transitions(history, state_machine.MEMBERS)

    def drain(self) -> None:
        """In the end everything that may be tried is tried."""
        self.finish()
        self.check()
        self.now += 3600
        self.take(self.queue.flush_unschedulable(self.now))
        while self.calls:
            self.answer(refuse=0.0)
        self.now += 3600
        self.take(self.queue.flush_backoff(self.now))
        tried: set[str] = set()
        while (batch := self.queue.pop(self.now, 9)) is not None:
            group = batch.group
            assert group.attempt
            tried |= group.attempt
            for uid in group.attempt:
                self.queue.done(uid, self.now)
            self.take(self.queue.groups.finish_attempt(group, GroupAttemptResult.SCHEDULED, self.now))
        for group in self.queue.groups.registry:
            if group.waiting:
                stuck = group.tree is None or group.lacks_pods or any(self.gated[uid] for uid in group.waiting)
                assert stuck, f"{group.key} was not tried"
        assert tried <= set(self.pending)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TRIREME_EXAMPLES", "60"))))
def test_no_member_is_lost_or_in_two_places(seed: int) -> None:
    """After each stimulus every member is in one place, and in the end every pod that may be tried is."""
    machine = Machine(seed)
    for _ in range(STEPS):
        machine.step()
        machine.check()
    machine.drain()
    machine.check_transitions()
