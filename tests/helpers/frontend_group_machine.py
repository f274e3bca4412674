"""No pod of a group is ever lost: the frontend's state machine with groups, whose PodGroups come, change and go.

What the machine without groups holds of pods holds of members too; and in the end no group is left waiting that could
go.
"""

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.helpers.frontend_machine import PODS, FrontendMachine
from tests.helpers.frontend_world_victims import cpus
from trireme.queueing.groups.queued_group import QueuedPodGroupInfo, in_scheduling_order
from trireme.queueing.states import Done
from trireme.v1 import scheduling_pb2
from trireme_kube.client.informers.watch import EventKind

GROUPS = ("g", "h")


class GroupMachine(FrontendMachine):
    """The stimuli, and what must hold."""

    ARGUMENTS = ("--feature-gates=GenericWorkload=true",)

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, scheduling_pb2.PodGroup] = {}
        self.versions = 0

    @initialize(
        members=st.lists(st.tuples(st.sampled_from(GROUPS), st.integers(1, 2)), max_size=3),
        minima=st.lists(st.integers(0, 3), max_size=2),
        first=st.booleans(),
    )
    def begin_with_groups(self, members: list[tuple[str, int]], minima: list[int], first: bool) -> None:
        """Members and PodGroups are there, the ones or the others first."""
        for resource in ("members", "groups") if first else ("groups", "members"):
            if resource == "groups":
                for name, min_count in zip(GROUPS, minima, strict=False):
                    self.put_group(name, min_count)
            else:
                for group, cpu in members:
                    self.create_members(group, 1, cpu, False)
                self.world.deliver("pods", 1000)

    @rule(name=st.sampled_from(GROUPS), min_count=st.integers(0, 3))
    def put_group(self, name: str, min_count: int) -> None:
        """A PodGroup comes, or has another minimum."""
        self.versions += 1
        known = self.groups.get(name)
        group = self.groups[name] = scheduling_pb2.PodGroup()
        group.metadata.namespace, group.metadata.name = "ns", name
        group.metadata.uid = known.metadata.uid if known is not None else f"{name}-{self.versions}"
        group.metadata.resource_version = str(self.versions)
        if min_count:
            group.spec.scheduling_policy.gang.min_count = min_count
        else:
            group.spec.scheduling_policy.basic.SetInParent()
        self.world.deliver_group(EventKind.MODIFIED if known is not None else EventKind.ADDED, group)

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def remove_group(self, data: st.DataObject) -> None:
        """A PodGroup is deleted."""
        name = data.draw(st.sampled_from(sorted(self.groups)))
        self.world.deliver_group(EventKind.DELETED, self.groups.pop(name))

    @rule(
        group=st.sampled_from(GROUPS),
        count=st.integers(1, 3),
        cpu=st.integers(1, 2),
        gated=st.sampled_from([False, False, False, True]),
    )
    def create_members(self, group: str, count: int, cpu: int, gated: bool) -> None:
        """A user creates pods of a group, perhaps with a gate."""
        # From the other end than other pods, which may be made after these.
        for name in [name for name in reversed(PODS) if name not in self.api.pods][:count]:
            self.api.add_pod(name, cpu, 0, gated=gated, group=group)

    def every_pending_pod_is_in_one_place(self) -> None:
        """The queue has each pending pod once: by itself, or with its group."""
        pending = self.frontend.scheduling.pending.uids()
        assert pending == {uid for uid, raw in self.world.seen.items() if not raw["spec"].get("nodeName")}
        queue: Any = self.frontend.scheduling.queue
        assert Counter(pod.uid for pod in queue.contents.pods() if pod.in_attempt or not pod.popped) == Counter(pending)
        for group in queue.groups.registry:
            if group.attempt is None:
                queued = bool(group.waiting) and group.tree is not None
                assert group.queued == queued, f"{group.key} is forgotten, or nobody is in it"
                assert not group.pending
            for uid, pod in group.members.items():
                held = (uid in group.waiting) + (uid in group.pending) + (pod.popped)
                assert held == 1, f"{pod} is in {held} places"
                if type(pod.state) is Done:
                    leaving = "deletionTimestamp" in self.world.seen[uid]["metadata"]
                    assert leaving or self.frontend.cluster.cache.pod(uid) is not None, "nobody looks after it"

    def _rest(self) -> None:
        super()._rest()
        queue: Any = self.frontend.scheduling.queue
        for group in queue.groups.registry:
            if group.waiting:
                assert not self._could_go(group), f"{group.key} waits, and fits"

    def _could_go(self, group: QueuedPodGroupInfo) -> bool:
        if group.tree is None or group.lacks_pods:
            return False
        if any(pod.record.pod.parsed.gates for pod in group.waiting.values()):
            return False
        free = self.world.free(0)
        fitted = 0
        for pod in in_scheduling_order(list(group.waiting.values())):
            requested = cpus(self.frontend.cluster.registry[pod.record.class_id].pod)
            slot = next((slot for slot, cpu in sorted(free.items()) if cpu >= requested), None)
            if slot is not None:
                free[slot] -= requested
                fitted += 1
        return fitted > 0 and fitted + len(group.placed) >= group.tree.min_count

    def _calm_down(self) -> None:
        # A group that does not fit is tried again after each back-off, forever: what must end is everything else.
        for _ in range(80):
            self._hear_and_answer()
            self.world.loop.advance(0.5)
        for _ in range(10):
            self._hear_and_answer()
        assert not self.world.pending_calls

    def _singles(self) -> list[Any]:
        return [pod for pod in super()._singles() if not pod.record.pod.parsed.group]
