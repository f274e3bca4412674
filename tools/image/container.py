"""Runs a command in a container of an image in an archive, as `docker run` does; needs root and buildah.

Tests: tools/image/test_image.py.
"""

import subprocess
from pathlib import Path


def run(archive: Path, architecture: str, *command: str) -> subprocess.CompletedProcess[str]:
    """What the command, of the image's user, ends with; under an emulator for another architecture than this one's."""
    made = _buildah("from", "--quiet", f"--arch={architecture}", f"oci-archive:{archive}")
    made.check_returncode()
    container = made.stdout.strip()
    image = _buildah("inspect", "--format={{.FromImageID}}", container).stdout.strip()
    try:
        # In a chroot, and on this machine's network: namespaces need more rights.
        return _buildah("run", "--isolation=chroot", "--network=host", container, "--", *command)
    finally:
        _buildah("rm", container)
        _buildah("rmi", image)  # refused while another container has it


def _buildah(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["buildah", *arguments], capture_output=True, text=True, check=False)
