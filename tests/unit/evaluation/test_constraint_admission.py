"""Domain constraints while pods are placed: against rules that are read anew after each placement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trireme.evaluation.scoring import constraint_admission
from trireme.framework import domain_rules, status
from trireme.framework.domain_rules import NO_DOMAIN

REFUSAL = status.unschedulable("P", "no")


@st.composite
def constraints(draw: st.DrawFn, size: int) -> domain_rules.DomainConstraint:
    """A rule over so many nodes, some of which are in no domain; some domains have no node."""
    domains = draw(st.integers(1, 5))
    domain = draw(st.lists(st.integers(NO_DOMAIN, domains - 1), min_size=size, max_size=size))
    counts = draw(st.sampled_from(((0,), (0, 1, 2), (1, 2, 3))))
    count = draw(st.lists(st.sampled_from(counts), min_size=domains, max_size=domains))
    rules: list[st.SearchStrategy[domain_rules.Rule]] = [
        st.builds(
            domain_rules.SkewRule,
            st.integers(1, 2),
            st.integers(0, 1),
            st.integers(0, 4),
            st.lists(st.booleans(), min_size=size, max_size=size).map(np.array),
        ),
        st.builds(domain_rules.PresenceRule, st.sampled_from((True, True, False)), st.sampled_from((0, 0, 1))),
        st.builds(domain_rules.PresenceRule, st.sampled_from((True, True, False)), st.sampled_from((0, 0, 1))),
        st.just(domain_rules.AbsenceRule()),
    ]
    return domain_rules.DomainConstraint(
        REFUSAL,
        np.array(domain, dtype=np.int32),
        np.array(count, dtype=np.int64),
        draw(st.integers(0, 2)),
        draw(st.one_of(rules)),
    )


class ByTheRules:
    """The rules as `domain_rules` states them, over counts that grow."""

    def __init__(self, stated: list[domain_rules.DomainConstraint]) -> None:
        self._stated = stated
        self._counts = [each.count.tolist() for each in stated]

    def place(self, slot: int) -> None:
        for each, count in zip(self._stated, self._counts, strict=True):
            domain = int(each.domain[slot])
            counted = not isinstance(each.rule, domain_rules.SkewRule) or each.rule.counts[slot]
            if domain != NO_DOMAIN and counted:
                count[domain] += each.placement_adds

    def admits(self, slot: int) -> bool:
        return all(self._is_kept(number, slot) for number in range(len(self._stated)))

    def _is_kept(self, number: int, slot: int) -> bool:
        each, count = self._stated[number], self._counts[number]
        domain = int(each.domain[slot])
        there = 0 if domain == NO_DOMAIN else count[domain]
        if isinstance(each.rule, domain_rules.SkewRule):
            lowest = min(count) if len(count) >= each.rule.min_domains else 0
            return bool(there + each.rule.self_match - lowest <= each.rule.max_skew)
        if isinstance(each.rule, domain_rules.AbsenceRule):
            return bool(there == 0)
        group = [
            at
            for at, other in enumerate(self._stated)
            if isinstance(other.rule, domain_rules.PresenceRule) and other.rule.group == each.rule.group
        ]
        nothing = not any(any(self._counts[at]) for at in group)
        if nothing and all(getattr(self._stated[at].rule, "may_be_first", False) for at in group):
            return domain != NO_DOMAIN
        return bool(there > 0)


@settings(max_examples=300)
@given(st.data())
def test_the_nodes_that_are_admitted_are_those_that_the_rules_admit(data: st.DataObject) -> None:
    """After each placement, of the nodes at some slots; what says that nothing has changed has changed nothing."""
    size = data.draw(st.integers(1, 6))
    stated = data.draw(st.lists(constraints(size), max_size=3))
    slots = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    admission = constraint_admission.ConstraintAdmission(stated, np.array(slots, dtype=np.intp))
    rules = ByTheRules(stated)
    before = [rules.admits(slot) for slot in slots]
    assert admission.admitted_nodes().tolist() == before
    for node in data.draw(st.lists(st.integers(0, len(slots) - 1), max_size=6)):
        changed = admission.place(node)
        rules.place(slots[node])
        after = [rules.admits(slot) for slot in slots]
        assert admission.admitted_nodes().tolist() == after
        assert changed or after == before
        before = after


_SKEW = domain_rules.SkewRule(1, 1, 0, np.array([True, False, True]))


@pytest.mark.parametrize(
    ("rule", "node", "adds"),
    [
        pytest.param(_SKEW, 0, 1, id="skew, no domain"),
        pytest.param(_SKEW, 1, 1, id="skew, a node that is not counted"),
        pytest.param(domain_rules.PresenceRule(True), 0, 1, id="presence, no domain"),
        pytest.param(domain_rules.PresenceRule(True), 1, 0, id="presence, a pod that is not counted"),
        pytest.param(domain_rules.PresenceRule(True), 2, 1, id="presence, one that has pods"),
        pytest.param(domain_rules.AbsenceRule(), 0, 1, id="absence, no domain"),
        pytest.param(domain_rules.AbsenceRule(), 1, 0, id="absence, a pod that is not counted"),
        pytest.param(domain_rules.AbsenceRule(), 2, 1, id="absence, one that has pods"),
    ],
)
def test_a_pod_that_counts_in_no_rule_changes_nothing(rule: domain_rules.Rule, node: int, adds: int) -> None:
    """If this fails, each such pod has all nodes scored again."""
    domain, count = np.array([NO_DOMAIN, 0, 1], dtype=np.int32), np.array([0, 1], dtype=np.int64)
    stated = domain_rules.DomainConstraint(REFUSAL, domain, count, adds, rule)
    assert not constraint_admission.ConstraintAdmission([stated], np.arange(3)).place(node)
