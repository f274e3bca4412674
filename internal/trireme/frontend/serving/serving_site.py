"""The pages that the frontend serves on every listener.

Health, metrics, configuration, flags and profiles as in kube-scheduler; and Trireme's own status and explanations.

Source: cmd/kube-scheduler/app/server.go.

Also change: internal/trireme_kube/componentbase/server/plain_server.py (pages and where answers say no).
Also change: docs/security.md.
Also change: internal/trireme/config/serving_flags.py,
internal/trireme_kube/componentbase/server/health.py (the health paths).

Tests: tests/contract/test_serving_gates.py, tests/contract/test_serving_metrics.py,
tests/contract/test_serving_http.py.
"""

import asyncio
import json
import os
import platform
import time
from collections.abc import Callable, Mapping

from google.protobuf.message import Message

from trireme.config import command_flags, commandline
from trireme.framework import programs
from trireme.frontend import api_server_check, plugin_calls
from trireme.frontend.phase_clients import insight_replicas
from trireme.frontend.serving import (
    certificates_to_watch,
    explanation,
    liveness,
    metrics_collector,
    metrics_resources,
    plugin_metrics,
    readiness,
    scheduler_explanation,
    scheduler_status,
    simulation_relay,
    unknown_pod,
)
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.rpc import http_status
from trireme.wire import json_documents
from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.yaml_writer import write_yaml
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.componentbase import clocks, event_loop
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.metrics import exposition, process_metrics
from trireme_kube.componentbase.metrics.instruments import ALPHA, BETA, CountedElsewhere, Registry
from trireme_kube.componentbase.server import access_metrics, health, http_site, profiling, status_documents
from trireme_kube.componentbase.server.http_site import Page, Reply, Request
from trireme_kube.componentbase.tls import certificate_expiry

PROGRAM = "kube-scheduler"
# The scheduler finishes what it has begun after the lease's time; if it is still here so long after, something hangs.
_LEASE_TOLERANCE_SECONDS = 20.0
FLAGZ_GATE = "ComponentFlagz"
STATUSZ_GATE = "ComponentStatusz"

_PATHS = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")


class FrontendSite:
    """The frontend's pages and their checks, the same for every listener."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        state: FrontendState,
        api_server: api_server_check.ApiServerCheck,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._completed = completed
        self._served = state
        self._readiness = readiness.Readiness(state, api_server)
        self._started = process_metrics.start_time()
        self._ending = False
        self._clock = clock
        # Since when no valid lease has been seen although we lead.
        self._expired_since: float | None = None
        self.event_loop = event_loop.EventLoopMetrics()
        self.expiries = certificate_expiry.Expiries(list(certificates_to_watch.certificates_of(completed, os.environ)))
        self.access = access_metrics.MeasuredGuard()
        options = completed.options.metrics
        allowed = {
            (name.partition(",")[0], name.partition(",")[2]): frozenset(values.split(","))
            for name, values in options.labels().items()
        }
        self._liveness = liveness.Liveness(state.scheduling.scheduler, liveness.limit_seconds(completed), clock)
        checks = self._checks()
        self._health = health.Health(checks, {"readyz": self._plugin_notes})
        self._readiness_checks = checks["readyz"]
        self.health_log = health.HealthLog(self._readiness_checks)
        self._registry = Registry(options.disabled, allowed, options.hidden)
        self._registry.add(
            *state.context.metrics.instruments.all(),
            *metrics_collector.instruments(state, completed),
            *plugin_metrics.instruments(state),
            *process_metrics.instruments(),
            *self.access.instruments(),
            *self.event_loop.instruments(),
            *self.expiries.instruments,
            self._readiness.clock_instrument,
        )
        self._registry.add(
            CountedElsewhere(
                "registered_metrics_total",
                "Metrics that are registered, by stability level.",
                lambda: metrics_collector.by_stability(self._registry),
                ("stability_level", "deprecated_version"),
                BETA,
            ),
            CountedElsewhere(
                "disabled_metrics_total",
                "Metrics that are disabled by a flag.",
                lambda: {(): self._registry.disabled_count()},
                stability=BETA,
            ),
            CountedElsewhere(
                "hidden_metrics_total",
                "Metrics that are hidden because they are deprecated.",
                lambda: {(): self._registry.hidden_count()},
                stability=BETA,
            ),
        )
        self._slis = Registry(options.disabled, allowed)
        self._slis.add(*self._health.instruments(), process_metrics.start_time_metric(ALPHA))
        self.site = http_site.Site(self._pages())

    def registries(self) -> tuple[Registry, Registry]:
        """The metrics, and those of health alone."""
        return self._registry, self._slis

    def begin_shutdown(self) -> None:
        """The process is ending: report not ready from now on."""
        self._ending = True

    # Health

    def _checks(self) -> Mapping[str, list[health.Check]]:
        """The checks of /healthz, /livez and /readyz; quiet ones show only if they fail or warn."""
        elects = self._completed.configuration.leader_election.leader_elect
        lease_warning = self._readiness.lease_warning
        election = [health.Check("leaderElection", self._election_problem, warning=lease_warning)] if elects else []
        coordinated = elects and self._completed.gates.enabled(lease_candidate.GATE)
        return {
            "healthz": election or [health.PING],
            "livez": [health.PING, health.Check("scheduling", self._liveness.problem, quiet=True)],
            "readyz": [
                *election,
                health.Check("shutdown", lambda: "process is shutting down" if self._ending else ""),
                *self._readiness.checks(coordinated=coordinated),
            ],
        }

    def _plugin_notes(self) -> list[str]:
        return [plugin_calls.one_line(plugin) for plugin in self._served.plugins()]

    def _election_problem(self) -> str:
        """The problem of a leader whose Lease has expired for a while; empty: none."""
        term = self._served.context.leader.term
        if term is None or term.remaining_seconds() > 0:
            self._expired_since = None
            return ""
        if self._expired_since is None:
            self._expired_since = self._clock()
        if self._clock() - self._expired_since < _LEASE_TOLERANCE_SECONDS:
            return ""
        name = self._completed.configuration.leader_election.resource_name
        return f"failed election to renew leadership on lease {name}"

    # Pages

    def _pages(self) -> dict[str, Page]:
        """The pages by path; `/*` at the end stands for everything below."""
        pages: dict[str, Page] = {
            "/metrics": self._metrics_reply,
            "/metrics/slis": self._service_levels_reply,
            "/metrics/resources": self._resources_reply,
            "/configz": self._configz_reply,
            programs.STATUS_PATH: self._status_reply,
            programs.EXPLAIN_PATH: self._explain_reply,
            programs.SIMULATE_PATH: self._simulate_reply,
        }
        if self._completed.gates.enabled(FLAGZ_GATE):
            pages["/flagz"] = self._negotiated_page(self._flagz_page())
        if self._completed.gates.enabled(STATUSZ_GATE):
            pages["/statusz"] = self._negotiated_page(self._statusz_page())
        for path in self._health.paths():
            pages[path] = pages[f"{path}/*"] = self._health_page
        if self._completed.configuration.enable_profiling:
            pages |= profiling.pages()
            pages |= {
                "/debug/flags": _debug_flags_reply,
                "/debug/flags/*": _debug_flags_reply,
                "/debug/flags/v": self._set_verbosity,
            }
        return pages

    async def _health_page(self, request: Request) -> Reply | None:
        """The page of all checks, or of one; None: there is no such page."""
        report = self._health.report(request.path, request.query)
        if report is None:
            return None
        if report.single and report.healthy:
            return Reply(report.text.encode())
        return http_site.text(report.text, 200 if report.healthy else 500)

    async def _metrics_reply(self, request: Request) -> Reply:
        """The page /metrics; DELETE resets the metrics."""
        if request.method == "DELETE":
            self._registry.reset()
            return Reply(b"metrics reset\n")
        return self._exposition_reply(exposition.answer(self._registry.families(), request.headers))

    async def _service_levels_reply(self, request: Request) -> Reply:
        """The page /metrics/slis, the metrics of health; DELETE resets them."""
        if request.method == "DELETE":
            self._slis.reset()
            return Reply(b"metrics reset\n")
        return self._exposition_reply(exposition.answer(self._slis.families(), request.headers))

    async def _resources_reply(self, request: Request) -> Reply:
        """The page /metrics/resources; empty while we do not lead."""
        if not self._served.context.leader.leading:
            return Reply(b"")
        families = metrics_resources.families(self._served.cluster.cache, self._served.scheduling.queue)
        return self._exposition_reply(exposition.answer(families, request.headers))

    def _exposition_reply(self, answer: exposition.Answer) -> Reply:
        """Metrics in the form that was negotiated, with the header of the process's start."""
        headers = {"Process-Start-Time-Unix": str(int(self._started))}
        if answer.content_encoding:
            headers["Content-Encoding"] = answer.content_encoding
        return Reply(answer.body, answer.content_type, headers=headers)

    async def _configz_reply(self, _: Request) -> Reply:
        """The page /configz, without secrets."""
        document = {"componentconfig": commandline.without_secrets(self._served.completed.document())}
        return Reply.of(status_documents.Document(200, http_site.JSON, golang.json_text(document)), sniff=False)

    def _negotiated_page(self, page: status_documents.Page) -> Page:
        """A status page in the form that the request accepts."""

        async def reply_in_accepted_form(request: Request) -> Reply:
            return Reply.of(page.answer(request.headers.get("Accept", ""), write_yaml))

        return reply_in_accepted_form

    def _flagz_page(self) -> status_documents.Page:
        """The page /flagz: the flags with their values; ours only if they were given."""
        parsed = self._completed.options.parsed
        values = {
            flag.name: flag.type.show(parsed[flag.name])
            for flag in sorted(command_flags.flag_set().flags(), key=lambda flag: flag.name)
            if not flag.own or flag.name in parsed.given
        }
        return status_documents.Page(PROGRAM, "flagz", "Flagz", lambda: values, lambda: {"flags": values})

    def _statusz_page(self) -> status_documents.Page:
        """The page /statusz, as text and as data."""
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started))
        binary = versions.KUBERNETES.removeprefix("v")
        emulated = ".".join(map(str, self._completed.gates.effective.emulated))
        runtime = f"python{platform.python_version()}"

        paths = [path for path in _PATHS if path != "/flagz" or self._completed.gates.enabled(FLAGZ_GATE)]

        def uptime_seconds() -> int:
            return int(clocks.steady() - self._started)

        return status_documents.Page(
            PROGRAM,
            "statusz",
            "Statusz",
            lambda: {
                "Started": time.strftime("%a %b %e %H:%M:%S %Z %Y", time.localtime(self._started)),
                "Up": status_documents.uptime(uptime_seconds()),
                "Go version": runtime,
                "Binary version": binary,
                "Emulation version": emulated,
                "Paths": " ".join(paths),
            },
            lambda: {
                "startTime": started,
                "uptimeSeconds": uptime_seconds(),
                "goVersion": runtime,
                "binaryVersion": binary,
                "emulationVersion": emulated,
                "paths": paths,
            },
            gap="\n",
            space=" ",
        )

    async def _set_verbosity(self, request: Request) -> Reply:
        """Handle PUT /debug/flags/v: set the verbosity of the log."""
        if request.method != "PUT":
            return http_site.text("unsupported http method\n", 406, "text/plain")
        level = request.body.decode("utf-8", "replace").strip()
        if not level.isascii() or not level.isdigit():
            refusal = f"strconv.ParseUint: parsing {json.dumps(level)}: invalid syntax\n"
            return http_site.text(refusal, 400, "text/plain")
        klog.set_verbosity(int(level))
        return http_site.text(f"successfully set klog.logging.verbosity to {level}\n", 200, "text/plain")

    async def _status_reply(self, request: Request) -> Reply:
        """What `trireme status` shows; `?pods=` limits the pending pods."""
        try:
            pods = int(request.query.get("pods", [str(scheduler_status.MAX_PODS)])[0])
        except ValueError:
            return http_site.text("pods must be a number\n", 400)
        status = scheduler_status.status(self._served, pods)
        status.readiness_problems.extend(readiness.problems(self._readiness_checks))
        return _json_reply(json_documents.document(status))

    async def _explain_reply(self, request: Request) -> Reply:
        """The explanation of a pod, an ExplainResponse."""
        key = request.query.get("pod", [""])[0]
        if not key:
            return http_site.text("missing query parameter: pod=namespace/name\n", 400)
        own = scheduler_explanation.explain(self._served, key)
        if own is None:
            return http_site.text(f"{unknown_pod.text(self._served, key)}\n", 404 if self._served.synced else 503)
        extenders = [extender.url_prefix for extender in self._completed.configuration.extenders]
        try:
            found = await explanation.with_insight(own, request.query, self._served.phases.links.insight, extenders)
        except explanation.BadQuery as error:
            return http_site.text(f"{error}\n", 400)
        return await _message_reply(found)

    async def _simulate_reply(self, request: Request) -> Reply:
        """Insight's answer to a SimulateRequest, both in protobuf's JSON mapping."""
        if request.method != "POST":
            return http_site.text("only POST is served here\n", 405)
        insight = self._served.phases.links.insight
        if insight is None:
            return http_site.text("simulation requires insight: set insight.endpoints\n", 400)
        extenders = [extender.url_prefix for extender in self._completed.configuration.extenders]
        try:
            return await _message_reply(await simulation_relay.simulate(insight, request.body, extenders))
        except simulation_relay.BadSimulationRequest as error:
            return http_site.text(f"{error}\n", 400)
        except insight_replicas.InsightRefusal as error:
            return http_site.text(f"{error}\n", http_status.of_code(error.code))
        except insight_replicas.InsightUnavailable as error:
            return http_site.text(f"{error}\n", 503)


async def _debug_flags_reply(_: Request) -> Reply:
    """The page /debug/flags, as kube-scheduler's."""
    lines = ("<html>", "<head>", "<title>/debug/flags/</title>", "</head>", "<body>", "/debug/flags/<br>", "<br>")
    rest = ("flags:<br>", "<table>", "<tr>v<br>", "</table>", "<br>", "full flags configurable<br>", "</body>")
    return Reply(("\n".join((*lines, *rest, "</html>")) + "\n").encode(), "text/html; charset=utf-8")


async def _message_reply(message: Message) -> Reply:
    """The message as a JSON reply; made in a thread, for thousands of nodes take a while."""
    return await asyncio.to_thread(lambda: _json_reply(json_documents.document(message)))


def _json_reply(value: object) -> Reply:
    return Reply(json.dumps(value).encode(), http_site.JSON)
