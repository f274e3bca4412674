"""Random situations made of golden ones: parts of a case are left out, doubled, or taken from other cases.

What may stand where is learnt from the golden cases themselves: a value is only replaced by one that another case has
at the same place (`pod.spec.tolerations`, say). So every part is one that occurs, and only the whole is new.
"""

import copy
import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.conformance.golden_rows import Row

Json = Any

# What other parts refer to, or what makes an object what it is.
KEPT = frozenset(
    {"apiVersion", "kind", "metadata", "name", "namespace", "uid", "spec", "containers", "nodeName", "schedulerName"}
)

# Without these an API server takes no such object.
REQUIRED = frozenset(
    {"topologyKey", "key", "operator", "weight", "effect", "whenUnsatisfiable", "maxSkew", "podAffinityTerm"}
    | {"preference", "nodeSelectorTerms", "provisioner", "driver", "claimName", "requests", "names"}
)

_LISTS_OF_PODS = ("pods", "nominated", "pod")


class Mutations:
    """Situations drawn from a corpus of golden rows."""

    def __init__(self, corpus: Sequence[Row]) -> None:
        self._corpus = [row["case"] for row in corpus]
        self._names = [row["name"] for row in corpus]
        self._values: dict[str, list[Json]] = {}
        for case in self._corpus:
            for name, value in case.items():
                for place, found in _places(value, _kind_of(name)):
                    self._values.setdefault(place, []).append(found)

    def draw(self, draw: random.Random, name: str) -> Row:
        """A case of the corpus with some changes."""
        number = draw.randrange(len(self._corpus))
        case = copy.deepcopy(self._corpus[number])
        for _ in range(draw.choice((1, 2, 3, 5, 8, 13))):
            self.change(draw, case)
        category = self._names[number].partition("-")[0]
        case["name"] = f"{category}-{name}"
        return {"name": case["name"], "case": case}

    def change(self, draw: random.Random, case: Json) -> None:
        field = draw.choice(
            [
                name
                for name in case
                if isinstance(case[name], (list, dict)) and name not in ("pluginConfig", "featureGates")
            ]
        )
        if draw.random() < 0.5:
            field = "pod"
        if draw.random() < 0.1 and case.get("pods"):
            # The pod to place becomes like one that is placed, with what that one wants.
            case["pod"]["spec"] = {**copy.deepcopy(draw.choice(case["pods"])["spec"]), "priority": 10}
            case["pod"]["spec"].pop("nodeName", None)
            return
        self.descend(draw, case, field, _kind_of(field))

    def descend(self, draw: random.Random, parent: Json, key: str | int, place: str) -> None:
        """Change this value, or something within it."""
        value = parent[key]
        if isinstance(value, (dict, list)) and value and draw.random() < 0.8:
            if isinstance(value, list):
                inner: str | int = draw.randrange(len(value))
                self.descend(draw, value, inner, f"{place}[]")
            else:
                inner = draw.choice(sorted(value))
                if inner in ("name", "namespace", "uid", "apiVersion", "kind"):
                    return
                self.descend(draw, value, inner, f"{place}.{inner}")
            return
        self._change_here(draw, parent, key, place)

    def _change_here(self, draw: random.Random, parent: Json, key: str | int, place: str) -> None:
        chance = draw.random()
        if isinstance(parent, list) and chance < 0.3 and (place != "nodes[]" or len(parent) > 1):
            del parent[int(key)]
        elif isinstance(parent, dict) and chance < 0.2 and key not in KEPT | REQUIRED and "." in place:
            del parent[key]
        elif isinstance(parent, dict) and chance < 0.5 and place.count(".") > 1:
            # A field that it has not, from another object of the kind.
            whole, _, _ = place.rpartition(".")
            donor = draw.choice(self._values.get(whole, [parent]))
            if isinstance(donor, dict):
                for name in donor:
                    if name not in KEPT and draw.random() < 0.5:
                        parent[name] = copy.deepcopy(donor[name])
        elif key not in KEPT and "." in place and not _is_object(parent, place):
            parent[key] = copy.deepcopy(draw.choice(self._values.get(place, [parent[key]])))


def _is_object(parent: Json, place: str) -> bool:
    """Whole objects are not replaced: their names would be there twice."""
    return isinstance(parent, list) and "." not in place


def _kind_of(field: str) -> str:
    """Pods are pods, wherever they are."""
    return "pods[]" if field == "pod" else "pods" if field in _LISTS_OF_PODS else field


def _places(value: Json, place: str) -> Iterator[tuple[str, Json]]:
    yield place, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _places(inner, f"{place}[]")
