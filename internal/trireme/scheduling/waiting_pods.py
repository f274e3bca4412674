"""Pods that wait on Permit: assumed on their node until every plugin that they wait for allows them, or one rejects.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trireme.framework import status
from trireme_kube.apimachinery import golang

# No pod waits longer than this, whatever timeout a plugin returns. In seconds.
MAX_WAIT_SECONDS = 15 * 60.0


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits on Permit, and the plugins that it waits for, as others see it."""

    key: str
    uid: str
    plugins: tuple[str, ...]


class _PermitWait:
    """A pod that waits on Permit: the plugins that have not allowed it yet, and the decision once there is one."""

    __slots__ = ("decided", "key", "plugins")

    def __init__(self, key: str, plugins: set[str]) -> None:
        self.key = key
        self.plugins = plugins
        self.decided: asyncio.Future[status.Status] = asyncio.get_running_loop().create_future()


class WaitingPods:
    """The pods that wait on Permit, by UID; plugins, preemption and the end of leadership end their waits."""

    def __init__(self) -> None:
        self._pods: dict[str, _PermitWait] = {}

    def pods(self) -> list[WaitingPod]:
        """All pods that wait on Permit, with the plugins that have not allowed them yet."""
        return [WaitingPod(entry.key, uid, tuple(sorted(entry.plugins))) for uid, entry in self._pods.items()]

    async def wait_until_allowed(self, uid: str, key: str, plugins: Mapping[str, float]) -> status.Status:
        """Wait until all plugins have allowed the pod (SUCCESS), or one rejects it, or its shortest time-out is over.

        `plugins` are the seconds that it may wait for each, at most `MAX_WAIT_SECONDS`. After a time-out it is
        unschedulable by that plugin, whichever others are missing.
        """
        entry = self._pods[uid] = _PermitWait(key, set(plugins))
        first = min(plugins, key=lambda plugin: plugins[plugin])
        seconds = min(plugins[first], MAX_WAIT_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return await entry.decided
        except TimeoutError:
            waited = golang.format_duration(round(seconds * 1e9))
            text = f"rejected due to timeout after waiting {waited} at plugin {first}"
            return status.unschedulable(first, text)
        finally:
            del self._pods[uid]

    def is_waiting(self, uid: str) -> bool:
        """Whether the pod waits on Permit."""
        return uid in self._pods

    def allow(self, uid: str, plugin: str) -> bool:
        """The plugin allows the pod; False if the pod does not wait."""
        entry = self._pods.get(uid)
        if entry is None:
            return False
        entry.plugins.discard(plugin)
        if not entry.plugins and not entry.decided.done():
            entry.decided.set_result(status.SUCCESS)
        return True

    def forget_plugins(self, keep: Callable[[str], bool]) -> None:
        """Have no pod wait for a plugin any more that `keep` returns False for: it is gone, and cannot allow pods."""
        for uid, entry in list(self._pods.items()):
            for plugin in [plugin for plugin in entry.plugins if not keep(plugin)]:
                self.allow(uid, plugin)

    def preempt(self, uid: str, plugin: str, message: str) -> bool:
        """End the pod's wait, as a victim of preemption: its attempt fails by error, and it is tried again.

        Returns False if it does not wait, or is decided already.
        """
        entry = self._pods.get(uid)
        if entry is None or entry.decided.done():
            return False
        entry.decided.set_result(status.error(plugin, f"waiting on permit for pod: {message}"))
        return True

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """The plugin rejects the pod; False if the pod does not wait."""
        entry = self._pods.get(uid)
        if entry is None:
            return False
        if not entry.decided.done():
            entry.decided.set_result(status.unschedulable(plugin, message))
        return True
