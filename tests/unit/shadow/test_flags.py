"""The flags of shadow, and its configuration."""

import argparse
import pathlib

import pytest

from trireme.shadow import flags, settings
from trireme_kube.apimachinery import configuration_files
from trireme_kube.componentbase.cli import arguments


def _parsed(*texts: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments.add(parser, flags.ConnectionFlags)
    arguments.add(parser, flags.Flags)
    return parser.parse_args(texts)


def _kubeconfig(*texts: str) -> str:
    return arguments.read(flags.ConnectionFlags, _parsed(*texts)).source().kubeconfig


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        pytest.param(["--interval=0"], "--interval: must be between 1 and 86400 seconds", id="interval"),
        pytest.param(["--duration=-1"], "--duration: must not be negative", id="duration"),
        pytest.param(["--report=/"], "--report: / is a folder", id="report-is-a-folder"),
        pytest.param(["--report=/no/such/folder/r.html"], "there is no folder /no/such/folder", id="no-folder"),
        pytest.param(["--listen=here"], "--listen: here is not HOST:PORT", id="listen"),
        pytest.param(["--start-timeout=0"], "--start-timeout: must be positive", id="start-timeout"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(texts: list[str], text: str) -> None:
    """A run of hours would end without a report."""
    with pytest.raises(flags.FlagsError, match=text):
        arguments.read(flags.Flags, _parsed(*texts)).check()


def test_kubeconfig_of_the_environment_counts_outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users of kubectl have it there; in a pod the service account is meant."""
    monkeypatch.setenv("KUBECONFIG", "/home/me/config")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert _kubeconfig() == "/home/me/config"
    assert _kubeconfig("--kubeconfig=/other") == "/other"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert _kubeconfig() == ""


def test_extenders_are_left_out_and_that_is_said(tmp_path: pathlib.Path) -> None:
    """Calling one would be an effect on the cluster; leaving it out silently would be a wrong figure."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        'extenders: [{urlPrefix: "http://e", filterVerb: filter}]\n'
    )
    loaded = settings.load(str(path), [], "https://x")
    assert loaded.completed.configuration.extenders == ()
    assert "1 HTTP extenders of the configuration are not called" in loaded.notices[0]


@pytest.mark.parametrize(
    ("content", "gates", "text"),
    [
        pytest.param("kind: Nonsense\n", [], "Object 'apiVersion' is missing", id="kind"),
        pytest.param("", ["NoSuch=true"], "unrecognized feature gate: NoSuch", id="gate"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: pathlib.Path, content: str, gates: list[str], text: str) -> None:
    """A report of decisions with another configuration than the one that was meant."""
    path = tmp_path / "s.yaml"
    path.write_text(content or "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    with pytest.raises(configuration_files.ConfigurationError, match=text):
        settings.load(str(path), gates, "https://x")
