"""Calls of PreEnqueue, and of QueueSort, to remote plugins, repeated until each has an answer.

A plugin that rejects a pod registers the events that may help the pod; a call that fails has no such events. So a pod
whose call failed stays in this state, where no event and no queueing hint applies to it, and the call is repeated:
after a back-off, or once the plugin answers any other call after a failure, but not within a second of its own.
"""

import collections
import logging
from collections.abc import Callable, Mapping, Sequence

from trireme.framework import status
from trireme.queueing import queued_pod, remote_calls
from trireme.remote import remote_queue
from trireme.scheduling import plugin_back_offs, queue_sort_keys
from trireme.v1 import core_pb2

log = logging.getLogger(__name__)


class PreEnqueueCalls:
    """Calls the remote PreEnqueue plugins for pods, repeats calls that failed, and tells the queue the answers."""

    def __init__(
        self,
        gates: Callable[[str], Sequence[remote_queue.RemoteQueuePlugin]],
        pod_of: Callable[[queued_pod.QueuedPodInfo], core_pb2.Pod],
        answered: Callable[[int, str, str], None],
        repeat: Callable[[int], bool],
        back_offs: plugin_back_offs.PluginBackOffs,
        sort_keys: queue_sort_keys.QueueSortKeys,
    ) -> None:
        """`gates` returns the plugins of a profile in order; `answered` and `repeat` are methods of the queue."""
        self._gates = gates
        self._pod_of = pod_of
        self._answered = answered
        self._repeat = repeat
        self._back_offs = back_offs
        self._sort_keys = sort_keys
        self._failed: dict[str, plugin_back_offs.FailedCall] = {}
        # By UID, also while a call is repeated: the call's number, and the plugin that has not answered it.
        self._held: dict[str, tuple[int, str]] = {}

    def last_failure(self, uid: str) -> plugin_back_offs.FailedCall | None:
        """The failure of the pod's last call, if it failed."""
        return self._failed.get(uid)

    def held_pods(self) -> Mapping[str, int]:
        """By plugin, how many pods are held back because it has failed in their calls and has not answered since.

        Beside these it counts pods in the queue that keep their place because it gave them no other key.
        """
        failed = {uid: failure.plugin for uid, failure in self._sort_keys.failed_renewals().items()}
        return collections.Counter((failed | {uid: plugin for uid, (_, plugin) in self._held.items()}).values())

    def retry_failed_now(self) -> None:
        """Repeat failed calls, a second after they failed, whatever their back-off: the plugins changed."""
        self._back_offs.end_all()

    async def call(self, request: remote_calls.CallPreEnqueue) -> None:
        """Call the plugins for one pod until there is an answer, or the queue wants none any more.

        A call that failed is repeated after a back-off that doubles, or after its first second once its plugin
        answers about another pod. Where it fails about this pod then as well, it is the pod that it fails for, and
        what it answers about others no longer counts. Meanwhile the pod stays held back.
        """
        uid = request.pod.uid
        backoff = plugin_back_offs.FIRST_BACKOFF_SECONDS
        was_woken = False
        try:
            while (failed := await self._call_once(request)) is not None:
                plugin, error = failed
                self._held[uid] = request.call_id, plugin
                if backoff == plugin_back_offs.FIRST_BACKOFF_SECONDS:
                    log.info("pod %s waits, plugin %s failed: %s", request.pod.key, plugin, error)
                failure = self._failed[uid] = plugin_back_offs.FailedCall(
                    plugin, error, self._back_offs.now() + backoff
                )
                was_woken = await self._back_offs.wait(plugin, backoff, whatever_others=was_woken)
                # A later call for the pod may have failed meanwhile.
                if self._failed.get(uid) is failure:
                    del self._failed[uid]
                if not self._repeat(request.call_id):
                    return
                backoff = min(2 * backoff, plugin_back_offs.MAX_BACKOFF_SECONDS)
        except BaseException:
            self._failed.pop(uid, None)
            raise
        finally:
            # A later call for the pod, whose number is higher, may have failed meanwhile.
            if uid in self._held and self._held[uid][0] <= request.call_id:
                del self._held[uid]

    async def _call_once(self, request: remote_calls.CallPreEnqueue) -> tuple[str, str] | None:
        """Call the profile's plugins in order up to the first that refuses or fails, and report the answer.

        A pod that all let in gets its sort key, if a remote QueueSort plugin orders the queue.

        Returns the plugin whose call failed and the error, which the queue does not see; None: the queue has its
        answer.
        """
        profile = request.pod.record.profile
        pod = self._pod_of(request.pod)
        for plugin in self._gates(profile):
            (answer,) = await plugin.pre_enqueue(profile, [pod])
            if answer.code is status.Code.ERROR:
                return plugin.name, answer.message.removeprefix(f"{plugin.pre_enqueue_error_prefix}: ")
            self._back_offs.end(plugin.name)
            if answer.code is not status.Code.SUCCESS:
                log.info("pod %s waits: %s: %s", request.pod.key, plugin.name, answer.message)
                self._answered(request.call_id, plugin.name, answer.message)
                return None
        sorter = self._sort_keys.plugin
        if error := await self._sort_keys.request(request.pod):
            return sorter, error
        self._back_offs.end(sorter)
        self._answered(request.call_id, "", "")
        return None
