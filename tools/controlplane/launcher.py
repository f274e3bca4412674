"""Starts and stops the real control plane: etcd, kube-apiserver and, where asked for, the controllers and scheduler.

Everything listens on free ports, of loopback unless told otherwise; every file (key, token, log, data) lies in one
directory, so that any number of clusters run beside each other and one is gone without a trace when it is closed.
Separate from the fixtures and from the benchmark because both need it, and so does a person at a shell:

    python -m tools.controlplane.launcher --scheduler -- kubectl get --raw /readyz

The invariant: no process started here outlives the process that started it. Each child asks the kernel for SIGKILL
at the death of its parent, so a test runner that is killed leaves nothing behind. (The kernel means the parent's
*thread*: start a cluster from a thread that lives at least as long as the cluster does.)

It has no nodes of its own; who needs some creates Node objects, which nobody contradicts because there are no kubelets,
and pods bound to them stay Pending.

Also change: tools/controlplane/main.go, tools/controlplane/build_controlplane.py (the programs of the control plane).
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import re
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tools.controlplane import build_controlplane, ports

REPOSITORY = build_controlplane.REPOSITORY
# Another version of Kubernetes than the one that go.mod pins, such as v1.36.3: for tests on several versions.
VERSION = os.environ.get("TRIREME_KUBERNETES", "")
BINARY = build_controlplane.binary_of(VERSION)

CONTROLLERS = ("*", "-node-ipam-controller")
# The kubelet that a Node object promises never reports, so the controllers that act on its silence stay off.
WITHOUT_KUBELETS = (*CONTROLLERS, "-node-lifecycle-controller", "-taint-eviction-controller")

READY_DEADLINE = 60.0
STOP_DEADLINE = 20.0


class ControlPlaneError(Exception):
    """The control plane did not start; the message carries the end of the log that says why."""


class PortTakenError(ControlPlaneError):
    """A port chosen as free was taken before the process listened on it; starting afresh picks others."""


class NotServedError(ControlPlaneError):
    """The version of Kubernetes that was chosen does not have an API or a feature gate that the options name."""


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """Someone the API server knows by a static token; a kubeconfig of the same name is written for each."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("admin", ("system:masters",))


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What kind of control plane to start."""

    authorization: str = "AlwaysAllow"
    """AlwaysAllow, or RBAC with the built-in roles (bound to nobody but system:masters and the system users)."""
    users: tuple[User, ...] = ()
    """Users beside `admin`."""
    feature_gates: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    """For the API server, the controllers and the scheduler alike."""
    runtime_config: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    """API groups to serve or not, such as scheduling.k8s.io/v1beta1."""
    disable_admission: tuple[str, ...] = ("ServiceAccount", "TaintNodesByCondition")
    """ServiceAccount would wait for tokens; TaintNodesByCondition taints each new Node until a kubelet reports."""
    controllers: bool = False
    """Run kube-controller-manager (without the controllers that need kubelets)."""
    scheduler: bool = False
    """Run kube-scheduler with its default configuration."""
    kubelets: bool = False
    """Nodes have kubelets: run the controllers that act on their silence."""
    address: str = "127.0.0.1"
    """Where the API server listens: an address of this machine that its clients reach."""
    port: int = 0
    """The API server's; 0: a free one."""
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """More flags, by program name; where a flag is given twice the program takes the later one, which is this."""


@dataclasses.dataclass(frozen=True, slots=True)
class Child:
    """One running program."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tail(self, lines: int = 15) -> str:
        """The last lines that the program wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def available(binary: Path = BINARY) -> bool:
    """Whether the control plane has been built (`make controlplane`)."""
    return os.access(binary, os.X_OK)


def require_apis(*apis: str) -> None:
    """Check that the chosen version has these APIs, such as `scheduling.k8s.io/v1beta1/podgroups`.

    Raises: NotServedError: naming those that it lacks.
    """
    if absent := lacks(*apis):
        raise NotServedError(f"not served by Kubernetes {VERSION}: {', '.join(absent)}")


def lacks(*apis: str) -> list[str]:
    """Those of the APIs that the chosen version does not have; none of them in the version that go.mod pins."""
    if BINARY == build_controlplane.BINARY:
        return []
    served = build_controlplane.served_resources(BINARY.parent)
    return [api for api in apis if api not in served]


def require_gates(*gates: str) -> None:
    """Check that the chosen version has these feature gates. Raises: NotServedError: naming those that it lacks."""
    if BINARY != build_controlplane.BINARY and gates:
        known = _known_gates()
        if absent := [gate for gate in gates if gate not in known]:
            raise NotServedError(f"no feature gate of Kubernetes {VERSION}: {', '.join(absent)}")


def require_gates_on(*gates: str) -> None:
    """Check that no gate is off by default in the chosen version. Raises: NotServedError: naming those that are."""
    if BINARY != build_controlplane.BINARY and gates:
        known = _known_gates()
        if off := [gate for gate in gates if known.get(gate) == "false"]:
            raise NotServedError(f"off by default in Kubernetes {VERSION}: {', '.join(off)}")


def require_comparable(what: str) -> None:
    """Check that a program of the chosen version is one to compare with; `what` says what is needed.

    Raises: NotServedError: the version is of an earlier minor one, whose programs decide and answer otherwise.
    """
    pinned = build_controlplane.pinned_version()
    minors = [[int(part) for part in text.lstrip("v").split(".")[:2]] for text in (VERSION or pinned, pinned)]
    require(minors[0] >= minors[1], what)


def require(there: bool, what: str) -> None:
    """Check that the chosen version has something else. Raises: NotServedError: naming it."""
    if BINARY != build_controlplane.BINARY and not there:
        raise NotServedError(f"not in Kubernetes {VERSION}: {what}")


@functools.cache
def _known_gates() -> dict[str, str]:
    """The feature gates of the chosen version, those without choice apart, and their defaults."""
    command = [str(BINARY), "kube-apiserver", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"kube:(\w+)=true\|false \(\w+ - default=(\w+)\)", shown))


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """The command, such that the kernel kills it when the thread that started it ends.

    By a program and not by `preexec_fn`: with that, Python forks in a way that runs gRPC's fork handlers where gRPC is
    loaded, and a child may hang in them before it comes to its program. The kernel does not report a parent that ended
    before the program asked for it: then the command is not run.
    """
    exec_if_parent_lives = '[ "$PPID" = "$0" ] && exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", exec_if_parent_lives, str(os.getpid()), *command]


def spawn(name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Child:
    """Starts a program that cannot outlive this process, in a session of its own, its output appended to `log`."""
    with log.open("ab") as output:
        # A session of its own: Ctrl-C at the terminal reaches us alone, and we stop the programs in order.
        process = subprocess.Popen(
            ending_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment} if environment else None,
            start_new_session=True,
        )
    return Child(name, process, log)


def stop(child: Child, deadline: float = STOP_DEADLINE) -> None:
    """Ends a program: SIGTERM, and SIGKILL where that has not helped by the deadline."""
    if child.process.poll() is None:
        child.process.terminate()
        try:
            child.process.wait(deadline)
        except subprocess.TimeoutExpired:
            child.process.kill()
    child.process.wait()


def write_key(path: Path) -> None:
    """A private key for service-account tokens; older PEM form: the API server takes its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    write_private(path, pem)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that is never readable by others, not even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def kubeconfig(server: str, authority: Path, user: str, token: str) -> str:
    """The text of a kubeconfig with one cluster, one user and one context."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "controlplane", "cluster": {"server": server, "certificate-authority": str(authority)}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "controlplane", "context": {"cluster": "controlplane", "user": user}}],
            "current-context": "controlplane",
        },
        sort_keys=False,
    )


def token_lines(tokens: Mapping[User, str]) -> str:
    """The API server's token file: token, user, uid and the quoted list of groups, a user a line."""
    return "".join(f'{token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user, token in tokens.items())


def gate_flags(gates: Mapping[str, bool]) -> list[str]:
    """`--feature-gates` for the given gates; nothing where there are none."""
    if not gates:
        return []
    return ["--feature-gates=" + ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items())]


class ControlPlane:
    """A running control plane, as a context manager: ready on entry, gone (files too) on exit."""

    def __init__(self, options: Options | None = None, *, binary: Path = BINARY, directory: Path | None = None) -> None:
        self.options = options or Options()
        self.binary = binary
        self._given = directory
        self.directory = Path()
        self.server = ""
        self.children: dict[str, Child] = {}
        self._commands: dict[str, list[str]] = {}
        self._tokens: dict[User, str] = {}

    def __enter__(self) -> Self:
        if not available(self.binary):
            raise ControlPlaneError(f"{self.binary} is not built; run `make controlplane` (needs Go)")
        if self.binary == BINARY:
            require_apis(*(name for name, on in self.options.runtime_config.items() if on))
            require_gates(*self.options.feature_gates)
        for attempt in range(3):
            try:
                self._start()
                return self
            except PortTakenError:
                self.close()
                if attempt == 2:
                    raise
            except BaseException:
                self.close()
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops every program, clients before servers, and removes the directory unless the caller gave it."""
        for child in reversed(list(self.children.values())):
            stop(child)
        self.children.clear()
        if self._given is None and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator."""
        return self.kubeconfig_of(ADMIN.name)

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of one of the users that the options name."""
        return self.directory / f"{user}.kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate that clients verify the API server with."""
        return self.directory / "apiserver.crt"

    def token(self, user: str = ADMIN.name) -> str:
        """The bearer token of a user."""
        return next(token for known, token in self._tokens.items() if known.name == user)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Runs kubectl as the administrator and returns what it printed; raises where it failed."""
        command = [str(self.binary), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        outcome = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        if outcome.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {outcome.stderr.strip()}")
        return outcome.stdout

    def create_nodes(self, count: int) -> None:
        """Creates Node objects that are ready, in three zones: `node-0` and so on."""
        resources = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        status = {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        nodes = []
        for number in range(count):
            name = f"node-{number}"
            labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3 + 1}"}
            metadata = {"name": name, "labels": labels}
            nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))

    def start_controllers(self) -> Child:
        """Starts kube-controller-manager, without the controllers that need what is not there."""
        (port,) = ports.free_ports(1)
        return self.start_program(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.directory / 'service-accounts.key'}",
            f"--root-ca-file={self.authority}",
            f"--controllers={','.join(CONTROLLERS if self.options.kubelets else WITHOUT_KUBELETS)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.directory}",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
            *gate_flags(self.options.feature_gates),
        )

    def start_scheduler(self, config: Path | None = None) -> Child:
        """Starts kube-scheduler, by default as the administrator and without leader election."""
        (port,) = ports.free_ports(1)
        chosen = [f"--config={config}"] if config else [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"]
        return self.start_program(
            "kube-scheduler",
            *chosen,
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.directory}",
            *gate_flags(self.options.feature_gates),
        )

    def start_program(self, program: str, *flags: str, binary: Path | None = None) -> Child:
        """Starts one of the binary's programs, or that of another, beside the others; it is stopped with them."""
        command = [str(binary or self.binary), program, *flags, *self.options.extra.get(program, ())]
        self._commands[program] = command
        return self._spawn(program)

    def _spawn(self, program: str) -> Child:
        child = spawn(program, self._commands[program], self.directory / f"{program}.log")
        self.children[program] = child
        return child

    def restart_program(self, program: str, *flags: str) -> Child:
        """Kills a program as kill -9 does, if it runs, and starts it again: with its flags, and these from now on."""
        old = self.children[program].process
        old.kill()
        old.wait()
        self._commands[program] += flags
        return self._spawn(program)

    def stop_program(self, program: str) -> None:
        """Stops one program and leaves the others running."""
        stop(self.children.pop(program))

    def _start(self) -> None:
        self.directory = self._given or Path(tempfile.mkdtemp(prefix="controlplane-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        etcd_client, etcd_peer, free = ports.free_ports(3)
        secure = self.options.port or free
        self.server = f"https://{self.options.address}:{secure}"
        self._write_credentials()
        self._start_etcd(etcd_client, etcd_peer)
        self._start_apiserver(f"http://127.0.0.1:{etcd_client}", secure)
        self._await_path("/readyz", "kube-apiserver")
        # A controller inside the API server makes it shortly after that, and pods need it.
        self._await_path("/api/v1/namespaces/default", "kube-apiserver")
        if self.options.controllers:
            self.start_controllers()
        if self.options.scheduler:
            self.start_scheduler()

    def _write_credentials(self) -> None:
        write_key(self.directory / "service-accounts.key")
        self._tokens = {user: secrets.token_urlsafe(24) for user in (ADMIN, *self.options.users)}
        write_private(self.directory / "tokens.csv", token_lines(self._tokens).encode())
        for user, token in self._tokens.items():
            text = kubeconfig(self.server, self.authority, user.name, token)
            write_private(self.kubeconfig_of(user.name), text.encode())

    def _start_etcd(self, client: int, peer: int) -> None:
        clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.start_program(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",  # the data need not survive a power cut, and the disk is not what is measured
            "--log-level=warn",
            "--quota-backend-bytes=8589934592",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )

    def _start_apiserver(self, etcd: str, port: int) -> None:
        options, key = self.options, self.directory / "service-accounts.key"
        flags = [
            f"--etcd-servers={etcd}",
            f"--bind-address={options.address}",
            f"--secure-port={port}",
            f"--cert-dir={self.directory}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--authorization-mode={options.authorization}",
            # Clients of a test are few and trusted; being throttled would be measured as being slow.
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000",
            *gate_flags(options.feature_gates),
        ]
        if options.disable_admission:
            flags.append(f"--disable-admission-plugins={','.join(options.disable_admission)}")
        if options.runtime_config:
            chosen = ",".join(f"{group}={str(on).lower()}" for group, on in options.runtime_config.items())
            flags.append(f"--runtime-config={chosen}")
        self.start_program("kube-apiserver", *flags)

    def _await_path(self, path: str, program: str) -> None:
        """Asks for `path` until it is answered with 200; raises as soon as a program has died instead."""
        deadline = time.monotonic() + READY_DEADLINE
        while not self._answers(path):
            for child in self.children.values():
                if child.process.poll() is not None:
                    raise _died(child)
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"{program}: {path} not answered within {READY_DEADLINE:.0f} s\n{self.children[program].tail()}"
                )
            time.sleep(0.05)

    def _answers(self, path: str) -> bool:
        if not self.authority.exists():  # the API server writes its own certificate as it starts
            return False
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {self.token()}"})
        try:
            context = ssl.create_default_context(cafile=str(self.authority))
            with urllib.request.urlopen(request, timeout=5, context=context) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _died(child: Child) -> ControlPlaneError:
    tail = child.tail()
    kind = PortTakenError if "address already in use" in tail else ControlPlaneError
    return kind(f"{child.name} ended with exit code {child.process.returncode} while starting\n{tail}")


def parse_pairs(pairs: Sequence[str]) -> dict[str, bool]:
    """`Name=true` and `Name=false` as a mapping; raises SystemExit for anything else."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or value not in ("true", "false"):
            raise SystemExit(f"controlplane: {pair!r} should read NAME=true or NAME=false")
        result[name] = value == "true"
    return result


def parse_user(text: str) -> User:
    """`name` or `name:group,group` as a user."""
    name, _, groups = text.partition(":")
    return User(name, tuple(group for group in groups.split(",") if group))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; what follows `--` is a command to run against the cluster."""
    parser = argparse.ArgumentParser(description="Run a real Kubernetes control plane on loopback ports.")
    parser.add_argument("--directory", type=Path, help="keep all files here (default: a temporary directory)")
    parser.add_argument("--controllers", action="store_true", help="also run kube-controller-manager")
    parser.add_argument("--scheduler", action="store_true", help="also run kube-scheduler")
    parser.add_argument("--nodes", type=int, default=0, help="also create this many Node objects, without kubelets")
    parser.add_argument("--authorization", choices=("AlwaysAllow", "RBAC"), default="AlwaysAllow")
    parser.add_argument("--user", action="append", default=[], type=parse_user, help="NAME or NAME:GROUP,GROUP")
    parser.add_argument("--feature-gate", action="append", default=[], metavar="NAME=true")
    parser.add_argument("--runtime-config", action="append", default=[], metavar="GROUP/VERSION=true")
    parser.add_argument("command", nargs="*", help="a command to run with KUBECONFIG set; its exit code is ours")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs a cluster until Ctrl-C, or for as long as a command takes."""
    chosen = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as on Ctrl-C, files removed
    options = Options(
        authorization=chosen.authorization,
        users=tuple(chosen.user),
        feature_gates=parse_pairs(chosen.feature_gate),
        runtime_config=parse_pairs(chosen.runtime_config),
        controllers=chosen.controllers,
        scheduler=chosen.scheduler,
    )
    try:
        with ControlPlane(options, directory=chosen.directory) as cluster:
            if chosen.nodes:
                cluster.create_nodes(chosen.nodes)
            return serve(cluster, chosen.command)
    except ControlPlaneError as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def serve(cluster: ControlPlane, command: Sequence[str]) -> int:
    """Run the command with KUBECONFIG set, or without one wait for a signal; the exit code."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    if command:
        if command[0] == "kubectl":  # the one that was built with the cluster, installed or not
            command = [str(cluster.binary), *command]
        return subprocess.run(list(command), env=environment, check=False).returncode
    print(f"server      {cluster.server}", f"logs        {cluster.directory}/*.log", sep="\n")
    for user in cluster.options.users:
        print(f"{user.name:<11} {cluster.kubeconfig_of(user.name)}")
    print(f"\nexport KUBECONFIG={cluster.kubeconfig}\n\nCtrl-C stops it.", flush=True)
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)  # one that arrives before the next line is not lost
    signal.sigwait(ending)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
