"""The way to a frontend in a cluster: a port that kubectl forwards, and the identity that the kubeconfig has.

`kubectl trireme COMMAND` and `trireme COMMAND --cluster` need no address. kubectl finds the frontends' pods and
forwards a port to one, with the user's own rights; requests go to the leader, or to a standby if the leader is
unreachable. The frontend reviews the token or certificate of the kubeconfig as the API server does.

A pod that gets a token can use it, and anybody may label a pod. So requests go to one namespace, in which only trusted
users may create pods.

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
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trireme.cli import frontend_connection
from trireme.cli.frontend_connection import ReportUnavailable, Target
from trireme.framework import programs
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.rest import credentials

_SELECTOR = "app.kubernetes.io/part-of=trireme"
_NAME_LABEL = "app.kubernetes.io/name"
_CONTAINER, _PORT_NAME, _PORT = "frontend", "https", 10259
_KUBECTL_SECONDS = 30.0
_POLL_SECONDS = 0.02
# How long until it is checked again which frontend leads.
_LEADER_SECONDS = 15.0
_FORWARDING = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) -> ", re.MULTILINE)

_Json = Mapping[str, Any]


@contextlib.contextmanager
def connected(options: argparse.Namespace) -> Iterator[None]:
    """Have the command's requests go to a frontend in the cluster within the block, if the options say so."""
    if not _is_in_cluster(options):
        yield
        return
    with contextlib.closing(
        ClusterLink(Kubectl(options.kubeconfig, options.context), options.scheduler_namespace)
    ) as link:
        options.link = link
        yield


def _is_in_cluster(options: argparse.Namespace) -> bool:
    """Whether the options ask for the cluster's frontend; an address of a frontend goes before."""
    if not hasattr(options, "cluster"):
        return False  # not a command that asks a frontend
    named = options.cluster or options.kubeconfig or options.context
    return bool(named) and not options.server and not options.socket


@dataclasses.dataclass(frozen=True, slots=True)
class FrontendPod:
    """A pod that runs a frontend."""

    namespace: str
    name: str
    port: int
    #: The value of its label for a name: the scheduler that it is of.
    scheduler: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Identity:
    """What the kubeconfig shows to a server: a certificate in `tls`, a token in the headers, or both."""

    credentials: credentials.Credentials
    tls: ssl.SSLContext

    def target(self, forward: "PortForward") -> Target:
        """A request with this identity at the forwarded port."""
        return Target(forward.url, self.tls, dict(self.credentials.headers))


class ClusterLink:
    """Leads to the frontends of a namespace, to the leader while it can be reached. Close it at the end."""

    def __init__(self, kubectl: "Kubectl", namespace: str) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        self._identity: _Identity | None = None
        self._forward: PortForward | None = None
        self._found_at = 0.0

    @property
    def address(self) -> str:
        """The pod that gets the requests."""
        return str(self._forward.pod) if self._forward is not None else f"namespace {self._namespace}"

    def close(self) -> None:
        """End what kubectl forwards."""
        if self._forward is not None:
            self._forward.close()
            self._forward = None

    async def target(self) -> Target:
        """Where the next request goes. Raises: ReportUnavailable: kubectl is missing or refused, or no frontend is."""
        if self._identity is None:
            self._identity = await self._load_identity()
        identity = self._identity
        await identity.credentials.refresh()
        if self._forward is not None and self._forward.ended:
            self.close()  # its port may belong to somebody else by now
        if self._forward is None or time.monotonic() - self._found_at > _LEADER_SECONDS:
            self._forward = await self._find_leader(identity)
        return identity.target(self._forward)

    async def _find_leader(self, identity: _Identity) -> "PortForward":
        """Forward a port to the leader, or to another frontend if it cannot be reached."""
        pods = await asyncio.to_thread(self._kubectl.frontends, self._namespace)
        if self._forward is not None:  # the one that led before goes first
            pods = sorted(pods, key=lambda pod: self._forward is None or pod != self._forward.pod)
        errors = []
        for pod in pods:
            try:
                forward = await self._forward_to(pod)
                holder = await _holder_according_to(forward, identity)
            except ReportUnavailable as error:
                errors.append(f"{pod}: {error}")
                continue
            leader = next((each for each in pods if each.name == holder), pod)
            with contextlib.suppress(ReportUnavailable):
                forward = await self._forward_to(leader)
            self._found_at = time.monotonic()
            return forward
        self.close()
        raise frontend_connection.ReportUnavailableNow("\n".join(errors))

    async def _forward_to(self, pod: FrontendPod) -> "PortForward":
        """Forward to this pod from now on, unless that is so already."""
        if self._forward is None or self._forward.pod != pod or self._forward.ended:
            forward = await asyncio.to_thread(PortForward, self._kubectl, pod)
            self.close()
            self._forward = forward
        return self._forward

    async def _load_identity(self) -> _Identity:
        """Load it from the kubeconfig. Raises: ReportUnavailable."""
        document = await asyncio.to_thread(self._kubectl.kubeconfig_of_context)
        with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
            path = await asyncio.to_thread(_write_private_file, folder, json.dumps(document))
            try:
                identity = await credentials.load(credentials.Source(path))
                context = identity.config.load_tls_context() or ssl.create_default_context()
            except (ConfigurationError, OSError) as error:
                raise ReportUnavailable(f"the kubeconfig: {str(error).replace(path, 'as kubectl shows it')}") from error
        # The API server and the kubelet have led here, to that pod: its certificate need not be known.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return _Identity(identity, context)


async def _holder_according_to(forward: "PortForward", identity: _Identity) -> str:
    """The name of the pod that leads, as this frontend says; its identity has a number behind an underscore."""
    asking = frontend_connection.options_of_link(_Fixed(str(forward.pod), identity.target(forward)))
    status = await frontend_connection.fetch_report(asking, programs.STATUS_PATH, {"pods": "0"})
    holder: str = status.get("leadership", {}).get("holder", "")
    return holder.partition("_")[0]


class _Fixed:
    """Leads to one frontend."""

    def __init__(self, address: str, target: Target) -> None:
        self.address = address
        self._target = target

    async def target(self) -> Target:
        return self._target


class Kubectl:
    """Runs kubectl with a kubeconfig and a context; empty: kubectl's own choice."""

    def __init__(self, kubeconfig: str, context: str) -> None:
        self._kubeconfig = kubeconfig
        self._command = ["kubectl"]
        self._command += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
        self._command += [f"--context={context}"] if context else []

    def frontends(self, namespace: str) -> Sequence[FrontendPod]:
        """The running frontends of a namespace, those that are ready first.

        Raises: ReportUnavailable: there is none, they are of several schedulers, or the user must not list pods.
        """
        found = self._frontends(f"--namespace={namespace}")
        if not found:
            raise ReportUnavailable(
                f"no frontend of Trireme runs in namespace {namespace}{self._advice_on_namespace()}"
            )
        schedulers = sorted({pod.scheduler for pod in found})
        if len(schedulers) > 1:
            raise ReportUnavailable(
                f"several schedulers run in namespace {namespace} ({', '.join(schedulers)}): "
                "forward a port to the one that you mean, and name it by --server"
            )
        return found

    def kubeconfig_of_context(self) -> _Json:
        """The kubeconfig's part that the context uses, with its certificates and tokens. Raises: ReportUnavailable."""
        view = ("config", "view", "--raw", "--minify", "--flatten", "--output=json")
        document: _Json = json.loads(self._run(*view))
        for entry in document.get("users") or ():
            user = entry.get("user") or {}
            if user.get("tokenFile"):
                user["tokenFile"] = self._beside_kubeconfig(user["tokenFile"])
            program = user.get("exec") or {}
            if "/" in program.get("command", ""):
                program["command"] = self._beside_kubeconfig(program["command"])
        return document

    def started(self, arguments: Sequence[str], stdout: int, stderr: int) -> "subprocess.Popen[bytes]":
        """Start kubectl. Raises: ReportUnavailable: it cannot be run."""
        try:
            return subprocess.Popen(
                [*self._command, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )
        except OSError as error:
            raise ReportUnavailable(
                f"kubectl cannot be run ({error.strerror}), and it is needed to reach a scheduler in a cluster: "
                "install it, or name an address by --server"
            ) from error

    def _frontends(self, where: str) -> Sequence[FrontendPod]:
        pods = json.loads(self._run("get", "pods", where, f"--selector={_SELECTOR}", "--output=json"))["items"]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        running.sort(key=lambda pod: not _is_ready(pod))
        return [
            FrontendPod(
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                _port(container),
                pod["metadata"].get("labels", {}).get(_NAME_LABEL, ""),
            )
            for pod in running
            for container in pod["spec"]["containers"]
            if container["name"] == _CONTAINER
        ]

    def _advice_on_namespace(self) -> str:
        """In which namespaces frontends run. No request goes there: anybody can label a pod."""
        advice = ": name the scheduler's own by --scheduler-namespace"
        with contextlib.suppress(ReportUnavailable):
            elsewhere = sorted({pod.namespace for pod in self._frontends("--all-namespaces")})
            return f"{advice}; there are some in {', '.join(elsewhere)}" if elsewhere else ", nor in any other"
        return advice

    def _beside_kubeconfig(self, path: str) -> str:
        """A path as kubectl finds it: one that is not absolute begins at the folder of the kubeconfig."""
        files = [self._kubeconfig] if self._kubeconfig else os.environ.get("KUBECONFIG", "").split(os.pathsep)
        folders = [pathlib.Path(each).absolute().parent for each in files if each]
        folders = folders or [pathlib.Path.home() / ".kube"]
        found = [folder / path for folder in folders]
        return str(next((each for each in found if each.exists()), found[0]))

    def _run(self, *arguments: str) -> str:
        with self.started(arguments, subprocess.PIPE, subprocess.PIPE) as process:
            try:
                output, error = process.communicate(timeout=_KUBECTL_SECONDS)
            except subprocess.TimeoutExpired as late:
                process.kill()
                text = f"kubectl {arguments[0]}: no answer within {_KUBECTL_SECONDS:.0f} s"
                raise frontend_connection.ReportUnavailableNow(text) from late
        if process.returncode != 0:
            raise ReportUnavailable(f"kubectl {arguments[0]}: {_last_line(error.decode())}")
        return output.decode()


class PortForward:
    """A port of this machine that kubectl forwards to a pod."""

    def __init__(self, kubectl: Kubectl, pod: FrontendPod) -> None:
        """Returns once connections are accepted. Raises: ReportUnavailable."""
        self.pod = pod
        # kubectl writes a line for each connection: a pipe that nobody reads would fill, and stop it.
        self._output = os.memfd_create("kubectl")
        arguments = ["port-forward", f"--namespace={pod.namespace}", f"pod/{pod.name}", f":{pod.port}"]
        try:
            self._process = kubectl.started(arguments, self._output, subprocess.STDOUT)
        except ReportUnavailable:
            os.close(self._output)
            raise
        self.url = self._wait_for_port()

    @property
    def ended(self) -> bool:
        """Whether nothing is forwarded any more."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        os.close(self._output)

    def _wait_for_port(self) -> str:
        deadline = time.monotonic() + _KUBECTL_SECONDS
        while True:
            ended = self.ended or time.monotonic() > deadline
            text = os.pread(self._output, 1 << 16, 0).decode("utf-8", "replace")
            if found := _FORWARDING.search(text):
                return f"https://127.0.0.1:{found.group(1)}"
            if ended:
                self.close()
                raise ReportUnavailable(f"kubectl port-forward: {_last_line(text)}")
            time.sleep(_POLL_SECONDS)


def _is_ready(pod: _Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _port(container: _Json) -> int:
    ports = [each["containerPort"] for each in container.get("ports", ()) if each.get("name") == _PORT_NAME]
    return int(ports[0]) if ports else _PORT


def _write_private_file(folder: str, text: str) -> str:
    path = pathlib.Path(folder, "kubeconfig")
    path.touch(mode=0o600)
    path.write_text(text)
    return str(path)


def _last_line(text: str) -> str:
    """What kubectl says at its end is the error; lines before it repeat attempts."""
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("Error from server ").removeprefix("error: ") if lines else "it ended without a word"
