"""The container runtime of a node, containerd, and the images that pods have there.

Tests: tools/node/test_node_cluster.py.
"""

import subprocess
import tempfile
import time
from pathlib import Path

from tools.controlplane import build_controlplane, launcher
from tools.node.networks import Address

PAUSE = "localhost/pause:1"

_PLUGINS = "/usr/lib/cni"
_START_SECONDS = 60.0


class RuntimeFailedError(Exception):
    """An image or the runtime did not come up; the message says why."""


class Runtime:
    """A containerd of one node, with all its files in one folder."""

    def __init__(self, address: Address, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self.socket = folder / "containerd.sock"

    def start(self) -> launcher.Child:
        """Start it, and return once it answers. Raises: RuntimeFailedError."""
        network = self._folder / "cni"
        network.mkdir(parents=True)
        (network / "10-pods.conflist").write_text(self._address.cni_configuration(self._folder / "addresses"))
        configuration = self._folder / "containerd.toml"
        configuration.write_text(self._configuration(network))
        command = [*self._address.inside(), "containerd", "--config", str(configuration)]
        child = launcher.spawn("containerd", command, self._folder / "containerd.log")
        ends = time.monotonic() + _START_SECONDS
        while subprocess.run(self._ctr("version"), capture_output=True, check=False).returncode:
            if time.monotonic() > ends or child.process.poll() is not None:
                raise RuntimeFailedError(f"containerd does not answer\n{child.tail()}")
            time.sleep(0.2)
        return child

    def load(self, archive: Path, name: str) -> None:
        """Load an OCI archive as the image `name`, with the archive's tag. Raises: RuntimeFailedError."""
        command = self._ctr("images", "import", "--base-name", name, str(archive))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeFailedError(f"{archive.name} cannot be loaded: {done.stderr}")

    def _ctr(self, *arguments: str) -> list[str]:
        return ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]

    def _configuration(self, network: Path) -> str:
        # Without CAP_SYS_RESOURCE nothing may be made less likely to be killed than its parent.
        return f"""
version = 2
root = "{self._folder}/images"
state = "{self._folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{_PLUGINS}"
conf_dir = "{network}"
"""


def build_pause(archive: Path) -> None:
    """Build Kubernetes' image that holds a pod's namespaces, which does nothing. Raises: RuntimeFailedError."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"]
    module = build_controlplane.MODULE
    source = subprocess.run(command, cwd=module, capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "pause")
        code = f"{source}/build/pause/linux/pause.c"
        Path(folder, "Dockerfile").write_text(
            'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n'
        )
        for each in (
            ["cc", "-Os", "-static", "-DVERSION=1", "-o", str(program), code],
            ["buildah", "build", "--quiet", "--tag", PAUSE, folder],
            ["buildah", "push", "--quiet", PAUSE, f"oci-archive:{archive}:1"],
            ["buildah", "rmi", PAUSE],
        ):
            done = subprocess.run(each, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeFailedError(f"the pause image cannot be built: {done.stderr}")
