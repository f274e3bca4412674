"""The plugins that look at the node object alone: name, cordon, taints, affinity, images."""

from typing import Any

import pytest
from plugin_answers import Answers
from snapshot_views import Json, SnapshotBuilder, pod_of

from trireme.framework import status
from trireme.plugins.image_locality import score as image_locality
from trireme.plugins.node_affinity import filter as node_affinity
from trireme.plugins.node_affinity import score as affinity_score
from trireme.plugins.node_name import filter as node_name
from trireme.plugins.node_unschedulable import filter as node_unschedulable
from trireme.plugins.taint_toleration import filter as taint_toleration
from trireme.plugins.taint_toleration import score as taint_score
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode

UNRESOLVABLE = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
MIB = 1024 * 1024


def _cluster(**nodes: Json) -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name, fields in nodes.items():
        builder.set_node(name, **fields)
    return builder


def test_a_pod_that_names_a_node_runs_there_or_nowhere() -> None:
    """Else a pod that was given to one node is placed on another."""
    builder = _cluster(n0={}, n1={})
    answers = Answers(builder, node_name.NodeName(), pod_of({"nodeName": "n1"}))
    assert answers.pre_filter.nodes == {"n1"}
    assert {name: refusal.code for name, refusal in answers.refusals().items()} == {"n0": UNRESOLVABLE}
    assert answers.messages() == {"n0": ("node(s) didn't match the requested node name",)}
    nowhere = Answers(builder, node_name.NodeName(), pod_of({"nodeName": "gone"}))
    assert set(nowhere.refusals()) == {"n0", "n1"}
    assert Answers(builder, node_name.NodeName(), pod_of()).pre_filter.skip


@pytest.mark.parametrize(
    ("tolerations", "skips"),
    [
        pytest.param([], False, id="none"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], True, id="exists"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], True, id="equal-empty"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "value": "x"}], False, id="another-value"),
        pytest.param([{"operator": "Exists", "effect": "NoExecute"}], False, id="another-effect"),
        pytest.param([{"operator": "Exists"}], True, id="everything"),
    ],
)
def test_a_cordoned_node_accepts_pods_that_tolerate_it(tolerations: list[Json], skips: bool) -> None:
    """Else a node that is being drained fills up again, or a DaemonSet's pod finds no node."""
    builder = _cluster(open={}, cordoned={"unschedulable": True})
    answers = Answers(
        builder, node_unschedulable.NodeUnschedulable(comparing=False), pod_of({"tolerations": tolerations})
    )
    assert answers.pre_filter.skip is skips
    if not skips:
        assert answers.messages() == {"cordoned": ("node(s) were unschedulable",)}


TAINTED = {
    "clean": {},
    "hard": {"taints": [("gpu", "a", "NoSchedule")]},
    "evicting": {"taints": [("gpu", "a", "NoExecute")]},
    "soft": {"taints": [("gpu", "a", "PreferNoSchedule"), ("old", "", "PreferNoSchedule")]},
    "both": {"taints": [("gpu", "a", "NoSchedule"), ("gpu", "b", "NoSchedule"), ("old", "", "PreferNoSchedule")]},
}


@pytest.mark.parametrize(
    ("tolerations", "refused", "scores"),
    [
        pytest.param([], {"hard", "evicting", "both"}, {"soft": 2, "both": 1}, id="none"),
        pytest.param([{"operator": "Exists"}], set(), {}, id="everything"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], set(), {"soft": 1, "both": 1}, id="by-key"),
        pytest.param([{"key": "gpu", "value": "a"}], {"both"}, {"soft": 1, "both": 1}, id="by-value"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            {"evicting"},
            {"soft": 2, "both": 1},
            id="by-effect",
        ),
        pytest.param([{"operator": "Equal", "value": "a"}], {"both"}, {"soft": 1, "both": 1}, id="any-key-equal"),
        pytest.param(
            [{"key": "gpu", "operator": "Gt", "value": "0"}], {"hard", "evicting", "both"}, None, id="gate-off"
        ),
    ],
)
def test_hard_taints_refuse_and_soft_ones_count(
    tolerations: list[Json], refused: set[str], scores: dict[str, int] | None
) -> None:
    """Else a pod runs where it was told not to, or is kept from where it may."""
    plugin = taint_toleration.TaintTolerationFilter(comparing=False)
    pod = pod_of({"tolerations": tolerations})
    answers = Answers(_cluster(**TAINTED), plugin, pod)
    assert set(answers.refusals()) == refused
    assert {refusal.code for refusal in answers.refusals().values()} <= {UNRESOLVABLE}
    assert {message for messages in answers.messages().values() for message in messages} <= {
        "node(s) had untolerated taint(s)"
    }
    if scores is not None:
        scorer = taint_score.TaintTolerationScore(comparing=False)
        counted = Answers(_cluster(**TAINTED), scorer, pod).scores()
        assert counted == {name: scores.get(name, 0) for name in TAINTED}


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    """Else explain cannot say which taint keeps a pod away."""
    answers = Answers(
        _cluster(**TAINTED),
        taint_toleration.TaintTolerationFilter(comparing=False),
        pod_of({"tolerations": [{"key": "gpu", "value": "a"}]}),
    )
    assert dict(answers.refusals()["both"].reasons[0].parameters) == {
        "key": "gpu",
        "value": "b",
        "effect": "NoSchedule",
    }


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
    """Else a pod is placed where it must not run, or refused where it may."""
    answers = Answers(_cluster(**LABELLED), node_affinity.NodeAffinityFilter(), pod_of(spec))
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
    """Else a pod of a DaemonSet is evaluated on all nodes, or on too few."""
    answers = Answers(_cluster(**LABELLED), node_affinity.NodeAffinityFilter(), pod_of(_required(*terms)))
    assert answers.pre_filter.nodes == nodes


def test_terms_that_name_no_node_together_refuse_the_pod() -> None:
    """Else a pod that contradicts itself is told about nodes instead."""
    both = [_expression("metadata.name", "In", name) for name in ("n0", "n1")]
    answers = Answers(_cluster(**LABELLED), node_affinity.NodeAffinityFilter(), pod_of(_required(_fields(*both))))
    refusal = answers.pre_filter.status
    assert refusal is not None
    assert (refusal.code, refusal.messages) == (UNRESOLVABLE, ("pod affinity terms conflict",))


def test_a_pod_without_node_affinity_skips_the_plugin() -> None:
    """Else the plugin counts as evaluated for every pod, in metrics and for requeueing."""
    filtering, scoring = node_affinity.NodeAffinityFilter(), affinity_score.NodeAffinityScore()
    assert Answers(_cluster(**LABELLED), filtering, pod_of()).pre_filter.skip
    assert Answers(_cluster(**LABELLED), scoring, pod_of()).scores() is None


def _affinity(value: Json) -> core_pb2.NodeAffinity:
    return decode.decode(value, core_pb2.NodeAffinity)


def test_affinity_that_the_profile_adds_comes_first() -> None:
    """Else pods of a profile run on nodes that the profile excludes."""
    added = _required(_labels(_expression("zone", "In", "b")))["affinity"]["nodeAffinity"]
    plugin = node_affinity.NodeAffinityFilter(_affinity(added))
    answers = Answers(_cluster(**LABELLED), plugin, pod_of({"nodeSelector": {"gen": "5"}}))
    assert answers.messages() == {
        "n0": ("node(s) didn't match scheduler-enforced node affinity",),
        "n1": ("node(s) didn't match Pod's node affinity/selector",),
        "n2": ("node(s) didn't match scheduler-enforced node affinity",),
    }


def _preferred(*entries: tuple[int, Json]) -> Json:
    listed = [{"weight": weight, "preference": term} for weight, term in entries]
    return {"preferredDuringSchedulingIgnoredDuringExecution": listed}


def test_preferred_terms_add_their_weights() -> None:
    """Else a pod does not go where it would rather be."""
    own = _preferred(
        (10, _labels(_expression("zone", "In", "a"))),
        (5, _labels(_expression("gen", "Exists"))),
        (0, _labels(_expression("gen", "Exists"))),
        (7, {}),
    )
    added = _affinity(_preferred((100, _labels(_expression("gen", "Gt", "6")))))
    spec = {"affinity": {"nodeAffinity": own}}
    plain = Answers(_cluster(**LABELLED), affinity_score.NodeAffinityScore(), pod_of(spec))
    assert plain.scores() == {"n0": 15, "n1": 5, "n2": 5}
    both = Answers(_cluster(**LABELLED), affinity_score.NodeAffinityScore(added), pod_of(spec))
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
    """Else such a pod is placed, where kube-scheduler refuses it with this error."""
    spec = {"affinity": {"nodeAffinity": _preferred(*((1, term) for term in terms))}}
    builder = _cluster(**LABELLED)
    pod_class = Answers(builder, None, pod_of(spec))._class
    state: Any = affinity_score.NodeAffinityScore().pre_score(pod_class, builder.snap)
    assert state == status.error("NodeAffinity", f'running PreScore plugin "NodeAffinity": {text}')


def test_images_count_by_size_and_by_how_many_nodes_have_them() -> None:
    """Else a pod is drawn to nodes that must pull its images first."""
    builder = _cluster(
        n0={"images": {"a:latest": 500 * MIB, "b:1": 200 * MIB}}, n1={"images": {"a:latest": 500 * MIB}}, n2={}, n3={}
    )
    containers = [{"name": "x", "image": "a"}, {"name": "y", "image": "b:1"}]
    answers = Answers(builder, image_locality.ImageLocality(), pod_of({"containers": containers}))
    most = 2 * 1000 * MIB
    low = 23 * MIB

    def score(total: int) -> int:
        return 100 * (total - low) // (most - low)

    assert answers.scores() == {
        "n0": score(500 * MIB * 2 // 4 + 200 * MIB // 4),
        "n1": score(500 * MIB * 2 // 4),
        "n2": 0,
        "n3": 0,
    }


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("host:5000/web", "host:5000/web:latest"),
        ("host:5000/web:2", "host:5000/web:2"),
        ("web@sha256:abc", "web@sha256:abc"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image: str, name: str) -> None:
    """Else an image that a node has is not found there."""
    assert image_locality.normalized_name(image) == name
