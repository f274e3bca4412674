"""A frontend to serve, made of its real parts without what runs them, and an API server that reviews who may ask."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from aiohttp import web

from tests.contract import kube_fake_server as fake
from tests.helpers.shadow_cluster import CONFIGURED
from tools.controlplane import ports
from trireme.cache import class_registry, cluster_cache, object_waits, pod_projection
from trireme.config import commandline
from trireme.delegated_access import serving_trust
from trireme.frontend import api_server_check, app, scheduler_metrics
from trireme.frontend.phase_clients import class_answers
from trireme.frontend.serving import frontend_state, serving, serving_site
from trireme.frontend.term import Term
from trireme.queueing import pending_pod, pod_info, queued_pod
from trireme.scheduling import (
    assembly,
    in_memory,
    preemption_retries,
    scheduler,
    scheduler_ports,
    scheduler_settings,
)
from trireme.scheduling.ports import Effects
from trireme.v1 import scheduler_status_pb2
from trireme_kube.client.informers.informer import InformerStatistics
from trireme_kube.client.rest import client, credentials
from trireme_kube.componentbase import clocks, supervision
from trireme_kube.componentbase.logs import klog

USERS = {
    "admin": ("admin", ["system:masters"]),
    "nobody": ("system:serviceaccount:default:nobody", ["system:serviceaccounts", "system:authenticated"]),
}
TOKENS = {"admin": "admin-token", "nobody": "nobody-token", "badToken": "not-a-token"}
# What everybody may read in a cluster with its default roles.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/apis", "/openapi", "/version")


class Replicas:
    """Replicas of a phase, without any."""

    def __init__(self) -> None:
        self.links: list[Any] = []

    def statistics(self) -> list[Any]:
        """How each stands."""
        return self.links


class Results:
    """Attempts that failed: none."""

    def last_failure(self, _uid: str) -> str:
        """Why a pod's last attempt failed."""
        return ""

    def refused_placement(self, _uid: str) -> None:
        """Who refused the node that its last attempt had chosen: nobody."""


class Binding:
    """Pods being bound: none."""

    binding_count = 0


class Scheduling:
    """The scheduler's loop, which has come as far as the test says."""

    def __init__(self) -> None:
        self.reached = scheduler.Progress(0, False)

    def progress(self) -> scheduler.Progress:
        """How far it has come."""
        return self.reached


class Preemptions:
    """Preemptions under way, or to be tried again: none."""

    under_way = SimpleNamespace(victims_of=lambda uid: ())
    retries = preemption_retries.PreemptionRetries(lambda times: 0.0, lambda pods: None, clocks.steady)


def _assemble(cache: cluster_cache.ClusterCache, metrics: scheduler_metrics.SchedulerMetrics) -> Any:
    """A scheduler of the default profile that nobody runs."""
    unused: Any = SimpleNamespace(answers=())
    return assembly.assemble(
        scheduler_settings.of_configuration(CONFIGURED.completed),
        scheduler_ports.SchedulerPorts(
            cache=cache,
            waits=object_waits.ObjectWaits(),
            evaluation=scheduler_ports.EvaluationPorts(unused, lambda: 0, None, lambda: True, in_memory.BindingLog()),
            effects=Effects(in_memory.Binder(), in_memory.Events()),
            queue_plugins=in_memory.queue_plugins(),
            observer=metrics,
            clocks=app.CLOCKS,
        ),
    )


@dataclass
class FakeFrontend:
    """What `FrontendSite` reads of a frontend."""

    leading: bool = True
    synced: bool = True
    absent: list[str] = field(default_factory=list)
    lease_seconds: float = 10.0

    def __post_init__(self) -> None:
        self.metrics = scheduler_metrics.SchedulerMetrics()
        self.registry = class_registry.ClassRegistry()
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.answers = class_answers.ClassAnswers()
        self._assembled = _assemble(self.cache, self.metrics)
        self.waiting, self.queue = self._assembled.waiting, self._assembled.queue
        self.handlers = self._assembled.handlers
        self.filters, self.scores, self.binders = Replicas(), Replicas(), Replicas()
        self.insight: Any = None
        self.binding = Binding()
        self.scheduler = Scheduling()
        self.preemptions = Preemptions()
        self.completed: Any = None  # the configuration, once it is served
        self.informers: list[Any] = []
        self.reporter = Results()
        # Calls no remote plugin for the queue.
        self.remote_queue: Any = SimpleNamespace(
            statistics=dict,
            pre_enqueue_calls=SimpleNamespace(held_pods=dict),
            sort_keys=SimpleNamespace(last_failure=lambda uid: None),
        )
        self.plugins: Callable[[], list[scheduler_status_pb2.PluginStatus]] = list
        self.lease, self.holder = "kube-system/kube-scheduler", "other"
        self.catching_up: dict[str, str] = {}
        self.given_up: dict[str, str] = {}
        self.lookups: dict[str, Any] = {}
        self.lease_error = ""

    def place(self, pod: dict[str, Any]) -> None:
        """A pod that is on a node."""
        parsed = pod_projection.parse(pod)
        base = self.registry.intern_base(parsed.base)
        self.cache.set_pod(parsed, self.registry.intern(base, parsed.labels), base)

    def wait(self, pod: dict[str, Any]) -> queued_pod.QueuedPodInfo:
        """A pod that waits for a node."""
        parsed = pod_projection.parse(pod)
        base = self.registry.intern_base(parsed.base)
        pending = pending_pod.PendingPod(parsed, base, self.registry.intern(base, parsed.labels))
        record = pod_info.make_pod_info(
            parsed.key, parsed.uid, pending.class_id, parsed.scheduler_name, parsed.priority, pod=pending
        )
        self.queue.add(record, clocks.steady())
        found = self.queue.contents.get(parsed.key)
        assert found is not None
        return found

    def parts(self) -> frontend_state.FrontendState:
        """What is served is read from this."""
        links = SimpleNamespace(
            filters=self.filters,
            scores=self.scores,
            binders=self.binders,
            insight=self.insight,
            missing=lambda: self.absent,
            followers=lambda: {"filter": self.filters, "score": self.scores},
        )
        membership = SimpleNamespace(missing_plugin=lambda profile: "", is_rejected=lambda name: False)
        scheduling = dataclasses.replace(
            self._assembled,
            reporter=self.reporter,
            binding=self.binding,
            preemptions=self.preemptions,
            scheduler=self.scheduler,
            queue_executor=SimpleNamespace(
                remote=self.remote_queue, pre_enqueue=SimpleNamespace(waits_for=lambda pod: {})
            ),
        )
        parts: Any = (
            SimpleNamespace(
                leader=self,
                metrics=self.metrics,
                membership=membership,
                clocks=app.CLOCKS,
                completed=self.completed,
                settings=SimpleNamespace(config_hash=lambda: 1),
            ),
            SimpleNamespace(registry=self.registry, cache=self.cache),
            SimpleNamespace(
                links=links,
                answers=self.answers,
                # Of filter one of our own stands in.
                is_on_fallback=lambda phase: phase == "filter",
                fallbacks={},
                lookups=self.lookups,
            ),
            scheduling,
            self.informers if self.synced else [_listing("pods"), _listing("nodes", "the API server is slow")],
            SimpleNamespace(statistics=list),
            self.plugins,
        )
        return dataclasses.replace(frontend_state.FrontendState(*parts), lease_error=lambda: self.lease_error)

    @property
    def term(self) -> Term | None:
        """The term of leadership."""
        return Term(7, "me", lambda: self.lease_seconds) if self.leading else None


def informer(name: str, error: str, *, synced: bool, status: int = 0, lists: int = 1) -> SimpleNamespace:
    """An informer whose last request failed."""
    statistics = InformerStatistics(
        name,
        "listing",
        synced,
        lists=lists,
        failures=int(bool(error)),
        last_error=error,
        last_status=status,
        **dict.fromkeys(("version", "pages", "watches", "events", "bookmarks", "expirations", "undecodable"), 0),
    )
    return SimpleNamespace(synced=synced, statistics=lambda: statistics)


def _listing(name: str, error: str = "") -> SimpleNamespace:
    """An informer that has no list yet."""
    return informer(name, error, synced=False)


def unchecked_server() -> api_server_check.ApiServerCheck:
    """The check of an API server that nobody asks."""
    api: Any = None
    return api_server_check.ApiServerCheck(api, clocks.wall)


async def review(_: web.Request, seen: fake.Seen) -> web.StreamResponse:
    """An API server that knows the users and the default roles."""
    if seen.path.endswith("tokenreviews"):
        token = seen.json["spec"]["token"]
        known = next((USERS[user] for user, text in TOKENS.items() if text == token and user in USERS), None)
        if known is None:
            return fake.answer({"status": {"authenticated": False}}, 201)
        return fake.answer({"status": {"authenticated": True, "user": {"username": known[0], "groups": known[1]}}}, 201)
    if seen.path.endswith("subjectaccessreviews"):
        spec = seen.json["spec"]
        path = spec["nonResourceAttributes"]["path"]
        discovers = "system:authenticated" in spec.get("groups", ()) and path in _DISCOVERY
        return fake.answer({"status": {"allowed": path in _PUBLIC or discovers}}, 201)
    return fake.failure(404, "NotFound")


def pod(name: str, node: str = "", **spec: Any) -> dict[str, Any]:
    """A pod as the API has it."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": 0,
            "containers": [container],
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }


@dataclass
class Served:
    """A site that is served, and where."""

    port: int
    folder: Path
    kubeconfig: Path
    frontend: FakeFrontend
    site: serving_site.FrontendSite
    api: fake.FakeServer


def kubeconfig_for(url: str) -> str:
    """A kubeconfig without credentials."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
        }
    )


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    frontend: FakeFrontend,
    *flags: str,
    reviews: bool = True,
    document: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
    api: fake.Script = review,
) -> AsyncIterator[Served]:
    """Serve the frontend as a command line with these flags does; `document` is its configuration, `own` Trireme's."""
    async with fake.serving(api) as api_server:
        kubeconfig, config, (port,) = folder / "kubeconfig", folder / "A.yaml", ports.free_ports(1)
        kubeconfig.write_text(kubeconfig_for(api_server.url))
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        connection = {"clientConnection": {"kubeconfig": str(kubeconfig)}}
        config.write_text(yaml.safe_dump({**head, **connection, **(document or {})}))
        arguments = [f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}", "-v=2", *flags]
        if reviews:
            arguments += [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
        if own is not None:
            own_file = folder / "trireme.yaml"
            own_head = {"apiVersion": "trireme.dev/v1alpha1", "kind": "TriremeConfiguration"}
            own_file.write_text(yaml.safe_dump({**own_head, **own}))
            arguments.append(f"--trireme-config={own_file}")
        errors = StringIO()
        start = commandline.Start(
            arguments,
            {"PATH": "", "HOME": str(folder)},
            StringIO(),
            errors,
            lambda line: None,
            lookup=serving_trust.read_authentication_settings,
        )
        outcome = await asyncio.to_thread(start.run)  # it has a loop of its own while it looks up
        assert outcome.completed is not None, outcome
        before = klog.LogOptions()
        try:
            frontend.completed = outcome.completed
            settings = client.ClientSettings(credentials.Source(str(kubeconfig)))
            async with (
                await client.connect(settings) as reader,
                serving.serve(outcome.completed, frontend.parts(), reader, supervision.Supervisor()) as site,
            ):
                yield Served(port, folder, kubeconfig, frontend, site, api_server)
        finally:
            klog.set_verbosity(before.verbosity)
