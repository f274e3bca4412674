"""NodeAffinity: required terms, selectors, terms of the profile, and preferences."""

from typing import Any

import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import Json, cluster_of, pod_of
from trireme.framework import status
from trireme.plugins.node_affinity import filter as node_affinity
from trireme.plugins.node_affinity import score as affinity_score
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode

UNRESOLVABLE = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
LABELLED = {
    "n0": {"labels": {"zone": "a", "gen": "5"}},
    "n1": {"labels": {"zone": "b", "gen": "7"}},
    "n2": {"labels": {"gen": "new"}},
}


def _expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def _required(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def _labels(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


def _fields(*expressions: Json) -> Json:
    return {"matchFields": list(expressions)}


@pytest.mark.parametrize(
    ("spec", "matching"),
    [
        pytest.param({"nodeSelector": {"zone": "a"}}, {"n0"}, id="node-selector"),
        pytest.param({"nodeSelector": {"zone": "a", "gen": "7"}}, set(), id="node-selector-all-of"),
        pytest.param(_required(_labels(_expression("zone", "In", "a", "b"))), {"n0", "n1"}, id="in"),
        pytest.param(_required(_labels(_expression("zone", "NotIn", "a"))), {"n1", "n2"}, id="not-in"),
        pytest.param(_required(_labels(_expression("zone", "Exists"))), {"n0", "n1"}, id="exists"),
        pytest.param(_required(_labels(_expression("zone", "DoesNotExist"))), {"n2"}, id="does-not-exist"),
        pytest.param(_required(_labels(_expression("gen", "Gt", "5"))), {"n1"}, id="greater"),
        pytest.param(_required(_labels(_expression("gen", "Lt", "7"))), {"n0"}, id="less"),
        pytest.param(
            _required(_labels(_expression("zone", "Exists"), _expression("gen", "Gt", "6"))), {"n1"}, id="all-of-a-term"
        ),
        pytest.param(
            _required(_labels(_expression("zone", "In", "a")), _labels(_expression("gen", "In", "new"))),
            {"n0", "n2"},
            id="any-term",
        ),
        pytest.param(_required(), set(), id="no-terms"),
        pytest.param(_required({}), set(), id="empty-term"),
        pytest.param(_required({}, _labels(_expression("zone", "In", "a"))), {"n0"}, id="empty-term-beside-another"),
        pytest.param(_required(_labels(_expression("gen", "Gt", "x"))), set(), id="unreadable-term"),
        pytest.param(
            _required(_labels(_expression("zone", "Near", "a")), _labels(_expression("zone", "In", "b"))),
            {"n1"},
            id="unreadable-term-beside-another",
        ),
        pytest.param(_required(_fields(_expression("metadata.name", "NotIn", "n1"))), {"n0", "n2"}, id="not-by-name"),
        pytest.param(
            {**_required(_labels(_expression("gen", "Exists"))), "nodeSelector": {"zone": "b"}},
            {"n1"},
            id="selector-and-affinity",
        ),
    ],
)
def test_required_node_affinity_matches_as_kube_scheduler_matches(spec: Json, matching: set[str]) -> None:
    answers = Answers(cluster_of(**LABELLED), node_affinity.NodeAffinityFilter(), pod_of(spec))
    assert set(LABELLED) - set(answers.refusals()) == matching
    assert set(answers.messages().values()) <= {("node(s) didn't match Pod's node affinity/selector",)}
    assert answers.pre_filter.nodes is None


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        pytest.param([_fields(_expression("metadata.name", "In", "n1"))], {"n1"}, id="one"),
        pytest.param(
            [_fields(_expression("metadata.name", "In", name)) for name in ("n0", "n2")], {"n0", "n2"}, id="any-term"
        ),
        pytest.param(
            [_fields(_expression("metadata.name", "In", "n1")), _labels(_expression("zone", "Exists"))],
            None,
            id="a-term-without-names",
        ),
    ],
)
def test_terms_that_all_name_nodes_narrow_the_nodes(terms: list[Json], nodes: set[str] | None) -> None:
    answers = Answers(cluster_of(**LABELLED), node_affinity.NodeAffinityFilter(), pod_of(_required(*terms)))
    assert answers.pre_filter.nodes == nodes


def test_terms_that_name_no_node_together_refuse_the_pod() -> None:
    both = [_expression("metadata.name", "In", name) for name in ("n0", "n1")]
    answers = Answers(cluster_of(**LABELLED), node_affinity.NodeAffinityFilter(), pod_of(_required(_fields(*both))))
    refusal = answers.pre_filter.status
    assert refusal is not None
    assert (refusal.code, refusal.messages) == (UNRESOLVABLE, ("pod affinity terms conflict",))


def test_a_pod_without_node_affinity_skips_the_plugin() -> None:
    filtering, scoring = node_affinity.NodeAffinityFilter(), affinity_score.NodeAffinityScore()
    assert Answers(cluster_of(**LABELLED), filtering, pod_of()).pre_filter.skip
    assert Answers(cluster_of(**LABELLED), scoring, pod_of()).scores() is None


def _affinity(value: Json) -> core_pb2.NodeAffinity:
    return decode.decode(value, core_pb2.NodeAffinity)


def test_affinity_that_the_profile_adds_comes_first() -> None:
    added = _required(_labels(_expression("zone", "In", "b")))["affinity"]["nodeAffinity"]
    plugin = node_affinity.NodeAffinityFilter(_affinity(added))
    answers = Answers(cluster_of(**LABELLED), plugin, pod_of({"nodeSelector": {"gen": "5"}}))
    assert answers.messages() == {
        "n0": ("node(s) didn't match scheduler-enforced node affinity",),
        "n1": ("node(s) didn't match Pod's node affinity/selector",),
        "n2": ("node(s) didn't match scheduler-enforced node affinity",),
    }


def _preferred(*entries: tuple[int, Json]) -> Json:
    listed = [{"weight": weight, "preference": term} for weight, term in entries]
    return {"preferredDuringSchedulingIgnoredDuringExecution": listed}


def test_preferred_terms_add_their_weights() -> None:
    own = _preferred(
        (10, _labels(_expression("zone", "In", "a"))),
        (5, _labels(_expression("gen", "Exists"))),
        (0, _labels(_expression("gen", "Exists"))),
        (7, {}),
    )
    added = _affinity(_preferred((100, _labels(_expression("gen", "Gt", "6")))))
    spec = {"affinity": {"nodeAffinity": own}}
    plain = Answers(cluster_of(**LABELLED), affinity_score.NodeAffinityScore(), pod_of(spec))
    assert plain.scores() == {"n0": 15, "n1": 5, "n2": 5}
    both = Answers(cluster_of(**LABELLED), affinity_score.NodeAffinityScore(added), pod_of(spec))
    assert both.scores() == {"n0": 15, "n1": 105, "n2": 5}


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        pytest.param(
            [_labels(_expression("gen", "Gt", "x"))],
            """[0].matchExpressions[0].values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be """
            "an integer",
            id="bound",
        ),
        pytest.param(
            [_labels(_expression("gen", "Exists")), _labels(_expression("gen", "Lt", "1", "2"))],
            """[1].matchExpressions[0].values: Invalid value: ["1","2"]: for 'Gt', 'Lt' operators, exactly one """
            "value is required",
            id="two-bounds",
        ),
        pytest.param(
            [_labels(_expression("gen", "In")), _labels(_expression("gen", "Exists", "x"))],
            """[[0].matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set can't """
            'be empty, [1].matchExpressions[0].values: Invalid value: ["x"]: values set must be empty for exists and '
            "does not exist]",
            id="two-problems",
        ),
        pytest.param(
            [_fields(_expression("metadata.name", "Exists"))],
            """[0].matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn\"""",
            id="field-operator",
        ),
        pytest.param(
            [_fields(_expression("metadata.name", "In", "a", "b"))],
            """[0].matchFields[0].values: Invalid value: ["a","b"]: must have one element""",
            id="field-values",
        ),
    ],
)
def test_a_preferred_term_that_cannot_be_read_fails_the_pod(terms: list[Json], text: str) -> None:
    spec = {"affinity": {"nodeAffinity": _preferred(*((1, term) for term in terms))}}
    builder = cluster_of(**LABELLED)
    pod_class = Answers(builder, None, pod_of(spec))._class
    state: Any = affinity_score.NodeAffinityScore().pre_score(pod_class, builder.snap)
    assert state == status.error("NodeAffinity", f'running PreScore plugin "NodeAffinity": {text}')
