"""The frontend's own calls to remote plugins are in its metrics, so that an alert fires when they fail."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc

from tests.contract import metrics_document, plugin_servers, serving_frontend
from tests.contract.plugin_servers import on_the_sdk
from trireme import sdk
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import queue_plugin_calls
from trireme.frontend.serving import serving_site
from trireme.queueing import remote_calls
from trireme.scheduling import queue_ports
from trireme.v1 import core_pb2, queue_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks


class Sorting:
    """Orders pods, or raises."""

    info = sdk.Info("Sorting")
    broken = True

    def sort_key(self, pod: core_pb2.Pod, profile: str) -> int:
        """The same key for all."""
        if self.broken:
            raise OSError("down")
        return 1


def _caller(config: snapshot_pb2.RemotePlugin) -> queue_plugin_calls.QueuePluginCaller:
    """Calls the plugin, which orders the queue, about pods that the test names."""
    profile: Any = SimpleNamespace(
        scheduler_name="default-scheduler",
        names=lambda point: [config.name] if point is ExtensionPoint.QUEUE_SORT else [],
    )
    caller = queue_plugin_calls.QueuePluginCaller(
        snapshot_pb2.Configuration(remote_plugins=[config]),
        lambda: 0,
        [profile],
        queue_ports.QueueReports(
            queued_pods=tuple,
            sort_anew=lambda key, uid: None,
            pre_enqueue_answered=lambda call_id, plugin, reason: None,
            repeat_pre_enqueue=lambda call_id: True,
            hint_answered=lambda call_id, hints: None,
        ),
        pod_of=lambda pod: core_pb2.Pod(),
        now=clocks.steady,
        node_at=lambda slot, generation: None,
    )
    caller.sort_keys.configure(caller.queue_sort_plugin(), ())
    return caller


def _of_plugins(site: serving_site.FrontendSite) -> Mapping[tuple[str, ...], float]:
    """The samples about plugins: name, and label values but the plugin's name."""
    return {
        (sample.name, *(value for label, value in sample.labels.items() if label != "plugin")): sample.value
        for family in site.registries()[0].families()
        for sample in family.samples
        if sample.labels.get("plugin") == "Sorting"
    }


@contextlib.asynccontextmanager
async def _calling(address: str, folder: Path) -> AsyncIterator[tuple[serving_site.FrontendSite, asyncio.Task[None]]]:
    """The frontend's metrics, and a call about a pod that waits for its key."""
    frontend = serving_frontend.FakeFrontend()
    caller = frontend.remote_queue = _caller(
        snapshot_pb2.RemotePlugin(
            name="Sorting",
            endpoints=[address],
            deadline_ms=5000,
            info=sdk.describe(Sorting()),
            breaker_failures=1,
            breaker_open_ms=500,
            failure_policy=snapshot_pb2.FAILURE_POLICY_FAIL,
        )
    )
    site = metrics_document.site(folder, frontend)
    request = remote_calls.CallPreEnqueue(1, frontend.wait(serving_frontend.pod("a")))
    calling = asyncio.create_task(caller.pre_enqueue_calls.call(request))
    try:
        while ("trireme_plugin_held_pods",) not in _of_plugins(site):
            await asyncio.sleep(0.01)
        yield site, calling
    finally:
        calling.cancel()
        caller.configure(snapshot_pb2.Configuration())
        await caller.background.close()


async def test_a_plugin_whose_sort_key_raises_is_in_the_metrics_of_the_frontend(tmp_path: Path) -> None:
    """If this fails, nothing is scheduled any more, and no alert that the documents name fires."""
    plugin = Sorting()
    async with on_the_sdk(plugin, tmp_path) as address, _calling(address, tmp_path) as (site, calling):
        failing = _of_plugins(site)
        assert failing["trireme_plugin_held_pods",] == 1
        # It answers, if only that it has no key: other pods may have theirs.
        assert failing["trireme_plugin_breaker_open", "QueueSort"] == 0
        plugin.broken = False
        await calling
        assert ("trireme_plugin_held_pods",) not in _of_plugins(site)


async def test_a_plugin_that_fails_to_sort_is_in_the_metrics_of_the_frontend(tmp_path: Path) -> None:
    """If this fails, nobody sees that the plugin is not called, and how often it failed."""
    served = plugin_servers.ScriptedPlugin({plugin_servers.QUEUE_SORT: lambda _: (grpc.StatusCode.INTERNAL, "down")})
    address = f"unix:{tmp_path}/plugin.sock"
    async with plugin_servers.scripted(address, served), _calling(address, tmp_path) as (site, calling):
        failing = _of_plugins(site)
        assert failing["trireme_plugin_breaker_open", "QueueSort"] == 1
        assert failing["trireme_plugin_calls_total", "failed"] == 1
        assert failing["trireme_plugin_held_pods",] == 1
        served.answers[plugin_servers.QUEUE_SORT] = lambda _: queue_pb2.QueueSortResponse(
            keys=[queue_pb2.SortKey(level=[1])]
        )
        await calling
        mended = _of_plugins(site)
        assert mended["trireme_plugin_breaker_open", "QueueSort"] == 0
        assert mended["trireme_plugin_calls_total", "answered"] == 1
        assert ("trireme_plugin_held_pods",) not in mended


async def test_a_plugin_at_other_addresses_goes_on_to_sort(tmp_path: Path) -> None:
    """If this fails, a plugin whose Service has another replica is called by a connection that is closed."""
    plugin = Sorting()
    plugin.broken = False
    async with on_the_sdk(plugin, tmp_path) as address:
        config = snapshot_pb2.RemotePlugin(
            name="Sorting", endpoints=[address], deadline_ms=5000, info=sdk.describe(plugin)
        )
        caller = _caller(config)
        config.endpoints.append(f"unix:{tmp_path}/another.sock")
        caller.configure(snapshot_pb2.Configuration(remote_plugins=[config]))
        frontend = serving_frontend.FakeFrontend()
        assert await caller.sort_keys.request(frontend.wait(serving_frontend.pod("a"))) == ""
        caller.configure(snapshot_pb2.Configuration())
        await caller.background.close()
