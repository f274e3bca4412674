"""PreEnqueue: whether a pod may enter the active or back-off queue, and which plugins decide.

Source: pkg/scheduler/backend/queue/scheduling_queue.go runPreEnqueuePlugins.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence

from trireme.config import scheduler_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext, PreEnqueuePlugin
from trireme.queueing import queued_pod
from trireme.registry import queue_plugins


class PreEnqueueResult(enum.Enum):
    """What PreEnqueue may answer beside the name of the plugin that refuses."""

    ALLOWED = "allowed"
    #: No local plugin refuses; a remote one has to be called.
    CALL_REMOTE = "call remote"


# PreEnqueue of all local plugins: `PreEnqueueResult`, or the name of the plugin that refuses.
# Implementers: trireme.queueing.pre_enqueue.LocalPreEnqueuePlugins.pre_enqueue,
# trireme.frontend.scheduler_metrics.SchedulerMetrics.with_timing_of_pre_enqueue.
PreEnqueue = Callable[[queued_pod.QueuedPodInfo], str | PreEnqueueResult]


class LocalPreEnqueuePlugins:
    """PreEnqueue of the plugins in this process, those of a profile in its order."""

    def __init__(
        self,
        profiles: Iterable[scheduler_configuration.CompletedProfile],
        context: PreEnqueueContext,
        describe: Callable[[queued_pod.QueuedPodInfo], PodToEnqueue],
        calls_remote: Callable[[queued_pod.QueuedPodInfo], bool],
        missing_plugin: Callable[[str], str],
    ) -> None:
        """Makes the PreEnqueue plugins of the profiles.

        `describe` returns what plugins see of a pod; `calls_remote`, whether remote plugins are to be called for it
        now; `missing_plugin`, for a profile, the remote plugin that its pods cannot be scheduled without and
        that does not take part.
        """
        self._describe = describe
        self._calls_remote = calls_remote
        self._missing_plugin = missing_plugin
        self._context = context
        self._plugins: Mapping[str, Mapping[str, PreEnqueuePlugin]] = {}
        self.configure(profiles)

    def configure(self, profiles: Iterable[scheduler_configuration.CompletedProfile]) -> None:
        """Make the plugins of these profiles, which replace those before."""
        made = {
            profile.scheduler_name: {
                name: queue_plugins.pre_enqueue_plugin(name, self._context)
                for name in profile.names(ExtensionPoint.PRE_ENQUEUE)
            }
            for profile in profiles
        }
        self._plugins = {
            profile: {name: plugin for name, plugin in plugins.items() if plugin is not None}
            for profile, plugins in made.items()
        }

    def pre_enqueue(self, pod: queued_pod.QueuedPodInfo) -> str | PreEnqueueResult:
        """What they answer; the first that refuses decides."""
        profile = pod.record.profile
        missing = self._missing_plugin(profile)
        if missing:
            return missing
        described = self._describe(pod)
        for name, plugin in self._plugins.get(profile, {}).items():
            if plugin.refuses(described):
                return name
        return PreEnqueueResult.CALL_REMOTE if self._calls_remote(pod) else PreEnqueueResult.ALLOWED

    def waits_for(self, pod: queued_pod.QueuedPodInfo) -> Mapping[str, Sequence[str]]:
        """What the pod waits for that a plugin holds back, by kind; empty: the plugin has nothing to add."""
        plugin = self._plugins.get(pod.record.profile, {}).get(pod.gated_by)
        return plugin.waits_for(self._describe(pod)) if plugin is not None else {}
