"""Compares the snapshot that a replica has followed by deltas with one made anew, and that with the API server's state.

Once everything is at rest they are equal: nodes and what their pods take, pods, classes, nominations, other objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.helpers.snapshot_views import view
from tests.simulation.placed_pods import PlacedPods, used
from tests.simulation.pod_demands import LICENSE_RESOURCE, is_terminating
from trireme.snapshot import snapshot
from trireme_kube.embedded.api.resources import PODS, Object
from trireme_kube.embedded.storage.store import Store

_MEBIBYTE = 1 << 20
_RESOURCES = ("cpu", "memory", "ephemeral-storage", LICENSE_RESOURCE)
_UNITS = (1, _MEBIBYTE, _MEBIBYTE, 1)


def differences(known: snapshot.Snapshot, fresh: snapshot.Snapshot) -> Iterator[str]:
    """How a snapshot differs from the one made anew: the first entry of each table."""
    before, after = view(known), view(fresh)
    for what in ("nodes", "pods", "classes", "nominations"):
        yield from _compare(what, before[what], after[what])
    yield from _compare("nominations by column", _nominations_by_column(known), _nominations_by_column(fresh))
    yield from _compare("objects", _objects(known), _objects(fresh))


def _compare(what: str, known: Mapping[Any, Any], true: Mapping[Any, Any]) -> Iterator[str]:
    for key in (*true, *(each for each in known if each not in true)):
        if known.get(key) != true.get(key):
            yield f"{what}: {key} is {known.get(key, 'missing')}, in a new snapshot {true.get(key, 'missing')}"
            return


def _nominations_by_column(snap: snapshot.Snapshot) -> dict[str, tuple[int, int]]:
    found = snap.nominations
    at = {uid: found.entry_of(uid) for uid in found}
    return {uid: (int(found.class_ids[each]), int(found.slots[each])) for uid, each in at.items() if each is not None}


def _objects(snap: snapshot.Snapshot) -> dict[Any, Any]:
    table = snap.objects
    keys = table.keys()
    return {key: (table.get(*key), table.is_assumed(*key), table.sharing_group(*key)) for key in keys}


def differences_from_store(fresh: snapshot.Snapshot, store: Store, placed: PlacedPods) -> Iterator[str]:
    """How a leader's snapshot differs from what the API server has: amounts on nodes, and nominations."""
    for name, node in view(fresh)["nodes"].items():
        *amounts, pods = used(placed.on(name))
        true = {resource: amount * unit for resource, amount, unit in zip(_RESOURCES, amounts, _UNITS, strict=True)}
        known = {resource: node["requested"].get(resource, 0) for resource in _RESOURCES}
        if (known, node["pods"][1]) != (true, pods):
            yield f"on {name} {node['pods'][1]} pods request {known}, by their objects {pods} request {true}"
    nominated = {record.uid: node for record in store.scan(PODS) if (node := _nomination(record.object))}
    known_nominations = {uid: fresh.nodes.names[each.slot] for uid, each in fresh.nominations.items()}
    if known_nominations != nominated:
        yield f"pods are nominated to {known_nominations}, by their objects to {nominated}"


def _nomination(pod: Object) -> str:
    """The node that a pod without a node is nominated to; empty: none."""
    if pod["spec"].get("nodeName") or is_terminating(pod):
        return ""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")
