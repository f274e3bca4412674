"""The flags of shadow, for `trireme shadow` and the program trireme-shadow alike.

Also change: docs/shadow.md.
Also change: deploy/chart/templates/_pods.tpl (the chart's pods, which set flags).
"""

import os
import pathlib
from dataclasses import dataclass
from typing import Annotated

from trireme_kube.client.rest import credentials
from trireme_kube.componentbase.cli.arguments import Argument


class FlagsError(Exception):
    """A flag cannot be used; the text names it and what to do."""


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """The connection to the API server."""

    kubeconfig: Annotated[
        str,
        Argument(
            "credentials; reading is enough (default: $KUBECONFIG, else the pod's service account)", metavar="FILE"
        ),
    ] = ""
    master: Annotated[str, Argument("address of the API server, in place of the file's", metavar="URL")] = ""

    def source(self) -> credentials.Source:
        """Where the connection is configured."""
        in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
        default = "" if self.master or in_pod else os.environ.get("KUBECONFIG", "")
        return credentials.Source(self.kubeconfig or default, self.master)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a run. Units: seconds; `duration` 0: until a signal."""

    config: Annotated[
        str, Argument("KubeSchedulerConfiguration to decide with (default: the built-in one)", metavar="FILE")
    ] = ""
    feature_gates: Annotated[
        tuple[str, ...], Argument("as the frontend's (may be repeated)", metavar="NAME=BOOL", repeated=True)
    ] = ()
    report: Annotated[
        pathlib.Path, Argument("HTML file to write (default %(default)s)", metavar="FILE", parse=pathlib.Path)
    ] = pathlib.Path("trireme-shadow.html")
    interval: Annotated[float, Argument("time between reports (default %(default)g)", metavar="SECONDS")] = 30.0
    duration: Annotated[float, Argument("end after this time (default: until Ctrl-C)", metavar="SECONDS")] = 0.0
    no_own_world: Annotated[bool, Argument("only compare decisions, place no pods", switch=True)] = False
    output: Annotated[str, Argument("lines of the terminal", letter="o", choices=("text", "json"))] = "text"
    listen: Annotated[str, Argument("also serve the report, /healthz and /readyz over HTTP", metavar="HOST:PORT")] = ""
    start_timeout: Annotated[
        float,
        Argument("give up if the cluster cannot be listed within this time (default %(default)g)", metavar="SECONDS"),
    ] = 60.0

    def check(self) -> None:
        """Check the flags. Raises: FlagsError."""
        if not 1 <= self.interval <= 86_400:
            raise FlagsError("--interval: must be between 1 and 86400 seconds")
        if self.duration < 0:
            raise FlagsError("--duration: must not be negative")
        if self.start_timeout <= 0:
            raise FlagsError("--start-timeout: must be positive")
        if self.report.is_dir() or not self.report.name:
            raise FlagsError(f"--report: {self.report} is a folder; name a file in it")
        if not self.report.parent.is_dir():
            raise FlagsError(f"--report: there is no folder {self.report.parent}; make it, or name another file")
        if self.listen and not self.listen.rpartition(":")[2].isdigit():
            raise FlagsError(f"--listen: {self.listen} is not HOST:PORT")
