"""What the frontend does not start with: the program's exit code and the last line of its log."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract import serving_frontend as support

FRONTEND = Path(__file__).parents[2] / "cmd" / "frontend"
KINDS = {
    "kube.yaml": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"},
    "own.yaml": {"apiVersion": "trireme.dev/v1alpha1", "kind": "TriremeConfiguration"},
}
NOBODY = "127.0.0.1:1"


def enabled(point: str, *names: str) -> dict[str, Any]:
    """A profile of the name `batch` with these plugins."""
    plugins = {point: {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}}
    return {"profiles": [{"schedulerName": "batch", "plugins": plugins}]}


def remote(*names: str) -> dict[str, Any]:
    """Remote plugins where nobody answers."""
    points = ["filter"]
    return {"remotePlugins": [{"name": name, "address": NOBODY, "extensionPoints": points} for name in names]}


@pytest.mark.parametrize(
    ("configuration", "own", "told"),
    [
        pytest.param(
            enabled("filter", "Bogus"),
            {},
            'initializing profiles: creating profile for scheduler name batch: FilterPlugin "Bogus" does not exist',
            id="a plugin that does not exist",
        ),
        pytest.param(
            enabled("filter", "NodeName", "NodeName"),
            {},
            "initializing profiles: creating profile for scheduler name batch: "
            'plugin "NodeName" already registered as "FilterPlugin"',
            id="a plugin twice",
        ),
        pytest.param(
            enabled("filter", "Mine"),
            remote("Mine", "Mine"),
            'remotePlugins[1].name: Duplicate value: "Mine"',
            id="a remote plugin twice",
        ),
    ],
)
def test_a_plugin_that_cannot_be_had_ends_the_start(
    tmp_path: Path, configuration: dict[str, Any], own: dict[str, Any], told: str
) -> None:
    (tmp_path / "kubeconfig").write_text(support.kubeconfig_for(f"http://{NOBODY}"))
    connection = {"clientConnection": {"kubeconfig": "kubeconfig"}}
    for name, document in (("kube.yaml", {**connection, **configuration}), ("own.yaml", own)):
        (tmp_path / name).write_text(yaml.safe_dump({**KINDS[name], **document}))
    program = subprocess.run(
        [sys.executable, str(FRONTEND), "--config=kube.yaml", "--trireme-config=own.yaml", "--secure-port=0"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = program.stderr.splitlines()[-1]
    assert program.returncode == 1
    assert last.startswith("E")
    assert '] "command failed" err="' in last
    assert told.replace('"', '\\"') in last
