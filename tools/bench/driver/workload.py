"""Workloads: what is done to a cluster while a scheduler is watched, read from scheduler_perf's YAML.

A file is a list of tests; a test has a `workloadTemplate` (steps, each with an `opcode`) and `workloads` (variants,
each with the parameters that steps name as `$parameter`). Opcodes and fields are kube-scheduler's own, so its files can
be read too. What a black-box driver needs beyond them is ours: `startScheduler` (else the scheduler runs from the
beginning), `startProvisioner` (makes volumes, as nothing else does here), `idle` (after all was measured: what the
scheduler needs while nothing happens), and in `createPods` the fields `preassigned` (already on nodes, round robin),
`oneAtATime` (each is created when the one before is bound), `createPodsPerSecond`, and `controllers` (pods of several
kinds of controllers: `step.Controllers`). A test may say `limited: false` where binding without deciding would not be
the same work, and `sides: [...]` where others than the usual ones compete.

Pure: files in, frozen values out. A field or opcode that this driver does not know is an error that names it, because a
step carried out without it would measure something else under the same name.

Also change: tools/bench/workloads/performance-config.yaml (the words of the driver).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.bench.driver import step
from tools.bench.driver.template import Value


class WorkloadError(ValueError):
    """A workload file that this driver cannot carry out; the message says where."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """One variant of a test, every parameter resolved."""

    test: str
    variant: str
    labels: frozenset[str]
    nodes: int
    steps: tuple[step.Step, ...]
    feature_gates: Mapping[str, bool]
    limited: bool
    """Whether the limit (binding without deciding) does the same work here."""
    sides: tuple[str, ...]
    """Who competes unless others are asked for; empty: the usual ones."""

    @property
    def name(self) -> str:
        """Test and variant, as they are named in reports."""
        return f"{self.test}/{self.variant}"

    @property
    def starts_scheduler(self) -> bool:
        """Whether a step starts the scheduler, which otherwise runs from the beginning."""
        return any(isinstance(each, step.StartScheduler) for each in self.steps)


class Fields:
    """Reads the fields of one step, and knows which were never asked for."""

    def __init__(self, raw: Mapping[str, Any], params: Mapping[str, Any], folder: Path, where: str) -> None:
        self._raw = raw
        self._params = params
        self._folder = folder
        self._where = where
        self._asked = {"opcode"}

    def error(self, message: str) -> WorkloadError:
        """An error that says which step it is about."""
        return WorkloadError(f"{self._where}: {message}")

    def get(self, key: str, default: Any = None) -> Any:
        """A field's value, a `$parameter` resolved."""
        self._asked.add(key)
        value = self._raw.get(key, default)
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in self._params:
                raise self.error(f"{key}: parameter {value} is not set")
            return self._params[value[1:]]
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A number given as `key` or, by a parameter, as `keyParam`."""
        direct = self.get(key, default)
        value = self.get(key + "Param", direct)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(f"{key} should be a count, not {value!r}")
        return value

    def rate(self, key: str) -> float | None:
        """A positive number a second, or None."""
        value = self.get(key)
        if value is not None and (not isinstance(value, int | float) or value <= 0):
            raise self.error(f"{key} should be a number above zero, not {value!r}")
        return None if value is None else float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.error(f"{key} should be true or false, not {value!r}")
        return value

    def path(self, key: str) -> Path | None:
        """A template's path, relative to the file's folder."""
        value = self.get(key)
        return None if value is None else (self._folder / str(value)).resolve()

    def paths(self, key: str) -> tuple[Path, ...]:
        """A list of templates' paths."""
        return tuple((self._folder / each).resolve() for each in self.texts(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of words."""
        return tuple(str(each) for each in self.get(key) or ())

    def optional_text(self, key: str) -> str | None:
        """A word, or None where it is not given."""
        value = self.get(key)
        return None if value is None else str(value)

    def text(self, key: str) -> str:
        """A word that has to be given."""
        value = self.optional_text(key)
        if value is None:
            raise self.error(f"{key} is missing")
        return value

    def values(self) -> dict[str, Value]:
        """The template's parameters."""
        self._asked.add("templateParams")
        raw = self._raw.get("templateParams") or {}
        return {key: Fields(raw, self._params, self._folder, self._where).get(key) for key in raw}

    def nested(self, key: str) -> Fields:
        """A step inside this one."""
        raw = self.get(key)
        if not isinstance(raw, dict):
            raise self.error(f"{key} is missing")
        return Fields(raw, self._params, self._folder, f"{self._where}, {key}")

    def list_of(self, key: str) -> list[Fields]:
        """The entries of a list that has to be given."""
        raw = self.get(key)
        if not isinstance(raw, list) or not raw:
            raise self.error(f"{key} is missing")
        return [Fields(each, self._params, self._folder, f"{self._where}, {key}[{at}]") for at, each in enumerate(raw)]

    def finish(self) -> None:
        """Raises where a field was given that nobody asked for."""
        unknown = sorted(self._raw.keys() - self._asked)
        if unknown:
            raise self.error(f"{', '.join(unknown)}: not supported by this driver")


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A duration as Go writes it (`1m30s`, `500ms`), in seconds. Raises ValueError for anything else."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _create_nodes(fields: Fields, _: Path | None) -> step.Step:
    labels = fields.get("labelNodePrepareStrategy") or {}
    return step.CreateNodes(
        count=fields.integer("count"),
        template=fields.path("nodeTemplatePath"),
        label_key=str(labels.get("labelKey", "")),
        label_values=tuple(labels.get("labelValues", ())),
        values=fields.values(),
    )


def _create_namespaces(fields: Fields, _: Path | None) -> step.Step:
    template = fields.path("namespaceTemplatePath")
    return step.CreateNamespaces(fields.integer("count"), fields.text("prefix"), template)


def _create_pods(fields: Fields, default: Path | None) -> step.CreatePods:
    pods = step.CreatePods(
        count=fields.integer("count") * int(fields.get("countMultiplierParam", 1)),
        template=fields.path("podTemplatePath") or default,
        namespace=fields.optional_text("namespace"),
        measured=fields.flag("collectMetrics"),
        wait=not fields.flag("skipWaitToCompletion"),
        values=fields.values(),
        preassigned=fields.flag("preassigned"),
        one_at_a_time=fields.flag("oneAtATime"),
        per_second=fields.rate("createPodsPerSecond"),
        controllers=None if fields.get("controllers") is None else _controllers(fields.nested("controllers")),
    )
    if pods.measured and not pods.wait:
        raise fields.error("collectMetrics and skipWaitToCompletion exclude each other")
    return pods


def _controllers(fields: Fields) -> step.Controllers:
    kinds = []
    for each in fields.list_of("kinds"):
        template, sizes = each.path("podTemplatePath"), each.get("pods")
        if template is None:
            raise each.error("podTemplatePath is missing")
        if not isinstance(sizes, list) or len(sizes) != 2 or not 0 < sizes[0] <= sizes[1]:
            raise each.error(f"pods should be the least and the most pods of a controller, not {sizes!r}")
        objects = each.paths("controllerTemplatePaths"), each.paths("podObjectTemplatePaths")
        kinds.append(step.ControllerKind(each.integer("share"), (sizes[0], sizes[1]), template, *objects))
        each.finish()
    result = step.Controllers(fields.integer("seed"), tuple(kinds))
    fields.finish()
    if sum(kind.share for kind in kinds) != 100:
        raise fields.error("the shares of all kinds should be 100 together")
    return result


def _delete_pods(fields: Fields, _: Path | None) -> step.Step:
    per_second = fields.rate("deletePodsPerSecond")
    return step.DeletePods(fields.text("namespace"), per_second, not fields.flag("skipWaitToCompletion"))


def _create_pod_sets(fields: Fields, default: Path | None) -> step.Step:
    inner = fields.nested("createPodsOp")
    pods = _create_pods(inner, default)
    inner.finish()
    return step.CreatePodSets(fields.integer("count"), fields.text("namespacePrefix"), pods)


def _create_any(fields: Fields, _: Path | None) -> step.Step:
    template = fields.path("templatePath")
    if template is None:
        raise fields.error("templatePath is missing")
    return step.CreateAny(fields.integer("count", 1), template, fields.optional_text("namespace"), fields.values())


def _churn(fields: Fields, _: Path | None) -> step.Step:
    mode = fields.text("mode")
    if mode not in ("create", "recreate"):
        raise fields.error(f"mode should be create or recreate, not {mode!r}")
    return step.Churn(
        recreate=mode == "recreate",
        number=fields.integer("number", 0),
        templates=fields.paths("templatePaths"),
        interval=fields.integer("intervalMilliseconds", 500) / 1000,
    )


def _barrier(fields: Fields, _: Path | None) -> step.Step:
    stage = fields.get("stageRequirement", "Scheduled")
    if stage not in ("Scheduled", "Attempted"):
        raise fields.error(f"stageRequirement should be Scheduled or Attempted, not {stage!r}")
    return step.Barrier(stage == "Attempted", fields.texts("namespaces"))


def _duration(fields: Fields) -> float:
    text = str(fields.get("durationParam", fields.get("duration")))
    try:
        return seconds(text)
    except ValueError as error:
        raise fields.error(str(error)) from error


OPCODES: Mapping[str, Callable[[Fields, Path | None], step.Step]] = {
    "createNodes": _create_nodes,
    "createNamespaces": _create_namespaces,
    "createPods": _create_pods,
    "createPodSets": _create_pod_sets,
    "createAny": _create_any,
    "createPodGroups": _create_any,
    "deletePods": _delete_pods,
    "startProvisioner": lambda fields, _: step.StartProvisioner(),
    "churn": _churn,
    "barrier": _barrier,
    "sleep": lambda fields, _: step.Sleep(_duration(fields)),
    "idle": lambda fields, _: step.Idle(_duration(fields)),
    "startCollectingMetrics": lambda fields, _: step.StartCollecting(fields.texts("namespaces")),
    "stopCollectingMetrics": lambda fields, _: step.StopCollecting(),
    "startScheduler": lambda fields, _: step.StartScheduler(),
}


def read(
    text: str, folder: Path, only: Sequence[str] = (), parameters: Mapping[str, Any] | None = None
) -> list[Workload]:
    """The workloads of a file, of the tests in `only` or of all. Raises WorkloadError for what cannot be carried out.

    `parameters` replace those of the variants that have them. With `only`, a test that this driver cannot do is no
    obstacle to another one of the same file.
    """
    tests = yaml.safe_load(text)
    if not isinstance(tests, list):
        raise WorkloadError("a workload file is a list of tests")
    chosen = [test for test in tests if not only or test["name"] in only] or tests
    return [
        _read_variant(test, _replaced(variant, parameters or {}), folder)
        for test in chosen
        for variant in test.get("workloads", [])
    ]


def _replaced(variant: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The variant with other parameters; one that it does not have is not given to it."""
    own = variant.get("params", {})
    return {**variant, "params": {**own, **{name: value for name, value in parameters.items() if name in own}}}


def load(path: Path, only: Sequence[str] = (), parameters: Mapping[str, Any] | None = None) -> list[Workload]:
    """The workloads of the file at `path`, as `read` has them."""
    try:
        return read(path.read_text(), path.parent, only, parameters)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from error
    except (WorkloadError, yaml.YAMLError) as error:
        raise WorkloadError(f"{path}: {error}") from error


def _read_variant(test: Mapping[str, Any], variant: Mapping[str, Any], folder: Path) -> Workload:
    params = variant.get("params", {})
    default = test.get("defaultPodTemplatePath")
    default_path = None if default is None else (folder / default).resolve()
    steps = tuple(
        _read_step(raw, params, default_path, folder, f"{test['name']}/{variant['name']}, step {number}")
        for number, raw in enumerate(test.get("workloadTemplate", []))
    )
    return Workload(
        test=test["name"],
        variant=variant["name"],
        labels=frozenset(variant.get("labels", ())),
        nodes=sum(each.count for each in steps if isinstance(each, step.CreateNodes)),
        steps=steps,
        feature_gates={**test.get("featureGates", {}), **variant.get("featureGates", {})},
        limited=bool(test.get("limited", True)),
        sides=tuple(test.get("sides", ())),
    )


def _read_step(
    raw: Mapping[str, Any], params: Mapping[str, Any], default: Path | None, folder: Path, where: str
) -> step.Step:
    opcode = raw.get("opcode")
    reader = OPCODES.get(str(opcode))
    if reader is None:
        raise WorkloadError(f"{where}: opcode {opcode!r} is not supported by this driver")
    fields = Fields(raw, params, folder, f"{where} ({opcode})")
    result = reader(fields, default)
    fields.finish()
    return result


def select(workloads: Sequence[Workload], tests: Sequence[str], nodes: Sequence[int]) -> list[Workload]:
    """The workloads asked for by test and number of nodes; those labelled `performance` where nothing is asked.

    Raises: WorkloadError where a test, or a test with that many nodes, does not exist.
    """
    for test in tests:
        if all(each.test != test for each in workloads):
            known = ", ".join(dict.fromkeys(each.test for each in workloads))
            raise WorkloadError(f"no workload is called {test!r}; there are {known}")
    chosen = [
        each
        for each in workloads
        if (each.test in tests if tests else True)
        and (each.nodes in nodes if nodes else bool(tests) or "performance" in each.labels)
    ]
    if not chosen:
        raise WorkloadError(f"no workload has {' or '.join(map(str, nodes))} nodes")
    return chosen
