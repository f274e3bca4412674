"""Blanks for random situations: selectors that are empty, and selectors that are not there.

What either means differs from field to field: everything, nothing, or that there is no such demand. An API server
stores most of these.
"""

import random
from collections.abc import Iterator
from typing import Any

Json = Any

# The field goes.
_ABSENT = object()

_OBJECT: tuple[Json, ...] = ({}, _ABSENT)
_LIST: tuple[Json, ...] = ([], _ABSENT)
_LABEL_SELECTOR: tuple[Json, ...] = (*_OBJECT, {"matchLabels": {}}, {"matchExpressions": []})
_TERMS: tuple[Json, ...] = ([], [{}])

# What a field may have in its place.
_BLANKS: dict[str, tuple[Json, ...]] = {
    "labelSelector": _LABEL_SELECTOR,
    "namespaceSelector": _LABEL_SELECTOR,
    "nodeTopology": _LABEL_SELECTOR,
    "selector": _OBJECT,
    "nodeSelector": _OBJECT,
    "deviceSelector": _OBJECT,
    "required": (*_OBJECT, {"nodeSelectorTerms": []}),
    "nodeAffinity": _OBJECT,
    "podAffinity": _OBJECT,
    "podAntiAffinity": _OBJECT,
    "affinity": _OBJECT,
    "preference": ({},),
    "labels": _OBJECT,
    "allocatable": _OBJECT,
    "nodeSelectorTerms": _TERMS,
    "allowedTopologies": (*_TERMS, _ABSENT),
    "tolerations": (*_TERMS, [{"operator": "Exists"}], _ABSENT),
    "matchLabels": _OBJECT,
    "matchExpressions": _LIST,
    "matchFields": _LIST,
    "matchLabelExpressions": _LIST,
    "selectors": _LIST,
    "namespaces": _LIST,
    "drivers": _LIST,
}
# Fields that may be where another field is, and mostly are not.
_BESIDE: dict[str, tuple[str, ...]] = {
    "topologyKey": ("labelSelector", "namespaceSelector"),
    "storageClassName": ("selector",),
    "provisioner": ("allowedTopologies",),
    "taint": ("deviceSelector",),
}


def add(draw: random.Random, case: Json) -> None:
    """Blank some selectors."""
    holders: dict[str, list[Json]] = {}
    for found, name in _places(case):
        holders.setdefault(name, []).append(found)
    # By field first: there are more labels than all else.
    for name in draw.sample(sorted(holders), min(len(holders), draw.choice((1, 2, 4)))):
        holder = draw.choice(holders[name])
        blank = draw.choice([each for each in _BLANKS[name] if _is_alike(each, holder.get(name))])
        if blank is _ABSENT:
            holder.pop(name, None)
        else:
            holder[name] = _copied(blank)


def _places(value: Json, *, top: bool = True) -> Iterator[tuple[Json, str]]:
    """The objects that have, or may have, a selector, and its name."""
    if isinstance(value, list):
        for inner in value:
            yield from _places(inner, top=False)
    if not isinstance(value, dict):
        return
    names = {name for name in value if name in _BLANKS}
    names |= {name for beside, others in _BESIDE.items() if beside in value for name in others}
    if not top:
        yield from ((value, name) for name in sorted(names) if not _keeps(value, name))
    for name in sorted(value):
        if name not in ("pluginConfig", "featureGates", "event"):
            yield from _places(value[name], top=False)


def _keeps(holder: Json, name: str) -> bool:
    """Whether the object has no such selector: spread constraints have one alone, and nodes have amounts."""
    if name == "namespaceSelector":
        return "whenUnsatisfiable" in holder
    return name == "allocatable" and "cpu" in (holder[name] or {})


def _is_alike(blank: Json, before: Json) -> bool:
    """Whether the blank has the kind of what is there."""
    return before is None or blank is _ABSENT or isinstance(blank, list) == isinstance(before, list)


def _copied(blank: Json) -> Json:
    return [dict(each) for each in blank] if isinstance(blank, list) else {name: blank[name].copy() for name in blank}
