"""The errors of `trireme` for wrong usage: flag or field and what to do, on stderr, with an exit code that is not 0."""

import pathlib
import tempfile

import pytest

from trireme.cli import main

SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OWN = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"
FILES = {
    "misspelt-plugin": SCHEDULER + "profiles: [{plugins: {filter: {enabled: [{name: NodeResourceFit}]}}}]",
    "old": SCHEDULER.replace("/v1", "/v1beta3"),
    "own": OWN,
    "misspelt-field": OWN + "phases: {filter: {endpoint: [x]}}",
    "no-mapping": OWN + "phases: nothing",
    "kubeconfig": "apiVersion: v1\nkind: Config",
    "text": "no configuration",
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["status", "--pods", "-1"], "argument --pods: '-1' is not a whole number of at least 0", id="pods"
        ),
        pytest.param(["status"], "no scheduler listens at {}/none.sock (No such file or directory)", id="no-scheduler"),
        pytest.param(["status", "--server", "here"], "--server: 'here' is not of the form https://", id="server"),
        pytest.param(
            ["status", "--server", "https://localhost:1", "--ca-file", "{}/none"],
            "--ca-file: {}/none: No",
            id="ca-file",
        ),
        pytest.param(["explain", "a/b/c"], "'a/b/c' is neither NAMESPACE/POD nor POD", id="pod"),
        pytest.param(["up", "--nodes", "x"], "argument --nodes: 'x' is not a whole number", id="nodes"),
        pytest.param(
            ["up", "--filters", "0"], "argument --filters: '0' is not a whole number of at least 1", id="none"
        ),
        pytest.param(["up", "--port", "99999"], "argument --port: '99999' is not a whole number from 0 to", id="port"),
        pytest.param(
            ["up", "--feature-gates", "GenericWorkloads=true"], "--feature-gates: unrecognized feature gate", id="gate"
        ),
        pytest.param(
            ["up", "--kubeconfig", "{}/none"], "kubeconfig {}/none: stat {}/none: no such file", id="no-kubeconfig"
        ),
        pytest.param(
            ["up", "--kubeconfig", "{}/kubeconfig"],
            "kubeconfig {}/kubeconfig: invalid configuration: no configuration",
            id="empty-kubeconfig",
        ),
        pytest.param(["up", "--config", "{}/none"], "--config: {}/none: open {}/none: no such file", id="no-file"),
        pytest.param(["up", "--config", "{}/text"], "--config: {}/text: couldn't get version/kind", id="text"),
        pytest.param(
            ["up", "--config", "{}/misspelt-plugin"], 'FilterPlugin "NodeResourceFit" does not exist', id="plugin"
        ),
        pytest.param(["up", "--config", "{}/old"], 'version "kubescheduler.config.k8s.io/v1beta3"', id="old-version"),
        pytest.param(["up", "--config", "{}/own"], 'no kind "TriremeConfiguration"', id="other-kind"),
        pytest.param(
            ["up", "--trireme-config", "{}/none"], "--trireme-config: open {}/none: no such", id="no-own-file"
        ),
        pytest.param(
            ["up", "--trireme-config", "{}/misspelt-field"],
            '--trireme-config: {}/misspelt-field: unknown field "phases.filter.endpoint"',
            id="own-field",
        ),
        pytest.param(
            ["up", "--trireme-config", "{}/no-mapping"], "phases: must be an object, not string", id="own-no-mapping"
        ),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    said: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who mistypes gets a traceback, a cluster that is ended at once, or a word that names neither flag nor field."""
    monkeypatch.setenv("TRIREME_SOCKET", str(tmp_path / "none.sock"))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    try:
        code = main.main([argument.replace("{}", str(tmp_path)) for argument in arguments])
    except SystemExit as ended:  # argparse's
        code = ended.code if isinstance(ended.code, int) else 1
    captured = capsys.readouterr()
    assert code != 0
    assert said.replace("{}", str(tmp_path)) in captured.err
    assert not captured.out


def test_a_command_needs_no_folder_that_can_be_written_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pod of `helm test` has a read-only root and no volume."""
    for name in ("TRIREME_SOCKET", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert main.main(["version"]) == 0
    assert "no scheduler listens at /nonexistent/" in " ".join(capsys.readouterr().out.split())
