"""The keys that a remote QueueSort plugin gives to pods: called for once, when a pod is to enter the queue.

The key is kept with the pod (`PendingPod.given_sort_key`), and holds until the pod is of another class, or the plugin
has another configuration, version or instance. A pod that waits for its first key is not in the queue, and who asked
hears of a failure. One whose key may be another now stays where it is until the plugin has answered: if that fails, it
is called about again here, until the pod has a key of what holds now, or is ordered by priority.

Pods that need a key at the same time share a call, and while one is under way the next are gathered.

Tests: tests/unit/scheduling/test_queue_sort_keys.py, tests/unit/scheduling/test_failed_sort_keys.py.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trireme.framework import sort_key, status
from trireme.queueing import pending_pod, queued_pod, states
from trireme.remote import remote_queue_sort
from trireme.scheduling import plugin_back_offs
from trireme.v1 import core_pb2
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

#: Of one call.
MAX_PODS = 500


class _Wanted(NamedTuple):
    """A pod that needs a key, for its class of that moment; `error` is empty once it has one, or needs none.

    `renews`: it is in the queue already, so that this object has the call repeated if it fails.
    """

    pod: queued_pod.QueuedPodInfo
    pending: pending_pod.PendingPod
    error: asyncio.Future[str]
    renews: bool


class QueueSortKeys:
    """Gets keys from the remote QueueSort plugin, if one is configured, and tells the queue where pods belong."""

    def __init__(
        self,
        pod_of: Callable[[queued_pod.QueuedPodInfo], core_pb2.Pod],
        sort_anew: Callable[[str, str], None],
        queued_pods: Callable[[], Iterable[queued_pod.QueuedPodInfo]],
        back_offs: plugin_back_offs.PluginBackOffs,
        background: supervision.Supervisor,
    ) -> None:
        """`pod_of` returns what plugins see of a pod; `sort_anew` is the queue's method of this name.

        `queued_pods` returns all pods of the queue.
        """
        self._pod_of = pod_of
        self._sort_anew = sort_anew
        self._queued_pods = queued_pods
        self._back_offs = back_offs
        self._background = background
        self._plugin: remote_queue_sort.RemoteQueueSortPlugin | None = None
        self._basis: Hashable = None
        self._epoch = 0
        self._wanted: dict[str, _Wanted] = {}
        self._calling = False
        # By UID, also while a call is repeated: pods in the queue to which the plugin gave no key when it was to.
        self._failed: dict[str, plugin_back_offs.FailedCall] = {}
        self._backoff = plugin_back_offs.FIRST_BACKOFF_SECONDS
        self._repeating = False

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
        if same and not anew:
            return
        self._epoch += 1
        self._failed.clear()
        self._backoff = plugin_back_offs.FIRST_BACKOFF_SECONDS
        if plugin is not None:
            for pod in pods:
                self._want(pod, renews=True)
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
            self._want(pod, renews=True)

    def last_failure(self, uid: str) -> plugin_back_offs.FailedCall | None:
        """The failure of the last call about a pod that is in the queue and has no key of what holds now."""
        return self._failed.get(uid)

    def failed_renewals(self) -> Mapping[str, plugin_back_offs.FailedCall]:
        """By UID, the pods in the queue that keep their place only because the plugin failed; also during a call."""
        return self._failed

    async def request(self, pod: queued_pod.QueuedPodInfo) -> str:
        """Get the pod's key, and tell the queue. Returns the error; empty: it has one, or is ordered without."""
        return await asyncio.shield(self._want(pod)) if self.lacks_key(pod) else ""

    def _want(self, pod: queued_pod.QueuedPodInfo, *, renews: bool = False) -> asyncio.Future[str]:
        """Have the plugin called for the pod. Returns the error to come: see `_Wanted`."""
        pending = pod.record.pod
        wanted = self._wanted.get(pod.uid)
        renews = renews or (wanted is not None and wanted.renews)
        if wanted is None or wanted.pending is not pending or wanted.renews != renews:
            error = asyncio.get_running_loop().create_future() if wanted is None else wanted.error
            wanted = self._wanted[pod.uid] = _Wanted(pod, pending, error, renews)
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
                        self._note_failure(wanted, plugin.name, answer.message, epoch)
                    else:
                        self._give(wanted, answer, epoch)
        finally:
            for wanted, error in zip(pods, errors, strict=True):
                if not wanted.error.done():
                    wanted.error.set_result(error)

    def _give(self, wanted: _Wanted, key: sort_key.SortKey | None, epoch: int) -> None:
        """Keep the key with its pod, and give this its place; None: it is ordered by its priority."""
        if epoch == self._epoch:
            self._failed.pop(wanted.pod.uid, None)
        elif key is None or self._plugin is None:
            return
        # An update of the pod that leaves its class as it is replaces the object that the key is kept in.
        latest = wanted.pod.record.pod
        for pending in (wanted.pending, latest) if latest.class_id == wanted.pending.class_id else (wanted.pending,):
            pending.given_sort_key = None if key is None else pending_pod.GivenSortKey(key, pending.class_id, epoch)
        self._sort_anew(wanted.pod.key, wanted.pod.uid)

    def _note_failure(self, wanted: _Wanted, plugin: str, error: str, epoch: int) -> None:
        """Have a failed call about a pod in the queue repeated, unless another one about it is to come."""
        uid = wanted.pod.uid
        if not wanted.renews or epoch != self._epoch or uid in self._wanted:
            return
        self._failed[uid] = plugin_back_offs.FailedCall(plugin, error, self._back_offs.now() + self._backoff)
        if not self._repeating:
            self._repeating = True
            text = "plugin %s failed: %s; it is called again, and pod %s keeps its place in the queue"
            log.warning(text, plugin, error, wanted.pod.key)
            self._background.start(self._repeat_until_done())

    async def _repeat_until_done(self) -> None:
        """Call the plugin again about pods in the queue for which it failed, as long as there are any."""
        was_woken = False
        try:
            while self._failed:
                backoff, epoch = self._backoff, self._epoch
                was_woken = await self._back_offs.wait(self.plugin, backoff, whatever_others=was_woken)
                if epoch == self._epoch:
                    self._backoff = min(2 * backoff, plugin_back_offs.MAX_BACKOFF_SECONDS)
                if errors := [self._want(pod, renews=True) for pod in self._pods_to_repeat()]:
                    await asyncio.wait(errors)
        finally:
            self._repeating = False
            self._backoff = plugin_back_offs.FIRST_BACKOFF_SECONDS

    def _pods_to_repeat(self) -> list[queued_pod.QueuedPodInfo]:
        """The pods for which the plugin failed; those are forgotten that need no key, or are called about elsewhere."""
        pods = [
            pod
            for pod in self._queued_pods()
            if pod.uid in self._failed and self.lacks_key(pod) and not isinstance(pod.state, states.PreEnqueuePending)
        ]
        self._failed = {pod.uid: self._failed[pod.uid] for pod in pods}
        return pods
