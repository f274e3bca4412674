"""A simulation of mixed load that insight records. Import it after `substituted_sources.install`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from tests.simulation import (
    simulated_cluster,
    simulated_extender,
    simulated_features,
    simulated_plugin,
    simulation_plan,
)
from tests.simulation.simulated_configuration import DEFAULT_PROFILE
from tests.simulation.simulated_faults import Faults
from tests.simulation.simulated_features import NoFlags
from tests.simulation.simulated_load import Rates, ZonedLoad
from tests.simulation.simulation_plan import Options, Storm
from tests.simulation.virtual_loop import VirtualLoop
from trireme.insight import process as insight_process
from trireme.insight import self_check, service
from trireme.phases import phase_process
from trireme.phases.process_flags import ProcessFlags
from trireme.recording import decision_numbers, segment_writer
from trireme.v1 import decision_pb2
from trireme_kube.componentbase import supervision
from trireme_kube.embedded.api.resources import Object

# Pods come often, and nodes change often, so that the same hour has more decisions than one of `make simulate`.
RATES = Rates(creation=(0.3, 0.5, 1.0), node_churn=(20.0, 60.0), lifted_gates=10.0)
# How often what was received is written, in the place of the recorder's thread. Units: seconds.
_WRITE_SECONDS = 0.05
# Nothing is deleted while it runs.
_LIMITS = segment_writer.Limits(100 << 30, 1e9)


# A profile without the remote plugin, for half of the pods.
_LOCAL_PROFILE = "local-scheduler"


async def _run_here(check: Coroutine[Any, Any, self_check.Checked]) -> self_check.Checked:
    """In the place of the self-check's thread: it waits for nothing."""
    return await check


class _Load(ZonedLoad):
    """The load of simulations, for two profiles."""

    #: The share of pods of the profile without the remote plugin.
    local_share = 0.5

    def _template(self) -> Object:
        out = super()._template()
        is_local = self._random.random() < self.local_share
        out["spec"]["schedulerName"] = _LOCAL_PROFILE if is_local else DEFAULT_PROFILE
        return out


class RecordedSimulation:
    """Frontends, two replicas of filter and score each, bind, and one of insight that records into a folder."""

    def __init__(
        self, loop: VirtualLoop, folder: pathlib.Path, options: Options, recordings: pathlib.Path, *, local: bool
    ) -> None:
        """`folder` is for the processes' files. `local`: no pod is of the profile with the remote plugin."""
        remote = {"filter": {"enabled": [{"name": simulated_plugin.NAME}]}}
        simulated_cluster._SCHEDULER_CONFIGURATION = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": DEFAULT_PROFILE, "plugins": remote}, {"schedulerName": _LOCAL_PROFILE}],
            "extenders": [simulated_extender.CONFIGURATION],
        }
        simulated_cluster._FLAGS = simulated_features.ZONES_FLAGS
        self.extender_answers = simulated_extender.install(options.seed)
        self._loop = loop
        self._options = options
        self._recordings = recordings
        self.decisions = 0
        self._checks: list[self_check.SelfCheck] = []
        self._cluster = simulated_cluster.Cluster(loop, folder, options.seed, lambda line: None)
        self._load = _Load(self._cluster.registry, RATES, options.nodes, options.seed)
        if local:
            self._load.local_share = 1.0
        self._faults = Faults(self._cluster, options.seed)
        self._end: Callable[[], None] = lambda: None

    async def run(self, decisions: int, progress: Callable[[str], None]) -> None:
        """Run until so many decisions were recorded."""
        self._cluster.build(1 if self._options.no_faults else 2, 2, 2, 1, self._recording_insight())
        await self._cluster.start()
        self._load.prepare()
        for storm in simulation_plan.storms(self._options, self._faults.weights, self._load.intervals):
            await self._carry_out(storm, decisions)
            self._faults.calm()
            self._load.lift_gates()
            await asyncio.sleep(30.0)
            progress(f"{self._loop.now / 3600:.2f} h, {self.decisions} decisions")
            if self._cluster.failures:
                raise RuntimeError(f"the run failed: {self._cluster.failures}")
            if self.decisions >= decisions:
                break
        self._end()

    def self_checked(self) -> str:
        """What the self-check found meanwhile."""
        found = [each.statistics() for each in self._checks]
        differences = [each._differences.totals("call") for each in self._checks]
        made, failures = sum(each.made for each in found), sum(each.failures for each in found)
        return f"self-check: {made} decisions made again, {failures} samples failed, differences: {differences}"

    async def _carry_out(self, storm: Storm, decisions: int) -> None:
        began = self._loop.now
        for event in storm.events:
            await asyncio.sleep(max(began + event.at - self._loop.now, 0.0))
            if event.what == "fault":
                self._faults.inject(event)
            else:
                self._load.change(event)
            if self.decisions >= decisions:
                break

    def _recording_insight(self) -> phase_process.Phase[Any]:
        """Insight with the recorder's thread replaced by a task: a simulation has no threads."""

        @contextlib.asynccontextmanager
        async def serve(
            served: service.InsightService, process: ProcessFlags, own: NoFlags, supervisor: supervision.Supervisor
        ) -> AsyncIterator[None]:
            writer = segment_writer.RecordingWriter(self._recordings, _LIMITS, asyncio.get_running_loop().time)
            recorder = served.record_to(writer)
            record, checking = recorder.record, served.self_check
            assert checking is not None
            checking._run = _run_here
            self._checks.append(checking)

            def record_and_count(request: Any) -> None:
                decisions = (decision_pb2.Decision.FromString(content) for content in request.decisions)
                self.decisions += sum(not decision_numbers.is_report(decision) for decision in decisions)
                record(request)

            recorder.record = record_and_count  # type: ignore[method-assign]

            async def write() -> None:
                while True:
                    await asyncio.sleep(_WRITE_SECONDS)
                    recorder.tick()
                    recorder.write_buffer()

            def end() -> None:
                recorder.write_buffer()
                writer.end(recorder._now_ns())
                writer.release()

            self._end = end
            writing = supervisor.keep("recording", write)
            try:
                async with checking.running(supervisor):
                    yield
            finally:
                await supervisor.stop(writing)

        extension = phase_process.Extension(NoFlags, lambda own: (), serve)
        return dataclasses.replace(insight_process.INSIGHT, extension=extension)
