"""Pods become classes: what tells two pods apart and what does not, and how long a class lives."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.held_entries import held_entries
from trireme.cache import class_registry, pod_projection
from trireme.framework import amounts
from trireme.v1 import core_pb2

Json = dict[str, Any]


def _pod(**changes: Any) -> Json:
    """The JSON of a pod; `changes` replace or add fields by dotted path."""
    pod: Json = {
        "metadata": {"namespace": "default", "name": "web-1", "uid": "u1", "labels": {"app": "web", "index": "1"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = pod
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = value
    return pod


def _intern(registry: class_registry.ClassRegistry, pod: Json) -> int:
    parsed = pod_projection.parse(pod)
    return registry.intern(registry.intern_base(parsed.base), parsed.labels)


@pytest.mark.parametrize("selected", [(), ("app",)], ids=["no label", "a selected label"])
def test_a_pod_whose_class_is_dropped_is_still_described_by_its_base(selected: tuple[str, ...]) -> None:
    """If this fails, a pod that is deleted while a plugin is called about it ends the scheduler."""
    registry = class_registry.ClassRegistry(idle_classes=0)
    registry.add_selector_keys(selected)
    parsed = pod_projection.parse(_pod(spec__containers=[{"name": "c", "resources": {"requests": {"cpu": "1000m"}}}]))
    class_id = registry.intern(registry.intern_base(parsed.base), parsed.labels)
    known = registry.pod_of(class_id, parsed.base, parsed.labels)
    assert known == registry[class_id].pod
    assert set(known.metadata.labels) == set(selected)
    registry.release(class_id)
    assert len(registry) == 0
    assert registry.pod_of(class_id, parsed.base, parsed.labels) == known


SAME = [
    pytest.param({"metadata__name": "web-2", "metadata__uid": "u2"}, id="name"),
    pytest.param({"metadata__labels": {"app": "web", "index": "2"}}, id="label-nobody-selects-by"),
    pytest.param({"metadata__annotations": {"a": "b"}}, id="annotation"),
    pytest.param(
        {"spec__containers": [{**_pod()["spec"]["containers"][0], "env": [{"name": "A", "value": "1"}]}]},
        id="environment",
    ),
    pytest.param({"spec__volumes": [{"name": "token-x", "projected": {}}]}, id="token-volume"),
    pytest.param({"spec__hostUsers": True, "spec__preemptionPolicy": "", "spec__priority": 0}, id="fields-as-unset"),
    pytest.param({"spec__affinity": {}, "spec__resources": {}, "spec__schedulingGroup": {}}, id="empty-fields"),
    pytest.param(
        {"status__resources": {}, "status__extendedResourceClaimStatus": {}, "status__containerStatuses": [{}]},
        id="empty-status",
    ),
    pytest.param(
        {"spec__containers": [{**_pod()["spec"]["containers"][0], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
        id="volume-mount",
    ),
    pytest.param(
        {"spec__containers": [{**_pod()["spec"]["containers"][0], "ports": [{"containerPort": 80}]}]},
        id="container-port",
    ),
    pytest.param({"status__phase": "Running", "status__startTime": "2026-01-01T00:00:00Z"}, id="phase"),
    pytest.param(
        {"metadata__ownerReferences": [{"kind": "Job", "name": "j", "uid": "x"}]}, id="owner-that-does-not-control"
    ),
    pytest.param(
        {
            "status__containerStatuses": [
                {"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1000m"}}}
            ]
        },
        id="resources-as-asked-for",
    ),
]

OTHER = [
    pytest.param({"metadata__namespace": "other"}, id="namespace"),
    pytest.param({"spec__hostUsers": False}, id="users-of-its-own"),
    pytest.param({"spec__preemptionPolicy": "Never"}, id="preempts-nobody"),
    pytest.param({"metadata__labels": {"app": "db", "index": "1"}}, id="label-somebody-selects-by"),
    pytest.param({"spec__priority": 5}, id="priority"),
    pytest.param({"spec__nodeSelector": {"disk": "ssd"}}, id="node-selector"),
    pytest.param({"spec__tolerations": [{"operator": "Exists"}]}, id="toleration"),
    pytest.param(
        {"spec__containers": [{**_pod()["spec"]["containers"][0], "ports": [{"hostPort": 80}]}]}, id="host-port"
    ),
    pytest.param({"spec__containers": [{**_pod()["spec"]["containers"][0], "image": "web:2"}]}, id="image"),
    pytest.param({"spec__overhead": {"cpu": "1"}}, id="overhead"),
    pytest.param(
        {"metadata__ownerReferences": [{"kind": "Job", "name": "j", "uid": "x", "controller": True}]}, id="controller"
    ),
    pytest.param(
        {"spec__volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, id="volume-that-restricts"
    ),
    pytest.param(
        {"status__containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}]}, id="resources-in-force"
    ),
    pytest.param(
        {"status__conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}, id="resize-that-cannot-be-had"
    ),
]


def _registry() -> class_registry.ClassRegistry:
    registry = class_registry.ClassRegistry()
    registry.add_selector_keys(["app"])
    return registry


@pytest.mark.parametrize("changes", SAME)
def test_pods_that_no_plugin_can_tell_apart_are_one_class(changes: Json) -> None:
    registry = _registry()
    assert _intern(registry, _pod()) == _intern(registry, _pod(**changes))


@pytest.mark.parametrize("changes", OTHER)
def test_pods_that_some_plugin_can_tell_apart_are_two_classes(changes: Json) -> None:
    registry = _registry()
    assert _intern(registry, _pod()) != _intern(registry, _pod(**changes))


def test_a_pod_without_labels_differs_from_one_with_unselected_labels() -> None:
    """Disruption budgets do not protect pods without labels, so the two must stay apart."""
    registry = _registry()
    bare, labelled = (_intern(registry, _pod(metadata__labels=labels)) for labels in ({}, {"index": "1"}))
    assert not registry[bare].projected
    assert registry[labelled].projected
    assert labelled == _intern(registry, _pod(metadata__labels={"index": "2"}))


def test_the_message_of_a_class_has_the_labels_that_take_part_and_no_name() -> None:
    registry = _registry()
    entry = registry[_intern(registry, _pod())]
    assert dict(entry.pod.metadata.labels) == {"app": "web"}
    assert entry.projected
    assert entry.pod.metadata.name == ""
    assert entry.pod.spec.containers[0].resources.requests["cpu"].string == "1"


def test_all_labels_define_the_class_if_a_plugin_reads_all() -> None:
    registry = class_registry.ClassRegistry(all_labels=True)
    first = _intern(registry, _pod())
    assert first != _intern(registry, _pod(metadata__labels={"app": "web", "index": "2"}))
    assert not registry[first].projected


def test_a_pod_named_by_its_claims_is_a_class_of_its_own() -> None:
    registry = _registry()
    claims: Json = {"spec__resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    first = _intern(registry, _pod(**claims))
    second = _intern(registry, _pod(**claims, metadata__name="web-2", metadata__uid="u2"))
    assert first != second
    assert registry[first].pod.metadata.name == "web-1"


SELECTING = [
    pytest.param(
        {
            "spec__affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"index": "1"}}}
                    ]
                }
            }
        },
        id="required-affinity",
    ),
    pytest.param(
        {
            "spec__affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "topologyKey": "zone",
                                "labelSelector": {"matchExpressions": [{"key": "index", "operator": "Exists"}]},
                            },
                        }
                    ]
                }
            }
        },
        id="preferred-anti-affinity",
    ),
    pytest.param(
        {
            "spec__topologySpreadConstraints": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"index": "1"}}}
            ]
        },
        id="spread",
    ),
    pytest.param(
        {"spec__topologySpreadConstraints": [{"topologyKey": "zone", "matchLabelKeys": ["index"]}]},
        id="spread-by-own-label",
    ),
    pytest.param(
        {
            "spec__topologySpreadConstraints": [
                {"topologyKey": "zone"},
                {"topologyKey": "h", "matchLabelKeys": ["index"]},
            ]
        },
        id="second-spread",
    ),
    pytest.param(
        {
            "spec__affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {}},
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"index": "1"}}},
                    ]
                }
            }
        },
        id="second-term",
    ),
]


@pytest.mark.parametrize("changes", SELECTING)
def test_a_key_that_a_new_class_selects_by_makes_classes_finer(changes: Json) -> None:
    registry = _registry()
    _intern(registry, _pod(**changes))
    assert registry.take_new_selector_keys() == {"app", "index"}
    assert registry.take_new_selector_keys() == frozenset()
    one = _intern(registry, _pod())
    assert one != _intern(registry, _pod(metadata__labels={"app": "web", "index": "2"}))
    assert dict(registry[one].pod.metadata.labels) == {"app": "web", "index": "1"}


def test_a_pod_with_fields_that_cannot_be_read_is_refused_with_the_field_named() -> None:
    registry = _registry()
    parsed = pod_projection.parse(_pod(spec__containers=[{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]))
    with pytest.raises(class_registry.InvalidPod, match=r"spec\.containers\[0\]\.resources\.requests\.cpu"):
        registry.intern_base(parsed.base)
    assert len(registry) == 0


def test_an_empty_class_expires_after_a_while() -> None:
    registry = class_registry.ClassRegistry(idle_classes=1)
    first = _intern(registry, _pod(spec__priority=1))
    second = _intern(registry, _pod(spec__priority=2))
    added, removed = registry.take_changes()
    assert ([entry.id for entry in added], removed) == ([first, second], [])
    registry.release(first)
    assert _intern(registry, _pod(spec__priority=1)) == first
    registry.release(first)
    registry.release(second)
    assert registry.take_changes() == ([], [first])
    assert _intern(registry, _pod(spec__priority=1)) not in (first, second)


def test_a_class_that_ends_before_the_next_delta_is_in_no_delta() -> None:
    registry = class_registry.ClassRegistry(idle_classes=0)
    registry.release(_intern(registry, _pod()))
    assert registry.take_changes() == ([], [])


pods = st.builds(
    lambda namespace, labels, cpu: _pod(
        metadata__namespace=namespace,
        metadata__labels=labels,
        spec__containers=[{"resources": {"requests": {"cpu": cpu}}}],
    ),
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(["app", "tier", "index"]), st.sampled_from(["x", "y"])),
    st.sampled_from(["1", "2"]),
)


@given(st.lists(pods, min_size=2, max_size=8), st.sets(st.sampled_from(["app", "tier", "index"])))
def test_one_class_means_equal_in_all_that_takes_part(group: list[Json], keys: set[str]) -> None:
    registry = class_registry.ClassRegistry()
    registry.add_selector_keys(keys)

    def seen(pod: Json) -> object:
        labels = {key: value for key, value in pod["metadata"]["labels"].items() if key in keys}
        return pod["metadata"]["namespace"], labels, not pod["metadata"]["labels"], pod["spec"]["containers"]

    numbers = [_intern(registry, pod) for pod in group]
    for one, number in zip(group, numbers, strict=True):
        for other, other_number in zip(group, numbers, strict=True):
            assert (number == other_number) == (seen(one) == seen(other))
    assert sum(registry[number].pods for number in set(numbers)) == len(group)


def test_pods_with_token_volumes_of_random_names_share_what_was_worked_out_for_one() -> None:
    """Each pod of a real cluster has such a volume: every pod event would have the rules applied anew."""
    known = pod_projection._parse_shared_part
    known.cache_clear()
    for index in range(5):
        volumes = [{"name": f"kube-api-access-{index}", "projected": {"sources": []}}, {"name": "data", "emptyDir": {}}]
        pod_projection.parse(_pod(metadata__name=f"web-{index}", spec__volumes=volumes))
    assert known.cache_info().misses == 1


def test_nothing_is_kept_of_classes_that_nobody_has() -> None:
    """A base with its texts goes with its last class, and another class of the base stays what it is."""
    registry = class_registry.ClassRegistry(idle_classes=0)
    registry.add_selector_keys(["app"])
    before = held_entries(registry)
    for number in range(3):
        pods = [_pod(spec__priority=number, metadata__labels={"app": app}) for app in ("a", "b")]
        first, second = (_intern(registry, pod) for pod in pods)
        assert registry.base_text(registry[first].identity[0]) == pod_projection.parse(pods[0]).base
        registry.release(first)
        assert registry[second].pod.spec.priority == number
        assert _intern(registry, pods[1]) == second
        registry.release(second)
        registry.release(second)
        registry.take_changes()
        held = held_entries(registry)
        if number:
            assert held == before
        before = held
    assert len(registry) == 0


def test_a_base_goes_with_all_texts_that_mean_it() -> None:
    """A pod whose kubelet reports what it requests is of the base of one that is not placed yet."""
    registry = class_registry.ClassRegistry(idle_classes=0)
    before = held_entries(registry)
    reported = [{"name": "main", "resources": {"requests": {"cpu": "1000m"}}}]
    pods = [_pod(), _pod(status__containerStatuses=reported)]
    texts = {pod_projection.parse(pod).base for pod in pods}
    assert len(texts) == 2
    (number,) = {_intern(registry, pod) for pod in pods}
    for _ in pods:
        registry.release(number)
    registry.take_changes()
    left = held_entries(registry) - before
    del left["ClassRegistry._projections"]  # a table that is bounded
    assert not left


def test_projections_of_labels_are_bounded() -> None:
    """Each pod of a StatefulSet has a label of its own."""
    registry = class_registry.ClassRegistry(idle_classes=2)
    registry.add_selector_keys(["app"])
    sizes = []
    for number in range(40):
        registry.release(_intern(registry, _pod(metadata__labels={"app": "web", "index": str(number)})))
        sizes.append(held_entries(registry).total())
    assert max(sizes[20:]) <= max(sizes[:20])


def test_the_same_labels_are_projected_once() -> None:
    """It is done for each event of each pod; what else was projected meanwhile does not matter."""
    registry = class_registry.ClassRegistry()
    registry.add_selector_keys(["app"])
    base = registry.intern_base(pod_projection.parse(_pod()).base)
    labels = [(("app", "web"), ("index", str(number))) for number in range(3)]
    ids = {registry.intern(base, each) for each in labels}
    assert ids == {registry.intern(base, each) for each in labels}
    assert [registry[each].pods for each in ids] == [6]
    assert len(registry._projections) == len(labels)


_AS_REQUESTED: Json = {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]},
        {"containerStatuses": [{"name": "main", "resources": _AS_REQUESTED}]},
        {"initContainerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}]},
    ],
    ids=lambda status: next(iter(status)),
)
def test_a_report_of_what_is_requested_leaves_the_rest_of_the_status(status: Json) -> None:
    """A pod's extended resources are claims by its status: without them its devices would be counted as free."""
    registry = _registry()
    rest: Json = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}
    reported, plain = (_intern(registry, _pod(status=each)) for each in ({**status, **rest}, rest))
    assert registry[reported].pod == registry[plain].pod
    assert registry[plain].pod.status.extended_resource_claim_status.resource_claim_name == "c"
    bare = _intern(registry, _pod(status=status))
    assert bare == _intern(registry, _pod())
    assert not registry[bare].pod.HasField("status")


def test_resources_of_claims_replace_those_that_were_counted_before() -> None:
    """A pod that is tried again would take its devices' memory twice."""
    registry = class_registry.ClassRegistry(rules=amounts.Rules(claims=True))
    base = registry.intern_base(pod_projection.parse(_pod()).base)
    statuses = []
    for number, amount in enumerate(("1", "2")):
        counted = core_pb2.NodeAllocatableResourceClaimStatus(resource_claim_name=f"c{number}")
        counted.overhead.add(name="cpu").per_pod.string = amount
        statuses.append(counted)
    once = registry.base_with_claims(base, [statuses[1]])
    twice = registry.base_with_claims(registry.base_with_claims(base, [statuses[0]]), [statuses[1]])
    assert once == twice
    assert once != base


@pytest.mark.parametrize("where", ["matchExpressions", "matchLabels"])
def test_a_spread_constraint_tells_pods_apart_by_all_that_it_selects_by(where: str) -> None:
    selector: Json = {"matchLabels": {"index": "1"}}
    if where == "matchExpressions":
        selector = {"matchExpressions": [{"key": "index", "operator": "Exists"}]}
    registry = _registry()
    _intern(registry, _pod(spec__topologySpreadConstraints=[{"topologyKey": "zone", "labelSelector": selector}]))
    assert registry.take_new_selector_keys() == {"app", "index"}
