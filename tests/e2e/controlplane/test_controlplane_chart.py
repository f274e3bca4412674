"""The chart on a real API server: installed, upgraded with other values, and removed, without anything left over."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from deploy import make_manifests
from tools.controlplane import controlplane_fixture, deploy_manifests, launcher
from tools.controlplane.controlplane_fixture import start_controlplane
from tools.programs import programs_fixture

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

CHART = make_manifests.CHART
SETS = launcher.REPOSITORY / "tests/contract/data/chart"
NAMESPACE = "trireme-system"
Identity = tuple[str, str, str]


@pytest.fixture(autouse=True)
def _programs() -> None:
    programs_fixture.require_programs()


def _values(name: str) -> pathlib.Path:
    return SETS / f"{name}.values.yaml"


def _rendered(values: pathlib.Path) -> list[deploy_manifests.Json]:
    groups = make_manifests.render(yaml.safe_load(values.read_text()), NAMESPACE).values()
    return [entry for group in groups for entry in group]


def _identities(values: pathlib.Path) -> set[Identity]:
    """What of the chart's own a set of values makes."""
    return {
        (entry["kind"], entry["metadata"].get("namespace", ""), entry["metadata"]["name"])
        for entry in _rendered(values)
        if "labels" in entry["metadata"]  # not of extraObjects
    }


def _prepare(cluster: launcher.ControlPlane) -> None:
    """Make what has to be there before the release: kinds of others, and namespaces of plugins."""
    deploy_manifests.define_kinds(cluster)
    for namespace in ("plugins", "pricing"):
        cluster.kubectl("create", "namespace", namespace)


def _present(cluster: launcher.ControlPlane) -> set[Identity]:
    """What of the release is in the cluster, of all kinds."""
    listed = cluster.kubectl("api-resources", "--verbs=list,create", "--output=name").split()
    printed = cluster.kubectl(
        "get", ",".join(listed), "--all-namespaces", "--selector=app.kubernetes.io/part-of=trireme", "--output=yaml"
    )
    return {
        (entry["kind"], entry["metadata"].get("namespace", ""), entry["metadata"]["name"])
        for entry in yaml.safe_load(printed)["items"]
    }


def test_installed_upgraded_and_removed(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: pathlib.Path
) -> None:
    """What an upgrade leaves behind, a role for example, stays for years."""
    cluster = start_controlplane(launcher.Options())
    _prepare(cluster)
    before = _present(cluster)
    release = ("trireme", "--namespace", NAMESPACE, "--kubeconfig", cluster.kubeconfig)
    programs_fixture.helm(
        "install", *release, "--create-namespace", "--values", _values("everything"), CHART, home=tmp_path
    )
    assert _present(cluster) - before == _identities(_values("everything"))
    assert cluster.kubectl("get", "configmap", "other-extra", f"--namespace={NAMESPACE}", "--output=jsonpath={.data}")
    for name in ("insight", "default-scheduler", "shadow", "standalone"):
        programs_fixture.helm("upgrade", *release, "--reset-values", "--values", _values(name), CHART, home=tmp_path)
        assert _present(cluster) - before == _identities(_values(name)), name
    programs_fixture.helm("rollback", "trireme", "1", *release[1:], home=tmp_path)
    assert _present(cluster) - before == _identities(_values("everything"))
    programs_fixture.helm("uninstall", *release, home=tmp_path)
    assert _present(cluster) == before
    assert cluster.kubectl("get", "secrets,configmaps", f"--namespace={NAMESPACE}", "--output=name").split() == []


def test_an_api_server_takes_what_values_render(start_controlplane: controlplane_fixture.StartControlPlane) -> None:
    """A misspelt field is dropped in silence where nobody validates, and a pod is refused hours later."""
    cluster = start_controlplane(launcher.Options())
    _prepare(cluster)
    namespace = yaml.safe_load((deploy_manifests.DEPLOY / "base/namespace.yaml").read_text())
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(namespace))
    for values in sorted(SETS.glob("*.values.yaml")):
        rendered = _rendered(values)
        text = yaml.safe_dump_all(rendered)
        applied = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
        assert len(applied.splitlines()) == len(rendered), values.name
        pods = yaml.safe_dump_all(deploy_manifests.pods_of(rendered))
        cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=pods)
