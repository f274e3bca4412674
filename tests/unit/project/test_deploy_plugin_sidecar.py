"""deploy/components/plugin-sidecar: the base with a plugin in it, behind a socket that its callers share."""

import pathlib
from typing import Any

import yaml

from trireme.config import trireme_configuration

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
COMPONENT = DEPLOY / "components/plugin-sidecar"


def _document(path: pathlib.Path) -> Any:
    return yaml.safe_load(path.read_text())


def _added() -> dict[str, Any]:
    """What the component adds to each Deployment that has the plugin, by path; it is the same of all."""
    patches = _document(COMPONENT / "kustomization.yaml")["patches"]
    names = {patch["target"]["name"]: patch["target"]["kind"] for patch in patches}
    assert names == dict.fromkeys(("trireme-frontend", "trireme-filter", "trireme-score"), "Deployment")
    first, *others = ({entry["path"]: entry["value"] for entry in yaml.safe_load(each["patch"])} for each in patches)
    assert others == [first, first]
    return first


def test_its_configuration_is_the_bases_with_the_plugin() -> None:
    """A setting of the base that is missing here would be lost where a plugin is added."""
    own = _document(COMPONENT / "trireme.yaml")
    assert {name: value for name, value in own.items() if name != "remotePlugins"} == _document(
        DEPLOY / "base/config/trireme.yaml"
    )
    scheduler = _document(COMPONENT / "scheduler.yaml")
    (profile,) = scheduler["profiles"]
    plugins = profile.pop("plugins")
    assert scheduler == _document(DEPLOY / "base/config/scheduler.yaml")
    (plugin,) = trireme_configuration.parse((COMPONENT / "trireme.yaml").read_bytes()).remote_plugins
    assert {point.value for point in plugin.extension_points} == set(plugins)
    assert all(entry["name"] == plugin.name for point in plugins.values() for entry in point["enabled"])


def test_plugin_and_callers_share_the_socket() -> None:
    """If this fails, the plugin listens where nobody calls it."""
    (plugin,) = trireme_configuration.parse((COMPONENT / "trireme.yaml").read_bytes()).remote_plugins
    added = _added()
    (sidecar,) = added["/spec/template/spec/initContainers"]
    volume, mount = added["/spec/template/spec/volumes/-"], added["/spec/template/spec/containers/0/volumeMounts/-"]
    assert sidecar["args"] == ["--listen", plugin.address]
    assert sidecar["volumeMounts"] == [mount]
    assert mount["name"] == volume["name"]
    assert plugin.address.startswith(f"unix:{mount['mountPath']}/")


def test_the_plugin_may_no_more_than_the_phases() -> None:
    """If this fails, the namespace's policy refuses the pods, or a plugin could do what a phase cannot."""
    (sidecar,) = _added()["/spec/template/spec/initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    for name in ("frontend", "filter", "score"):
        (deployment,) = (
            entry
            for entry in yaml.safe_load_all((DEPLOY / f"base/{name}.yaml").read_text())
            if entry["kind"] == "Deployment"
        )
        pod = deployment["spec"]["template"]["spec"]
        assert sidecar["securityContext"] == pod["containers"][0]["securityContext"]
        assert "initContainers" not in pod
        assert len(pod["containers"]) == 1
