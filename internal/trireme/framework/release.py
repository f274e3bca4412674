"""The name and version of this release, for people and for API servers.

Also change: docs/kubernetes-versions.md.
Also change: docs/upgrade.md.

Tests: tests/contract/test_kube_client.py, tests/unit/config/test_start.py, tests/unit/cli/test_display.py.
"""

import platform
import sys

from trireme_kube.componentbase.cli import versions

TRIREME = "0.2.0"
KUBERNETES = versions.KUBERNETES


def installed_version() -> dict[str, str]:
    """The versions of Trireme, of the kube-scheduler that it implements, and of Python, for `trireme version`."""
    return {
        "trireme": TRIREME,
        "kubernetes": KUBERNETES,
        "python": platform.python_version(),
    }


def build_information() -> str:
    """All details of this build, as `--version=raw` prints them."""
    major, minor = versions.BINARY.minor
    implementation = sys.implementation.name
    return (
        f'version.Info{{Major:"{major}", Minor:"{minor}", GitVersion:"{KUBERNETES}", '
        f'TriremeVersion:"{TRIREME}", PythonVersion:"{platform.python_version()}", '
        f'Implementation:"{implementation}", Platform:"{sys.platform}/{platform.machine()}"}}'
    )


def user_agent(purpose: str = "", version: str = KUBERNETES) -> str:
    """The User-Agent header of kube-scheduler: `kube-scheduler/v1.37.0 (linux/amd64) kubernetes/<build>/<purpose>`.

    Where other builds name their commit, this one names itself: `trireme-<version>`. `purpose` is `scheduler` or
    `leader-election`, as in kube-scheduler; `bind` for requests that kube-scheduler sends over the connection of the
    former and we from a separate process; empty for requests on behalf of the HTTPS endpoints.

    Source: client-go rest/config.go (DefaultKubernetesUserAgent, AddUserAgent).
    """
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    agent = (
        f"kube-scheduler/{version.partition('-')[0]} ({platform.system().lower()}/{machine}) "
        f"kubernetes/trireme-{TRIREME}"
    )
    return f"{agent}/{purpose}" if purpose else agent
