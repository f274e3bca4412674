"""A write to an API server as its caller sees it, without the client: its pod, the kind of patch, how it ended.

Each write has one of a few outcomes, for the caller to match on. `Uncertain` means that the write may have happened:
the caller reads the object back before it reports anything.

Tests: tests/contract/test_kube_writes.py, tests/unit/bind/test_binding_retries.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The kinds of patch, by their Content-Type.
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Written:
    """The write took place; `obj` is the object as it is now ({} where the response has none)."""

    obj: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Conflict:
    """The write did not take place: the object changed, exists already, is bound, or another one has its name."""

    message: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The write did not take place: the object does not exist."""

    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The write did not take place, and the same request will not succeed later: invalid or forbidden."""

    message: str
    status: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The write did not take place: the server was unreachable or overloaded. Try again later."""

    message: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The write may have taken place: read the object back."""

    message: str


Outcome = Written | Conflict | Gone | Refused | Unavailable | Uncertain


@dataclass(frozen=True, slots=True)
class Unbound:
    """The pod was read, and has no node: the binding did not take place."""

    message: str


SettledBinding = Written | Conflict | Gone | Unbound | Uncertain
"""The outcome of a binding in doubt, by reading the pod back; Uncertain: the pod could not be read."""


@dataclass(frozen=True, slots=True)
class PodName:
    """One pod, and no later one of its name."""

    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Its path in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
