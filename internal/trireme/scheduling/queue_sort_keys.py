"""The keys that a remote QueueSort plugin gives to pods: called for once, when a pod is to enter the queue.

The key is kept with the pod (`PendingPod.given_sort_key`), and holds until the pod is of another class, or the plugin
has another configuration, version or instance. A pod that waits for its first key is not in the queue; one whose key
may be another now stays where it is until the plugin has answered.

Pods that need a key at the same time share a call, and while one is under way the next are gathered.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from trireme.framework import sort_key, status
from trireme.queueing import pending_pod, queued_pod
from trireme.remote import remote_queue_sort
from trireme.v1 import core_pb2
from trireme_kube.componentbase import supervision

#: Of one call.
MAX_PODS = 500


class _Wanted(NamedTuple):
    """A pod that needs a key, for its class of that moment; `error` is empty once it has one, or needs none."""

    pod: queued_pod.QueuedPodInfo
    pending: pending_pod.PendingPod
    error: asyncio.Future[str]


class QueueSortKeys:
    """Gets keys from the remote QueueSort plugin, if one is configured, and tells the queue where pods belong."""

    def __init__(
        self,
        pod_of: Callable[[queued_pod.QueuedPodInfo], core_pb2.Pod],
        sort_anew: Callable[[str, str], None],
        background: supervision.Supervisor,
    ) -> None:
        """`pod_of` returns what plugins see of a pod; `sort_anew` is the queue's method of this name."""
        self._pod_of = pod_of
        self._sort_anew = sort_anew
        self._background = background
        self._plugin: remote_queue_sort.RemoteQueueSortPlugin | None = None
        self._basis: Hashable = None
        self._epoch = 0
        self._wanted: dict[str, _Wanted] = {}
        self._calling = False

    @property
    def plugin(self) -> str:
        """The plugin that orders the queue; empty: none in another process."""
        return "" if self._plugin is None else self._plugin.name

    def configure(
        self,
        plugin: remote_queue_sort.RemoteQueueSortPlugin | None,
        pods: Iterable[queued_pod.QueuedPodInfo],
        basis: Hashable = None,
        *,
        anew: bool = True,
    ) -> None:
        """Follow another plugin, configuration, version or instance; `pods` are those in the queue.

        Without a plugin all of them are ordered by priority. With one they get new keys in the background, or without
        `anew` only if its keys depend on something else than before: `basis` is what they depend on beside the pod.
        """
        before, self._plugin = self._plugin, plugin
        same, self._basis = basis is not None and basis == self._basis, basis
        if same and not anew and before is not None and plugin is not None:
            return
        self._epoch += 1
        if plugin is not None:
            for pod in pods:
                self._want(pod)
        elif before is not None:
            for pod in pods:
                pod.record.pod.given_sort_key = None
                self._sort_anew(pod.key, pod.uid)

    def reconnect(self, plugin: remote_queue_sort.RemoteQueueSortPlugin | None) -> None:
        """Call the plugin that orders the queue by this connection from now on, if it is the same plugin."""
        if plugin is not None and self.plugin == plugin.name:
            self._plugin = plugin

    def lacks_key(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether the plugin has to be called for the pod before it enters the queue."""
        if self._plugin is None:
            return False
        given = pod.record.pod.given_sort_key
        return given is None or given.class_id != pod.record.pod.class_id or given.epoch != self._epoch

    def renew(self, pod: queued_pod.QueuedPodInfo) -> None:
        """Get another key for a pod in the queue, in the background, if it has changed in what the plugin reads."""
        if self.lacks_key(pod):
            self._want(pod)

    async def request(self, pod: queued_pod.QueuedPodInfo) -> str:
        """Get the pod's key, and tell the queue. Returns the error; empty: it has one, or is ordered without."""
        return await asyncio.shield(self._want(pod)) if self.lacks_key(pod) else ""

    def _want(self, pod: queued_pod.QueuedPodInfo) -> asyncio.Future[str]:
        """Have the plugin called for the pod. Returns the error to come: see `_Wanted`."""
        pending = pod.record.pod
        wanted = self._wanted.get(pod.uid)
        if wanted is None or wanted.pending is not pending:
            error = asyncio.get_running_loop().create_future() if wanted is None else wanted.error
            wanted = self._wanted[pod.uid] = _Wanted(pod, pending, error)
            if not self._calling:
                self._calling = True
                self._background.start(self._call_until_done())
        return wanted.error

    async def _call_until_done(self) -> None:
        """Call the plugin as long as pods need keys."""
        try:
            while self._wanted:
                profile = next(iter(self._wanted.values())).pod.record.profile
                uids = [uid for uid, wanted in self._wanted.items() if wanted.pod.record.profile == profile][:MAX_PODS]
                await self._call(profile, [self._wanted.pop(uid) for uid in uids])
        finally:
            self._calling = False

    async def _call(self, profile: str, pods: Sequence[_Wanted]) -> None:
        """Call the plugin about pods of one profile, and tell who waits for their keys."""
        plugin, epoch = self._plugin, self._epoch
        errors = [""] * len(pods)
        try:
            if plugin is not None:
                answers = await plugin.sort_keys(profile, [self._pod_of(wanted.pod) for wanted in pods])
                for at, (wanted, answer) in enumerate(zip(pods, answers, strict=True)):
                    if isinstance(answer, status.Status):
                        errors[at] = answer.message
                    elif answer is not None:
                        self._give(wanted, answer, epoch)
        finally:
            for wanted, error in zip(pods, errors, strict=True):
                if not wanted.error.done():
                    wanted.error.set_result(error)

    def _give(self, wanted: _Wanted, key: sort_key.SortKey, epoch: int) -> None:
        """Keep the key with its pod, and give this its place."""
        wanted.pending.given_sort_key = pending_pod.GivenSortKey(key, wanted.pending.class_id, epoch)
        self._sort_anew(wanted.pod.key, wanted.pod.uid)
