"""What is made of several plugins' answers about placements of groups, here and by Kubernetes' own framework."""

import random
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance import oracle_fixture, real_framework
from tests.helpers.pod_group_builders import PROFILE, pod_group
from tests.helpers.pod_group_cluster import Cluster
from trireme.framework import status
from trireme.plugin_api.placements import NodesOfDomain, NoPlacementError, PlacementProgress
from trireme.queueing.groups import forest
from trireme.scheduling.groups.placement_feasibility import GroupTrial, PlacementFeasibility, TrialStep

Json = dict[str, Any]

_NODES = [f"n{number}" for number in range(5)]
_CODES = {"Wait": status.Code.WAIT, "Unschedulable": status.Code.UNSCHEDULABLE, "Error": status.Code.ERROR}
_CASES = 600


def _generating(draw: random.Random, name: str) -> Json:
    kind = draw.choices(("placements", "unrestricted", "error", "none"), (8, 2, 1, 1))[0]
    if kind != "placements":
        return {"Name": name, "Unrestricted": kind == "unrestricted", "Error": f"{name} fails" * (kind == "error")}
    names = draw.sample("abcd", draw.randint(1, 4))
    if draw.random() < 0.1:
        names.append(draw.choice([names[0], "a/b"]))
    placements = [{"name": each, "nodes": draw.choices(_NODES, k=draw.randint(0, 5))} for each in names]
    return {"Name": name, "Placements": placements}


def _judging(draw: random.Random, name: str) -> Json:
    code = draw.choices(("", *_CODES), (5, 3, 1, 1))[0]
    return {"Name": name, "Code": code, "Message": f"{name} says {code}"}


def _case(draw: random.Random) -> Json:
    return {
        "Nodes": _NODES,
        "Generators": [_generating(draw, f"g{number}") for number in range(draw.randint(0, 3))],
        "Feasible": [_judging(draw, f"f{number}") for number in range(draw.randint(0, 4))],
    }


class _Generator:
    """Answers as the case says."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        self._says = says

    def generate(self, topology: str, nodes: Any, placed: Any, labels_of: Any) -> Sequence[NodesOfDomain] | None:
        if self._says.get("Error"):
            raise NoPlacementError(self._says["Error"])
        if self._says.get("Unrestricted"):
            return None
        # The slots of nodes are their numbers.
        return [
            NodesOfDomain(each["name"], tuple(int(name[1:]) for name in each["nodes"]))
            for each in self._says.get("Placements", ())
        ]


class _Recorder:
    """Refuses every placement before it is tried, and takes it down."""

    def __init__(self) -> None:
        self.placements: list[Json] = []

    async def placement_feasible(self, trial: GroupTrial, steps: Sequence[TrialStep]) -> Sequence[status.Status]:
        found = trial.placement
        slots = range(len(_NODES)) if found is None else found.slots
        self.placements.append({"name": "" if found is None else found.name, "nodes": [f"n{slot}" for slot in slots]})
        return [status.unschedulable("Recorder", "recorded")]


class _Judge:
    """Answers each step alike, as the case says."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        self._says = says
        self.calls = 0

    async def placement_feasible(self, trial: GroupTrial, steps: Sequence[TrialStep]) -> Sequence[status.Status]:
        self.calls += 1
        name, code, message = self._says["Name"], self._says["Code"], self._says["Message"]
        if not code:
            return [status.SUCCESS]
        if code == "Error":
            # A remote plugin's client words its failures itself.
            return [status.error(name, f"running PlacementFeasible plugin: {message}")]
        return [status.Status(_CODES[code], name, (message,))]


async def _our_placements(case: Json) -> tuple[list[Json], Json]:
    """The placements that a group is tried in, or the status of a group that is tried in none."""
    recorder = _Recorder()
    generators = {each["Name"]: _Generator(each) for each in case["Generators"]}
    cluster = Cluster([1] * len(_NODES), topology=True, generators=generators, remote_feasible={"Recorder": recorder})
    cluster.group(pod_group("g"))
    cluster.add("p", "g")
    await cluster.run()
    if recorder.placements:
        return recorder.placements, {"code": "Success", "message": "", "plugin": ""}
    ((_, reason, text),) = cluster.conditions
    code = {"SchedulerError": "Error"}.get(reason, reason)
    return [], {"code": code, "message": text, "plugin": "".join(cluster.failures["p"].rejectors)}


async def _our_feasibility(case: Json) -> tuple[Json, list[int]]:
    """The status of all plugins together, and how often each was called."""
    cluster: Any = Cluster([1])
    judges = {each["Name"]: _Judge(each) for each in case["Feasible"]}
    feasibility = PlacementFeasibility(
        evaluators=cluster,
        observer=cluster.metrics,
        publish=cluster.publish,
        plugins={PROFILE: tuple(judges)},
        remote_plugins=lambda profile: judges,
    )
    pod: Any = SimpleNamespace(record=SimpleNamespace(profile=PROFILE, class_id=1))
    request: Any = SimpleNamespace(profile=PROFILE, all_pods=lambda: [pod])
    step = TrialStep(PlacementProgress(1, 0, 0), 0)
    (found,) = await feasibility.evaluate(request, forest.GroupNode.of(pod_group("g")), None, (), [step])
    said = {
        "code": found.code.name.capitalize(),
        "message": found.message.removeprefix("failed to evaluate placement feasibility: "),
        "plugin": "".join(found.plugins),
    }
    return said, [judge.calls for judge in judges.values()]


@pytest.mark.timeout(300)
async def test_plugins_of_placements_are_run_as_by_the_framework() -> None:
    """A group would be tried on nodes that a plugin excludes, or bound where one refuses it."""
    oracle_fixture.require_oracle()
    draw = random.Random(138)
    cases = [_case(draw) for _ in range(_CASES)]
    answers = real_framework.placements(cases)
    assert len({each["status"]["code"] for each in answers}) == 3
    assert sum(len(each["placements"]) > 1 for each in answers) > _CASES / 10
    differing = []
    for case, theirs in zip(cases, answers, strict=True):
        placements, generated = await _our_placements(case)
        feasible, called = await _our_feasibility(case)
        # The status' plugin does not count: no plugin refuses the pods of a group that has no placement, or an error.
        theirs["status"]["plugin"] = ""
        if theirs["feasible"]["code"] == "Error":
            theirs["feasible"]["plugin"] = feasible["plugin"]
        ours = {"placements": placements, "status": generated, "feasible": feasible, "called": called}
        if ours != theirs:
            differing.append((case, ours, theirs))
    assert not differing, (len(differing), differing[0])
