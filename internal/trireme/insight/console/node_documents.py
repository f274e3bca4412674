"""The documents about nodes and groups of pods: columns for all nodes, one node, and the groups.

All nodes are columns of equal length, for 5,000 rows of named fields would be three times as long. A reader who has the
nodes of an earlier generation gets those alone that changed since.

The page reads them with the types of `console/src/documents.ts`.

Also change: console/src/documents.ts, internal/trireme/insight/console/documents.py (the fields of documents).
Also change: console/src/node_data.ts (the columns of nodes).
Also change: console/src/views/groups.tsx (states of a group).
Also change: docs/console.md.

Tests: tests/unit/insight/console/test_views.py.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trireme.insight.console import console_state
from trireme.insight.console.documents import Json, Sight
from trireme.snapshot import arrays, resources, snapshot
from trireme.snapshot import pods as snapshot_pods
from trireme_kube.apimachinery import well_known_labels

# A label with more values colours nothing.
MAX_LABEL_VALUES = 64
MAX_LABEL_KEYS = 100
# Pods of one node that are named.
MAX_PODS = 1_000


def nodes(state: console_state.ConsoleState, sight: Sight, *, after: int, incarnation: int, label: str) -> Json:
    """All nodes as columns; those that changed after generation `after` alone if the reader has the others.

    `incarnation` is that of the document in which the reader got them. `label` is the key whose values are a column.
    """
    snap = state.cluster.snap
    table = snap.nodes
    whole = not after or incarnation != snap.incarnation or after > snap.generation
    changed = table.live_slots() if whole else table.differing_since(after)
    alive = table.alive[changed]
    slots, gone = changed[alive], changed[~alive]
    key = label or well_known_labels.ZONE
    values = table.labels.column(key)
    sets = sorted(set(table.taint_set[slots].tolist()))
    numbers = {taint_set: number for number, taint_set in enumerate(sets)}
    return {
        "incarnation": snap.incarnation,
        "generation": snap.generation,
        "whole": whole,
        "gone": gone.tolist(),
        "label": key,
        "labelKeys": _label_keys(snap),
        "slot": slots.tolist(),
        "name": [table.names[slot] for slot in slots.tolist()],
        "value": [values.value_at(slot) or "" for slot in slots.tolist()],
        "unschedulable": table.unschedulable[slots].astype(np.int8).tolist(),
        "taintSets": [_taints(table.taint_sets.value(number)) for number in sets],
        "taints": [numbers[number] for number in table.taint_set[slots].tolist()],
        "podCount": table.pod_count[slots].tolist(),
        "allowedPods": table.allowed_pods[slots].tolist(),
        "resources": _resource_columns(snap, slots),
    }


def node(state: console_state.ConsoleState, sight: Sight, *, name: str) -> Json | None:
    """One node: labels, taints, resources, and its pods if the reader may list them; None: there is no such node."""
    snap = state.cluster.snap
    slot = snap.nodes.slot_of_name.get(name)
    if slot is None:
        return None
    table = snap.nodes
    rows = np.flatnonzero(snap.pods.slot[: snap.pods.size] == slot).tolist()
    names = table.resource_names.names
    return {
        "name": name,
        "labels": dict(sorted(table.labels.labels_of(slot).items())),
        "taints": _taints(table.taint_sets.value(int(table.taint_set[slot]))),
        "unschedulable": bool(table.unschedulable[slot]),
        "podCount": int(table.pod_count[slot]),
        "allowedPods": int(table.allowed_pods[slot]),
        "resources": [
            {
                "name": names[number],
                "allocatable": int(table.allocatable[number, slot]),
                "requested": int(table.requested[number, slot]),
            }
            for number in range(min(len(names), table.allocatable.shape[0]))
            if table.allocatable[number, slot] or table.requested[number, slot]
        ],
        "pods": [_pod_on_node(snap, row) for row in rows[:MAX_PODS]] if sight.lists_pods else None,
    }


def groups(state: console_state.ConsoleState, sight: Sight) -> Json:
    """The groups of pods: how many pods each has on nodes and in the queue, and how many it needs."""
    snap = state.cluster.snap
    placed, queued = _placed_by_group(snap), state.pending.groups()
    known = {(group.metadata.namespace, group.metadata.name): group for group in snap.objects.all("pod_group")}
    keys = sorted({*known, *queued, *placed})
    return {"groups": [_group_document(key, known.get(key), placed[key], queued.get(key, {})) for key in keys]}


def _group_document(key: tuple[str, str], group: Any, placed: int, queued: Mapping[str, int]) -> Json:
    """A group; `group` is its object, None if there is none."""
    conditions: Sequence[Any] = ()
    needs = None
    policy, parent = "", ""
    if group is not None:
        gang = group.spec.scheduling_policy.HasField("gang")
        policy, needs = ("gang", group.spec.scheduling_policy.gang.min_count) if gang else ("basic", None)
        conditions = group.status.conditions
        parent = group.spec.parent_composite_pod_group_name
    return {
        "namespace": key[0],
        "name": key[1],
        "exists": group is not None,
        "policy": policy,
        "needs": needs,
        "parent": parent,
        "placed": placed,
        "queued": dict(queued),
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in conditions
        ],
    }


def _placed_by_group(snap: snapshot.Snapshot) -> "Counter[tuple[str, str]]":
    """How many pods of each group are on nodes, by namespace and name of the group."""
    of_class = {
        each.index: (each.namespace, each.pod_group_name) for each in snap.classes.values() if each.pod_group_name
    }
    out: Counter[tuple[str, str]] = Counter()
    if not of_class:
        return out
    table = snap.pods
    counts = np.bincount(
        table.class_index[: table.size][table.slot[: table.size] >= 0], minlength=snap.class_capacity
    ).tolist()
    for index, key in of_class.items():
        if counts[index]:
            out[key] += counts[index]
    return out


def _resource_columns(snap: snapshot.Snapshot, slots: arrays.SlotArray) -> Sequence[Json]:
    """Allocatable and requested amounts of each resource that some node has. Units: cpu in millicores."""
    table = snap.nodes
    out = []
    for number, name in enumerate(table.resource_names.names[: table.allocatable.shape[0]]):
        allocatable = table.allocatable[number][slots]
        if number in (resources.CPU, resources.MEMORY) or allocatable.any():
            requested = table.requested[number][slots]
            out.append({"name": name, "allocatable": allocatable.tolist(), "requested": requested.tolist()})
    return out


def _label_keys(snap: snapshot.Snapshot) -> Sequence[str]:
    """The keys of labels that can colour nodes: with a few values (a dictionary has one number more than values)."""
    labels = snap.nodes.labels
    found = [key for key in labels.keys if 1 < len(labels.column(key).dictionary) <= MAX_LABEL_VALUES + 1]
    return sorted(found)[:MAX_LABEL_KEYS]


def _taints(taints: Sequence[tuple[str, str, str]]) -> Sequence[Json]:
    return [{"key": key, "value": value, "effect": effect} for key, value, effect in taints]


def _pod_on_node(snap: snapshot.Snapshot, row: int) -> Json:
    """A pod on a node, with what it requests. Units: cpu in millicores, memory in bytes."""
    pod_class = snap.classes[int(snap.pods.pod_class[row])]
    requests = pod_class.placed_requests(snap.nodes.resource_names)
    flags = int(snap.pods.flags[row])
    return {
        "namespace": pod_class.namespace,
        "name": snap.pods.names[row],
        "priority": pod_class.priority,
        "cpu": int(requests[resources.CPU]),
        "memory": int(requests[resources.MEMORY]),
        "startedMs": int(snap.pods.start[row]) * 1000,
        "terminating": bool(flags & snapshot_pods.TERMINATING),
        "preempted": bool(flags & snapshot_pods.PREEMPTED),
    }
