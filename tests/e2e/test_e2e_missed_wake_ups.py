"""A plugin that forgot an event, on the whole scheduler: its pod is woken in a minute, counted, shown and recorded."""

import contextlib
import json
import pathlib
import sys

import pytest

from tests.e2e import admin_socket, clusters, forgetful, installation
from tests.e2e.installation import pod
from trireme.cli import display, status_command
from trireme.recording import segment_reader
from trireme.v1.scheduler_status_pb2 import MissedWakeUp
from trireme.wire import json_documents

pytestmark = pytest.mark.timeout(180)

PLUGIN = "Forgetful"


class _World:
    """The scheduler with the plugin, and an insight that records."""

    def __init__(self, here: installation.Installation) -> None:
        self.here = here
        self.socket, self.recordings = here.folder / "admin.sock", here.folder / "recordings"
        plugin, insight = f"unix:{here.folder}/plugin.sock", f"unix:{here.folder}/insight.sock"
        script = str(pathlib.Path(__file__).parent / "forgetful.py")
        commands = {
            "plugin": [sys.executable, "-u", script, "--listen", plugin],
            "insight": [
                *installation.program("trireme.insight.process"),
                *("--listen", insight, "--record-dir", str(self.recordings)),
            ],
        }
        self._processes = [
            installation.Process(name, command, here.folder / f"{name}.log") for name, command in commands.items()
        ]
        self.insight = insight
        self.own = {
            "admin": {"socket": str(self.socket)},
            "insight": {"endpoints": [insight]},
            "remotePlugins": [{"name": PLUGIN, "address": plugin, "extensionPoints": ["filter"]}],
        }

    async def start(self) -> None:
        for process in self._processes:
            process.start()
            await process.listening()
        profile = {"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": PLUGIN}]}}}
        await self.here.start(configuration={"profiles": [profile]}, own=self.own)
        await self.here.logged(self.here.frontends[0], f"{self.insight}: in step")

    def stop(self) -> None:
        for process in self._processes:
            process.stop()

    def recorded(self) -> list[MissedWakeUp]:
        """The missed wake-ups that the recordings have."""
        found: list[MissedWakeUp] = []
        for path in sorted(self.recordings.rglob("*.trireme")):
            with path.open("rb") as file, contextlib.suppress(segment_reader.RecordingError):
                for frame in segment_reader.SegmentReader(file, str(path)).frames():
                    found += frame.message.queue.scheduler_status.missed_wake_ups
        return found


async def test_a_pod_that_the_plugin_would_let_pass_by_now_is_found(cluster: clusters.OpenCluster) -> None:
    """If this fails, the pod waits five minutes, and its owner and the plugin's author learn nothing."""
    async with cluster(nodes=1) as here:
        world = _World(here)
        (node,) = [each["metadata"]["name"] for each in await here.nodes()]
        await _label(here, node, "yes")
        try:
            await world.start()
            await here.create_pods([pod("late")])
            await here.condition("late", "1 node(s) were closed")
            await _label(here, node, None)
            await here.bound(1, 60)
            report = json.loads(await admin_socket.read(world.socket, "/trireme/v1/status"))
            await installation.until(lambda: bool(world.recorded()), 20, here.story)
        finally:
            world.stop()
        (found,) = json_documents.parse(report, status_command.SchedulerStatus()).missed_wake_ups
        assert (found.pod.name, list(found.plugins), found.node_name, found.woken) == ("late", [PLUGIN], node, True)
        assert ("NodeUpdateNodeLabel", node) in [(each.label, each.object_name) for each in found.events]
        assert world.recorded() == [found]
        for columns in (80, 120):
            shown = display.as_text(status_command.render(report), columns)
            assert max(map(len, shown.splitlines())) <= columns
            assert "1 missed; " in shown
            assert "default/late" in shown


async def _label(here: installation.Installation, node: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {forgetful.LABEL: value}}}
    await here.request("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")
