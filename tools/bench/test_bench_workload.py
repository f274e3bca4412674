"""Workload files and templates are read as scheduler_perf means them, and what is not understood is refused."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tools.bench.driver import controllers, step, template, workload

BENCH = Path(__file__).resolve().parent
OURS = BENCH / "workloads" / "performance-config.yaml"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param(".Index", 41, id="value"),
        pytest.param("7", 7, id="number"),
        pytest.param("Mod .Index 20", 1, id="modulo"),
        pytest.param("DivideInt .Index .per", 13, id="division"),
        pytest.param("AddInt 100 (Mod .Index 20)", 101, id="nested"),
        pytest.param("MultiplyInt (SubtractInt .Index 1) (AddInt 1 1)", 80, id="nested-twice"),
    ],
)
def test_expression_values(expression: str, value: int) -> None:
    """Pods would get another shape, group or name than the template says."""
    assert template.evaluate(expression, {"Index": 41, "per": 3}) == value


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(".Missing", id="unknown-value"),
        pytest.param("if .Index", id="condition"),
        pytest.param("Mod .Index 0", id="division-by-zero"),
        pytest.param("Mod .Index", id="too-few"),
        pytest.param("Mod .Index 1 2", id="too-many"),
        pytest.param("AddInt 1 (Mod .Index 2", id="open-parenthesis"),
        pytest.param("", id="nothing"),
    ],
)
def test_expression_refused(expression: str) -> None:
    """A template that is not understood would be measured as something that it is not."""
    with pytest.raises(template.TemplateError):
        template.evaluate(expression, {"Index": 41})


POD = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\nspec: {priority: {{Mod .Index 2}}}\n"


def test_template_makes_one_object_per_index() -> None:
    """All pods would have one name, or one shape where the template asks for several."""
    made = [template.Template(POD, "test").make(f"pod-{index}", {"Index": index}) for index in range(3)]
    assert [name for name, _ in made] == ["pod-0", "pod-1", "pod-2"]
    bodies = [orjson.loads(body) for _, body in made]
    assert [body["metadata"] for body in bodies] == [{"name": "pod-0"}, {"name": "pod-1"}, {"name": "pod-2"}]
    assert [body["spec"]["priority"] for body in bodies] == [0, 1, 0]


def test_template_keeps_its_own_name() -> None:
    """Pods would wait for a group of another name."""
    text = 'apiVersion: x/v1\nkind: PodGroup\nmetadata: {name: "gang-{{.Index}}"}\n'
    name, body = template.Template(text, "test").make("ignored", {"Index": 4})
    assert name == "gang-4"
    assert orjson.loads(body)["metadata"]["name"] == "gang-4"


def test_template_names_the_file_of_an_error(tmp_path: Path) -> None:
    """A template's author would not learn which of them is wrong."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: Pod\n")
    with pytest.raises(template.TemplateError, match=r"broken\.yaml"):
        template.Template.load(broken)


@pytest.mark.parametrize(
    ("text", "expected"), [("2s", 2.0), ("500ms", 0.5), ("1m30s", 90.0), ("1.5h", 5400.0)], ids=str
)
def test_seconds(text: str, expected: float) -> None:
    """A pause would be a thousand times too long or too short."""
    assert workload.seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "2", "2x", "s", "1m x"])
def test_seconds_refused(text: str) -> None:
    """A mistyped pause would be none."""
    with pytest.raises(ValueError, match="no duration"):
        workload.seconds(text)


def read(steps: str, params: str = "{}", extra: str = "") -> workload.Workload:
    """The one workload of a small file."""
    text = f"- name: t\n  workloadTemplate: [{steps}]\n  workloads: [{{name: v, params: {params}}}]\n{extra}"
    (result,) = workload.read(text, Path("/folder"))
    return result


def _of_kind(kind: str) -> str:
    """A step that creates the pods of one kind of controllers."""
    return f"{{opcode: createPods, count: 1, controllers: {{seed: 1, kinds: [{{{kind}}}]}}}}"


def test_parameters_and_paths_are_resolved() -> None:
    """A workload would run with another number of pods, or with another template, than its variant says."""
    found = read(
        "{opcode: createNodes, countParam: $n}, {opcode: createPods, countParam: $groups, countMultiplierParam: $per, "
        "podTemplatePath: a/pod.yaml, templateParams: {per: $per}}",
        params="{n: 7, groups: 3, per: 4}",
    )
    nodes, pods = found.steps
    assert isinstance(nodes, step.CreateNodes)
    assert isinstance(pods, step.CreatePods)
    assert (found.nodes, nodes.count, pods.count) == (7, 7, 12)
    assert pods.template == Path("/folder/a/pod.yaml")
    assert pods.values == {"per": 4}
    assert pods.wait
    assert not pods.measured


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        pytest.param("{opcode: createNodes, countParam: $m}", r"\$m is not set", id="no-parameter"),
        pytest.param("{opcode: createNodes, count: many}", "count", id="not-a-number"),
        pytest.param(
            "{opcode: createNodes, count: 1, uniqueNodeLabelStrategy: {}}", "not supported", id="unknown-field"
        ),
        pytest.param("{opcode: allocResourceClaims}", "allocResourceClaims", id="unknown-opcode"),
        pytest.param("{opcode: churn, mode: sometimes}", "mode", id="mode"),
        pytest.param("{opcode: sleep, duration: long}", "duration", id="duration"),
        pytest.param(
            "{opcode: createPods, count: 1, podTemplatePath: p, collectMetrics: true, skipWaitToCompletion: true}",
            "exclude each other",
            id="measured-but-not-awaited",
        ),
        pytest.param(
            "{opcode: createPods, count: 1, podTemplatePath: p, createPodsPerSecond: 0}", "above zero", id="rate"
        ),
        pytest.param("{opcode: deletePods}", "namespace is missing", id="delete-where"),
        pytest.param("{opcode: createPods, count: 1, controllers: {seed: 1}}", "kinds is missing", id="no-kinds"),
        pytest.param(_of_kind("share: 100, pods: [1, 2]"), r"kinds\[0\]: podTemplatePath is missing", id="no-template"),
        pytest.param(_of_kind("share: 100, podTemplatePath: p, pods: [3, 2]"), r"not \[3, 2\]", id="sizes"),
        pytest.param(_of_kind("share: 99, podTemplatePath: p, pods: [1, 2]"), "should be 100 together", id="shares"),
    ],
)
def test_steps_refused(steps: str, message: str) -> None:
    """A step would be carried out without what it asks for, and measured under the same name."""
    with pytest.raises(workload.WorkloadError, match=message):
        read(steps)


def test_a_test_that_cannot_be_done_is_no_obstacle_to_another() -> None:
    """Nothing of kube-scheduler's own files could be run, for something that cannot be done here."""
    text = (
        "- {name: odd, workloadTemplate: [{opcode: allocResourceClaims}], workloads: [{name: v}]}\n"
        "- {name: plain, workloadTemplate: [{opcode: createPods, count: 1}], workloads: [{name: v}]}\n"
    )
    assert [each.name for each in workload.read(text, Path(), ["plain"])] == ["plain/v"]
    with pytest.raises(workload.WorkloadError, match="allocResourceClaims"):
        workload.read(text, Path())


def test_error_names_test_variant_and_step() -> None:
    """In a file of forty workloads nobody would find the wrong line."""
    with pytest.raises(workload.WorkloadError, match=r"t/v, step 1 \(sleep\)"):
        read("{opcode: startScheduler}, {opcode: sleep, duration: x}")


def _paths_in(value: object) -> Iterator[Path]:
    """All paths in a record and in those within it."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _paths_in(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _paths_in(getattr(value, field.name))


def test_our_workloads_are_readable_and_their_templates_exist() -> None:
    """`make bench` would fail an hour into its run."""
    for each in workload.load(OURS):
        for path in _paths_in(each.steps):
            template.Template.load(path)
        assert each.steps, each.name


def test_templates_name_nodes_that_are_there() -> None:
    """Pods would wait forever for nodes of another step, or limits of attachments count for no node."""
    for each in workload.load(OURS):
        if any("node-0-" in path.read_text() for path in _paths_in(each.steps)):
            assert isinstance(each.steps[0], step.CreateNodes), each.name


def test_our_workloads_measure_something() -> None:
    """A run would take a minute and end without a figure."""
    for each in workload.load(OURS):
        created = [one for one in each.steps if isinstance(one, step.CreatePods) and one.measured]
        collected = [one for one in each.steps if isinstance(one, step.StopCollecting)]
        assert len(created) + len(collected) == 1, each.name


def test_select() -> None:
    """`make bench NODES=… WORKLOADS=…` would run something else, or everything."""
    known = workload.load(OURS)
    chosen = workload.select(known, ["basic", "backlog"], [5000])
    assert [each.name for each in chosen] == ["basic/5000Nodes", "backlog/5000Nodes"]
    assert {each.variant for each in workload.select(known, [], [1000])} == {"1000Nodes"}
    default = workload.select(known, [], [])
    assert {each.test for each in default} == {each.test for each in known} - {"eventpace", "kinds"}, "on request"
    (pace,) = workload.select(workload.load(OURS, ["eventpace"], {"measurePods": 7, "other": 1}), ["eventpace"], [5000])
    assert [each.count for each in pace.steps if isinstance(each, step.CreatePods)] == [7]
    assert all("performance" in each.labels for each in default)
    with pytest.raises(workload.WorkloadError, match="no workload is called 'basics'; there are basic"):
        workload.select(known, ["basics"], [])
    with pytest.raises(workload.WorkloadError, match="7 nodes"):
        workload.select(known, ["basic"], [7])


def _mix() -> step.Controllers:
    """The controllers of our workload `mix`."""
    (mix,) = workload.select(workload.load(OURS, ["mix"]), ["mix"], [5000])
    (kinds,) = [one.controllers for one in mix.steps if isinstance(one, step.CreatePods) and one.controllers]
    return kinds


def test_controllers_have_their_share_of_the_pods() -> None:
    """A workload of two percent gangs would have none, or be half gangs."""
    pods = controllers.draw(_mix(), 2000)
    assert 2000 <= len(pods) < 2060, "the last controller is completed"
    counts = collections.Counter(pod.kind.share for pod in pods)
    for kind in _mix().kinds:
        alike = sum(other.share == kind.share for other in _mix().kinds)
        assert abs(counts[kind.share] / alike - kind.share * 20) <= kind.sizes[1], kind.template.name


def test_controllers_are_complete_and_overlap() -> None:
    """A group would wait forever for its last pod; or pods would come one controller after the other."""
    pods = controllers.draw(_mix(), 2000)
    of_controller: dict[int, list[controllers.ControllerPod]] = {}
    for pod in pods:
        of_controller.setdefault(pod.controller, []).append(pod)
    for members in of_controller.values():
        assert [pod.index for pod in members] == list(range(members[0].size))
    turns = sum(one.controller != other.controller for one, other in itertools.pairwise(pods))
    assert turns > 2 * len(of_controller)


def test_every_side_gets_the_same_controllers() -> None:
    """Sides would be compared on different pods."""
    assert controllers.draw(_mix(), 300) == controllers.draw(_mix(), 300)
    assert controllers.draw(_mix(), 300) != controllers.draw(dataclasses.replace(_mix(), seed=2), 300)


def test_every_controller_of_the_mixture_has_its_object() -> None:
    """Pods whose ReplicaSet is missing would not spread, and the workload would be `mix` again."""
    (owned,) = workload.select(workload.load(OURS, ["mixowned"]), ["mixowned"], [5000])
    counts = {one.template.name: one.count for one in owned.steps if isinstance(one, step.CreateAny)}
    highest = max(pod.controller for pod in controllers.draw(_mix(), 4000))
    for name in ("mix-replicaset-object.yaml", "mix-statefulset-object.yaml"):
        assert counts[name] > highest, name
