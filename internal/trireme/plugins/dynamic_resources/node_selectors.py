"""kube-scheduler's errors for a node selector that cannot be read.

Source: k8s.io/dynamic-resource-allocation/structured (NodeMatches), k8s.io/component-helpers (nodeaffinity).

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Sequence

from trireme.framework import selectors
from trireme.v1 import core_pb2


def selector_problem(selector: core_pb2.NodeSelector) -> str:
    """Return why the node selector of a slice or device is invalid; empty if it is valid."""
    why = terms_problem(selector)
    return f"failed to parse node selector {_go_selector_text(selector)}: {why}" if why else ""


def terms_problem(selector: core_pb2.NodeSelector) -> str:
    """Return why the terms of the node selector are invalid; empty if they are valid."""
    found = [
        text
        for at, term in enumerate(selector.node_selector_terms)
        for text in selectors.term_problems(term, f"nodeSelectorTerms[{at}]")
    ]
    if not found:
        return ""
    distinct = list(dict.fromkeys(found))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _go_selector_text(selector: core_pb2.NodeSelector) -> str:
    """Return the selector as Go's String method prints it, for messages."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_go_requirements_text(term.match_expressions)},"
        f"MatchFields:{_go_requirements_text(term.match_fields)},}},"
        for term in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _go_requirements_text(stated: Sequence[core_pb2.NodeSelectorRequirement]) -> str:
    """Return the requirements as Go's String method prints them."""
    written = "".join(
        f"NodeSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in stated
    )
    return f"[]NodeSelectorRequirement{{{written}}}"
