"""Reading the configuration again: what may change, and which field is named that may not."""

import dataclasses
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from trireme.config import commandline, reloading
from trireme_kube.apimachinery.configuration_files import ConfigurationError

KUBE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
}
OWN = {"apiVersion": "trireme.dev/v1alpha1", "kind": "TriremeConfiguration"}
PLUGIN = {"name": "P", "address": "unix:/run/p.sock", "extensionPoints": ["filter"]}


def _write(folder: Path, kube: dict[str, Any], own: dict[str, Any]) -> None:
    (folder / "kube.yaml").write_text(yaml.safe_dump({**KUBE, **kube}))
    (folder / "own.yaml").write_text(yaml.safe_dump({**OWN, **own}))


@pytest.fixture
def started(tmp_path: Path) -> commandline.CompletedConfig:
    """A configuration of two files, as a start reads it."""
    _write(tmp_path, {}, {})
    flags = [f"--config={tmp_path}/kube.yaml", f"--trireme-config={tmp_path}/own.yaml", "--master=http://127.0.0.1:1"]
    start = commandline.Start(
        [*flags, "--secure-port=0"], {"HOME": str(tmp_path)}, StringIO(), StringIO(), lambda line: None
    )
    completed = start.run().completed
    assert completed is not None
    return completed


def _load(folder: Path, started: commandline.CompletedConfig, kube: dict[str, Any], own: dict[str, Any]) -> Any:
    _write(folder, kube, own)
    return reloading.load_again(started, lambda line: None)


def test_profiles_plugins_batches_and_waits_may_change(tmp_path: Path, started: commandline.CompletedConfig) -> None:
    """If this fails, one of them takes a restart."""
    plugins = {"score": {"enabled": [{"name": "ImageLocality", "weight": 7}]}, "filter": {"enabled": [{"name": "P"}]}}
    new = _load(
        tmp_path,
        started,
        {"profiles": [{"schedulerName": "c", "plugins": plugins}], "podMaxBackoffSeconds": 30},
        {"remotePlugins": [PLUGIN], "batch": {"maxPods": 7, "linger": "1s"}, "reload": {"listDeadline": "10m"}},
    )
    assert new.scheduler_names == {"c"}
    assert new.configuration.pod_max_backoff_seconds == 30
    assert new.trireme.batch.max_pods == 7
    assert new.trireme.reload.list_deadline.seconds == 600
    assert new.trireme.remote_plugin("P") is not None
    assert new.connection is started.connection


@pytest.mark.parametrize(
    ("kube", "own", "names"),
    [
        pytest.param({"leaderElection": {"leaderElect": False}}, {}, ["leaderElection.leaderElect"], id="election"),
        pytest.param({"clientConnection": {"qps": 7}}, {}, ["clientConnection.qps"], id="connection"),
        pytest.param({"extenders": [{"urlPrefix": "http://e", "filterVerb": "f"}]}, {}, ["extenders"], id="extenders"),
        pytest.param({"delayCacheUntilActive": True}, {}, ["delayCacheUntilActive"], id="cache"),
        pytest.param({}, {"phases": {"bind": {"localReplicas": 2}}}, ["phases.bind"], id="phase"),
        pytest.param({}, {"insight": {"endpoints": ["unix:/i"]}}, ["insight"], id="insight"),
        pytest.param({}, {"handle": {"listen": "unix:/h"}}, ["handle.listen"], id="handle"),
        pytest.param(
            {"leaderElection": {"resourceName": "x"}, "podMaxBackoffSeconds": 30},
            {"admin": {"socket": "/a"}, "batch": {"maxPods": 7}, "compatibility": "Kubernetes"},
            ["leaderElection.resourceName", "admin.socket", "compatibility"],
            id="several-and-what-may-change",
        ),
    ],
)
def test_what_only_a_restart_can_change_is_refused_by_name(
    tmp_path: Path,
    started: commandline.CompletedConfig,
    kube: dict[str, Any],
    own: dict[str, Any],
    names: list[str],
) -> None:
    """If this fails, such a field is ignored without a word until the next restart."""
    with pytest.raises(ConfigurationError) as refused:
        _load(tmp_path, started, kube, own)
    assert [problem.partition(":")[0] for problem in refused.value.problems] == names
    assert all("restart" in problem for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("kube.yaml", "profiles: [", "yaml", id="no-yaml"),
        pytest.param("own.yaml", yaml.safe_dump({**OWN, "batches": {}}), 'unknown field "batches"', id="unknown-field"),
        pytest.param(
            "kube.yaml",
            yaml.safe_dump({**KUBE, "profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}),
            "profiles[1].schedulerName: Duplicate",
            id="two-profiles-of-a-name",
        ),
    ],
)
def test_a_wrong_file_is_refused_as_at_a_start(
    tmp_path: Path, started: commandline.CompletedConfig, name: str, text: str, message: str
) -> None:
    """If this fails, a reload lets pass what the next start refuses."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=message.replace("[", r"\[").replace("]", r"\]")):
        reloading.load_again(started, lambda line: None)


def test_a_file_that_is_gone_is_refused(tmp_path: Path, started: commandline.CompletedConfig) -> None:
    """If this fails, a file that was moved away counts as the defaults."""
    (tmp_path / "own.yaml").unlink()
    with pytest.raises(ConfigurationError, match=r"own\.yaml"):
        reloading.load_again(started, lambda line: None)


def test_profiles_that_are_removed_stay_with_the_phases_while_they_are_in_use(
    tmp_path: Path, started: commandline.CompletedConfig
) -> None:
    """If this fails, bind does not know the profile of a pod that it is binding; or a profile never goes."""
    plugins = {"filter": {"enabled": [{"name": "P"}]}}
    both = [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": plugins}]
    current = _load(tmp_path, started, {"profiles": both}, {"remotePlugins": [PLUGIN]})
    new = _load(tmp_path, started, {"profiles": [{"schedulerName": "a"}]}, {})

    used = reloading.with_retired_profiles(new, current, frozenset({"a", "b"}))
    assert used.scheduler_names == {"a"}
    assert [profile.scheduler_name for profile in used.profiles] == ["a", "b"]
    assert [plugin.name for plugin in used.trireme.remote_plugins] == ["P"]

    again = reloading.with_retired_profiles(new, used, frozenset({"b"}))
    assert again.retired_profiles == {"b"}
    assert reloading.with_retired_profiles(new, used, frozenset({"a"})) == new


def test_a_profile_that_comes_back_is_no_longer_retired(tmp_path: Path, started: commandline.CompletedConfig) -> None:
    """If this fails, pods of a profile that was removed and added again are ignored."""
    retired = dataclasses.replace(started, retired_profiles=frozenset({"b"}))
    assert reloading.load_again(retired, lambda line: None).scheduler_names == {"a", "b"}
