"""`trireme up` as the README has it: the embedded cluster, the demo, the example plugin, and asking what goes on."""

import asyncio
import pathlib
import re
import signal
import subprocess
import sys

import installation
import launcher
import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
TRIREME = [sys.executable, "-u", str(REPOSITORY / "cmd/trireme")]


def _ask(*arguments: str) -> str:
    done = subprocess.run([*TRIREME, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_commands_of_the_readme(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commands that a newcomer types would not work: the demo, a plugin beside it, status and explain."""
    monkeypatch.setenv("TRIREME_SOCKET", str(tmp_path / "admin.sock"))
    (port,) = launcher.free_ports(1)
    own = tmp_path / "trireme.yaml"
    own.write_text((EXAMPLES / "trireme.yaml").read_text().replace("127.0.0.1:9000", f"127.0.0.1:{port}"))
    command = [sys.executable, "-u", str(EXAMPLES / "plugin-python/maintenance.py"), "--listen", f"127.0.0.1:{port}"]
    plugin = installation.Process("plugin", command, tmp_path / "plugin.log")
    scheduler = tmp_path / "scheduler.yaml"
    scheduler.write_text((EXAMPLES / "scheduler.yaml").read_text() + "leaderElection: {resourceName: another}\n")
    files = ["--config", str(scheduler), "--trireme-config", str(own)]
    up = installation.Process("up", [*TRIREME, "up", "--nodes", "10", "--demo", *files], tmp_path / "up.log")
    try:
        plugin.start()
        await plugin.listening()
        up.start()
        await installation.until(lambda: "demo: giant" in up.said, 3 * installation.START_SECONDS, lambda: up.said)
        assert "demo: web: 50 pods on 10 nodes" in up.said
        status = await asyncio.to_thread(_ask, "status")
        assert "leads with epoch" in status
        assert "10 nodes, 60 pods" in status
        (giant, *_) = re.findall(r"default/giant-\S+?(?=:)", status)
        assert "10 refused by NodeResourcesFit: Insufficient cpu" in await asyncio.to_thread(_ask, "explain", giant)
        up.signal(signal.SIGINT)
        assert await up.ended() == 0
    finally:
        up.stop()
        plugin.stop()
