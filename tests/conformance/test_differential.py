"""Trireme and Kubernetes' own framework say the same about situations that nobody has written down."""

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conformance import (
    decision_profiles,
    differential,
    golden_rows,
    oracle_fixture,
    real_framework,
    shrinking,
    situation_blanks,
    situation_crossings,
)
from tests.conformance.decision_phases import Phases

COUNT = 60


@pytest.mark.timeout(300)
def test_random_situations_are_decided_as_the_framework_does() -> None:
    oracle_fixture.require_oracle()
    rows = list(differential.drawn(seed=1, count=COUNT))
    setups = decision_profiles.Setups(rows)
    with (
        real_framework.Oracle(2) as oracle,
        real_framework.Oracle(differential.RUNS_IF_DIFFERENT) as patient,
        Phases(setups.default.configuration) as phases,
    ):
        sides = differential.Differential(phases, setups, oracle, patient)
        assert [differences for _, differences in sides.differing(rows)] == []
    assert sides.compared > 0.9 * COUNT
    # Neither all situations where everything fits, nor all where nothing does.
    assert min(sides.met[outcome] for outcome in ("all nodes fit", "some nodes fit", "no node fits")) > COUNT // 20


@pytest.mark.timeout(300)
def test_random_situations_with_feature_gates_are_decided_as_the_framework_does() -> None:
    oracle_fixture.require_oracle()
    rows = list(differential.drawn(seed=1, count=2 * differential.CHUNK, source="gates"))
    setups = decision_profiles.Setups(rows)
    with (
        real_framework.Oracle(2) as oracle,
        real_framework.Oracle(differential.RUNS_IF_DIFFERENT) as patient,
        Phases(setups.default.configuration) as phases,
    ):
        sides = differential.Differential(phases, setups, oracle, patient)
        assert [differences for _, differences in sides.differing(rows)] == []
    assert sides.compared > 0.9 * len(rows)


def test_runs_of_situations_have_feature_gates_and_use_what_belongs_to_them() -> None:
    rows = list(differential.drawn(seed=2, count=10 * differential.CHUNK, source="gates"))
    runs = [rows[start : start + differential.CHUNK] for start in range(0, len(rows), differential.CHUNK)]
    flipped = [{json.dumps(row["case"]["featureGates"]) for row in run} for run in runs]
    assert all(len(each) == 1 for each in flipped)
    assert len(set.union(*flipped)) > 5
    text = json.dumps(rows)
    for field in ("derivedAttributes", "compatibilityGroups", "nodeAllocatableResources", "skipNodeOperations"):
        assert field in text
    assert not any("featureGates" in row["case"] for row in differential.drawn(seed=2, count=9, source="preemption"))


def test_selectors_of_every_kind_are_drawn_empty_and_absent() -> None:
    """What is empty, and what is absent, has a meaning of its own in each field."""
    selector = {"matchLabels": {"a": "b"}}
    term = {"topologyKey": "zone", "labelSelector": selector}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    case: Any = {
        "pod": {"metadata": {"labels": {"a": "b"}}, "spec": {"tolerations": [{"key": "a"}], "terms": [term]}},
        "podDisruptionBudgets": [{"spec": {"selector": selector}}],
        "persistentVolumes": [{"spec": {"nodeAffinity": {"required": terms}}}],
        "storageClasses": [{"provisioner": "p"}],
        "csiStorageCapacities": [{"nodeTopology": selector}],
        "deviceTaintRules": [{"spec": {"deviceSelector": {"driver": "d"}, "taint": {}}}],
        "resourceSlices": [{"spec": {"nodeSelector": terms}}],
    }
    draw, texts = random.Random(1), []
    for _ in range(400):
        changed = copy.deepcopy(case)
        situation_blanks.add(draw, changed)
        texts.append(json.dumps(changed))
    for field in ("labelSelector", "namespaceSelector", "selector", "required", "nodeTopology", "nodeSelector"):
        assert any(f'"{field}": {{}}' in text for text in texts), field
    for field in ("tolerations", "nodeSelectorTerms", "allowedTopologies", "matchExpressions"):
        assert any(f'"{field}": []' in text for text in texts), field
    for field in ("labels", "labelSelector", "selector", "required", "nodeTopology", "deviceSelector", "tolerations"):
        assert any(f'"{field}":' not in text for text in texts), field


def test_the_oracle_agrees_with_the_golden_data() -> None:
    oracle_fixture.require_oracle()
    rows = list(golden_rows.read(golden_rows.DECISIONS))[::40]
    with real_framework.Oracle(4) as oracle:
        answers = oracle.ask(rows)
    assert [_ordered(answer["expect"]) for answer in answers] == [_ordered(row["expect"]) for row in rows]


def _ordered(value: Any) -> Any:
    """Lists that are sets, in one order."""
    if isinstance(value, dict):
        return {name: _ordered(inner) for name, inner in value.items()}
    return sorted(value) if isinstance(value, list) and all(isinstance(inner, str) for inner in value) else value


def test_a_seed_draws_the_same_situations_each_time() -> None:
    first = list(differential.drawn(seed=7, count=30))
    assert first == list(differential.drawn(seed=7, count=30))
    assert first != list(differential.drawn(seed=8, count=30))


def test_a_crossing_names_every_object_once() -> None:
    """A situation that is mixed from two others has one object of each name, so that differences can be read."""
    crossings = situation_crossings.Crossings(list(golden_rows.read(golden_rows.DECISIONS)))
    draw = random.Random(4)
    cases = [crossings.draw(draw, str(number))["case"] for number in range(150)]
    for case in cases:
        for field in ("nodes", "pods", "nominated", "persistentVolumeClaims", "resourceClaims", "resourceSlices"):
            names = [(one["metadata"].get("namespace"), one["metadata"]["name"]) for one in case.get(field, ())]
            assert len(names) == len(set(names)), (case["name"], field)
        nodes = {node["metadata"]["name"] for node in case["nodes"]}
        assert nodes >= {pod["spec"]["nodeName"] for pod in case["pods"]}
    # Some have pods of more than one golden case.
    assert any(len({pod["metadata"]["name"][0] for pod in case["pods"]}) > 1 for case in cases)


def test_shrinking_leaves_what_makes_the_situation_interesting() -> None:
    row = next(iter(differential.drawn(seed=3, count=1)))
    case = copy.deepcopy(row["case"])
    marked = random.Random(1).choice(case["nodes"])
    marked["metadata"]["labels"]["cause"] = "yes"

    def interesting(candidates: Sequence[Any]) -> int | None:
        for index, candidate in enumerate(candidates):
            if any("cause" in node["metadata"].get("labels", {}) for node in candidate["nodes"]):
                return index
        return None

    small = shrinking.shrink(case, interesting)
    assert [node["metadata"] for node in small["nodes"]] == [
        {"name": marked["metadata"]["name"], "labels": {"cause": "yes"}}
    ]
    assert not small.get("pods")
    assert small["pod"]["spec"]["containers"]
