"""Compares what leaders decide with what Kubernetes' own scheduling framework decides by the same state.

The framework is the Go program of `tests/conformance/oracle`. It decides a sample of the states of each storm, and of
each calm, again. Any of several best nodes may be taken, and among several ways to make room those that the
framework itself takes by chance. Where the program is not built nothing is compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance import real_framework
from tests.simulation.decision_cases import ConfigurationOf, DecisionCases
from tests.simulation.decision_records import Decision, DecisionRecords
from tests.simulation.object_history import ObjectHistory
from tests.simulation.simulated_configuration import DEFAULT_WEIGHTS
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.storage.store import Store

# So many decisions of each storm and of each calm are compared, and so many preemptions besides.
SAMPLE, PREEMPTIONS = 16, 8
# How often the framework decides one; lists come in any order there, and what is not the same each time is not
# compared. A difference counts if it is there after each of several times as many.
RUNS, RUNS_IF_DIFFERENT, TIMES_IF_DIFFERENT = 1, 24, 12
# So many cases are written out at a time: one of a hundred nodes is half a megabyte.
AT_ONCE = 4
# Where it makes room in more different ways than so many, there may be more that it did not find: it takes the first
# one of a map, so that of equal ways some come seldom.
WAYS = 12


class OracleChecks:
    """The comparisons of one simulation. `violations` are in the order in which they were found."""

    def __init__(self, store: Store, configuration_of: ConfigurationOf, seed: int) -> None:
        """`configuration_of` returns by what the frontend with a cache decides."""
        self._seed = seed
        cases = DecisionCases(ObjectHistory(store), configuration_of)
        self._records = DecisionRecords(cases, seed, SAMPLE, PREEMPTIONS)
        self._due: list[Decision] = []
        self.violations: list[str] = []
        #: Whether there is anything to compare with, and how many decisions were compared.
        self.available = real_framework.available()
        self.compared = self.preemptions = 0

    @property
    def summary(self) -> str:
        """How much was compared, in a few words."""
        if not self.available:
            return "no decisions compared with kube-scheduler's (build/oracle is missing)"
        return f"{self.compared} decisions compared with kube-scheduler's, {self.preemptions} of them preemptions"

    def begin_sample(self) -> None:
        """A storm or a calm begins: its decisions are sampled by themselves."""
        self._due += self._records.sample
        self._records.clear()

    def compare(self) -> None:
        """Compare what was decided since the last time."""
        self.begin_sample()
        due, self._due = self._due, []
        if not self.available or not due:
            return
        with real_framework.Oracle(RUNS) as oracle:
            for start in range(0, len(due), AT_ONCE):
                some = due[start : start + AT_ONCE]
                answers = oracle.ask([{"name": self._name(each), "case": each.case} for each in some])
                for decision, row in zip(some, answers, strict=True):
                    if "error" not in row:
                        self.compared += 1
                        self.preemptions += bool(decision.preemption and decision.preemption["victims"])
                    if any(differences(decision, row)):
                        self._ask_again(decision, row)

    def _name(self, decision: Decision) -> str:
        return f"simulation-{self._seed}-{decision.pod.partition('/')[2]}"

    def _ask_again(self, decision: Decision, row: Object) -> None:
        """What the framework says by chance it should have said by now."""
        found, again = list[str](), row
        with real_framework.Oracle(RUNS_IF_DIFFERENT) as oracle:
            for _ in range(TIMES_IF_DIFFERENT):
                again = oracle.ask([{"name": row["name"], "case": row["case"]}])[0]
                found = list(differences(decision, again))
                if not found:
                    return
        self._write(again)
        self.violations.append(f"kube-scheduler decides otherwise about {decision.pod}: {'; '.join(found)}")

    def _write(self, row: Object) -> None:
        """Add the case to those that `make conformance` can decide again."""
        path = real_framework.REPOSITORY / "build" / f"simulation-{self._seed}-decisions.jsonl"
        path.parent.mkdir(exist_ok=True)
        with path.open("w" if not self.violations else "a", encoding="utf-8") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def differences(decision: Decision, row: Object) -> Iterator[str]:
    """How a decision differs from the framework's answer, which has `expect` or, where it fails itself, `error`."""
    if "error" in row:
        return
    expect, varies = row["expect"], set(row.get("varies") or ())
    if "feasible" in varies or "preFilter" in varies:
        return
    feasible = set(expect.get("feasible") or ())
    if decision.chosen:
        yield from _choice(decision, expect, feasible)
    if decision.has_statuses:
        yield from _statuses(decision, expect, varies, feasible)
    if decision.preemption is not None and not feasible:
        yield from _preemption(decision.preemption, row)


def _choice(decision: Decision, expect: Object, feasible: set[str]) -> Iterator[str]:
    """A nominated pod gets its node if that takes it; any other pod, one of the best ones."""
    chosen = decision.chosen
    if chosen not in feasible:
        refusal = expect.get("preFilter") or (expect.get("filter") or {}).get(chosen)
        yield f"it is placed on {chosen}, which refuses it: {json.dumps(refusal)}"
    elif decision.nominated_node in feasible:
        if chosen != decision.nominated_node:
            yield f"it is placed on {chosen}, though it is nominated to {decision.nominated_node}"
    elif len(feasible) > 1 and "total" in expect:
        totals = _totals(expect, decision.weights)
        best = max(totals.values())
        if totals[chosen] != best:
            names = sorted(name for name, total in totals.items() if total == best)
            scores = expect.get("scores") or {}  # with the weights that there are by default
            text = f"{json.dumps(scores.get(chosen))}, against {json.dumps(scores.get(names[0]))} of {names[0]}"
            yield f"it is placed on {chosen} with {totals[chosen]}, not on one with {best}: {text}"


def _totals(expect: Object, weights: Mapping[str, int]) -> Mapping[str, int]:
    """The nodes' scores with the decision's weights, where the framework has those that there are by default."""
    if all(weights.get(name, weight) == weight for name, weight in DEFAULT_WEIGHTS.items()):
        total: Mapping[str, int] = expect["total"]
        return total
    return {
        node: sum(
            score // DEFAULT_WEIGHTS[name] * weights.get(name, DEFAULT_WEIGHTS[name])
            if name in DEFAULT_WEIGHTS
            else score
            for name, score in scores.items()
        )
        for node, scores in expect["scores"].items()
    }


def _statuses(decision: Decision, expect: Object, varies: set[str], feasible: set[str]) -> Iterator[str]:
    """The nodes that refuse the pod, and why; nodes that the remote plugin closes refuse it for whatever reason."""
    expected = expect.get("preFilter")
    if expected is not None or decision.pre_filter is not None:
        if _status(expected) != decision.pre_filter:
            yield f"PreFilter says {json.dumps(decision.pre_filter)}, and there {json.dumps(_status(expected))}"
        return
    names = [node["metadata"]["name"] for node in decision.case["nodes"]]
    passing = {name for name in names if name not in decision.statuses}
    if passing != feasible:
        yield f"only here pass {sorted(passing - feasible)}, only there {sorted(feasible - passing)}"
        return
    if "filter" in varies:
        return
    for name, said in (expect.get("filter") or {}).items():
        if name not in decision.closed and _status(said) != decision.statuses[name]:
            yield f"{name} says {json.dumps(decision.statuses[name])}, and there {json.dumps(_status(said))}"
            return


def _status(value: Object | None) -> Object | None:
    if value is None:
        return None
    return {"code": value["code"], "plugin": value.get("plugin", ""), "reasons": sorted(value.get("reasons") or ())}


def _preemption(made: Object, row: Object) -> Iterator[str]:
    """The way in which room is made is one that the framework takes, too."""
    said = (row.get("either") or {}).get("preemption") or [row["expect"].get("preemption")]
    if len(said) > WAYS:
        return
    ways = [_way(each) for each in said if each is not None]
    if ways and made not in ways:
        yield f"PostFilter does {json.dumps(made)}, and there {' or '.join(map(json.dumps, ways))}"


def _way(preemption: Any) -> Object:
    return {
        "nominatedNode": preemption.get("nominatedNode", ""),
        "victims": sorted(preemption.get("victims") or ()),
    }
