"""The learned score as its page shows it: jobs finish in an embedded cluster, their recording trains the model."""

import asyncio
import importlib
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import yaml

from tests.e2e import installation
from trireme_kube.client.rest import client, credentials

REPOSITORY = pathlib.Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "learned-score-python"
TRIREME = [sys.executable, "-u", str(REPOSITORY / "cmd/trireme")]
_PATHS = {"Job": "batch/v1/namespaces/default/jobs", "Deployment": "apps/v1/namespaces/default/deployments"}
# Enough to learn from: `train.py` takes 50 observations.
_COMPLETIONS = 75


async def _run_jobs(kubeconfig: pathlib.Path) -> None:
    """Create what the example's jobs.yaml has, with fewer completions, and return when the Job is complete."""
    settings = client.ClientSettings(credentials.Source(str(kubeconfig)), user_agent="test", qps=-1)
    async with await client.connect(settings) as api:
        for body in yaml.safe_load_all((EXAMPLE / "jobs.yaml").read_text()):
            if body["kind"] == "Job":
                body["spec"]["completions"] = _COMPLETIONS
            await api.post(f"/apis/{_PATHS[body['kind']]}", body)
        while True:
            job = (await api.get(f"/apis/{_PATHS['Job']}/measured")).json()
            if job.get("status", {}).get("succeeded") == _COMPLETIONS:
                return
            await asyncio.sleep(0.5)


def _run(*command: str, cwd: pathlib.Path = REPOSITORY) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="example_modules")
def _example_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example's modules can be imported; afterwards they are forgotten."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in ("boosted_stumps", "node_features"):
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("example_modules")
async def test_a_model_is_trained_from_jobs_that_finished(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, nobody can train the example's model but on observations that are invented."""
    monkeypatch.setenv("TRIREME_SOCKET", str(tmp_path / "admin.sock"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    recordings, recording, model = tmp_path / "recordings", tmp_path / "jobs.trireme", tmp_path / "model.json"
    command = [*TRIREME, "up", "--nodes", "9", "--record-dir", str(recordings)]
    up = installation.Process("up", command, tmp_path / "up.log")
    try:
        up.start()
        await installation.until(lambda: "[nodes 9" in up.said, 3 * installation.START_SECONDS, lambda: up.said)
        async with asyncio.timeout(200):
            await _run_jobs(tmp_path / "state" / "trireme" / "kubeconfig")
        await asyncio.to_thread(
            _run, *TRIREME, "record", "export", "--dir", str(recordings / "insight"), str(recording)
        )
        up.signal(signal.SIGINT)
        assert await up.ended() == 0
    finally:
        up.stop()
    said = await asyncio.to_thread(
        _run, sys.executable, "train.py", "--recording", str(recording), "--output", str(model), cwd=EXAMPLE
    )
    of_model, of_mean = [float(line.rpartition(" ")[2]) for line in said.splitlines()]
    assert of_model < of_mean / 2
    await asyncio.to_thread(_verify, model, tmp_path)
    boosted_stumps: Any = importlib.import_module("boosted_stumps")
    node_features: Any = importlib.import_module("node_features")
    rows = np.array([[0.0125 * pods, 0.0039 * pods, pods / 110, 0.0125] for pods in (2, 30)])
    empty, crowded = boosted_stumps.Model.from_json(model.read_text(), node_features.FEATURES).predict(rows)
    assert crowded > empty + 0.5


def _verify(model: pathlib.Path, folder: pathlib.Path) -> None:
    """Serve the model, and verify that this keeps to the contract."""
    address = f"unix:{folder}/plugin.sock"
    command = [sys.executable, str(EXAMPLE / "learned_score.py"), "--model", str(model), "--listen", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"listening on {address}"
        _run(*TRIREME, "plugin", "verify", address, "--latency-calls", "0")
    finally:
        process.terminate()
        process.communicate(timeout=60)
