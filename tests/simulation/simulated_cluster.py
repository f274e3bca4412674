"""A cluster of simulated processes: an API server, frontends, and replicas of filter, score and bind.

Each runs what its program runs (`running.run`, `grpc_server.serve_until_stopped`), configured by flags and a file. What
the API server stores survives it, as etcd does. A process that ends is started again, as a kubelet would.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import pathlib
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.simulation import simulated_configuration, simulated_plugin
from tests.simulation.lagging_watch_cache import LaggingWatchCache
from tests.simulation.simulated_certificates import Certificates
from tests.simulation.simulated_configuration import ConfigurationFiles, Documents
from tests.simulation.simulated_plugin import RemotePlugin
from tests.simulation.simulated_process import Process, State
from tests.simulation.virtual_loop import VirtualLoop
from trireme.bind import flags as bind_flags
from trireme.bind import process as bind_process
from trireme.config import commandline, trireme_configuration
from trireme.filter import process as filter_process
from trireme.frontend import early_lists, running
from trireme.frontend.phase_clients import local_phases
from trireme.phases import phase_process, process_flags
from trireme.rpc import grpc_server, listen_flags
from trireme.score import process as score_process
from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import BY_KEY, NAMESPACES, PODS, Object
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.controllers.deployments import REPLICA_SETS
from trireme_kube.embedded.controllers.disruption import DisruptionController
from trireme_kube.embedded.controllers.garbage_collector import GarbageCollector
from trireme_kube.embedded.controllers.owner_index import OwnerIndex
from trireme_kube.embedded.controllers.persistent_volumes import PersistentVolumeController
from trireme_kube.embedded.controllers.replica_sets import ReplicaSetController
from trireme_kube.embedded.controllers.resource_claims import ResourceClaimController
from trireme_kube.embedded.controllers.resource_quotas import ResourceQuotaController
from trireme_kube.embedded.endpoints.server import ApiServer
from trireme_kube.embedded.kubelet.kubelets import KubeletPace, Kubelets
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Store

log = logging.getLogger(__name__)

API_HOST, API_PORT = "127.9.0.1", 6443
_HOSTS = {"frontend": "127.1.0.{}", "filter": "127.2.0.{}", "score": "127.3.0.{}", "bind": "127.4.0.{}"}
_PORT = 7000
# Where the endpoints of the phases are listed.
_NAMESPACE = "kube-system"
_SLICES = BY_KEY["endpointslices.discovery.k8s.io"]
_FLAGS = ("--feature-gates=GenericWorkload=true",)
_PLUGIN_HOSTS = ("127.5.0.1", "127.5.0.2")
_INSIGHT_HOST = "127.6.0.1"
_POLICY = {"deadline": "2s", "failurePolicy": "Fail", "circuitBreaker": {"failures": 5, "openFor": "5s"}}
# In place of the frontends' second file; None: what a simulation has.
_SCHEDULER_CONFIGURATION: Object | None = None
# How long a process that has ended is down. Units: seconds.
RESTART_SECONDS = (0.5, 5.0)

Main = Callable[[], Awaitable[Any]]


class SupervisedProcess:
    """A process of the cluster that is started again whenever it has ended; `current` is the one that runs."""

    def __init__(self, cluster: Cluster, name: str, host: str, main: Callable[[Process], Any]) -> None:
        self._cluster = cluster
        self.name = name
        self.host = host
        self._main = main
        self.current: Process | None = None
        self._task: asyncio.Task[Any] | None = None
        self.starts = 0

    @property
    def running(self) -> bool:
        """Whether there is a process, and it is not paused."""
        return self.current is not None and self.current.state is State.RUNNING

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.current is not None:
            return
        self.starts += 1
        loop = self._cluster.loop
        process = self.current = loop.process(self.name, self.host)
        self._cluster.note(f"start {self.name}")
        # Kept, for the loop refers to a task that waits only weakly.
        self._task = process.start(loop, lambda: self._main(process))
        self._task.add_done_callback(lambda ended: self._on_end(process, ended), context=self._cluster.context)

    def kill(self) -> None:
        """End it as SIGKILL does, and start it again in a while."""
        if self.current is not None:
            self._cluster.note(f"kill {self.name}")
            process, self.current = self.current, None
            self._cluster.loop.kill(process)
            self._start_later()

    def pause(self) -> None:
        """Stop it as SIGSTOP does."""
        if self.current is not None and self.current.state is State.RUNNING:
            self._cluster.note(f"pause {self.name}")
            self._cluster.loop.pause(self.current)

    def resume(self) -> None:
        """Let it continue."""
        if self.current is not None and self.current.state is State.PAUSED:
            self._cluster.note(f"resume {self.name}")
            self._cluster.loop.resume(self.current)

    def _on_end(self, process: Process, task: asyncio.Task[Any]) -> None:
        if self.current is not process:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s ended with an exception", self.name, exc_info=error)
            self._cluster.failures.append(f"{self.name} ended with {error!r}")
        self._cluster.note(f"end {self.name} {'cancelled' if task.cancelled() else error or task.result()}")
        self.current = None
        self._cluster.loop.kill(process)  # whatever it left behind
        self._start_later()

    def _start_later(self) -> None:
        loop = self._cluster.loop
        delay = self._cluster.random.uniform(*RESTART_SECONDS)
        loop.call_at_simulated(loop.now + delay, self.start, context=self._cluster.context)


class Cluster:
    """All processes. `note` takes a line for the trace."""

    def __init__(self, loop: VirtualLoop, folder: pathlib.Path, seed: int, note: Callable[[str], None]) -> None:
        """`folder` is for the frontends' configuration files."""
        self.loop = loop
        self.note = note
        self.context = contextvars.copy_context()
        self.random = random.Random(f"cluster {seed}")
        self.failures: list[str] = []
        self._folder = folder
        self.store = Store()
        clock_and_ids = ClockAndIds(random=random.Random(f"names {seed}"))
        self.registry = Registry(self.store, clock_and_ids, ResourceCatalog(optional=True))
        #: Whether lists are answered from the past.
        self.watch_cache = LaggingWatchCache(self.store, self.random)
        self._api: ApiServer | None = None
        self.processes: dict[str, SupervisedProcess] = {}
        #: The hosts of each phase's replicas; some may not be listed as endpoints for a while.
        self.hosts: dict[str, list[str]] = {}
        self._unlisted: set[str] = set()
        self._insight = False
        #: The remote plugins that have run, by process.
        self.plugins: dict[str, RemotePlugin] = {}
        self.certificates = Certificates(folder / "certificates")
        #: The frontends' files, and what is in them outside of storms.
        self.configurations: dict[str, ConfigurationFiles] = {}
        self.base: Documents
        self._final: set[str] = set()  # names of frontends
        self._add("apiserver", API_HOST, self._run_api_server)

    @property
    def api(self) -> ApiServer:
        """The API server, which may be the last one that ran."""
        assert self._api is not None
        return self._api

    @property
    def url(self) -> str:
        """The API server's."""
        return f"http://{API_HOST}:{API_PORT}"

    def build(
        self,
        frontends: int,
        filters: int,
        scores: int,
        binds: int,
        insight: phase_process.Phase[Any] | None = None,
        *,
        second_plugin: bool = False,
        plugins: bool = True,
        flags_of_bind: Sequence[str] = (),
    ) -> None:
        """Define the processes; `start` starts them.

        Without a filter or a score each frontend has its own, in its process. `second_plugin`: whether that runs.
        `plugins`: whether the profiles have remote plugins. `flags_of_bind`: more flags of each of its replicas.
        """
        counts = {"filter": filters, "score": scores, "bind": binds}
        self.hosts = {
            phase: [_HOSTS[phase].format(number + 1) for number in range(count)]
            for phase, count in counts.items()
            if count
        }
        for phase in (filter_process.PHASE, score_process.PHASE):
            for number in range(counts[phase.name]):
                self._add_phase(phase, number)
        for number in range(binds):
            self._add_bind(number, flags_of_bind)
        if insight is not None:
            self._insight = True
            self._add_follower(insight, f"{insight.name}-0", _INSIGHT_HOST)
        self._add_plugin(simulated_plugin.ClosedNodes, 0)
        if second_plugin:
            self._add_plugin(simulated_plugin.ReservedNodes, 1)
        for number in range(frontends):
            self._add_frontend(number)
        self.base = self._base_documents(plugins=plugins)
        self.configure(self.base)

    async def start(self) -> None:
        """Create what every cluster has, and start all processes."""
        for name in ("default", "kube-system", "kube-node-lease"):
            self.registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
            self.registry.create(
                BY_KEY["priorityclasses.scheduling.k8s.io"], "", {"metadata": {"name": name}, "value": value}
            )
        for phase in self.hosts:
            labels = {"kubernetes.io/service-name": phase}
            body = {"metadata": {"name": phase, "labels": labels}, "addressType": "IPv4", **self._endpoints(phase)}
            self.registry.create(_SLICES, _NAMESPACE, body)
        self._start_controllers()
        for process in self.processes.values():
            process.start()

    def _start_controllers(self) -> None:
        """Start the kubelets, and the controllers of the load and of what schedulers read. They have no faults."""
        monotonic = self.loop.time
        kubelets = Kubelets(self.registry, KubeletPace(), monotonic)
        controllers = (
            DisruptionController(self.registry, monotonic),
            GarbageCollector(self.registry, monotonic),
            ResourceClaimController(self.registry, monotonic),
            PersistentVolumeController(self.registry, monotonic),
            ReplicaSetController(self.registry, REPLICA_SETS, OwnerIndex(self.store, PODS), monotonic),
            ResourceQuotaController(self.registry, monotonic),
        )
        queues = [queue for controller in controllers for queue in controller.queues]
        # Not `kubelets.run`: nothing here depends on the nodes' Leases, and renewing them takes time.
        self._controllers = [self.loop.create_task(each.run()) for each in (*kubelets.queues, *queues)]

    def set_listed(self, phase: str, host: str, listed: bool) -> None:
        """List a replica among the endpoints of its phase, or not."""
        (self._unlisted.discard if listed else self._unlisted.add)(host)
        record = self.store.get(_SLICES, _NAMESPACE, phase)
        assert record is not None
        self.registry.update_fields(_SLICES, record, **self._endpoints(phase))

    def _endpoints(self, phase: str) -> Object:
        listed = [host for host in self.hosts[phase] if host not in self._unlisted]
        return {"endpoints": [{"addresses": [host]} for host in listed], "ports": [{"port": _PORT}]}

    def latest_wall(self) -> float:
        """The wall clock of the process whose clock is set furthest ahead. Units: Unix seconds."""
        running = (process.current for process in self.processes.values() if process.current is not None)
        return max((process.wall(self.loop.now) for process in running), default=0.0)

    def kind(self, prefix: str) -> list[SupervisedProcess]:
        """The processes of one kind."""
        return [process for name, process in self.processes.items() if name.startswith(prefix)]

    def _add(self, name: str, host: str, main: Callable[[Process], Any]) -> None:
        self.processes[name] = SupervisedProcess(self, name, host, main)

    def _add_phase(self, phase: phase_process.Phase[Any], number: int) -> None:
        self._add_follower(phase, f"{phase.name}-{number}", _HOSTS[phase.name].format(number + 1))

    def _add_follower(self, phase: phase_process.Phase[Any], name: str, host: str) -> None:
        files = self.certificates.holder(name, phase.name).settings
        flags = process_flags.ProcessFlags(listen=f"{host}:{_PORT}")
        own = None if phase.extension is None else phase.extension.flags()
        listener = listen_flags.make_listener(
            flags.listen,
            certificate=files["certFile"],
            private_key=files["keyFile"],
            client_ca=files["caFile"],
            identities=("frontend",),
        )

        def main(process: Process) -> Any:
            return _until_stopped(
                grpc_server.serve_until_stopped(
                    listener, lambda supervisor: phase_process.open_services(phase, flags, own, supervisor)
                )
            )

        self._add(name, host, main)

    def _add_bind(self, number: int, more: Sequence[str]) -> None:
        host = _HOSTS["bind"].format(number + 1)
        tls = self.certificates.holder(f"bind-{number}", "bind").flags
        address = (f"--listen={host}:{_PORT}", f"--master={self.url}")
        options = bind_flags.parse([*address, *tls, "--allowed-identities=frontend", *more])

        def main(process: Process) -> Any:
            return _until_stopped(
                grpc_server.serve_until_stopped(
                    options.listener, lambda supervisor: bind_process.lifespan(options, supervisor)
                )
            )

        self._add(f"bind-{number}", host, main)

    def _add_frontend(self, number: int) -> None:
        """They learn from EndpointSlices which replicas there are."""
        name, host = f"frontend-{number}", _HOSTS["frontend"].format(number + 1)
        files = ConfigurationFiles(self._folder / name, self.certificates.holder(name, "frontend").settings)
        self.configurations[name] = files
        arguments = [
            f"--master={self.url}",
            "--secure-port=0",
            f"--trireme-config={files.own}",
            f"--config={files.scheduler}",
            *_FLAGS,
        ]

        def main(process: Process) -> Any:
            (self._final.add if files.is_final else self._final.discard)(name)
            return _run_frontend(arguments, process)

        self._add(name, host, main)

    def configure(self, documents: Documents) -> None:
        """Give all frontends this configuration, and start those again that take no other one otherwise."""
        for name, files in self.configurations.items():
            files.write_own(documents, self.loop.now)
            files.write_scheduler(documents, self.loop.now)
            if name in self._final:
                self.processes[name].kill()

    def second_plugin(self) -> Object:
        """How the plugin is reached that only some configurations have."""
        return self._remote_plugin(simulated_plugin.ReservedNodes, 1)

    def _remote_plugin(self, kind: type[RemotePlugin], number: int) -> Object:
        identity = f"plugin-{number}"
        tls = {**self.certificates.holder("callers", "caller").settings, "allowedIdentities": [identity]}
        return {
            "name": kind.NAME,
            "address": f"{_PLUGIN_HOSTS[number]}:{_PORT}",
            "extensionPoints": ["filter"],
            "tls": tls,
            **_POLICY,
        }

    def _base_documents(self, *, plugins: bool) -> Documents:
        phases: Object = {"local": trireme_configuration.IN_PROCESS}
        for phase in self.hosts:
            endpoint = f"endpointslice:///{_NAMESPACE}/{phase}:{_PORT}"
            phases[phase] = {"endpoints": [endpoint], "allowedIdentities": [phase]}
        closed = self._remote_plugin(simulated_plugin.ClosedNodes, 0) if plugins else None
        found = simulated_configuration.base(phases, closed, _SCHEDULER_CONFIGURATION)
        if self._insight:
            found.own["insight"] = {"endpoints": [f"{_INSIGHT_HOST}:{_PORT}"], "allowedIdentities": ["insight"]}
        return found

    def _add_plugin(self, kind: type[RemotePlugin], number: int) -> None:
        name, host = f"plugin-{number}", _PLUGIN_HOSTS[number]
        files = self.certificates.holder(name, name).settings
        listener = listen_flags.make_listener(
            f"{host}:{_PORT}",
            certificate=files["certFile"],
            private_key=files["keyFile"],
            client_ca=files["caFile"],
            identities=("caller",),
        )

        async def main(process: Process) -> int:
            plugin = self.plugins[name] = kind(self.random, str(self.processes[name].starts))
            return await _until_stopped(simulated_plugin.run(plugin, listener))

        self._add(name, host, main)

    async def _run_api_server(self, process: Process) -> None:
        if self._api is not None:  # it was killed: its watches still get events
            for watcher in self._api._watchers:
                watcher.stop()
        self._api = ApiServer(self.registry)
        await self._api.start(API_HOST, API_PORT)
        await asyncio.Event().wait()


async def _until_stopped(serving: Awaitable[int]) -> int:
    """The exit code of a server; as its program does, end with 1 where a file cannot be used at the start."""
    try:
        return await serving
    except listen_flags.ListenError as error:
        log.warning("%s", error)
        return 1


class _Signal:
    """As stop_signal.StopSignal and reload_signal.ReloadSignal, without signal handlers."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def call_on_stop(self, action: Callable[[], object]) -> None:
        """Call `action` when the process gets SIGTERM."""
        self._process.signal_handlers[signal.SIGTERM] = action

    def call_on_reload(self, action: Callable[[], object]) -> None:
        """Call `action` when the process gets SIGHUP."""
        self._process.signal_handlers[signal.SIGHUP] = action


async def _run_frontend(arguments: Sequence[str], process: Process) -> int:
    """Start with the files as they are now, and run; returns the exit code, 1 if they are refused."""
    found: list[commandline.CompletedConfig] = []
    code = commandline.run(
        arguments, environment={}, build=lambda completed: found.append(completed) or 0, log=log.info
    )
    if not found:
        return code
    told: Any = _Signal(process)
    async with early_lists.request_lists(found[0]) as early:
        local = local_phases.phases_of_configuration(found[0], None)
        return await running.run(found[0], early, local, told, told)
