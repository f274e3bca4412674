"""Comparing an answer to a golden decision, field by field and plugin by plugin.

Each comparison of one case is one `Finding`: the field, the plugin that it is about (if it is about one), and whether
both sides say the same. What a plugin that is not there would have said is no difference but *not yet*: it is counted
apart, so that an agreement of 100 % never hides that something was not asked.

A node that such a plugin refuses must pass here, or be refused by a plugin after it in the profile's order: anything
else is a difference of the plugin that refused it.
"""

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.decision_profiles import Setup
from tests.conformance.golden_rows import Row, category_of

Json = Mapping[str, Any]

# Who decides what Reserve keeps for claims. It is also the first plugin at PostFilter.
_ALLOCATES = "DynamicResources"


class Verdict(enum.StrEnum):
    """How a comparison came out."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_YET = "not yet"


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison. `expected` and `answered` are short texts, and only there for a difference."""

    case: str
    category: str
    field: str
    plugin: str
    verdict: Verdict
    expected: str = ""
    answered: str = ""


def refused_elsewhere(row: Row, setup: Setup) -> frozenset[str]:
    """The nodes that a plugin which is not there refuses, by itself: they must not be scored."""
    said: Json = row["expect"].get("filter") or {}
    return frozenset(name for name, status in said.items() if status["plugin"] in setup.missing)


def compare(row: Row, answer: Json, setup: Setup) -> list[Finding]:
    """All findings about a case."""
    return list(_Comparison(row, answer, setup).all())


class _Comparison:
    def __init__(self, row: Row, answer: Json, setup: Setup) -> None:
        self._case = row["name"]
        self._category = category_of(row)
        self._expect: Json = row["expect"]
        self._nodes: list[Json] = row["case"]["nodes"]
        self._answer = answer
        self._setup = setup
        # Plugins that are not there and have something to say about this case.
        alone: Json = self._expect.get("byPlugin") or {}
        self._involved = {name for name in alone if name in setup.missing_filters}
        refusal = self._expect.get("preFilter")
        if refusal is not None and refusal.get("plugin") in setup.missing_filters:
            self._involved.add(refusal["plugin"])
        self._refused_outright = refusal is not None and refusal.get("plugin", "") in self._involved

    def all(self) -> Iterator[Finding]:
        yield from self._alone()
        yield self._pre_filter()
        if self._refused_outright:
            missing = self._expect["preFilter"]["plugin"]
            yield self._finding("filter", missing, Verdict.NOT_YET)
            return
        yield self._narrowing()
        yield from self._filter()
        yield self._feasible()
        if "scores" in self._expect:
            yield from self._scores()
        if "allocations" in self._expect or "allocations" in self._answer:
            yield self._allocations()
        if "claimStatuses" in self._expect:
            yield self._claim_statuses()
        if "preemption" in self._expect:
            yield self._preemption()
        if "message" in self._expect:
            yield self._message()

    def _finding(self, field: str, plugin: str, verdict: Verdict, expected: Any = "", answered: Any = "") -> Finding:
        texts = (_text(expected), _text(answered)) if verdict is Verdict.DIFFERS else ("", "")
        return Finding(self._case, self._category, field, plugin, verdict, *texts)

    def _same(self, field: str, plugin: str, expected: Any, answered: Any) -> Finding:
        verdict = Verdict.AGREES if expected == answered else Verdict.DIFFERS
        return self._finding(field, plugin, verdict, expected, answered)

    def _allocations(self) -> Finding:
        """Nodes where the result varies are not named, so only those named are compared."""
        if _ALLOCATES in self._setup.missing or self._involved:
            return self._finding("allocations", _ALLOCATES, Verdict.NOT_YET)
        expected: Json = self._expect.get("allocations") or {}
        answered: Json = self._answer.get("allocations") or {}
        named = {node: claims for node, claims in answered.items() if node in expected}
        return self._same("allocations", _ALLOCATES, *_only_differing(expected, named))

    def _claim_statuses(self) -> Finding:
        """Only the oracle reports them, not the golden data."""
        answered: Json = self._answer.get("claimStatuses") or {}
        return self._same("claimStatuses", _ALLOCATES, *_only_differing(self._expect["claimStatuses"], answered))

    def _preemption(self) -> Finding:
        expected: Json = self._expect["preemption"]
        if self._involved or self._ends_before_preemption():
            return self._finding("preemption", "", Verdict.NOT_YET)
        answered: Json = self._answer.get("preemption") or {}
        if _ALLOCATES in self._setup.missing:
            # A refusal by all plugins goes by the name of the first, which is not there.
            expected, answered = _unnamed(expected), _unnamed(answered)
        return self._same("preemption", "", expected, answered)

    def _ends_before_preemption(self) -> bool:
        """A plugin that is not there fails at PostFilter, so that preemption is not tried."""
        status: Json = (self._expect.get("preemption") or {}).get("status") or {}
        return _ALLOCATES in self._setup.missing and status.get("code") == "Error"

    def _alone(self) -> Iterator[Finding]:
        expected: Json = self._expect.get("byPlugin") or {}
        answered: Json = self._answer.get("byPlugin") or {}
        for plugin in self._setup.filter_order:
            if plugin in self._setup.missing_filters:
                if plugin in expected:
                    yield self._finding("byPlugin", plugin, Verdict.NOT_YET)
                continue
            wanted, said = (_statuses(side.get(plugin) or {}) for side in (expected, answered))
            yield self._same("byPlugin", plugin, *_only_differing(wanted, said))

    def _pre_filter(self) -> Finding:
        expected = _status(self._expect.get("preFilter"))
        answered = _status(self._answer.get("preFilter"))
        plugin = str((expected or answered or {}).get("plugin", ""))
        if self._refused_outright and answered is None:
            return self._finding("preFilter", plugin, Verdict.NOT_YET)
        return self._same("preFilter", plugin, expected, answered)

    def _narrowing(self) -> Finding:
        # Names of nodes that are not there matter to nobody; a plugin may name them all the same.
        there = {node["metadata"]["name"] for node in self._nodes}
        expected, answered = (
            sorted(there.intersection(side.get("preFilterNodes") or ())) for side in (self._expect, self._answer)
        )
        if self._involved and expected != answered:
            return self._finding("preFilterNodes", "", Verdict.NOT_YET)
        return self._same("preFilterNodes", "", expected, answered)

    def _filter(self) -> Iterator[Finding]:
        """One finding a plugin that refuses a node on either side."""
        wanted: dict[str, dict[str, Any]] = {}
        said: dict[str, dict[str, Any]] = {}
        unasked: set[str] = set()
        expected: Json = self._expect.get("filter") or {}
        answered: Json = self._answer.get("filter") or {}
        for node in sorted({*expected, *answered}):
            here, there = _status(answered.get(node)), _status(expected.get(node))
            plugin = str((there or here or {})["plugin"])
            if plugin in self._setup.missing_filters:
                unasked.add(plugin)
                if here is None or self._rank(here["plugin"]) > self._rank(plugin):
                    continue
                plugin = here["plugin"]
            wanted.setdefault(plugin, {})[node] = there
            said.setdefault(plugin, {})[node] = here
        for plugin in sorted(unasked):
            yield self._finding("filter", plugin, Verdict.NOT_YET)
        for plugin in sorted(wanted):
            yield self._same("filter", plugin, *_only_differing(wanted[plugin], said[plugin]))

    def _rank(self, plugin: str) -> int:
        order = self._setup.filter_order
        return order.index(plugin) if plugin in order else len(order)

    def _feasible(self) -> Finding:
        said: Json = self._expect.get("filter") or {}
        unasked = {node for node, status in said.items() if status["plugin"] in self._setup.missing_filters}
        answered = [node for node in self._answer["feasible"] if node not in unasked]
        return self._same("feasible", "", sorted(self._expect.get("feasible") or ()), sorted(answered))

    def _scores(self) -> Iterator[Finding]:
        expected: Json = self._expect["scores"]
        answered: Json = self._answer.get("scores") or {}
        for plugin in (*self._setup.scores, *sorted(self._setup.missing_scores)):
            wanted = {node: scores[plugin] for node, scores in expected.items() if plugin in scores}
            said = {node: scores[plugin] for node, scores in answered.items() if plugin in scores}
            if plugin in self._setup.missing_scores:
                if wanted:
                    yield self._finding("scores", plugin, Verdict.NOT_YET)
            elif wanted or said:
                yield self._same("scores", plugin, *_only_differing(wanted, said))
        if self._setup.missing_scores:
            yield self._finding("total", "", Verdict.NOT_YET)
        else:
            yield self._same("total", "", *_only_differing(self._expect["total"], self._answer.get("total") or {}))

    def _message(self) -> Finding:
        """The whole text; all of it but what PostFilter said where not all of that can be said yet."""
        if self._involved:
            return self._finding("message", "", Verdict.NOT_YET)
        expected, answered = self._expect["message"], str(self._answer.get("message", ""))
        if self._ends_before_preemption():
            expected = _without_end(expected, self._expect.get("preemption"))
            answered = _without_end(answered, self._answer.get("preemption"))
        if expected in self._errors_of_nodes():
            answered = expected  # The scheduler reports one error of several nodes, by chance.
        return self._same("message", "", expected, answered)

    def _errors_of_nodes(self) -> set[str]:
        """The errors of filters that were answered; none if all nodes have the same one."""
        statuses = (self._answer.get("filter") or {}).values()
        texts = {reason for entry in statuses if entry["code"] == "Error" for reason in entry["reasons"]}
        return texts if len(texts) > 1 else set()


def _status(value: Json | None) -> dict[str, Any] | None:
    """A status in a form that can be compared: the order of reasons is a Go map's."""
    if value is None:
        return None
    return {**value, "plugin": value.get("plugin", ""), "reasons": sorted(value.get("reasons") or ())}


def _statuses(said: Json) -> dict[str, Any]:
    """What one plugin says alone, flat: node to status, and PreFilter's under a name that no node has."""
    flat = {name: _status(value) for name, value in (said.get("filter") or {}).items()}
    return flat if "preFilter" not in said else {**flat, "": _status(said["preFilter"])}


def _only_differing(expected: Json, answered: Json) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both sides without what they agree about, so that a difference can be read."""
    names = sorted(name for name in {*expected, *answered} if expected.get(name) != answered.get(name))
    return {name: expected.get(name) for name in names}, {name: answered.get(name) for name in names}


def _unnamed(preemption: Json) -> Json:
    status = preemption.get("status") or {}
    return {**preemption, "status": {name: value for name, value in status.items() if name != "plugin"}}


def _without_end(message: str, preemption: Json | None) -> str:
    reasons = ((preemption or {}).get("status") or {}).get("reasons") or ()
    return message.removesuffix(" " + ", ".join(reasons)) if reasons else message


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True) if not isinstance(value, str) else value
