"""The scheduler as processes, on a cluster whose API a kubeconfig names: what the end-to-end and chaos tests start.

Every service is a real process. Helpers create pods, wait for what should become of them, and check the three promises:
no pod dropped, none bound twice, no node overcommitted.
"""

import asyncio
import collections
import contextlib
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any

import aiohttp
import orjson
import yaml

from tests.e2e import forked_phases, witness
from tools.controlplane import launcher, ports

START_SECONDS = 60.0

OPEN_METRICS = "--authorization-always-allow-paths=/healthz,/livez,/metrics,/readyz"
"""For a scheduler whose metrics a test reads without a token."""

LAST_LINES = 20
"""The end of a log, where a test failed."""

LEASE_SECONDS = 8.0
SHORT_LEASE = {
    "leaderElection": {"leaderElect": True, "leaseDuration": "8s", "renewDeadline": "6s", "retryPeriod": "500ms"}
}
"""For tests that wait for a Lease to run out; a busy machine might lose it, so the others have the usual 15 seconds."""

Json = dict[str, Any]


class Process:
    """One process and its log."""

    def __init__(self, name: str, command: list[str], log: pathlib.Path) -> None:
        self.name = name
        self.command = command
        self.log = log
        self._process: subprocess.Popen[bytes] | forked_phases.ForkedPhase | None = None
        self._began = 0

    @property
    def said(self) -> str:
        """What it has logged since it was started last."""
        return self.log.read_bytes()[self._began :].decode(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it; without an environment it has ours. It does not outlive this process."""
        with self.log.open("ab") as output:
            self._began = output.tell()
            module = _phase_of(self.command)
            if module:
                flags = self.command[len(program(module)) :]
                self._process = forked_phases.start(module, flags, self.log, environment or os.environ)
                return
            self._process = subprocess.Popen(
                launcher.ending_with_parent(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    async def listening(self) -> None:
        """Return once it says that it listens."""
        deadline = time.monotonic() + START_SECONDS
        while "listening on " not in self.said:
            if not self.running or time.monotonic() > deadline:
                raise AssertionError(f"{self.name} does not listen:\n{self.log.read_text()[-2000:]}")
            await asyncio.sleep(0.05)

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def story(self, word: str = "") -> str:
        """Whether it runs, what it logged of `word`, and its last words."""
        assert self._process is not None
        end = self._process.poll()
        lines = self.said.splitlines()
        chosen = [line for line in lines[:-LAST_LINES] if word and word in line] + lines[-LAST_LINES:]
        return "\n".join([f"{self.name} {'runs' if end is None else f'ended with {end}'}:", *chosen])

    def signal(self, number: int) -> None:
        if self.running and self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    async def ended(self, seconds: float = 30.0) -> int:
        """Return its exit code once it has ended by itself, or by a signal sent before."""
        await until(lambda: not self.running, seconds, lambda: f"{self.name} runs on\n{self.said[-3000:]}")
        assert self._process is not None
        return self._process.wait()

    def stop(self) -> int:
        """SIGTERM; answers the exit code."""
        if self._process is None:
            return 0
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def program(module: str) -> list[str]:
    """The command that runs a process's main function."""
    return [sys.executable, "-u", "-c", f"import sys; from {module} import main; sys.exit(main())"]


def _phase_of(command: list[str]) -> str:
    """The module of the phase that the command runs, empty for other programs: a phase can be forked."""
    modules = (f"trireme.{phase}.process" for phase in ("filter", "score", "bind"))
    return next((module for module in modules if command[: len(program(module))] == program(module)), "")


class Installation:
    """Replicas of the phases and one or more frontends."""

    def __init__(
        self,
        folder: pathlib.Path,
        kubeconfig: pathlib.Path,
        url: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.bind_kubeconfig = kubeconfig
        """Bind's way to the API server, where it is not that of all."""
        self.bind_flags: list[str] = []
        self.frontend_flags = [OPEN_METRICS]
        self.url = url
        self.headers = headers
        self.tls = tls
        self.witness: witness.Witness
        self.relayed: dict[str, str] = {}
        """Address of a replica → that of the relay before it."""
        self.services = ""
        """A namespace whose Services trireme-filter, trireme-score and trireme-bind have replicas beside these."""
        self.local = "Auto"
        """How frontends run filter and score where these are not replicas."""
        self.certificates: pathlib.Path | None = None
        """A folder of deploy/make_certificates.py: with it the phases listen on TCP, with mutual TLS."""
        self._addresses: dict[tuple[str, int], str] = {}
        self._ports: dict[Process, int] = {}
        self.phases: dict[str, list[Process]] = {"filter": [], "score": [], "bind": []}
        self.frontends: list[Process] = []
        self.session: aiohttp.ClientSession

    # Processes

    def add_phase(self, phase: str) -> Process:
        """One replica more; to be named in the configuration before the frontend starts."""
        number = len(self.phases[phase])
        extra = self.tls_flags(phase)
        if phase == "bind":
            extra += ["--kubeconfig", str(self.bind_kubeconfig), "--kube-api-qps", "-1", *self.bind_flags]
        command = [*program(f"trireme.{phase}.process"), "--listen", self.socket(phase, number), *extra]
        process = Process(f"{phase}-{number}", command, self.folder / f"{phase}-{number}.log")
        self.phases[phase].append(process)
        return process

    def socket(self, phase: str, number: int) -> str:
        if self.certificates is None:
            return f"unix:{self.folder}/{phase}-{number}.sock"
        if (phase, number) not in self._addresses:
            (port,) = ports.free_ports(1)
            self._addresses[phase, number] = f"127.0.0.1:{port}"
        return self._addresses[phase, number]

    def tls_flags(self, phase: str) -> list[str]:
        """What a phase's process serves with."""
        if self.certificates is None:
            return []
        folder = self.certificates / phase
        return [
            f"--tls-cert-file={folder}/tls.crt",
            f"--tls-private-key-file={folder}/tls.key",
            f"--client-ca-file={folder}/ca.crt",
            "--allowed-identities=spiffe://cluster.local/ns/trireme-system/sa/trireme-frontend",
        ]

    def _phases(self) -> Json:
        out: Json = {"local": self.local}
        for phase, replicas in self.phases.items():
            if replicas:
                out[phase] = {"endpoints": [self._endpoint(phase, number) for number in range(len(replicas))]}
                if self.services:
                    out[phase]["endpoints"].append(f"endpointslice:///{self.services}/trireme-{phase}:grpc")
                if self.certificates is not None:
                    out[phase]["allowedIdentities"] = [f"trireme-{phase}.trireme-system.svc"]
        return out

    def _endpoint(self, phase: str, number: int) -> str:
        """Where frontends find a replica: at its socket, or at the relay before it."""
        address = self.socket(phase, number)
        return self.relayed.get(address, address)

    def add_frontend(
        self, configuration: Mapping[str, Any] | None = None, own: Mapping[str, Any] | None = None
    ) -> Process:
        """One frontend more, for these phases."""
        number = len(self.frontends)
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": True},
            **(configuration or {}),
        }
        own_document = {
            "apiVersion": "trireme.dev/v1alpha1",
            "kind": "TriremeConfiguration",
            "phases": self._phases(),
            **(own or {}),
        }
        if self.certificates is not None:
            folder = self.certificates / "frontend"
            files = {"certFile": f"{folder}/tls.crt", "keyFile": f"{folder}/tls.key", "caFile": f"{folder}/ca.crt"}
            own_document["tls"] = files
        config, own_config = self.folder / f"config-{number}.yaml", self.folder / f"own-{number}.yaml"
        config.write_text(yaml.safe_dump(document))
        own_config.write_text(yaml.safe_dump(own_document))
        command = [*program("trireme.frontend.process"), "--config", str(config), "--trireme-config", str(own_config)]
        (port,) = ports.free_ports(1)
        command += ["--secure-port", str(port), "--bind-address", "127.0.0.1", *self.frontend_flags]
        process = Process(f"frontend-{number}", command, self.folder / f"frontend-{number}.log")
        self.frontends.append(process)
        self._ports[process] = port
        return process

    async def start(self, filters: int = 1, scores: int = 1, binds: int = 1, spare: int = 0, **frontend: Any) -> None:
        """Start everything and return once it schedules.

        `spare` replicas of each phase are named to the frontend but not started.
        """
        for phase, count in (("filter", filters), ("score", scores), ("bind", binds)):
            for _ in range(count):
                self.add_phase(phase).start()
        await asyncio.gather(*(process.listening() for group in self.phases.values() for process in group))
        for phase in self.phases:
            for _ in range(spare):
                self.add_phase(phase)
        self.add_frontend(**frontend).start()
        await self.leads(self.frontends[0])

    async def leads(self, process: Process, seconds: float = START_SECONDS) -> None:
        """Return once the frontend schedules."""
        await self.logged(process, "caches are synced", seconds)

    def port(self, frontend: Process) -> int:
        """Where the frontend serves HTTPS."""
        return self._ports[frontend]

    async def ready(self, process: Process) -> None:
        """Return once the frontend is ready, whether it leads or waits for the Lease."""

        async def answers() -> bool:
            return await self.site(process, "/readyz") == 200

        await until(answers, START_SECONDS, lambda: process.said[-3000:])

    async def site(self, process: Process, path: str, token: str = "") -> int:
        """The status that a frontend's HTTPS server answers; 0: none."""
        return await status_of(self.session, self._ports[process], path, token)

    async def logged(self, process: Process, text: str, seconds: float = START_SECONDS) -> None:
        """Return once the process's log has the text."""
        await until(
            lambda: text in process.said,
            seconds,
            lambda: f"{process.name} did not say {text!r}\n{process.said[-3000:]}",
        )

    def welcomes(self, phase: str, number: int) -> int:
        """How often the first frontend has begun to use a replica."""
        word = "knows epoch" if phase == "bind" else "in step"
        return self.frontends[0].said.count(f"{self._endpoint(phase, number)}: {word}")

    @property
    def _processes(self) -> list[Process]:
        """Frontends first: what they ask for is done before others end."""
        return [*self.frontends, *(one for group in self.phases.values() for one in group)]

    def story(self, word: str = "") -> str:
        """How each process stands, for a test that failed; `word`: what it is about, such as a pod."""
        return "\n".join(process.story(word) for process in self._processes if process.started)

    def stop(self) -> None:
        for process in self._processes:
            process.stop()

    # The API

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type, **self.headers}
        async with self.session.request(
            method, self.url + path, data=data, headers=headers, ssl=self.tls or True
        ) as response:
            text = await response.read()
            assert response.status < 300, f"{method} {path}: {response.status} {text.decode()[:500]}"
            answer: Json = orjson.loads(text)
            return answer

    async def create_pods(self, pods: Iterable[Json], at_once: int = 16) -> None:
        waiting = iter(pods)

        async def create() -> None:
            for pod in waiting:
                await self.request("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)

        await asyncio.gather(*(create() for _ in range(at_once)))

    async def pods(self) -> list[Json]:
        answer = await self.request("GET", "/api/v1/namespaces/default/pods")
        return answer["items"] or []

    async def pod(self, name: str) -> Json:
        return await self.request("GET", f"/api/v1/namespaces/default/pods/{name}")

    async def clear(self) -> None:
        """Delete all pods and their events, and return once they are gone."""
        for path in ("/api/v1/namespaces/default/pods", "/apis/events.k8s.io/v1/namespaces/default/events"):
            await self.request("DELETE", f"{path}?gracePeriodSeconds=0")
        await until(lambda: not self.witness.names, 60, lambda: f"{len(self.witness.names)} pods are left")

    async def nodes(self) -> list[Json]:
        return (await self.request("GET", "/api/v1/nodes"))["items"] or []

    async def add_node(self, name: str, cpu: str = "8", labels: Mapping[str, str] | None = None) -> None:
        """One node more, ready, with its hostname and these as labels."""
        resources = {"cpu": cpu, "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        await self.request("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})

    async def add_priority_class(self, name: str, value: int, **fields: Any) -> None:
        """A priority class that pods can name; a cluster of several tests may have it already.

        Admission learns of it by a watch, and refuses pods that name it until then.
        """
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        if name not in {entry["metadata"]["name"] for entry in (await self.request("GET", classes))["items"] or []}:
            await self.request("POST", classes, {"metadata": {"name": name}, "value": value, **fields})
        trial = orjson.dumps(pod("trial", priorityClassName=name))
        headers = {"Content-Type": "application/json", **self.headers}

        async def admitted() -> bool:
            url = f"{self.url}/api/v1/namespaces/default/pods?dryRun=All"
            async with self.session.post(url, data=trial, headers=headers, ssl=self.tls or True) as response:
                return response.status == 201

        await until(admitted, 20, lambda: f"no pod may name the priority class {name}")

    async def events_of(self, name: str, reason: str) -> list[Json]:
        answer = await self.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        return [e for e in answer["items"] or [] if e["regarding"]["name"] == name and e["reason"] == reason]

    async def reported_events_of(self, name: str, reason: str) -> list[Json]:
        """The events once there is one: what caused it may be seen before the event is written."""

        async def reported() -> bool:
            return bool(await self.events_of(name, reason))

        await until(reported, 20, lambda: f"{name} has no event {reason}\n{self.story()}")
        return await self.events_of(name, reason)

    async def scheduled_events(self) -> dict[str, list[Json]]:
        """The Scheduled events by the uid of their pod."""
        answer = await self.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        told: dict[str, list[Json]] = collections.defaultdict(list)
        for event in answer["items"] or []:
            if event["reason"] == "Scheduled":
                told[event["regarding"]["uid"]].append(event)
        return told

    async def bound(self, count: int, seconds: float = 60.0) -> list[Json]:
        """Return the pods that have a node once there are so many."""

        def story() -> str:
            return f"{self.witness.bound} of {count} pods are bound {self.witness.failure}\n{self.story()}"

        await until(lambda: self.witness.bound >= count, seconds, story)
        return [pod for pod in await self.pods() if pod["spec"].get("nodeName")]

    async def condition(self, name: str, text: str, seconds: float = 20.0) -> Json:
        """Return the pod's PodScheduled condition once its message has the text."""
        found: list[Json] = []

        async def there() -> bool:
            conditions = (await self.pod(name)).get("status", {}).get("conditions") or []
            found[:] = [c for c in conditions if c["type"] == "PodScheduled"]
            return bool(found) and text in found[0].get("message", "")

        await until(there, seconds, lambda: f"the condition of {name} is {found}")
        return found[0]

    async def failure(self, name: str, text: str) -> None:
        """Return once an event FailedScheduling of the pod has this note."""

        async def there() -> bool:
            return any(event["note"] == text for event in await self.events_of(name, "FailedScheduling"))

        await until(there, 20, lambda: f"{name} has no event that it failed: {text}\n{self.story()}")

    async def check_promises(self, names: Iterable[str], excused: Collection[str] = ()) -> None:
        """All these pods are on a node that they fit on, each by one binding with one event.

        A frontend that is killed takes the events with it that it had not sent: the pods (uids) for which that may be
        so are `excused`, and need have none.
        """
        pods = {pod["metadata"]["name"]: pod for pod in await self.pods()}
        missing = [name for name in names if not pods.get(name, {}).get("spec", {}).get("nodeName")]
        assert not missing, f"dropped: {missing[:5]} and {len(missing[5:])} more"
        _check_capacity(pods.values(), await self.nodes())
        uids = {pod["metadata"]["uid"] for pod in pods.values() if pod["spec"].get("nodeName")}
        await until(lambda: uids <= self.witness.node_of.keys(), 10, lambda: self.witness.failure or "the witness lags")
        assert not self.witness.moved, f"bound twice: {self.witness.moved[:5]}"
        told: dict[str, list[Json]] = {}

        async def all_told() -> bool:
            told.clear()
            told.update(await self.scheduled_events())
            return uids <= told.keys() | set(excused)

        def untold() -> str:
            bound_at = sorted(self.witness.bound_at[uid] for uid in uids - told.keys() - set(excused))
            return f"no Scheduled event of {len(bound_at)} pods, bound at {bound_at[:10]} by the monotonic clock"

        await until(all_told, 20, untold)
        often = {uid: found for uid, found in told.items() if len(found) > 1 or found[0].get("series")}
        assert not often, f"reported more than once: {list(often.values())[:2]}"


def _check_capacity(pods: Iterable[Json], nodes: Iterable[Json]) -> None:
    used: collections.Counter[str] = collections.Counter()
    cpu: collections.Counter[str] = collections.Counter()
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        used[node] += 1
        cpu[node] += sum(_milli(c["resources"].get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"])
    for node in nodes:
        name, allocatable = node["metadata"]["name"], node["status"]["allocatable"]
        assert used[name] <= int(allocatable["pods"]), f"{name} has {used[name]} pods"
        assert cpu[name] <= _milli(allocatable["cpu"]), f"{name} has {cpu[name]} m of cpu in use"


def pod(name: str, cpu: str = "100m", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels or {})},
        "spec": {
            "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
            **spec,
        },
    }


async def status_of(session: aiohttp.ClientSession, port: int, path: str, token: str = "") -> int:
    """The status that an HTTPS server on this machine answers; 0: none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        # Its certificate is one of its own making.
        async with session.get(f"https://127.0.0.1:{port}{path}", headers=headers, ssl=False) as response:
            return response.status
    except aiohttp.ClientError:
        return 0


def make_certificates(folder: pathlib.Path) -> pathlib.Path:
    """What `make certs` makes; made again, the certificates are new and the authority is the same."""
    script = launcher.REPOSITORY / "deploy" / "make_certificates.py"
    subprocess.run([sys.executable, str(script), "--directory", str(folder)], check=True, capture_output=True)
    return folder


async def until(true: Callable[[], Any], seconds: float, story: Callable[[], str]) -> None:
    """Return once `true` says so; it may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        answer = true()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {story()}"
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def embedded(folder: pathlib.Path, *flags: str) -> AsyncIterator[Installation]:
    """An installation on an embedded cluster of its own; nothing of the scheduler is started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    cluster = Process(
        "cluster",
        [sys.executable, "-u", "-m", "trireme_kube.embedded", "--kubeconfig", str(kubeconfig), "--faults", *flags],
        folder / "cluster.log",
    )
    cluster.start()
    try:
        await until(lambda: "embedded cluster" in cluster.log.read_text(), START_SECONDS, cluster.log.read_text)
        url = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        installation = Installation(folder, kubeconfig, url, {})
        async with aiohttp.ClientSession() as session:
            installation.session = session
            try:
                yield installation
            finally:
                installation.stop()
    finally:
        cluster.stop()


def _milli(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else int(float(quantity) * 1000)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
