"""Pods in PreBind: assumed on their node while plugins prepare it, and not yet bound.

A victim of preemption that is in PreBind need not be deleted: its PreBind is cancelled, and the pod returns to the
queue. Once PreBind has ended it is too late for that, since the pod may be bound any moment. That of a pod that is
deleted is cancelled too: else it would wait for as long as its plugin lets it.

Source: pkg/scheduler/framework/runtime/pods_in_prebind_map.go.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from trireme.framework import status
from trireme.scheduling import pre_binding


class PodsInPreBind:
    """The pods in PreBind, by UID."""

    def __init__(self) -> None:
        self._cancelled: dict[str, asyncio.Future[status.Status]] = {}
        # By UID: the plugin that the pod waits for.
        self._plugins: dict[str, str] = {}

    async def run(self, uid: str, work: Coroutine[Any, Any, status.Status]) -> status.Status:
        """Run the pod's PreBind (`work`) to its end, and return its result; that of `cancel` if it ended it."""
        cancelled = self._cancelled[uid] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if cancelled.done():
                return cancelled.result()
            return task.result()
        finally:
            del self._cancelled[uid]
            self._plugins.pop(uid, None)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def set_plugin(self, uid: str, plugin: str) -> None:
        """The pod waits for this plugin."""
        self._plugins[uid] = plugin

    def fail(self, uid: str, message: str, reason: status.Reason) -> bool:
        """Cancel the pod's PreBind by an error of the plugin that it waits for; False if the pod is not in PreBind."""
        plugin = self._plugins.get(uid)
        text = f"{pre_binding.running_text(plugin)}{message}" if plugin else message
        return self.cancel(uid, status.error("", text, reasons=(reason,)))

    def cancel(self, uid: str, why: status.Status) -> bool:
        """Cancel the pod's PreBind, whose result is `why`; False if the pod is not in PreBind."""
        cancelled = self._cancelled.get(uid)
        if cancelled is None:
            return False
        if not cancelled.done():
            cancelled.set_result(why)
        return True
