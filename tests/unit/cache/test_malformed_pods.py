"""Pods whose JSON is not a pod's: read or refused, and nothing else, up to the class and what plugins make of it."""

import contextlib
import copy
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from trireme.cache import class_registry, pod_projection
from trireme.framework import label_selectors, selectors
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import decode, field_error

Json = Any

_SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_TERM = {"topologyKey": "zone", "labelSelector": _SELECTOR, "namespaceSelector": {}, "namespaces": ["n"]}
_NODE_TERM = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["5"]}], "matchFields": []}
_AMOUNTS = {"requests": {"cpu": "100m", "memory": "1Gi"}}
POD: Json = {
    "metadata": {
        "namespace": "default",
        "name": "p",
        "uid": "u",
        "labels": {"a": "b"},
        "resourceVersion": "7",
        "ownerReferences": [{"controller": True, "kind": "ReplicaSet", "name": "r", "apiVersion": "apps/v1"}],
    },
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": _AMOUNTS, "ports": [{"hostPort": 80}]}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": _AMOUNTS}],
        "priority": 3,
        "overhead": {"cpu": "1"},
        "resources": _AMOUNTS,
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"disk": "ssd"},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _SELECTOR}
        ],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": _TERM}]
            },
        },
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "ephemeral": {}}],
        "schedulingGates": [{"name": "g"}],
        "resourceClaims": [{"name": "r", "resourceClaimName": "x"}],
    },
    "status": {
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}, "resources": _AMOUNTS}],
    },
}

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def _paths(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    out: list[tuple[str | int, ...]] = []
    for key, each in inner:
        out.append((*path, key))
        if isinstance(each, (dict, list)):
            out += _paths(each, (*path, key))
    return out


PATHS = _paths(POD)

Changes = list[tuple[tuple[str | int, ...], Json]]


def _changed(changes: Changes) -> Json:
    """The pod with junk in these places."""
    pod = copy.deepcopy(POD)
    for path, junk in changes:
        parent = pod
        try:
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = junk
        except (KeyError, IndexError, TypeError):
            continue  # a change before has taken that away
    return pod


@example([(("metadata", "resourceVersion"), "²")])
@example([(("metadata", "labels", "a"), [])])
@given(st.lists(st.tuples(st.sampled_from(PATHS), JUNK), min_size=1, max_size=3))
def test_a_malformed_pod_is_read_or_refused(changes: Changes) -> None:
    """One pod that cannot be read would end the process that reads all of them."""
    pod = _changed(changes)
    try:
        parsed = pod_projection.parse(pod)
    except field_error.FieldError:
        return
    registry = class_registry.ClassRegistry()
    try:
        base = registry.intern_base(parsed.base)
    except class_registry.InvalidPod:
        return
    entry = registry[registry.intern(base, parsed.labels)]
    for (
        term
    ) in entry.pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms:
        selectors.parse_term(term)
        selectors.term_problems(term, "")


@example([], frozenset())
@example([(("spec", "priority"), 0)], frozenset({"status.conditions", "spec.nodeName"}))
@given(
    st.lists(st.tuples(st.sampled_from(PATHS), JUNK), max_size=3),
    st.frozensets(
        st.sampled_from(
            ["status.conditions", "metadata.annotations", "spec.restartPolicy", "spec.containers.ports.containerPort"]
        )
    ),
)
def test_a_pod_is_the_same_in_both_encodings(changes: Changes, extra: frozenset[str]) -> None:
    pod = _changed(changes)
    try:
        sent = decode.decode_unchecked(pod, core_pb2.Pod).SerializeToString()
        parsed = pod_projection.parse(pod, extra)
    except field_error.FieldError:
        return
    assert pod_projection.parse_protobuf(sent, extra) == parsed


def test_additional_fields_of_a_plugin_define_the_class() -> None:
    always = copy.deepcopy(POD)
    always["spec"]["restartPolicy"] = "Always"
    never = copy.deepcopy(POD)
    never["spec"]["restartPolicy"] = "Never"
    beside = frozenset({"spec.restartPolicy", "spec.containers"})
    assert pod_projection.parse(always).base == pod_projection.parse(never).base
    seen = core_pb2.Pod.FromString(pod_projection.parse(never, beside).base)
    assert seen.spec.restart_policy == "Never"
    assert len(seen.spec.containers) == 1
    assert pod_projection.parse(always, beside).base != seen.SerializeToString(deterministic=True)


EXPRESSIONS = st.tuples(
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in", ""]) | st.text(max_size=4),
    st.text(max_size=70) | st.sampled_from(["a", "a/b", "a/b/c", "/", "a/", "é", "A.b/c", "x" * 64, "a b"]),
    st.lists(st.text(max_size=70) | st.sampled_from(["1", "-1", "9" * 30, "+5", "", "a b"]), max_size=3),
)


@given(st.lists(EXPRESSIONS, max_size=3), st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
def test_selectors_are_read_or_refused(expressions: list[tuple[str, str, list[str]]], labels: dict[str, str]) -> None:
    """A stored selector would end the code that matches it; or a term with problems would match a node."""
    selector = meta_pb2.LabelSelector(
        match_labels=labels,
        match_expressions=[
            meta_pb2.LabelSelectorRequirement(operator=operator, key=key, values=values)
            for operator, key, values in expressions
        ],
    )
    with contextlib.suppress(label_selectors.InvalidSelectorError):
        assert label_selectors.parse(selector).matches(labels) in (True, False)
    term = core_pb2.NodeSelectorTerm(
        match_expressions=[
            core_pb2.NodeSelectorRequirement(operator=operator, key=key, values=values)
            for operator, key, values in expressions
        ]
    )
    readable = selectors.parse_term(term)
    assert (readable is not None) == (bool(expressions) and not selectors.term_problems(term, "path"))
    if readable is not None:
        assert readable.matches("n", labels) in (True, False)
