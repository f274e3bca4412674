"""Random events in random clusters, for the plugins that rejected a pod before: what queueing hints are asked about.

A situation begins as a golden one, of the hints or of the decisions; one of its objects is what the event is about. The
object before or after is the same with some changes, and so is the rest of the cluster, by `situation_mutations`.
"""

import copy
import random
from collections.abc import Sequence
from typing import Any

from tests.conformance import situation_arguments, situation_blanks
from tests.conformance.golden_rows import Row
from tests.conformance.situation_mutations import Mutations

Json = Any

#: Where a case has the objects of a resource.
FIELDS = {
    "Node": "nodes",
    "AssignedPod": "pods",
    "TargetPod": "pods",
    "PersistentVolume": "persistentVolumes",
    "PersistentVolumeClaim": "persistentVolumeClaims",
    "storage.k8s.io/StorageClass": "storageClasses",
    "storage.k8s.io/CSINode": "csiNodes",
    "storage.k8s.io/CSIDriver": "csiDrivers",
    "storage.k8s.io/CSIStorageCapacity": "csiStorageCapacities",
    "storage.k8s.io/VolumeAttachment": "volumeAttachments",
    "resource.k8s.io/ResourceClaim": "resourceClaims",
    "resource.k8s.io/DeviceClass": "deviceClasses",
}
#: How many begin as golden hints; the others as golden decisions.
OF_HINTS = 0.6
#: How often the plugin has arguments of its own, where some are known that its hints may depend on.
ARGUED = 0.15

#: How often selectors are empty or absent.
BLANK = 0.2

_ARGUMENTS: dict[str, list[Json]] = {}
for _choices in situation_arguments.ARGUMENTS.values():
    for _choice in _choices:
        _ARGUMENTS.setdefault(_choice[0]["name"], []).append(_choice)


class Events:
    """Situations drawn from golden hints and decisions."""

    def __init__(self, hints: Sequence[Row], decisions: Sequence[Row]) -> None:
        self._hints: dict[tuple[str, str, str], list[Json]] = {}
        for row in hints:
            case = row["case"]
            if "event" in case:
                event = case["event"]
                key = (case["plugin"], event["resource"], "+".join(event["actions"]))
                self._hints.setdefault(key, []).append(case)
        self._registered = sorted(self._hints)
        self._having: dict[str, list[Json]] = {}
        for row in decisions:
            for field in row["case"]:
                self._having.setdefault(field, []).append(row["case"])
        flat = [{"name": row["name"], "case": _flat(row["case"])} for row in hints if "event" in row["case"]]
        self._mutations = Mutations([*flat, *decisions])

    def draw(self, draw: random.Random, name: str) -> Row:
        """An event and who may wait for it."""
        key = draw.choice(self._registered)
        plugin, resource, _ = key
        field = FIELDS[resource]
        known = copy.deepcopy(draw.choice(self._hints[key]))
        event, happened = known["event"], known.get("new") or known["old"]
        case = _flat(known)
        others = self._having.get(field, ())
        if others and draw.random() > OF_HINTS:
            case = copy.deepcopy(draw.choice(others))
            if draw.random() < 0.5 and case[field]:
                happened = draw.choice(case[field])
            if draw.random() < 0.3:
                case["pod"] = known["pod"]
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            self._mutations.change(draw, case)
        if draw.random() < BLANK:
            situation_blanks.add(draw, case)
        if resource == "TargetPod":
            happened = case["pod"]
        elif draw.random() < 0.3:
            happened = self._changed(draw, happened, field)
        self._place(draw, case, event, happened)
        case.pop("fitStrategy", None)
        case.pop("focus", None)
        arguments = _ARGUMENTS.get(plugin)
        if arguments and draw.random() < ARGUED:
            case["pluginConfig"] = draw.choice(arguments)
        return {"name": f"{plugin}-{name}", "case": {**case, "plugin": plugin, "event": event}}

    def _place(self, draw: random.Random, case: Json, event: Json, happened: Json) -> None:
        """Makes the cluster one in which it has just happened."""
        resource, actions = event["resource"], event["actions"]
        kinds = {action if action in ("Add", "Delete") else "Update" for action in actions}
        kind = draw.choice(sorted(kinds))
        happened = copy.deepcopy(happened)
        if resource == "AssignedPod":
            nodes = case.get("nodes") or [{"metadata": {"name": "gone"}}]
            happened["spec"].setdefault("nodeName", draw.choice(nodes)["metadata"]["name"])
        field = FIELDS[resource]
        if resource != "TargetPod":
            case[field] = [entry for entry in case.get(field) or () if _named(entry) != _named(happened)]
        if kind == "Delete":
            case["old"] = happened
            return
        if kind == "Update":
            case["old"] = self._changed(draw, happened, field)
            case["old"]["metadata"]["resourceVersion"] = "1"
            happened["metadata"]["resourceVersion"] = "2"
        case["new"] = happened
        if resource == "TargetPod":
            case["pod"] = happened
        else:
            case[field].append(happened)

    def _changed(self, draw: random.Random, entry: Json, field: str) -> Json:
        holder = {"entry": copy.deepcopy(entry)}
        for _ in range(draw.choice((0, 1, 1, 2, 3, 5))):
            self._mutations.descend(draw, holder, "entry", f"{field}[]")
        changed = holder["entry"]
        for key in ("name", "namespace", "uid"):
            if key in entry["metadata"]:
                changed["metadata"][key] = entry["metadata"][key]
        return changed


def _named(entry: Json) -> tuple[str, str]:
    return entry["metadata"].get("namespace", ""), entry["metadata"]["name"]


def _flat(case: Json) -> Json:
    """The case with the event's objects among the others: what may be learnt from them is the same."""
    flat = {name: value for name, value in case.items() if name not in ("plugin", "event", "old", "new")}
    field = FIELDS[case["event"]["resource"]]
    for side in ("old", "new"):
        if side in case and case["event"]["resource"] != "TargetPod":
            entries = [entry for entry in flat.get(field) or () if _named(entry) != _named(case[side])]
            flat[field] = [*entries, case[side]]
    return copy.deepcopy(flat)
