"""Candidates that change the pod but not its requests: tolerations to add, and constraints to drop.

Tests: tests/unit/insight/test_proposals.py.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf import message

from trireme.framework import tolerations
from trireme.simulation import node_copies
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, insight_pb2

_HARD = (tolerations.NO_SCHEDULE, tolerations.NO_EXECUTE)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUIRED_FIELD = "required_during_scheduling_ignored_during_execution"


@dataclass(frozen=True, slots=True)
class PodChange:
    """What makes a changed copy of the class's pod, and the proposal of the change.

    The copy is made for a simulation: copies for all candidates of a pod with many terms would fill the memory.
    """

    changed_pod: Callable[[], core_pb2.Pod]
    proposal: insight_pb2.Proposal


def tolerations_to_add(
    pod: core_pb2.Pod, snap: snapshot.Snapshot, refused: Sequence[arrays.BoolArray]
) -> list[PodChange]:
    """A candidate for each set of taints that keeps the pod off some nodes, the most promising first.

    These are the sets that stand alone between the pod and most nodes. `refused`: the slots that each plugin refuses.

    Shapes: refused (slot,).
    """
    nodes = snap.nodes
    live = nodes.alive[: nodes.size].copy()
    nodes_of_set: dict[frozenset[tolerations.Taint], list[int]] = {}
    # One plugin refuses the taints: where there is no other one, tolerating them is enough.
    open_otherwise = live & (np.sum(refused, axis=0) <= 1) if refused else live
    numbers = nodes.taint_set[: nodes.size]
    by_number = np.bincount(numbers[live], minlength=1)
    open_by_number = np.bincount(numbers[open_otherwise], minlength=by_number.shape[0])
    for number in np.flatnonzero(by_number).tolist():
        taints = _untolerated(pod, nodes.taint_sets.value(number))
        # Taints about a condition go by themselves or on purpose, so tolerating them is no advice.
        if taints and not any(key.startswith(node_copies.CONDITION_TAINTS) for key, _, _ in taints):
            counts = nodes_of_set.setdefault(taints, [0, 0])
            counts[0] += int(open_by_number[number])
            counts[1] += int(by_number[number])
    order = sorted(nodes_of_set, key=lambda taints: (*(-count for count in nodes_of_set[taints]), sorted(taints)))
    return [_with_tolerations(pod, sorted(taints)) for taints in order]


def constraints_to_drop(pod: core_pb2.Pod) -> Iterator[PodChange]:
    """A candidate for each constraint of the pod that may be dropped by itself, in the order of the pod's fields."""
    for key in sorted(pod.spec.node_selector):
        requirement = core_pb2.NodeSelectorRequirement(key=key, operator="In", values=[pod.spec.node_selector[key]])
        drop = insight_pb2.DropConstraint(field=f"spec.nodeSelector[{key}]", node_selector=requirement)
        yield dropping(pod, drop, "node_selector", key)
    yield from _node_affinity_to_drop(pod)
    affinity = pod.spec.affinity
    for number, term in enumerate(affinity.pod_affinity.required_during_scheduling_ignored_during_execution):
        field = f"spec.affinity.podAffinity.{_REQUIRED}[{number}]"
        drop = insight_pb2.DropConstraint(field=field, pod_affinity=term)
        yield dropping(pod, drop, "affinity", "pod_affinity", _REQUIRED_FIELD, number)
    for number, term in enumerate(affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution):
        drop = insight_pb2.DropConstraint(
            field=f"spec.affinity.podAntiAffinity.{_REQUIRED}[{number}]", pod_anti_affinity=term
        )
        yield dropping(pod, drop, "affinity", "pod_anti_affinity", _REQUIRED_FIELD, number)
    for number, constraint in enumerate(pod.spec.topology_spread_constraints):
        if constraint.when_unsatisfiable == "DoNotSchedule":
            field = f"spec.topologySpreadConstraints[{number}]"
            drop = insight_pb2.DropConstraint(field=field, topology_spread=constraint)
            yield dropping(pod, drop, "topology_spread_constraints", number)


def _node_affinity_to_drop(pod: core_pb2.Pod) -> Iterator[PodChange]:
    """A candidate for each requirement of the required node affinity.

    Where it is all that its term requires, the affinity goes: without it every node would match the term.
    """
    affinity = pod.spec.affinity.node_affinity
    selector = affinity.required_during_scheduling_ignored_during_execution
    terms, path = selector.node_selector_terms, f"spec.affinity.nodeAffinity.{_REQUIRED}"
    whole = False
    for number, term in enumerate(terms):
        if len(term.match_expressions) + len(term.match_fields) == 1:
            whole = True
            continue
        for name in ("match_expressions", "match_fields"):
            for place, requirement in enumerate(getattr(term, name)):
                json_name = core_pb2.NodeSelectorTerm.DESCRIPTOR.fields_by_name[name].json_name
                field = f"{path}.nodeSelectorTerms[{number}].{json_name}[{place}]"
                drop = insight_pb2.DropConstraint(field=field, node_affinity=requirement)
                steps = ("affinity", "node_affinity", _REQUIRED_FIELD, "node_selector_terms", number, name, place)
                yield dropping(pod, drop, *steps)
    if whole:
        drop = insight_pb2.DropConstraint(field=path)
        if len(terms) == 1:
            drop.node_affinity.CopyFrom([*terms[0].match_expressions, *terms[0].match_fields][0])
        else:
            drop.required_node_affinity.CopyFrom(selector)
        yield dropping(pod, drop, "affinity", "node_affinity", _REQUIRED_FIELD)


def _untolerated(pod: core_pb2.Pod, taints: Sequence[tolerations.Taint]) -> frozenset[tolerations.Taint]:
    """The hard taints that the pod does not tolerate."""
    return frozenset(
        taint
        for taint in taints
        if taint[2] in _HARD and not tolerations.is_tolerated(pod.spec.tolerations, taint, comparing=False)
    )


def _with_tolerations(pod: core_pb2.Pod, taints: Sequence[tolerations.Taint]) -> PodChange:
    proposal = insight_pb2.Proposal()
    for key, value, effect in taints:
        proposal.tolerate_taints.taints.add(key=key, value=value, effect=effect)

    def changed_pod() -> core_pb2.Pod:
        changed = copy_of(pod)
        for key, value, effect in taints:
            changed.spec.tolerations.add(key=key, operator="Equal", value=value, effect=effect)
        return changed

    return PodChange(changed_pod, proposal)


def dropping(pod: core_pb2.Pod, drop: insight_pb2.DropConstraint, *steps: str | int) -> PodChange:
    """The change that drops what is at the end of these fields, keys and places, from the pod's spec on."""
    return PodChange(functools.partial(_without, pod, steps), insight_pb2.Proposal(drop_constraint=drop))


def _without(pod: core_pb2.Pod, steps: Sequence[str | int]) -> core_pb2.Pod:
    """A copy of the pod without what is at the end of the steps."""
    changed = copy_of(pod)
    *way, last = steps
    holder: Any = changed.spec
    for step in way:
        holder = holder[step] if isinstance(step, int) else getattr(holder, step)
    if isinstance(holder, message.Message):
        holder.ClearField(last)
    else:
        del holder[last]
    return changed


def copy_of(pod: core_pb2.Pod) -> core_pb2.Pod:
    """A copy to be changed."""
    out = core_pb2.Pod()
    out.CopyFrom(pod)
    return out
