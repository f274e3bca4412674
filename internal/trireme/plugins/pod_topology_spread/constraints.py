"""Topology spread constraints of a class: its own, or the profile's default ones with a selector found by its owners.

Source: pkg/scheduler/framework/plugins/podtopologyspread (common.go), plugins/helper/spread.go.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trireme.framework import label_selectors
from trireme.snapshot import classes, derived, snapshot
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode, well_known_labels

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"

# The kinds of object that default constraints find their selector by.
OWNER_KINDS = ("service", "replication_controller", "replica_set", "stateful_set")

SYSTEM_DEFAULTS = (
    core_pb2.TopologySpreadConstraint(max_skew=3, topology_key=well_known_labels.HOSTNAME, when_unsatisfiable=SOFT),
    core_pb2.TopologySpreadConstraint(max_skew=5, topology_key=well_known_labels.ZONE, when_unsatisfiable=SOFT),
)


@dataclass(frozen=True, slots=True)
class ConstraintRules:
    """What constraints are read by: PodTopologySpreadArgs and two feature gates.

    `match_label_keys`: whether constraints may name keys whose values pods must share; `comparing`: whether tolerations
    may compare numbers.
    """

    defaults: Sequence[core_pb2.TopologySpreadConstraint] = SYSTEM_DEFAULTS
    system_defaults: bool = True
    match_label_keys: bool = True
    comparing: bool = False


def rules_of(stated: Mapping[str, Any], match_label_keys: bool, comparing: bool = False) -> ConstraintRules:
    """Make the rules from the JSON of PodTopologySpreadArgs (`stated`) and two feature gates."""
    system = stated.get("defaultingType", "System") == "System"
    listed = [decode.decode(each, core_pb2.TopologySpreadConstraint) for each in stated.get("defaultConstraints") or ()]
    return ConstraintRules(SYSTEM_DEFAULTS if system else tuple(listed), system, match_label_keys, comparing)


class ServicesAndOwners(Protocol):
    """The services and owners that default constraints find their selector by.

    Implementers: trireme.snapshot.objects.ObjectTable, trireme.queueing.hints.cluster_view.CacheView.
    """

    def get(self, kind: str, namespace: str, name: str) -> Any:
        """The object, or None."""
        ...

    def of_namespace(self, kind: str, namespace: str) -> Iterable[Any]:
        """The objects of a kind in the namespace, by name."""
        ...


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint, read. `honor_…`: only nodes that the pod's affinity allows, or its tolerations, are counted."""

    key: str
    max_skew: int
    min_domains: int
    selector: label_selectors.LabelSelector
    honor_affinity: bool
    honor_taints: bool

    def self_match(self, pod_class: classes.PodClass) -> bool:
        """Whether a pod of the class is among those that it counts."""
        return self.selector.matches(pod_class.labels)


class SpreadConstraints:
    """The constraints of one class for one action, read again when what the default selector is found by changes."""

    __slots__ = ("_action", "_class", "_generation", "_rules", "constraints")

    nbytes = derived.SMALL

    def __init__(self, action: str, pod_class: classes.PodClass, rules: ConstraintRules) -> None:
        self._action = action
        self._class = pod_class
        self._rules = rules
        self._generation = -1
        self.constraints: tuple[Constraint, ...] = ()

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Update to the snapshot's current state. Raises: InvalidSelectorError."""
        own = self._class.pod.spec.topology_spread_constraints
        generation = 0 if own else snap.last_change(OWNER_KINDS)
        if self._generation != generation:
            self.constraints = read_constraints(self._action, self._class, self._rules, snap.objects)
            self._generation = generation


def read_constraints(
    action: str, pod_class: classes.PodClass, rules: ConstraintRules, objects: ServicesAndOwners
) -> tuple[Constraint, ...]:
    """Return the class's constraints with this action (DoNotSchedule or ScheduleAnyway), else the default ones.

    Default constraints count only if services or an owner of the pod give them a selector. Raises:
    InvalidSelectorError.
    """
    own = pod_class.pod.spec.topology_spread_constraints
    stated = [each for each in own or rules.defaults if each.when_unsatisfiable == action]
    if own or not stated:
        return tuple(_make_constraint(each, pod_class, rules) for each in stated)
    selector = default_selector(pod_class, objects)
    if selector.empty:
        return ()
    defaults = (_make_constraint(each, pod_class, rules) for each in stated)
    return tuple(dataclasses.replace(each, selector=selector) for each in defaults)


def _make_constraint(
    stated: core_pb2.TopologySpreadConstraint, pod_class: classes.PodClass, rules: ConstraintRules
) -> Constraint:
    """Read one constraint of a pod. Raises: InvalidSelectorError.

    Without a selector it counts no pods. Labels of `matchLabelKeys` that the pod lacks are left out.
    """
    selector = label_selectors.NOTHING
    if stated.HasField("label_selector"):
        selector = label_selectors.parse(stated.label_selector)
    if rules.match_label_keys:
        labels = pod_class.labels
        shared = {key: labels[key] for key in stated.match_label_keys if key in labels}
        if shared:
            selector = selector.and_labels(shared)
    return Constraint(
        stated.topology_key,
        stated.max_skew,
        stated.min_domains if stated.HasField("min_domains") else 1,
        selector,
        not stated.HasField("node_affinity_policy") or stated.node_affinity_policy == "Honor",
        stated.HasField("node_taints_policy") and stated.node_taints_policy == "Honor",
    )


def default_selector(pod_class: classes.PodClass, objects: ServicesAndOwners) -> label_selectors.LabelSelector:
    """Return what the services and the owner of the class select by, together, for default constraints.

    Empty if there are none. An owner of another kind, or with an invalid selector, counts as none.
    """
    namespace = pod_class.namespace
    merged: dict[str, str] = {}
    for service in objects.of_namespace("service", namespace):
        if _selector_matches(service.spec.selector, pod_class.labels):
            merged.update(service.spec.selector)
    owner = next((each for each in pod_class.pod.metadata.owner_references if each.controller), None)
    kind = None if owner is None else _OWNERS.get((owner.api_version, owner.kind))
    found = None if owner is None or kind is None else objects.get(kind, namespace, owner.name)
    if found is None:
        return label_selectors.from_labels(merged)
    if kind == "replication_controller":
        return label_selectors.from_labels(merged | dict(found.spec.selector))
    selector = label_selectors.from_labels(merged)
    try:
        states = found.spec.HasField("selector")
        return selector.and_selector(label_selectors.parse(found.spec.selector)) if states else selector
    except label_selectors.InvalidSelectorError:
        return selector


_OWNERS = {
    ("v1", "ReplicationController"): "replication_controller",
    ("apps/v1", "ReplicaSet"): "replica_set",
    ("apps/v1", "StatefulSet"): "stateful_set",
}


def _selector_matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
