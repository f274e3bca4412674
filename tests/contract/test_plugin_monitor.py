"""Which remote plugins take part: those that are there at the start, those that come later, and those that may not."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.plugin_servers import CONFIGURE, GET_PLUGIN_INFO, ScriptedPlugin, scripted
from tests.helpers import polling
from trireme.config import commandline
from trireme.frontend import phase_configuration, plugin_changes, plugin_monitor, queue_plugin_calls
from trireme.remote import remote_client
from trireme.v1 import plugin_pb2
from trireme_kube.componentbase import supervision

FILTER_POINT = plugin_pb2.EXTENSION_POINT_FILTER
PERMIT_POINT = plugin_pb2.EXTENSION_POINT_PERMIT


def completed(
    folder: Path, policy: str = "Fail", args: Mapping[str, Any] | None = None, others: Sequence[str] = ()
) -> commandline.CompletedConfig:
    """Two profiles; the first has the plugin P at filter and permit; `others` are sockets of its replicas."""
    points = {point: {"enabled": [{"name": "P"}]} for point in ("filter", "permit")}
    documents = {
        "kube.yaml": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(folder / "kubeconfig")},
            "profiles": [
                {
                    "schedulerName": "first",
                    "plugins": points,
                    "pluginConfig": [{"name": "P", "args": args}] if args else [],
                },
                {"schedulerName": "second"},
            ],
        },
        "own.yaml": {
            "apiVersion": "trireme.dev/v1alpha1",
            "kind": "TriremeConfiguration",
            "remotePlugins": [
                {
                    "name": "P",
                    "addresses": [f"unix:{folder}/{socket}" for socket in ("plugin.sock", *others)],
                    "extensionPoints": ["filter", "permit"],
                    "failurePolicy": policy,
                }
            ],
        },
        "kubeconfig": {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {}}],
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(yaml.safe_dump(document))
    flags = [f"--config={folder}/kube.yaml", f"--trireme-config={folder}/own.yaml", "--secure-port=0"]
    start = commandline.Start(flags, {"PATH": "", "HOME": str(folder)}, StringIO(), StringIO(), lambda line: None)
    outcome = start.run()
    assert outcome.completed is not None, outcome
    return outcome.completed


def described(**fields: Any) -> Callable[[Any], plugin_pb2.GetPluginInfoResponse]:
    """The answer of a plugin that describes itself so."""
    info = {"name": "P", "version": "1", "extension_points": [FILTER_POINT, PERMIT_POINT], **fields}
    instance = info.pop("instance", "one")
    answer = plugin_pb2.GetPluginInfoResponse(plugins=[plugin_pb2.PluginInfo(**info)], instance=instance)
    return lambda _: answer


def accept(_: Any) -> plugin_pb2.ConfigureResponse:
    """The configuration is right."""
    return plugin_pb2.ConfigureResponse()


class Changes:
    """What the monitor passed on."""

    def __init__(self) -> None:
        self.infos: list[Mapping[str, plugin_pb2.PluginInfo]] = []

    async def __call__(self, infos: Mapping[str, plugin_pb2.PluginInfo], changed: str) -> None:
        assert changed == "P"
        self.infos.append(infos)

    async def until(self, count: int) -> None:
        """Return once there were so many."""
        async with asyncio.timeout(60):
            while len(self.infos) < count:
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(
    monitor: plugin_monitor.PluginMonitor,
    monkeypatch: pytest.MonkeyPatch,
    unsynced_seconds: Callable[[str], float] = lambda plugin: 0.0,
) -> AsyncIterator[Changes]:
    """The monitor, looking often."""
    monkeypatch.setattr(plugin_monitor, "MISSING_SECONDS", 0.05)
    monkeypatch.setattr(plugin_monitor, "CHECK_SECONDS", 0.05)
    changes = Changes()
    task = asyncio.create_task(monitor.run(changes, unsynced_seconds))
    try:
        yield changes
    finally:
        task.cancel()
        await asyncio.wait({task})
        await monitor.close()


async def test_a_plugin_that_comes_late_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the scheduler must be started after its plugins."""
    config = await asyncio.to_thread(completed, tmp_path)
    monitor = plugin_monitor.PluginMonitor(config)
    await monitor.start(0.1)
    (status,) = monitor.statuses()
    assert (status.takes_part, status.reachable) == (False, False)
    assert status.problem.startswith("UNAVAILABLE: ")
    assert monitor.infos() == {}
    async with running(monitor, monkeypatch) as changes:
        served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
        async with scripted(f"unix:{tmp_path}/plugin.sock", served):
            await changes.until(1)
            assert monitor.statuses()[0].version == "1"
            expected = phase_configuration.config_hash(phase_configuration.make_configuration(config, changes.infos[0]))
            (sent,) = configured(served)
            assert (sent.config_hash, sent.profile, sent.args_json) == (expected, "first", b"{}")


def configured(served: ScriptedPlugin) -> list[plugin_pb2.ConfigureRequest]:
    """The configurations that the plugin was sent."""
    return [each for each in served.requests if isinstance(each, plugin_pb2.ConfigureRequest)]


async def test_another_instance_is_configured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a new version of a plugin uses its default arguments, or the old version's description."""
    config = await asyncio.to_thread(completed, tmp_path, "Fail", {"a": 1})
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        assert monitor.statuses()[0].version == "1"
        served.requests.clear()
        async with running(monitor, monkeypatch) as changes:
            served.answers[GET_PLUGIN_INFO] = described(version="2", instance="two", max_concurrent_calls=3)
            await changes.until(1)
            assert changes.infos[0]["P"].max_concurrent_calls == 3
            assert monitor.statuses()[0].version == "2"
            assert [each.args_json for each in configured(served)] == [b'{"a":1}']


async def test_a_description_that_means_the_same_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a plugin without `instance`, whose order differs, has all phases begin anew all the time."""
    config = await asyncio.to_thread(completed, tmp_path)
    events = [{"resource": "Node", "actions": ["Add", "UpdateNodeTaint"]}, {"resource": "Pod", "actions": ["Delete"]}]
    fields = {"pod_fields": ["spec.nodeSelector", "metadata.labels"], "events_to_register": events}
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(instance="", **fields), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        in_force = monitor.infos()
        (sent,) = configured(served)
        served.requests.clear()
        async with running(monitor, monkeypatch) as changes:
            served.answers[GET_PLUGIN_INFO] = described(
                instance="",
                extension_points=[PERMIT_POINT, FILTER_POINT, FILTER_POINT],
                pod_fields=["metadata.labels", "spec.nodeSelector"],
                events_to_register=[
                    {"resource": "Pod", "actions": ["Delete"]},
                    {"resource": "Node", "actions": ["UpdateNodeTaint", "Add"]},
                ],
                node_data=plugin_pb2.NODE_DATA_NAMES,
                depends_on=plugin_pb2.DEPENDENCY_CLUSTER,
                normalization=plugin_pb2.NORMALIZATION_NONE,
            )
            await polling.until(lambda: len(configured(served)) > 2)
            assert not changes.infos
            assert monitor.infos() == in_force
            assert {each.config_hash for each in configured(served)} == {sent.config_hash}
            assert (monitor.statuses()[0].problem, monitor.statuses()[0].changing) == ("", False)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_plugin_under_ignore_that_never_gets_the_cluster_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """If this fails, scores of nodes that it does not know decide for as long as it does not follow."""
    config = await asyncio.to_thread(completed, tmp_path, policy)
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    unsynced = plugin_monitor.UNSYNCED_SECONDS - 1
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch, lambda plugin: unsynced) as changes:
            polled = len(served.requests)
            await polling.until(lambda: len(served.requests) > polled + 2)
            assert monitor.statuses()[0].takes_part
            unsynced += 2
            if policy == "Ignore":
                await changes.until(1)
                assert changes.infos[-1] == {}
            polled = len(served.requests)
            await polling.until(lambda: len(served.requests) > polled + 2)
            assert monitor.statuses()[0].takes_part == (policy == "Fail")
            assert ("has not acknowledged the full sync" in monitor.statuses()[0].problem) == (policy == "Ignore")
            unsynced = 0.0
            if policy == "Ignore":
                await changes.until(2)
                assert list(changes.infos[-1]) == ["P"]
            assert monitor.statuses()[0].takes_part


async def test_a_new_instance_of_the_same_version_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, pods that the plugin refused before its restart wait for an event that does not come."""
    monkeypatch.setattr(plugin_changes, "RESTART_SECONDS", 0.0)
    config = await asyncio.to_thread(completed, tmp_path)
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch) as changes:
            polled = len(served.requests)
            await polling.until(lambda: len(served.requests) > polled + 2)
            assert not changes.infos
            served.answers[GET_PLUGIN_INFO] = described(instance="two")
            await changes.until(1)
            polled = len(served.requests)
            await polling.until(lambda: len(served.requests) > polled + 2)
            assert changes.infos == [monitor.infos()]


@pytest.mark.parametrize("instance", ["", "one", "two"])
async def test_the_answers_of_another_version_replace_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: str
) -> None:
    """If this fails, pods go by the scores and refusals of the version before until their nodes change."""
    config = await asyncio.to_thread(completed, tmp_path)
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(instance=instance and "one"), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        before = phase_configuration.config_hash(phase_configuration.make_configuration(config, monitor.infos()))
        served.requests.clear()
        async with running(monitor, monkeypatch) as changes:
            served.answers[GET_PLUGIN_INFO] = described(version="2", instance=instance)
            await changes.until(1)
            after = phase_configuration.config_hash(phase_configuration.make_configuration(config, changes.infos[0]))
            assert after != before
            assert after in {each.config_hash for each in configured(served)}
            assert monitor.statuses()[0].version == "2"


@pytest.mark.parametrize(
    "fields",
    [{"max_concurrent_calls": 3}, {"depends_on": plugin_pb2.DEPENDENCY_NODE}, {"pod_fields": ["metadata.labels"]}],
    ids=["calls", "dependency", "pod fields"],
)
async def test_another_description_of_the_same_instance_takes_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: Mapping[str, Any]
) -> None:
    """If this fails, a plugin that sets `instance` by its deployment is called as it described itself once."""
    config = await asyncio.to_thread(completed, tmp_path)
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch) as changes:
            served.answers[GET_PLUGIN_INFO] = described(**fields)
            await changes.until(1)
            for name, value in fields.items():
                assert getattr(changes.infos[0]["P"], name) == value
            served.requests.clear()
            await polling.until(lambda: len(served.requests) > 3)
            assert not configured(served)
            assert len(changes.infos) == 1


async def test_descriptions_that_differ_again_and_again_count_after_a_back_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, one plugin keeps the scheduler from scheduling, whatever its failure policy."""
    config = await asyncio.to_thread(completed, tmp_path, "Ignore")
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    answers = itertools.count(1)

    def changing(request: Any) -> plugin_pb2.GetPluginInfoResponse:
        number = next(answers)
        return described(instance=str(number), max_concurrent_calls=number)(request)

    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch) as changes:
            served.answers[GET_PLUGIN_INFO] = changing
            await polling.until(lambda: len(configured(served)) > 5)
            assert len(changes.infos) == 1
            assert monitor.infos() == changes.infos[0]
            (status,) = monitor.statuses()
            assert (status.takes_part, status.reachable, status.changing) == (True, True, True)
            assert status.problem.startswith("changes its description again and again: ")
            in_force = phase_configuration.config_hash(phase_configuration.make_configuration(config, changes.infos[0]))
            assert {each.config_hash for each in configured(served)[1:]} == {in_force}
    assert len([each for each in caplog.records if "again and again" in each.message]) == 1


@pytest.mark.parametrize(
    ("other", "how"),
    [
        ({"version": "2"}, "plugin.sock is version 1, unix:{folder}/other.sock is version 2; "),
        ({"max_concurrent_calls": 3}, "other.sock is version 1, with other max_concurrent_calls; "),
        ({"extension_points": [99]}, "other.sock has no usable description (extension_points[0]: 99 is not known "),
    ],
    ids=["version", "field", "wrong"],
)
async def test_replicas_that_differ_are_shown_and_stop_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    other: Mapping[str, Any],
    how: str,
) -> None:
    """If this fails, half of the calls go to another version, and nobody learns of it."""
    monkeypatch.setattr(plugin_monitor, "COMPARE_SECONDS", 0.0)
    caplog.set_level("INFO")
    config = await asyncio.to_thread(completed, tmp_path, "Fail", None, ("other.sock", "gone.sock"))
    first = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    second = ScriptedPlugin({GET_PLUGIN_INFO: described(instance="two", **other), CONFIGURE: accept})
    async with (
        scripted(f"unix:{tmp_path}/plugin.sock", first),
        scripted(f"unix:{tmp_path}/other.sock", second),
    ):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch) as changes:
            await polling.until(lambda: monitor.statuses()[0].changing)
            (status,) = monitor.statuses()
            assert how.format(folder=tmp_path) in status.problem
            assert (status.takes_part, status.reachable, changes.infos) == (True, True, [])
            asked = len(second.requests)
            await polling.until(lambda: len(second.requests) > asked + 2)
            second.answers[GET_PLUGIN_INFO] = described(instance="two")
            await polling.until(lambda: not monitor.statuses()[0].changing)
            assert monitor.statuses()[0].problem == ""
    assert [each.levelname for each in caplog.records if "replicas" in each.message] == ["WARNING", "INFO"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("instance", ["one", "two"])
@pytest.mark.parametrize("wrong", ["a step that it lacks", "another name", "refused arguments"])
async def test_a_plugin_that_no_longer_fits_takes_part_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, instance: str, wrong: str
) -> None:
    """If this fails, a plugin is called that lacks what its profile needs, and nobody sees why calls fail."""
    config = await asyncio.to_thread(completed, tmp_path, policy)
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        in_force = monitor.infos()
        async with running(monitor, monkeypatch) as changes:
            if wrong == "refused arguments":
                served.answers[CONFIGURE] = lambda _: plugin_pb2.ConfigureResponse(
                    errors=[{"field": "args.a", "message": "too large"}]
                )
                served.answers[GET_PLUGIN_INFO] = described(instance=instance, max_concurrent_calls=3)
            elif wrong == "another name":
                served.answers[GET_PLUGIN_INFO] = described(name="Q", instance=instance)
            else:
                served.answers[GET_PLUGIN_INFO] = described(extension_points=[FILTER_POINT], instance=instance)
            await changes.until(1)
            # Under Fail the pods being scheduled still need it.
            assert changes.infos == [in_force if policy == "Fail" else {}]
            assert monitor.rejected() == {"P"}
            await polling.until(lambda: bool(monitor.statuses()[0].problem))
            (status,) = monitor.statuses()
            words = {"a step that it lacks": "enables the plugin at permit", "another name": "hosts Q"}
            assert words.get(wrong, "too large") in status.problem
            assert (status.takes_part, status.reachable) == (False, True)
            served.answers.update({GET_PLUGIN_INFO: described(instance="three"), CONFIGURE: accept})
            await changes.until(2)
            assert changes.infos[1:] == [in_force]
            assert monitor.rejected() == frozenset()
            await polling.until(lambda: not monitor.statuses()[0].problem)
            assert monitor.statuses()[0].takes_part


async def test_a_plugin_that_is_rejected_repeatedly_is_excluded_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, all phases begin anew whenever calls reach the other of two versions that serve one address."""
    config = await asyncio.to_thread(completed, tmp_path, "Ignore")
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch) as changes:
            for count in (1, 3):
                served.answers[GET_PLUGIN_INFO] = described(extension_points=[FILTER_POINT], instance="two")
                await changes.until(count)
                served.answers[GET_PLUGIN_INFO] = described(instance="three")
                if count == 1:
                    await changes.until(2)
            await polling.until(lambda: "again and again" in monitor.statuses()[0].problem)
            assert len(changes.infos) == 3
            assert monitor.infos() == {}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({GET_PLUGIN_INFO: described(name="Q"), CONFIGURE: accept}, "hosts Q"),
        (
            {GET_PLUGIN_INFO: described(extension_points=[FILTER_POINT]), CONFIGURE: accept},
            "extension_points: profile first enables the plugin at permit, which is not among those that it has: "
            "filter",
        ),
        (
            {
                GET_PLUGIN_INFO: described(),
                CONFIGURE: lambda _: plugin_pb2.ConfigureResponse(errors=[{"field": "args.a", "message": "too large"}]),
            },
            "profile first: pluginConfig: args.a: too large",
        ),
    ],
    ids=["another plugin", "a step that it lacks", "refused arguments"],
)
async def test_a_plugin_that_is_there_and_wrong_ends_the_start(
    tmp_path: Path, answers: Mapping[str, Any], words: str
) -> None:
    """If this fails, a mistake in the configuration is a profile that waits forever."""
    config = await asyncio.to_thread(completed, tmp_path)
    async with scripted(f"unix:{tmp_path}/plugin.sock", ScriptedPlugin(answers)):
        monitor = plugin_monitor.PluginMonitor(config)
        with pytest.raises(remote_client.HandshakeError) as caught:
            await monitor.start(20)
        assert f"plugin P at unix:{tmp_path}/plugin.sock: {words}" in str(caught.value)
        await monitor.close()


SNAPSHOT = described(node_data=plugin_pb2.NODE_DATA_SNAPSHOT)


async def test_a_plugin_that_follows_the_cluster_must_serve_the_stream(tmp_path: Path) -> None:
    """If this fails, pods are placed by the answers of a plugin that knows no node."""
    config = await asyncio.to_thread(completed, tmp_path)
    served = ScriptedPlugin({GET_PLUGIN_INFO: SNAPSHOT, CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        with pytest.raises(remote_client.HandshakeError, match="node_data: SNAPSHOT, but the plugin does not serve"):
            await monitor.start(20)
        assert not configured(served)
        await monitor.close()


@pytest.mark.parametrize("instance", ["two", ""], ids=["another instance", "no instance"])
async def test_an_instance_that_lacks_the_stream_takes_part_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: str
) -> None:
    """If this fails, a plugin that is replaced by one without a stream goes on to be called by slot."""
    config = await asyncio.to_thread(completed, tmp_path, "Ignore")
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(instance=instance and "one"), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start(20)
        async with running(monitor, monkeypatch) as changes:
            served.answers[GET_PLUGIN_INFO] = described(instance=instance, node_data=plugin_pb2.NODE_DATA_SNAPSHOT)
            await changes.until(1)
            assert monitor.rejected() == {"P"}
            await polling.until(lambda: "SnapshotFollower" in monitor.statuses()[0].problem)
            served.answers[GET_PLUGIN_INFO] = described(instance=instance and "three")
            await changes.until(2)
            assert monitor.rejected() == frozenset()


@pytest.mark.parametrize(("policy", "waits"), [("Fail", {"first": "P"}), ("Ignore", {})])
def test_a_missing_plugin_is_not_in_the_configuration_of_the_phases(
    tmp_path: Path, policy: str, waits: Mapping[str, str]
) -> None:
    """If this fails, phases call a plugin that is not there, or no profile waits for one that must be."""
    config = completed(tmp_path, policy)
    message = phase_configuration.make_configuration(config, {})
    assert not message.remote_plugins
    assert "P" not in {
        plugin.name for profile in message.profiles for each in profile.plugin_sets for plugin in each.plugins
    }
    assert queue_plugin_calls.missing_required(config, {}) == waits
    assert queue_plugin_calls.missing_required(config, {"P": plugin_pb2.PluginInfo()}) == {}


async def test_work_in_the_background_that_fails_ends_the_monitor(tmp_path: Path) -> None:
    """Nobody awaits it: after a reload pods would not be listed again, in a process that looks healthy."""

    async def fail() -> None:
        raise ZeroDivisionError("a mistake of ours")

    async def ignore(infos: Mapping[str, plugin_pb2.PluginInfo], name: str) -> None:
        """Nothing changes."""

    monitor = plugin_monitor.PluginMonitor(completed(tmp_path))
    try:
        monitor.background.start(fail())
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.timeout(20):
                await monitor.run(ignore)
        (ended,) = supervision.ended_tasks(caught.value)
        assert ended.how == "ZeroDivisionError: a mistake of ours"
    finally:
        await monitor.close()
