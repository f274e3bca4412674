"""The rules of the in-tree plugins' arguments.

They are looked at twice, as in kube-scheduler: with the configuration (paths from its root) and when a profile's
plugins are made (paths from the arguments). NodeResourcesFit's are reported by the second look only.

The arguments are in the form that JSON has, defaults filled in. Source: pkg/scheduler/apis/config/validation of
Kubernetes 1.37, k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trireme.config.gates import FeatureGates
from trireme_kube.apimachinery.field_errors import (
    Named,
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    label_key_problems,
    label_name,
    label_value_problems,
    not_supported,
    required,
)
from trireme_kube.apimachinery.golang import SECOND, parse_duration

Args = Mapping[str, Any]
_MAX_SHAPE_SCORE = 10
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def validate(plugin: str, path: str, args: Any, gates: FeatureGates) -> list[Problem]:
    """Everything that is wrong with a plugin's arguments; empty for a plugin whose arguments are its own affair."""
    rules = _RULES.get(plugin)
    return rules(path, args, gates) if rules is not None else []


def _default_preemption(path: str, args: Args, _gates: FeatureGates) -> list[Problem]:
    problems: list[Problem] = []
    percentage, absolute = args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"]
    percentage_path = child(path, "minCandidateNodesPercentage")
    absolute_path = child(path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        problems.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        problems.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        rule = "cannot be zero at the same time as "
        problems.append(invalid(percentage_path, percentage, rule + "minCandidateNodesAbsolute"))
        problems.append(invalid(absolute_path, absolute, rule + "minCandidateNodesPercentage"))
    return problems


def _inter_pod_affinity(path: str, args: Args, _gates: FeatureGates) -> list[Problem]:
    weight = args["hardPodAffinityWeight"]
    if not 0 <= weight <= 100:
        return [invalid(child(path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]
    return []


def _balanced_allocation(path: str, args: Args, _gates: FeatureGates) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for position, resource in enumerate(args.get("resources") or ()):
        where = index(child(path, "resources"), position)
        if resource["name"] in seen:
            problems.append(duplicate(child(where, "name"), resource["name"]))
        seen.add(resource["name"])
        if resource["weight"] != 1:
            problems.append(invalid(child(where, "weight"), resource["weight"], "must be 1"))
    return problems


def _shape(path: str, points: Sequence[Args]) -> list[Problem]:
    if not points:
        return [required(path, "at least one point must be specified")]
    problems: list[Problem] = []
    for position in range(1, len(points)):
        utilization = points[position]["utilization"]
        if points[position - 1]["utilization"] >= utilization:
            where = child(index(path, position), "utilization")
            problems.append(invalid(where, utilization, "values must be sorted in increasing order"))
            break
    for position, point in enumerate(points):
        for name, most in (("utilization", 100), ("score", _MAX_SHAPE_SCORE)):
            if not 0 <= point[name] <= most:
                where = child(index(path, position), name)
                problems.append(invalid(where, point[name], f"not in valid range [0, {most}]"))
    return problems


def _resources_fit(path: str, args: Args, _gates: FeatureGates) -> list[Problem]:
    problems: list[Problem] = []
    for position, name in enumerate(args.get("ignoredResources") or ()):
        problems.extend(label_name(index(child(path, "ignoredResources"), position), name))
    for position, group in enumerate(args.get("ignoredResourceGroups") or ()):
        where = index(child(path, "ignoredResourceGroups"), position)
        if "/" in group:
            problems.append(invalid(where, group, "resource group name can't contain '/'"))
        problems.extend(label_name(where, group))
    where, strategy = child(path, "scoringStrategy"), args.get("scoringStrategy")
    if strategy is None:
        return [*problems, required(where, "ScoringStrategy field is required")]
    return problems + _scoring_strategy(where, strategy)


def _scoring_strategy(path: str, strategy: Args) -> list[Problem]:
    problems: list[Problem] = []
    kind = strategy.get("type", "")
    if kind not in _STRATEGIES:
        problems.append(not_supported(child(path, "type"), Named(kind), _STRATEGIES))
    for position, resource in enumerate(strategy.get("resources") or ()):
        weight = resource["weight"]
        if not 0 < weight <= 100:
            where = child(index(child(path, "resources"), position), "weight")
            rule = f"resource weight of {resource['name']} not in valid range (0, 100]"
            problems.append(invalid(where, weight, rule))
    ratio, ratio_path = strategy.get("requestedToCapacityRatio"), child(path, "requestedToCapacityRatio")
    if kind == "RequestedToCapacityRatio":
        if ratio is None:
            problems.append(required(ratio_path, f"must be specified when type is {kind}"))
        else:
            problems.extend(_shape(child(ratio_path, "shape"), ratio.get("shape") or ()))
    elif ratio is not None:
        problems.append(forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio"))
    return problems


def _volume_binding(path: str, args: Args, gates: FeatureGates) -> list[Problem]:
    problems: list[Problem] = []
    timeout = args["bindTimeoutSeconds"]
    if timeout < 0:
        rule = "invalid BindTimeoutSeconds, should not be a negative value"
        problems.append(invalid(child(path, "bindTimeoutSeconds"), timeout, rule))
    shape, where = args.get("shape"), child(path, "shape")
    if gates.enabled("StorageCapacityScoring"):
        problems.extend(_shape(where, shape or ()))
    elif shape is not None:
        shown = [{"Utilization": point["utilization"], "Score": point["score"]} for point in shape]
        rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        problems.append(invalid(where, shown, rule))
    return problems


def _dynamic_resources(path: str, args: Args, gates: FeatureGates) -> list[Problem]:
    problems: list[Problem] = []
    timeout, where = args.get("filterTimeout"), child(path, "filterTimeout")
    if timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            problems.append(forbidden(where, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif parse_duration(timeout).nanoseconds < 0:
            problems.append(invalid(where, timeout, "must be zero or positive"))
    timeout, where = args.get("bindingTimeout"), child(path, "bindingTimeout")
    if timeout is not None:
        if not (gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")):
            rule = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            problems.append(forbidden(where, rule))
        elif parse_duration(timeout).nanoseconds < SECOND:
            problems.append(invalid(where, timeout, "must be at least 1 second"))
    return problems


# Topology spread.


def _topology_spread(path: str, args: Args, _gates: FeatureGates) -> list[Problem]:
    problems: list[Problem] = []
    kind, constraints = args["defaultingType"], args.get("defaultConstraints") or ()
    where = child(path, "defaultingType")
    if kind not in ("System", "List"):
        problems.append(not_supported(where, Named(kind), ("System", "List")))
    elif kind == "System" and constraints:
        problems.append(invalid(where, Named(kind), "when .defaultConstraints are not empty"))
    seen: set[tuple[str, str]] = set()
    for position, constraint in enumerate(constraints):
        where = index(child(path, "defaultConstraints"), position)
        problems.extend(_constraint(where, constraint))
        topology_key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        if (topology_key, action) in seen:
            problems.append(duplicate(where, f"{{{topology_key}, {action}}}"))
        seen.add((topology_key, action))
    return problems


def _constraint(path: str, constraint: Args) -> list[Problem]:
    problems: list[Problem] = []
    if constraint["maxSkew"] <= 0:
        problems.append(invalid(child(path, "maxSkew"), constraint["maxSkew"], "not in valid range (0, inf)"))
    topology_key, where = constraint["topologyKey"], child(path, "topologyKey")
    problems.extend(label_name(where, topology_key) if topology_key else [required(where, "can not be empty")])
    action, where = constraint["whenUnsatisfiable"], child(path, "whenUnsatisfiable")
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        problems.append(required(where, "can not be empty"))
    elif action not in actions:
        problems.append(not_supported(where, Named(action), actions))
    if constraint.get("labelSelector") is not None:
        rule = "constraint must not define a selector, as they deduced for each pod"
        problems.append(forbidden(child(path, "labelSelector"), rule))
    return problems


# Node affinity.


def _node_affinity(path: str, args: Args, _gates: FeatureGates) -> list[Problem]:
    affinity = args.get("addedAffinity")
    if affinity is None:
        return []
    problems: list[Problem] = []
    where = child(path, "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    required_terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required_terms is not None:
        for position, term in enumerate(required_terms.get("nodeSelectorTerms") or ()):
            problems.extend(_selector_term(index(child(where, "nodeSelectorTerms"), position), term))
    where = child(path, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    for position, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        # A term without weight is not looked at.
        if term["weight"] != 0:
            problems.extend(_selector_term(index(where, position), term["preference"]))
    return problems


def _selector_term(path: str, term: Args) -> list[Problem]:
    problems: list[Problem] = []
    for position, requirement in enumerate(term.get("matchExpressions") or ()):
        problems.extend(_label_requirement(index(child(path, "matchExpressions"), position), requirement))
    for position, requirement in enumerate(term.get("matchFields") or ()):
        where = index(child(path, "matchFields"), position)
        operator, values = requirement["operator"], requirement.get("values")
        if operator not in ("In", "NotIn"):
            problems.append(not_supported(child(where, "operator"), Named(operator), ("In", "NotIn")))
        elif len(values or ()) != 1:
            problems.append(invalid(child(where, "values"), values, "must have one element"))
    return problems


def _label_requirement(path: str, requirement: Args) -> list[Problem]:
    operator, name = requirement["operator"], requirement["key"]
    if operator not in _OPERATORS:
        return [not_supported(child(path, "operator"), Named(operator), _OPERATORS)]
    problems: list[Problem] = []
    wrong = label_key_problems(name)
    if wrong:
        problems.append(invalid(child(path, "key"), name, "; ".join(wrong)))
    values, where = requirement.get("values"), child(path, "values")
    count = len(values or ())
    if operator in ("In", "NotIn"):
        if count == 0:
            problems.append(invalid(where, values, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in ("Exists", "DoesNotExist"):
        if count != 0:
            problems.append(invalid(where, values, "values set must be empty for exists and does not exist"))
    else:
        if count != 1:
            problems.append(invalid(where, values, "for 'Gt', 'Lt' operators, exactly one value is required"))
        for position, value in enumerate(values or ()):
            if not _is_int64(value):
                rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                problems.append(invalid(index(where, position), value, rule))
    for position, value in enumerate(values or ()):
        wrong = label_value_problems(value)
        if wrong:
            problems.append(invalid(key(index(where, position), name), value, "; ".join(wrong)))
    return problems


def _is_int64(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(1 << 63) <= int(text) < 1 << 63


_RULES: dict[str, Callable[[str, Args, FeatureGates], list[Problem]]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeResourcesFit": _resources_fit,
    "PodTopologySpread": _topology_spread,
    "VolumeBinding": _volume_binding,
}
