"""PreEnqueue of the plugins in this process: which of them is called, and in which order."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.queue_builders import pending
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext
from trireme.queueing.pod_info import make_pod_info
from trireme.queueing.pre_enqueue import LocalPreEnqueuePlugins, PreEnqueueResult
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import Gated


def _plugins(
    *names: str, missing: str = "", remote: bool = False, gates: tuple[str, ...] = ("later",)
) -> LocalPreEnqueuePlugins:
    profile: Any = SimpleNamespace(scheduler_name="p", names=lambda point: names)
    unused: Any = None
    features: Any = SimpleNamespace(enabled=lambda name: False)
    context = PreEnqueueContext(features, unused, lambda uid: True)
    described = PodToEnqueue("u", gates, None)
    return LocalPreEnqueuePlugins([profile], context, lambda pod: described, lambda name: remote, lambda name: missing)


def _pod() -> QueuedPodInfo:
    return QueuedPodInfo(make_pod_info("default/pod", "u", 1, "p", 0, pod=pending()), 0.0)


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("SchedulingGates", "DefaultPreemption"), "SchedulingGates"),
        (("DefaultPreemption", "SchedulingGates"), "DefaultPreemption"),
    ],
    ids=["gates-first", "preemption-first"],
)
def test_the_first_plugin_of_the_profile_that_refuses_decides(names: tuple[str, ...], first: str) -> None:
    """Its events wake the pod: with another plugin's, it would sleep or be tried in vain."""
    assert _plugins(*names).pre_enqueue(_pod()) == first


def test_a_missing_plugin_gates_a_pod_before_other_plugins_are_called() -> None:
    """The pod cannot be scheduled whatever the others say."""
    assert _plugins("SchedulingGates", missing="Far").pre_enqueue(_pod()) == "Far"


@pytest.mark.parametrize("remote", [True, False], ids=["remote", "none"])
def test_remote_plugins_are_called_only_where_no_local_one_refuses(remote: bool) -> None:
    """Names without a side in this process, remote ones among them, are passed over."""
    expected = PreEnqueueResult.CALL_REMOTE if remote else PreEnqueueResult.ALLOWED
    assert _plugins("Far", "GangScheduling", remote=remote).pre_enqueue(_pod()) is expected


@pytest.mark.parametrize(
    ("plugin", "expected"), [("SchedulingGates", {"gates": ["later"]}), ("Far", {})], ids=["local", "remote"]
)
def test_the_gating_plugin_names_what_the_pod_waits_for(plugin: str, expected: dict[str, list[str]]) -> None:
    """`trireme explain` names the gates, and only where they are why the pod waits."""
    pod = _pod()
    pod.state = Gated(plugin)
    assert _plugins("SchedulingGates").waits_for(pod) == expected


def test_a_pod_that_one_plugin_allows_may_be_refused_by_the_next() -> None:
    plugins = _plugins("SchedulingGates", "DefaultPreemption", gates=())
    assert plugins.pre_enqueue(_pod()) == "DefaultPreemption"
