"""Random situations made of several golden ones of a category: nodes of this, pods of that, the waiting pod of a third.

What a golden case has is kept whole, object for object; only who meets whom is new. That is nearer to the golden data
than `situation_mutations`, which changes objects within: another draw from the same source would look like this.

Objects with names of their own (pods, claims, volumes) get a letter before theirs, wherever they are named, so that
those of two cases do not become one. Nodes, classes and drivers are called alike in all cases, and so are they here:
one of them is taken from this case or from that.
"""

import copy
import random
from collections.abc import Sequence
from typing import Any

from tests.conformance import golden_rows
from tests.conformance.golden_rows import Row

Json = Any

# Whose names are told apart by a letter.
_OWN = (
    *("pods", "nominated", "persistentVolumeClaims", "persistentVolumes", "resourceClaims", "volumeAttachments"),
    *("podDisruptionBudgets", "services", "deviceTaintRules"),
)
# What is there once for a name, from one of the cases.
_SHARED = (
    *("storageClasses", "csiDrivers", "csiStorageCapacities", "deviceClasses", "namespaces"),
    *("csiNodes", "nodes"),
)
_INCOMING = "incoming"
_LETTERS = "bc"


class Crossings:
    """Situations drawn from a corpus of golden rows."""

    def __init__(self, corpus: Sequence[Row]) -> None:
        self._by_category: dict[str, list[Json]] = {}
        for row in corpus:
            self._by_category.setdefault(golden_rows.category_of(row), []).append(row["case"])
        self._cases = [(golden_rows.category_of(row), row["case"]) for row in corpus]

    def draw(self, draw: random.Random, name: str) -> Row:
        """Two or three cases of one category in one."""
        category, first = draw.choice(self._cases)
        case = copy.deepcopy(first)
        focus = case.pop("focus", None)
        for letter in _LETTERS[: draw.choice((1, 1, 2))]:
            alike = [other for other in self._by_category[category] if focus is None or other.get("focus") == focus]
            donor = draw.choice(alike if draw.random() < 0.7 else self._by_category[category])
            _cross(draw, case, _lettered(donor, letter))
        case["name"] = f"{category}-{name}"
        return {"name": case["name"], "case": case}


def _lettered(case: Json, letter: str) -> Json:
    """The case with a letter before the names of objects that have their own."""
    names = set()
    for field in _OWN:
        for entry in case.get(field) or ():
            names |= {entry["metadata"]["name"], entry["metadata"].get("uid")}
    return _renamed(case, names - {_INCOMING}, letter)


def _renamed(value: Json, names: set[str | None], letter: str) -> Json:
    if isinstance(value, dict):
        return {key: _renamed(inner, names, letter) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names, letter) for inner in value]
    return letter + value if isinstance(value, str) and value in names else value


def _cross(draw: random.Random, case: Json, donor: Json) -> None:
    """Put parts of the donor into the case."""
    size = max(len(case.get("pods") or ()), len(donor.get("pods") or ()))
    for field in _OWN:
        if field in donor:
            case[field] = [*(case.get(field) or ()), *donor[field]]
    for field in _SHARED:
        case[field] = _either(draw, case.get(field) or [], donor.get(field) or [])
    case["resourceSlices"] = _slices(draw, case.get("resourceSlices") or [], donor.get("resourceSlices") or [])
    if draw.random() < 0.5:
        case["pod"] = donor["pod"]
    nodes = [node["metadata"]["name"] for node in case["nodes"]]
    case["pods"] = draw.sample(case["pods"], min(size, len(case["pods"])))
    for field in ("podDisruptionBudgets", "services", "nominated", "deviceTaintRules"):
        if field in case:
            case[field] = [entry for entry in case[field] if draw.random() < 0.6]
    for pod in case["pods"]:
        if pod["spec"]["nodeName"] not in nodes:
            pod["spec"]["nodeName"] = draw.choice(nodes)
    for field in [name for name, value in case.items() if value == []]:
        del case[field]
    case.setdefault("pods", [])


def _either(draw: random.Random, ours: list[Json], theirs: list[Json]) -> list[Json]:
    """One for each name: one of two where both have it; some of the others."""
    by_name = {entry["metadata"]["name"]: entry for entry in theirs}
    out = [by_name.get(entry["metadata"]["name"], entry) if draw.random() < 0.4 else entry for entry in ours]
    known = {entry["metadata"]["name"] for entry in ours}
    return out + [entry for name, entry in by_name.items() if name not in known and (not ours or draw.random() < 0.4)]


def _slices(draw: random.Random, ours: list[Json], theirs: list[Json]) -> list[Json]:
    """Pools are taken whole: slices of two cases in one pool would make all pools incomplete."""
    pools: dict[tuple[str, str], list[list[Json]]] = {}
    for side in (ours, theirs):
        of_side: dict[tuple[str, str], list[Json]] = {}
        for entry in side:
            of_side.setdefault((entry["spec"]["driver"], entry["spec"]["pool"]["name"]), []).append(entry)
        for pool, entries in of_side.items():
            pools.setdefault(pool, []).append(entries)
    return [entry for choices in pools.values() for entry in draw.choice(choices)]
