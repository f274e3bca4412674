"""The way to a frontend in a cluster: a port that kubectl forwards, and the identity that the kubeconfig has.

`kubectl trireme COMMAND` and `trireme COMMAND --cluster` need no address. kubectl finds the frontends' pods and
forwards a port to one, with the user's own rights; the leader is asked, or a standby if the leader cannot be reached.
The frontend reviews the token or certificate of the kubeconfig as the API server does.

Tests: tests/contract/test_cli_cluster.py, tools/node/test_node_cluster.py.
"""

# Also change: deploy/chart/templates/frontend.yaml, deploy/chart/templates/_pods.tpl (names and labels of pods).
# Also change: deploy/chart/templates/roles/reader.yaml (the rights of `kubectl trireme`).

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import selectors
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trireme.cli import frontend_connection
from trireme.framework import programs
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.rest import credentials

SELECTOR = "app.kubernetes.io/part-of=trireme"
_CONTAINER, _PORT_NAME, _PORT = "frontend", "https", 10259
_KUBECTL_SECONDS = 30.0
_FORWARDING = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) -> ", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class FrontendPod:
    """A pod that runs a frontend."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@contextlib.contextmanager
def connected(options: argparse.Namespace) -> Iterator[None]:
    """Have the command's requests go to a frontend in the cluster within the block, if the options say so.

    Raises: ReportUnavailable: kubectl is missing or is refused something, or no frontend can be reached.
    """
    if not _is_in_cluster(options):
        yield
        return
    kubectl = Kubectl(options.kubeconfig, options.context)
    pods = kubectl.frontends(options.scheduler_namespace)
    options.identity = _identity(kubectl.kubeconfig_of_context())
    with contextlib.ExitStack() as forwarded:
        errors = []
        for pod in pods:
            try:
                options.server = forwarded.enter_context(kubectl.forward(pod))
                leader = _leader(options, pods)
            except frontend_connection.ReportUnavailable as error:
                errors.append(f"{pod}: {error}")
                continue
            if leader not in (None, pod):
                with contextlib.suppress(frontend_connection.ReportUnavailable):
                    options.server = forwarded.enter_context(kubectl.forward(leader))
            break
        else:
            raise frontend_connection.ReportUnavailable("\n".join(errors))
        yield


def _is_in_cluster(options: argparse.Namespace) -> bool:
    """Whether the options ask for the cluster's frontend; an address of a frontend goes before."""
    if not hasattr(options, "cluster"):
        return False  # not a command that asks a frontend
    named = options.cluster or options.kubeconfig or options.context or options.scheduler_namespace
    return bool(named) and not options.server and not options.socket


def _leader(options: argparse.Namespace, pods: Sequence[FrontendPod]) -> FrontendPod | None:
    """The pod that leads, as the frontend says that the options name; None: it is none of the pods, or unknown."""
    status = asyncio.run(frontend_connection.fetch_report(options, programs.STATUS_PATH, {"pods": "0"}))
    # An identity is the name of the pod, an underscore, and a number.
    holder = status.get("leadership", {}).get("holder", "").partition("_")[0]
    return next((pod for pod in pods if pod.name == holder), None)


def _identity(kubeconfig: str) -> frontend_connection.Identity:
    """What the kubeconfig shows to a server: a certificate, a token, or both. Raises: ReportUnavailable."""
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        path = pathlib.Path(folder, "kubeconfig")
        path.touch(mode=0o600)
        path.write_text(kubeconfig)
        try:
            identity = asyncio.run(credentials.load(credentials.Source(str(path))))
            context = identity.config.load_tls_context() or ssl.create_default_context()
        except (ConfigurationError, OSError) as error:
            raise frontend_connection.ReportUnavailable(f"the kubeconfig: {error}") from error
    # The API server and the kubelet have led here, to that pod: its certificate need not be known.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return frontend_connection.Identity(context, dict(identity.headers))


class Kubectl:
    """Runs kubectl with a kubeconfig and a context; empty: kubectl's own choice."""

    def __init__(self, kubeconfig: str, context: str) -> None:
        self._command = ["kubectl"]
        self._command += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
        self._command += [f"--context={context}"] if context else []

    def frontends(self, namespace: str) -> Sequence[FrontendPod]:
        """The running frontends of a namespace, "" being all of them, those that are ready first.

        Raises: ReportUnavailable: there is none, or the user must not list pods.
        """
        where = [f"--namespace={namespace}"] if namespace else ["--all-namespaces"]
        try:
            pods = json.loads(self._run("get", "pods", *where, f"--selector={SELECTOR}", "--output=json"))["items"]
        except frontend_connection.ReportUnavailable as error:
            if namespace or "forbidden" not in str(error):
                raise
            text = f"{error}. Name the namespace of the scheduler by --scheduler-namespace"
            raise frontend_connection.ReportUnavailable(text) from error
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        running.sort(key=lambda pod: not _is_ready(pod))
        found = [
            FrontendPod(pod["metadata"]["namespace"], pod["metadata"]["name"], _port(container))
            for pod in running
            for container in pod["spec"]["containers"]
            if container["name"] == _CONTAINER
        ]
        if not found:
            place = f"in namespace {namespace}" if namespace else "in this cluster"
            raise frontend_connection.ReportUnavailable(
                f"no frontend of Trireme runs {place}: no running pod has the label {SELECTOR} and a container "
                f"{_CONTAINER!r}. Is it installed here, and is this the right context?"
            )
        return found

    def kubeconfig_of_context(self) -> str:
        """The kubeconfig's part that the context uses, with its certificates and tokens. Raises: ReportUnavailable."""
        return self._run("config", "view", "--raw", "--minify", "--flatten")

    @contextlib.contextmanager
    def forward(self, pod: FrontendPod) -> Iterator[str]:
        """Forward a port of this machine to the pod within the block; gives its URL. Raises: ReportUnavailable."""
        arguments = ["port-forward", f"--namespace={pod.namespace}", f"pod/{pod.name}", f":{pod.port}"]
        with self._started(arguments) as process:
            try:
                assert process.stdout is not None
                text = _read_until(process.stdout.fileno(), _FORWARDING, _KUBECTL_SECONDS)
                found = _FORWARDING.search(text)
                if found is None:
                    raise frontend_connection.ReportUnavailable(f"kubectl port-forward: {_last_line(text)}")
                yield f"https://127.0.0.1:{found.group(1)}"
            finally:
                process.terminate()

    def _run(self, *arguments: str) -> str:
        with self._started(arguments, stderr=subprocess.PIPE) as process:
            try:
                output, error = process.communicate(timeout=_KUBECTL_SECONDS)
            except subprocess.TimeoutExpired as late:
                process.kill()
                text = f"kubectl {arguments[0]}: no answer within {_KUBECTL_SECONDS:.0f} s"
                raise frontend_connection.ReportUnavailable(text) from late
        if process.returncode != 0:
            raise frontend_connection.ReportUnavailable(f"kubectl {arguments[0]}: {_last_line(error.decode())}")
        return output.decode()

    def _started(self, arguments: Sequence[str], stderr: int = subprocess.STDOUT) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                [*self._command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
            )
        except OSError as error:
            raise frontend_connection.ReportUnavailable(
                f"kubectl cannot be run ({error.strerror}), and it is needed to reach a scheduler in a cluster: "
                "install it, or name an address by --server"
            ) from error


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _port(container: Mapping[str, Any]) -> int:
    ports = [each["containerPort"] for each in container.get("ports", ()) if each.get("name") == _PORT_NAME]
    return int(ports[0]) if ports else _PORT


def _read_until(descriptor: int, pattern: re.Pattern[str], seconds: float) -> str:
    """Everything that comes before the pattern has come, the end, or the time is over."""
    text = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and not pattern.search(text.decode("utf-8", "replace")):
            if selector.select(left):
                part = os.read(descriptor, 1 << 16)
                if not part:
                    break
                text += part
    return text.decode("utf-8", "replace")


def _last_line(text: str) -> str:
    """What kubectl says at its end is the error; lines before it repeat attempts."""
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("Error from server ").removeprefix("error: ") if lines else "it ended without a word"
