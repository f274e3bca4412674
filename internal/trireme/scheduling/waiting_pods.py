"""Pods that wait on Permit: assumed on their node until every plugin that they wait for allows them, or one rejects.

`pending_pod_removal` ends the wait of a pod that is deleted.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go.

Also change: protos/trireme/v1/bind.proto (how long a pod waits at most).
Also change: internal/trireme/sdk/results.py, sdk/rust/src/results.rs (how long a pod waits at most).

Tests: tests/unit/scheduling/test_waits.py.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.framework import status
from trireme_kube.apimachinery import golang

# No pod waits longer than this, whatever timeout a plugin returns. In seconds.
MAX_WAIT_SECONDS = 15 * 60.0

_NO_MESSAGES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits on Permit, and the plugins that it waits for, as others see it."""

    key: str
    uid: str
    plugins: tuple[str, ...]
    #: After so many seconds its wait ends at the latest.
    seconds_left: float
    #: Why it waits, by plugin, of those plugins that say so.
    messages: Mapping[str, str]


class _PermitWait:
    """A pod that waits on Permit: a timer per plugin that has not allowed it yet, and the decision once made."""

    __slots__ = ("decided", "key", "messages", "timers")

    def __init__(self, key: str, plugins: Mapping[str, float], messages: Mapping[str, str]) -> None:
        loop = asyncio.get_running_loop()
        self.key, self.messages = key, messages
        self.decided: asyncio.Future[status.Status] = loop.create_future()
        self.timers = {
            plugin: loop.call_later(min(seconds, MAX_WAIT_SECONDS), self._on_timeout, plugin, seconds)
            for plugin, seconds in plugins.items()
        }

    def allow(self, plugin: str) -> None:
        """Stop waiting for the plugin; the pod is allowed once it waits for no other."""
        timer = self.timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self.timers:
            self.decide(status.SUCCESS)

    def decide(self, decision: status.Status) -> bool:
        """End the wait with this status; False if it had ended."""
        if self.decided.done():
            return False
        self.decided.set_result(decision)
        return True

    def seen_by_others(self, uid: str) -> WaitingPod:
        """The plugins that are missing, and the first of their time-outs."""
        plugins = tuple(sorted(self.timers))
        ends = min((timer.when() for timer in self.timers.values()), default=0.0)
        left = max(0.0, ends - self.decided.get_loop().time())
        messages = {plugin: self.messages[plugin] for plugin in plugins if self.messages.get(plugin)}
        return WaitingPod(self.key, uid, plugins, left, messages)

    def stop_timers(self) -> None:
        """Have no timer fire any more."""
        for timer in self.timers.values():
            timer.cancel()

    def _on_timeout(self, plugin: str, seconds: float) -> None:
        waited = golang.format_duration(round(min(seconds, MAX_WAIT_SECONDS) * 1e9))
        text = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
        reason = status.Reason.of("permitTimedOut", {"after": waited})
        self.decide(status.unschedulable(plugin, text, reasons=(reason,)))


class WaitingPods:
    """The pods that wait on Permit, by UID; plugins, preemption and the end of leadership end their waits."""

    def __init__(self) -> None:
        self._pods: dict[str, _PermitWait] = {}
        self._is_configured: Callable[[str], bool] = lambda plugin: True

    def pods(self) -> list[WaitingPod]:
        """All pods that wait on Permit, with the plugins that have not allowed them yet."""
        return [entry.seen_by_others(uid) for uid, entry in self._pods.items()]

    def begin_wait(
        self, uid: str, key: str, plugins: Mapping[str, float], messages: Mapping[str, str] = _NO_MESSAGES
    ) -> Callable[[], Coroutine[Any, Any, status.Status]]:
        """Have the pod wait from now on, so that deleting, allowing or rejecting finds it; returns what to call.

        It waits until all plugins have allowed the pod (SUCCESS), one rejects it, or the time for one of them is over.

        `plugins` are the seconds that it may wait for each, at most `MAX_WAIT_SECONDS`. If they are over before that
        plugin has allowed it, the pod is unschedulable by it, whichever others are missing. It does not wait for a
        plugin that went while Permit was called (`forget_plugins`). `messages` are the plugins' reasons.
        """
        plugins = {plugin: seconds for plugin, seconds in plugins.items() if self._is_configured(plugin)}
        entry = _PermitWait(key, plugins, messages) if plugins else None
        if entry is not None:
            self._pods[uid] = entry
        return functools.partial(self._wait_until_decided, uid, entry)

    async def _wait_until_decided(self, uid: str, entry: _PermitWait | None) -> status.Status:
        """The decision about a pod that waits; None: it waits for nobody."""
        if entry is None:
            return status.SUCCESS
        try:
            return await entry.decided
        finally:
            entry.stop_timers()
            del self._pods[uid]

    def allow(self, uid: str, plugin: str) -> bool:
        """The plugin allows the pod; False if the pod does not wait."""
        entry = self._pods.get(uid)
        if entry is None:
            return False
        entry.allow(plugin)
        return True

    def forget_plugins(self, keep: Callable[[str], bool]) -> None:
        """Have no pod wait for a plugin that `keep` returns False for: it is gone, and cannot allow pods.

        That holds for pods that wait now, and for those that begin to wait before the next call.
        """
        self._is_configured = keep
        for uid, entry in list(self._pods.items()):
            for plugin in [plugin for plugin in entry.timers if not keep(plugin)]:
                self.allow(uid, plugin)

    def fail(self, uid: str, plugin: str, message: str, reason: status.Reason) -> bool:
        """End the pod's wait because it is a victim of preemption, or its node is gone: its attempt fails by error.

        Returns False if it does not wait, or is decided already.
        """
        text = f"waiting on permit for pod: {message}"
        entry = self._pods.get(uid)
        return entry is not None and entry.decide(status.error(plugin, text, reasons=(reason,)))

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """The plugin rejects the pod; False if the pod does not wait."""
        return self.end(uid, status.unschedulable(plugin, message, reasons=(status.Reason("permitRejected"),)))

    def end(self, uid: str, why: status.Status) -> bool:
        """End the pod's wait with this status, unless it is decided; False if the pod does not wait."""
        entry = self._pods.get(uid)
        if entry is None:
            return False
        entry.decide(why)
        return True
