"""Alerts on a real Prometheus: a fault of real processes makes each fire, and its end makes it clear.

The faults share one running cluster and Prometheus. The rules are those that are shipped, but for ranges of time, and
for how long an expression has to hold.
"""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import yaml

from tests.alerts import alert_rules
from tests.contract import certificates
from tests.e2e import admin_socket, clusters, forgetful, installation, prometheus_server
from tests.e2e.installation import pod
from tools.controlplane import launcher, ports

pytestmark = [pytest.mark.timeout(500), prometheus_server.needs_prometheus]

# What stands for ranges of time in the alerts: their end is otherwise noticed after as long.
_RANGES = {"5m": "6s", "10m": "8s", "15m": "20s", "30m": "6s", "1h": "10s", "6h": "10s"}
_WAIT = "1s"

# Frontends run a phase themselves after so many seconds without it.
_FALLBACK = {"mode": "local", "after": "14s"}
# The first one looks at the Lease so rarely that it leads on for some seconds when the Lease is gone.
_ELECTIONS: Sequence[Mapping[str, Any]] = (
    {"leaseDuration": "20s", "renewDeadline": "18s", "retryPeriod": "6s"},
    {"leaseDuration": "20s", "renewDeadline": "18s", "retryPeriod": "500ms"},
)
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_FAULTS = "/trireme/faults"
_PODS = "/api/v1/namespaces/default/pods"

# Each plugin is that of a profile of its own, which has its name.
_PLUGINS: Mapping[str, Mapping[str, Any]] = {
    "Gatekeeper": {"script": "tests/e2e/gatekeeper.py", "point": "preEnqueue"},
    "Forgetful": {"script": "tests/e2e/forgetful.py", "point": "filter"},
    "Slow": {
        "script": "tools/bench/slow_plugin.py",
        "point": "filter",
        "settings": {"failurePolicy": "Ignore", "budgetPerSecond": "1ms"},
    },
}

# Nodes by their use: pods of the faults fit on two, and a third one is kept for pods that are evicted.
_NODES, _CPU, _CROWDED = 3, "4", 2


def _script(path: str, *flags: str) -> list[str]:
    return [sys.executable, "-u", str(launcher.REPOSITORY / path), *flags]


def _severities() -> dict[str, set[str]]:
    """The severities of each alert: those of error budgets have two."""
    found: dict[str, set[str]] = {}
    for rule in alert_rules.alerts():
        found.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    return found


class Watched:
    """A scheduler of several processes, with plugins and insight, whose metrics a Prometheus scrapes each second."""

    def __init__(self, here: installation.Installation, folder: pathlib.Path) -> None:
        self.here = here
        self.recordings = folder / "recordings"
        self.certificates = folder / "certificates"
        self.url = ""
        self._folder = folder
        self._severities = _severities()
        scraped = "filter", "bind", "insight"
        self._metrics = {name: f"127.0.0.1:{port}" for name, port in zip(scraped, ports.free_ports(3), strict=True)}
        counted = "--counted", str(folder / "calls")
        commands = {
            name: _script(plugin["script"], *(counted if name == "Slow" else ())) for name, plugin in _PLUGINS.items()
        }
        flags = ["--record-dir", str(self.recordings), *self._serving_metrics("insight")]
        commands["insight"] = _script("tests/e2e/eager_insight.py", *flags)
        self.beside = {
            name: installation.Process(name, [*command, "--listen", self._address(name)], folder / f"{name}.log")
            for name, command in commands.items()
        }

    def _serving_metrics(self, name: str) -> list[str]:
        return ["--metrics-listen", self._metrics[name]]

    def _address(self, name: str) -> str:
        return f"unix:{self._folder}/{name}.sock"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything within the block."""
        here = self.here
        here.local = "Children"  # a phase that stands in has to be a process that can be killed
        make_certificates(self.certificates, 30)
        serving = self.certificates / "frontend"
        here.frontend_flags += [f"--tls-cert-file={serving}/tls.crt", f"--tls-private-key-file={serving}/tls.key"]
        crowded = (await here.nodes())[_CROWDED]["metadata"]["name"]
        await self.patch_node(crowded, {"spec": {"unschedulable": True}})
        try:
            phases = {phase: here.add_phase(phase) for phase in ("filter", "score", "bind")}
            for phase in ("filter", "bind"):
                phases[phase].command += self._serving_metrics(phase)
            processes = [*self.beside.values(), *phases.values()]
            for process in processes:
                process.start()
            await asyncio.gather(*(process.listening() for process in processes))
            for number, election in enumerate(_ELECTIONS):
                here.add_frontend(self._configuration(election), self._own(number))
            first = here.frontends[0]
            first.start()
            await here.leads(first)
            await here.logged(first, f"{self._address('insight')}: in step")
            targets = {
                prometheus_server.FRONTEND: [f"127.0.0.1:{here.port(frontend)}" for frontend in here.frontends],
                **{f"trireme-{name}": [address] for name, address in self._metrics.items()},
            }
            async with prometheus_server.scraping(here, self._folder, targets, wait=_WAIT, ranges=_RANGES) as self.url:
                # Before the first scrape no frontend is known.
                await self.clear("TriremeNoLeader")
                yield
        finally:
            for process in self.beside.values():
                process.stop()

    def _configuration(self, election: Mapping[str, Any]) -> dict[str, Any]:
        profiles: list[dict[str, Any]] = [{"schedulerName": "default-scheduler"}]
        for name, plugin in _PLUGINS.items():
            plugins = {plugin["point"]: {"enabled": [{"name": name}]}}
            profiles.append({"schedulerName": name.lower(), "plugins": plugins})
        return {"profiles": profiles, "leaderElection": {"leaderElect": True, **election}}

    def _own(self, number: int) -> dict[str, Any]:
        plugins = [
            {
                "name": name,
                "address": self._address(name),
                "extensionPoints": [plugin["point"]],
                **plugin.get("settings", {}),
            }
            for name, plugin in _PLUGINS.items()
        ]
        return {
            "admin": {"socket": str(self.admin_socket(number))},
            "fallback": _FALLBACK,
            "insight": {"endpoints": [self._address("insight")]},
            "remotePlugins": plugins,
        }

    def admin_socket(self, number: int) -> pathlib.Path:
        """Where a frontend answers its administrator."""
        return self._folder / f"admin-{number}.sock"

    # What fires

    async def _firing(self, name: str) -> set[str]:
        """The severities with which the alert fires."""
        async with self.here.session.get(f"{self.url}/api/v1/alerts") as response:
            found = [each for each in (await response.json())["data"]["alerts"] if each["state"] == "firing"]
        return {each["labels"]["severity"] for each in found if each["labels"]["alertname"] == name}

    async def fires(self, name: str) -> None:
        """Return once the alert fires, with all its severities."""

        async def all_fire() -> bool:
            return await self._firing(name) == self._severities[name]

        await installation.until(all_fire, 60, lambda: f"{name} does not fire\n{self.here.story()}")

    async def clear(self, *names: str) -> None:
        """Return once none of the alerts fires any more."""
        for name in names:

            async def is_clear(name: str = name) -> bool:
                return not await self._firing(name)

            await installation.until(is_clear, 60, lambda name=name: f"{name} goes on firing\n{self.here.story()}")

    # What faults are made of

    async def create(self, name: str, profile: str = "default-scheduler", cpu: str = "10m", **spec: Any) -> None:
        """A pod of that profile."""
        await self.here.create_pods([pod(name, cpu, schedulerName=profile, **spec)])

    async def bound(self, name: str) -> None:
        """Return once the pod has a node."""

        async def has_node() -> bool:
            return bool((await self.here.pod(name))["spec"].get("nodeName"))

        await installation.until(has_node, 60, lambda: f"{name} has no node\n{self.here.story(name)}")

    async def delete(self, name: str) -> None:
        """Delete the pod at once."""
        await self.here.request("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0")

    async def patch_node(self, name: str, patch: Any) -> None:
        """A merge patch of a node."""
        await self.here.request("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")

    @contextlib.asynccontextmanager
    async def meanwhile(self, prefix: str, seconds: float, **pods: Any) -> AsyncIterator[None]:
        """Create a pod every so many seconds within the block, each of a class of its own, and delete them all."""
        names: list[str] = []

        async def create() -> None:
            for number in range(1000):
                names.append(f"{prefix}-{number}")
                await self.create(names[-1], cpu=f"{1 + number}m", **pods)
                await asyncio.sleep(seconds)

        async with beside(create()):
            yield
        # The last one may not have been created.
        for name in names[:-1]:
            await self.delete(name)


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do this work within the block, as far as it comes."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def make_certificates(folder: pathlib.Path, days: int) -> None:
    """Make certificates that are valid for so many days, in place of those that are there."""
    command = _script("deploy/make_certificates.py", "--directory", str(folder), "--days", str(days))
    subprocess.run(command, check=True, capture_output=True)


# Faults: each lasts as long as its block.

Fault = Callable[[Watched], AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def pod_larger_than_any_node(seen: Watched) -> AsyncIterator[None]:
    await seen.create("giant", cpu="64")
    yield
    await seen.delete("giant")


@contextlib.asynccontextmanager
async def plugin_that_forgot_an_event(seen: Watched) -> AsyncIterator[None]:
    """A node that its pod fits on by now, which the plugin registered no event for."""
    nodes = [node["metadata"]["name"] for node in await seen.here.nodes()]
    for node in nodes:
        await seen.patch_node(node, {"metadata": {"labels": {forgetful.LABEL: "yes"}}})
    await seen.create("late", "forgetful")
    await seen.here.condition("late", "were closed")
    await seen.patch_node(nodes[0], {"metadata": {"labels": {forgetful.LABEL: None}}})
    await seen.bound("late")
    yield


@contextlib.asynccontextmanager
async def file_that_is_no_configuration(seen: Watched) -> AsyncIterator[None]:
    path = seen.here.folder / "config-0.yaml"
    before = path.read_text()

    def replace(text: str) -> None:
        replaced = path.with_suffix(".new")
        replaced.write_text(text)
        replaced.replace(path)

    replace(yaml.safe_dump({**yaml.safe_load(before), "profiles": [{"schedulerName": 7}]}))
    yield
    replace(before)


@contextlib.asynccontextmanager
async def certificate_that_was_not_renewed(seen: Watched) -> AsyncIterator[None]:
    """It has lived for 23 hours of a day."""
    folder = seen.certificates / "frontend"
    old = certificates.Authority().issue("trireme-frontend", hours=1, begins=-23)
    (folder / "tls.crt").write_bytes(old.certificate)
    (folder / "tls.key").write_bytes(old.key)
    yield
    make_certificates(seen.certificates, 30)


@contextlib.asynccontextmanager
async def folder_of_recordings_taken_away(seen: Watched) -> AsyncIterator[None]:
    away = seen.recordings.with_suffix(".away")
    seen.recordings.rename(away)
    seen.recordings.write_text("in the way")
    yield
    seen.recordings.unlink()
    away.rename(seen.recordings)


@contextlib.asynccontextmanager
async def plugin_gone(seen: Watched) -> AsyncIterator[None]:
    """Its pods are held back, and have neither event nor condition."""
    plugin = seen.beside["Gatekeeper"]
    plugin.kill()
    await seen.create("held", "gatekeeper")
    yield
    plugin.start()
    await seen.bound("held")


@contextlib.asynccontextmanager
async def plugin_slower_than_its_budget(seen: Watched) -> AsyncIterator[None]:
    async with seen.meanwhile("slow", 0.3, profile="slow"):
        yield


@contextlib.asynccontextmanager
async def victims_of_preemption(seen: Watched) -> AsyncIterator[None]:
    """Again and again one pod evicts sixty."""
    await seen.here.add_priority_class("high", 1000)
    crowded = (await seen.here.nodes())[_CROWDED]["metadata"]["name"]
    there: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/hostname": crowded},
        "tolerations": [{"operator": "Exists"}],
    }

    async def evict() -> None:
        for number in range(1000):
            names = (f"small-{number}-{index}" for index in range(60))
            await seen.here.create_pods(pod(name, "60m", nodeName=crowded) for name in names)
            await seen.create(f"large-{number}", cpu="3900m", priorityClassName="high", **there)
            await seen.bound(f"large-{number}")
            await seen.delete(f"large-{number}")

    async with beside(evict()):
        yield


@contextlib.asynccontextmanager
async def limit_of_two_writes_a_second(seen: Watched) -> AsyncIterator[None]:
    """Bindings wait for their turn, the last of them for ten seconds."""
    bind = seen.here.phases["bind"][0]
    before = bind.command

    async def run_with(command: list[str]) -> None:
        bind.stop()
        bind.command = command
        bind.start()
        await bind.listening()

    await run_with([*before, "--kube-api-qps", "2", "--kube-api-burst", "2"])
    await seen.here.create_pods(pod(f"bound-slowly-{number}", "1m") for number in range(30))
    yield
    await run_with(before)


@contextlib.asynccontextmanager
async def roles_missing(seen: Watched) -> AsyncIterator[None]:
    """The API server takes neither bindings nor events."""
    for path in ("/binding\\b", "/events\\b"):
        fault = {"action": "status", "code": 403, "method": "POST", "path": path, "times": -1}
        await seen.here.request("POST", _FAULTS, fault)
    async with seen.meanwhile("refused", 0.3):
        yield
    await seen.here.request("DELETE", _FAULTS)


@contextlib.asynccontextmanager
async def score_that_decides_otherwise(seen: Watched) -> AsyncIterator[None]:
    score = seen.here.phases["score"][0]
    before = score.command

    async def run_with(command: list[str]) -> None:
        score.kill()
        score.command = command
        score.start()
        await score.listening()

    await run_with(_script("tests/e2e/faulty_score.py", "--listen", seen.here.socket("score", 0)))
    async with seen.meanwhile("decided", 0.2):
        yield
        await run_with(before)
        # While decisions are made, as an alert without any is no longer about something.
        await seen.clear("TriremeDecisionsDiffer")


@contextlib.asynccontextmanager
async def only_score_gone(seen: Watched) -> AsyncIterator[None]:
    """The frontend's own score, which stands in after a while, is killed again and again."""
    score = seen.here.phases["score"][0]
    score.kill()
    await seen.create("waiting")

    async def kill() -> None:
        while True:
            status = await admin_socket.scheduler_status(seen.admin_socket(0))
            for child in status.local_phases:
                if child.pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child.pid, signal.SIGKILL)
            await asyncio.sleep(0.1)

    async with beside(kill()):
        yield
    score.start()
    await seen.bound("waiting")


@contextlib.asynccontextmanager
async def lease_deleted(seen: Watched) -> AsyncIterator[None]:
    """Another frontend makes a new one, and the one that led learns of it only when it would renew its own."""
    first, second = seen.here.frontends
    second.start()
    await seen.here.ready(second)

    async def renewed() -> str:
        lease = await seen.here.request("GET", _LEASE)
        return str(lease["spec"]["renewTime"])

    before = await renewed()

    async def is_renewed() -> bool:
        return await renewed() != before

    await installation.until(is_renewed, 20, seen.here.story)
    await seen.here.request("DELETE", _LEASE)
    yield
    await first.ended()


@contextlib.asynccontextmanager
async def only_frontend_gone(seen: Watched) -> AsyncIterator[None]:
    first, second = seen.here.frontends
    second.kill()
    yield
    first.start()
    await seen.create("after")
    await seen.bound("after")


Faults = Sequence[tuple[Fault, Sequence[str]]]
"""Faults one after the other, with the alerts that each has fire."""

# Those that leave the scheduler alone are tried beside those that do not.
BESIDE: Faults = (
    (plugin_that_forgot_an_event, ["TriremeMissedWakeUps"]),
    (pod_larger_than_any_node, ["TriremePodsWaitForNodes"]),
    (file_that_is_no_configuration, ["TriremeConfigurationRefused"]),
    (certificate_that_was_not_renewed, ["TriremeCertificateExpires"]),
    (folder_of_recordings_taken_away, ["TriremeRecordingFails"]),
)
OF_SCHEDULING: Faults = (
    (victims_of_preemption, ["TriremePreemptionStorm"]),
    (plugin_gone, ["TriremePluginHoldsPods", "TriremePluginFails", "TriremePluginBreakerOpen"]),
    (plugin_slower_than_its_budget, ["TriremePluginBypassed"]),
    (limit_of_two_writes_a_second, ["TriremeApiWritesThrottled", "TriremeBindingBudgetBurns"]),
    (roles_missing, ["TriremeApiWritesFail", "TriremeDecisionBudgetBurns", "TriremeEventsGivenUp"]),
)
OF_PROCESSES: Faults = (
    (score_that_decides_otherwise, ["TriremeDecisionsDiffer"]),
    (
        only_score_gone,
        [
            "TriremePhaseMissing",
            "TriremeReplicaBehind",
            "TriremeNothingTried",
            "TriremePhaseFallback",
            "TriremeChildRestarts",
        ],
    ),
    (lease_deleted, ["TriremeTwoLeaders"]),
    (only_frontend_gone, ["TriremeNoLeader"]),
)


async def _try_in_turn(seen: Watched, faults: Faults) -> None:
    """Each fault makes its alerts fire, and none before; they clear when it is over, while the next one is tried."""
    async with asyncio.TaskGroup() as group:
        for fault, alerts in faults:
            await seen.clear(*alerts)
            async with fault(seen):
                for name in alerts:
                    await seen.fires(name)
            group.create_task(seen.clear(*alerts))


def test_every_alert_has_a_fault() -> None:
    tried = [name for faults in (BESIDE, OF_SCHEDULING, OF_PROCESSES) for _, alerts in faults for name in alerts]
    assert sorted(tried) == sorted({rule["alert"] for rule in alert_rules.alerts()})


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_alerts_fire_while_a_fault_lasts_and_clear_when_it_is_over(
    tmp_path: pathlib.Path, cluster: clusters.OpenCluster
) -> None:
    """If this fails, no alert names a fault, or one goes on firing when it is over."""
    async with cluster(nodes=_NODES, cpu=_CPU) as here:
        seen = Watched(here, tmp_path)
        async with seen.running():
            async with asyncio.TaskGroup() as group:
                group.create_task(_try_in_turn(seen, BESIDE))
                group.create_task(_try_in_turn(seen, OF_SCHEDULING))
            await _try_in_turn(seen, OF_PROCESSES)
