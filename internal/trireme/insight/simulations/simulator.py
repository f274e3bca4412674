"""Answers simulations: one at a time, each on a fork of the snapshot as it is when its turn comes.

What a caller can do about an error is said by its code; the text begins with the field, where it is about one.

Also change: internal/trireme/simulation/submission/submission.py (what manifests must not set).

Tests: tests/unit/insight/simulations/test_simulator.py, tests/unit/insight/test_question_logs.py.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import grpc
from google.protobuf import struct_pb2

from trireme.cache import class_registry
from trireme.cache.pod_projection import ParsedPod
from trireme.insight import observed_cluster
from trireme.insight.simulations import answers, group_preemption, group_proposals, setups, turns, verdicts
from trireme.scheduling import ports
from trireme.simulation import (
    capacity,
    compaction,
    known_classes,
    manifests,
    pacing,
    scenario,
    simulation,
    single_pods,
    usage,
)
from trireme.simulation.submission import documents, submission
from trireme.snapshot import snapshot
from trireme.v1 import decision_explanation_pb2, simulation_pb2, snapshot_pb2

# A simulation ends by then. A plan ends its search before, and answers what it has.
SECONDS = 25.0
_PLAN_SECONDS = 15.0
MAX_SINGLE_PODS = 5000

log = logging.getLogger(__name__)

_CODE = grpc.StatusCode
# Pods in these states are not tried: something other than room is missing.
_HELD_BACK = frozenset({snapshot_pb2.QUEUED_POD_STATE_GATED, snapshot_pb2.QUEUED_POD_STATE_PRE_ENQUEUE_PENDING})


class SimulationError(Exception):
    """The question has no answer: the code of the call, and a text that says what the caller can do."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Question:
    """A request whose turn it is."""

    request: simulation_pb2.SimulateRequest
    setup: simulation.Setup
    response: simulation_pb2.SimulateResponse


class Simulator:
    """Answers questions about one cluster. `make_setup` makes the setup of a request. Raises: SetupError."""

    def __init__(
        self,
        cluster: observed_cluster.ObservedCluster,
        make_setup: Callable[[simulation_pb2.SimulateRequest], simulation.Setup],
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._make_setup = make_setup
        self._seconds = seconds
        self._clock = clock
        self._turns = turns.Turns()
        # The classes of the snapshot, by what says whether they are still those.
        self._known: tuple[tuple[int, int, int], known_classes.KnownClasses] | None = None

    async def simulate(self, request: simulation_pb2.SimulateRequest, caller: str) -> simulation_pb2.SimulateResponse:
        """Answer the request when it is the caller's turn. Raises: SimulationError."""
        kind = request.WhichOneof("question")
        if kind is None:
            text = "the request has no question: give scenario, singlePods, howMany or compaction"
            raise SimulationError(_CODE.INVALID_ARGUMENT, text)
        async with self._turn(caller):
            return await self._answer(kind, request)

    async def explain_group_preemption(
        self, queued: snapshot_pb2.QueuedPod, caller: str
    ) -> decision_explanation_pb2.PreemptionExplanation:
        """Whom the group of this pod would preempt, or why nobody. Raises: SimulationError."""
        async with self._turn(caller):
            setup = self._make_setup(simulation_pb2.SimulateRequest())
            sim = self._fork(setup)
            try:
                return await group_preemption.explain(
                    sim, self._members(queued, setup), queued.pod_group, self._cluster
                )
            finally:
                await sim.close()

    def check_of_group(self, queued: snapshot_pb2.QueuedPod) -> group_proposals.GroupCheck:
        """What checks proposals for a member of a group on the whole group, for a search that begins now.

        It does not wait for its turn: searches for proposals have turns of their own.
        """
        setup = self._make_setup(simulation_pb2.SimulateRequest())
        return group_proposals.GroupCheck(setup, self._known_classes(), queued, self._members(queued, setup))

    def _members(self, queued: snapshot_pb2.QueuedPod, setup: simulation.Setup) -> list[snapshot_pb2.QueuedPod]:
        group = queued.pod.namespace, queued.pod_group
        return [pod for pod in self._queued_pods(setup)[0] if (pod.pod.namespace, pod.pod_group) == group]

    @contextlib.asynccontextmanager
    async def _turn(self, caller: str) -> AsyncIterator[None]:
        """The caller's turn, as long as a simulation may take. Raises: SimulationError for what the block raises.

        What nothing expects is an error of this program: it is logged, and the call is answered as any that fails.
        """
        try:
            async with self._turns.turn_for(caller):
                async with asyncio.timeout(self._seconds):
                    yield
        except turns.TooManyWaitingError as error:
            raise SimulationError(_CODE.RESOURCE_EXHAUSTED, str(error)) from error
        except TimeoutError as error:
            text = f"the simulation takes more than {self._seconds:.0f} s: simulate fewer pods or nodes at once"
            raise SimulationError(_CODE.DEADLINE_EXCEEDED, text) from error
        except (
            scenario.ScenarioError,
            documents.DocumentError,
            setups.SetupError,
            class_registry.InvalidPod,
        ) as error:
            raise SimulationError(_CODE.INVALID_ARGUMENT, str(error)) from error
        except known_classes.UnknownLabelKeyError as error:
            raise SimulationError(_CODE.INVALID_ARGUMENT, str(error)) from error
        except simulation.SimulationLimitError as error:
            raise SimulationError(_CODE.INVALID_ARGUMENT, str(error)) from error
        except (ports.PhaseFault, ports.PhaseUnavailable, snapshot.OutOfStepError) as error:
            text = f"the simulation failed: {error}: ask again"
            raise SimulationError(_CODE.UNAVAILABLE, text) from error
        except SimulationError:
            raise
        except Exception as error:
            log.exception("a simulation failed by an error of insight; report this defect")
            text = "the simulation failed by an error of insight, which is in its log: ask otherwise, or report it"
            raise SimulationError(_CODE.INTERNAL, text) from error

    async def _answer(self, kind: str, request: simulation_pb2.SimulateRequest) -> simulation_pb2.SimulateResponse:
        """Answer a request whose turn it is."""
        if not self._cluster.synced:
            raise SimulationError(_CODE.UNAVAILABLE, observed_cluster.NOT_SYNCED)
        response = simulation_pb2.SimulateResponse(evaluated_generation=self._cluster.snap.generation)
        question = _Question(request, self._make_setup(request), response)
        answer = {
            "scenario": self._answer_scenario,
            "single_pods": self._answer_single_pods,
            "how_many": self._answer_how_many,
            "compaction": self._answer_compaction,
        }[kind]
        await answer(question)
        return response

    async def _answer_scenario(self, question: _Question) -> None:
        """Make the changes, and schedule."""
        sim = self._fork(question.setup)
        try:
            reference = usage.reference_shape(sim.snap)
            question.response.before.CopyFrom(answers.usage_message(usage.measure(sim.snap, reference)))
            wanted = question.request.scenario
            absent = self._names_of_waiting()
            if not wanted.without_pending_pods:
                tried, held = self._queued_pods(question.setup)
                absent.difference_update((pod.pod.namespace, pod.pod.name) for pod in tried)
                if held:
                    question.response.not_simulated.append(f"pods of the queue that are held back: {held}")
                await sim.add_queued_pods(tried)
            changes = scenario.ScenarioChanges(sim, absent)
            await changes.make(wanted)
            submitting = await _submit(sim, wanted)
            await sim.run()
            await answers.write_scenario(sim, question.response)
            await verdicts.Verdicts(sim).write(submitting.submitted, question.response)
            question.response.not_simulated.extend(submitting.not_simulated())
            question.response.blocked.extend(answers.blocked_messages(changes.blocked))
            question.response.after.CopyFrom(answers.usage_message(usage.measure(sim.snap, reference)))
        finally:
            await sim.close()

    async def _answer_single_pods(self, question: _Question) -> None:
        """Simulate pods, each by itself."""
        wanted = question.request.single_pods.manifests
        if not 1 <= len(wanted) <= MAX_SINGLE_PODS:
            text = f"singlePods.manifests: there must be 1 to {MAX_SINGLE_PODS}"
            raise SimulationError(_CODE.INVALID_ARGUMENT, text)
        sim = self._fork(question.setup)
        try:
            pods = []
            async for number, manifest in pacing.paced(enumerate(wanted)):
                pods.append(_read_pod(sim, f"singlePods.manifests[{number}]", manifest))
            answers.write_single_pods(pods, await single_pods.simulate_each(sim, pods), question.response)
        finally:
            await sim.close()

    async def _answer_how_many(self, question: _Question) -> None:
        """Count how many copies of a pod fit."""
        sim = self._fork(question.setup)
        try:
            # Copies do not make room for each other.
            pod = _read_pod(sim, "howMany.manifest", question.request.how_many.manifest, preempts=False)
            reference = usage.reference_shape(sim.snap)
            question.response.before.CopyFrom(answers.usage_message(usage.measure(sim.snap, reference)))
            found = await capacity.simulate_capacity(sim, pod)
            question.response.capacity.CopyFrom(answers.capacity_message(found))
            if found.bounded:
                text = f"the copies depend on each other: no more than {found.pods} were scheduled, and all of them fit"
                question.response.not_simulated.append(text)
        finally:
            await sim.close()

    async def _answer_compaction(self, question: _Question) -> None:
        """Look for nodes to empty."""
        wanted = question.request.compaction
        if wanted.max_tried > compaction.MAX_TRIED:
            text = f"compaction.maxTried: at most {compaction.MAX_TRIED}"
            raise SimulationError(_CODE.INVALID_ARGUMENT, text)
        ends = self._clock() + min(_PLAN_SECONDS, self._seconds / 2)
        sim = self._fork(question.setup)
        reference = usage.reference_shape(sim.snap)
        question.response.before.CopyFrom(answers.usage_message(usage.measure(sim.snap, reference)))
        plan = await compaction.plan(
            sim,
            max_nodes=wanted.max_nodes or compaction.MAX_TRIED,
            max_tried=wanted.max_tried or compaction.DEFAULT_TRIED,
            time_is_up=lambda: self._clock() >= ends,
        )
        try:
            question.response.moves.extend(answers.moves_messages(plan))
            question.response.cordoned.extend(plan.cordoned)
            if plan.tried < plan.candidates:
                text = f"{plan.tried} of {plan.candidates} nodes with pods were tried"
                question.response.not_simulated.append(text)
            question.response.after.CopyFrom(answers.usage_message(usage.measure(plan.sim.snap, reference)))
        finally:
            await plan.sim.close()

    def _fork(self, setup: simulation.Setup) -> simulation.Simulation:
        return simulation.Simulation(self._cluster.snap, setup, self._known_classes())

    def _known_classes(self) -> known_classes.KnownClasses:
        """The classes of the snapshot as it is."""
        snap = self._cluster.snap
        objects = max((snap.last_change((kind,)) for kind in known_classes.SELECTING_KINDS), default=0)
        key = (snap.incarnation, snap.classes_generation, objects)
        if self._known is None or self._known[0] != key:
            self._known = key, known_classes.of_snapshot(snap)
        return self._known[1]

    def _names_of_waiting(self) -> set[tuple[str, str]]:
        """Namespace and name of each pod in the queue."""
        found = (each.pod for each in self._cluster.queue.all())
        return {
            (pod.namespace, pod.name)
            for pod in found
            if self._cluster.node_of(pod.namespace, pod.name, pod.uid) is None
        }

    def _queued_pods(self, setup: simulation.Setup) -> tuple[Sequence[snapshot_pb2.QueuedPod], int]:
        """The pods of the queue that can be tried, and how many are held back."""
        profiles = {profile.scheduler_name for profile in setup.profiles}
        tried, held = [], 0
        for pod in self._cluster.queue.all():
            if (
                pod.state in _HELD_BACK
                or pod.pod_class not in self._cluster.snap.classes
                or pod.profile not in profiles
            ):
                held += 1
            elif self._cluster.node_of(pod.pod.namespace, pod.pod.name, pod.pod.uid) is None:
                tried.append(pod)
        return tried, held


async def _submit(sim: simulation.Simulation, wanted: simulation_pb2.Scenario) -> submission.Submission:
    """Submit the manifests of a scenario. Raises: DocumentError, SimulationLimitError."""
    submitting = submission.Submission(sim)
    if wanted.manifests:
        found = documents.read([manifests.to_json(each) for each in wanted.manifests], wanted.namespace)
        await submitting.make(found)
    return submitting


def _read_pod(
    sim: simulation.Simulation, field: str, manifest: struct_pb2.Struct, *, preempts: bool = True
) -> ParsedPod:
    """The pod of a manifest; one that preempts nobody unless `preempts`. Raises: ScenarioError."""
    try:
        raw = manifests.read(manifest)
        if not preempts:
            raw.setdefault("spec", {})["preemptionPolicy"] = "Never"
        name = manifests.pod_name(raw)
        made = manifests.read_pod(raw, name, sim.new_uid(name), sim.setup.reads.paths)
    except manifests.ManifestError as error:
        raise scenario.ScenarioError(field, str(error)) from error
    scenario.check_pod(sim, field, made)
    if made.parsed.node_name:
        raise scenario.ScenarioError(f"{field}.spec.nodeName", "must not be set: the pod would not be scheduled")
    return made.parsed
