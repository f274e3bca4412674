"""Counts nodes and pods by watch, for the status line of `trireme up`.

Tests: tests/e2e/test_e2e_up.py.
"""

import asyncio
import collections
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trireme_kube.client.informers import informer, resources
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.client.rest import client, credentials

PERIOD_SECONDS = 0.5


class ClusterCounts:
    """Counts of nodes and pods."""

    def __init__(self) -> None:
        self._pods: dict[str, str] = {}
        self._nodes: set[str] = set()
        self._bound_at: collections.deque[float] = collections.deque(maxlen=100_000)

    def on_pods(self, events: Sequence[Event[tuple[str, str]]]) -> None:
        """Count pods by their state, from events of (uid, state)."""
        for kind, entry in events:
            if entry is None:
                if kind == EventKind.LIST_START:
                    self._pods.clear()
                continue
            uid, state = entry
            if kind == EventKind.DELETED:
                self._pods.pop(uid, None)
                continue
            if state != "pending" and self._pods.get(uid) == "pending":
                self._bound_at.append(time.monotonic())
            self._pods[uid] = state

    def on_nodes(self, events: Sequence[Event[str]]) -> None:
        """Count nodes, from events of names."""
        for kind, name in events:
            if name is None:
                if kind == EventKind.LIST_START:
                    self._nodes.clear()
            elif kind == EventKind.DELETED:
                self._nodes.discard(name)
            else:
                self._nodes.add(name)

    def status_line(self) -> str:
        """The counts, and how many pods were bound in the last second, as one line."""
        counts = collections.Counter(self._pods.values())
        recent = time.monotonic() - 1.0
        rate = sum(moment >= recent for moment in self._bound_at)
        return (
            f"[nodes {len(self._nodes)}   pods: pending {counts['pending']}, bound {counts['bound']}, "
            f"running {counts['running']}   {rate} pods/s]"
        )


async def follow_cluster(kubeconfig: pathlib.Path, show: Callable[[str], None]) -> None:
    """Show the status line, and update it, until cancelled."""
    counts = ClusterCounts()
    settings = client.ClientSettings(credentials.Source(str(kubeconfig)), user_agent="trireme-up", qps=-1)
    async with await client.connect(settings) as api, asyncio.TaskGroup() as group:
        pods = informer.Informer(api, resources.PODS, _uid_and_stage, [counts.on_pods])
        nodes = informer.Informer(api, resources.NODES, _node_name, [counts.on_nodes])
        group.create_task(pods.run())
        group.create_task(nodes.run())
        while True:
            show(counts.status_line())
            await asyncio.sleep(PERIOD_SECONDS)


def _uid_and_stage(raw: Mapping[str, Any]) -> tuple[str, str]:
    if not raw["spec"].get("nodeName"):
        return raw["metadata"]["uid"], "pending"
    return raw["metadata"]["uid"], "running" if raw["status"].get("phase") == "Running" else "bound"


def _node_name(raw: Mapping[str, Any]) -> str:
    name: str = raw["metadata"]["name"]
    return name
