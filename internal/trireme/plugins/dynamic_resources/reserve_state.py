"""The state that DynamicResources' Reserve passes to its PreBind: the claims to allocate and reserve for the pod.

Filter makes it, the frontend forwards it unread, and bind reads it. Between two calls of PreBind it also records what
was written, so that a call on another replica continues where the one before stopped.

Also change: internal/trireme/plugins/volume_binding/volume_bindings.py (how state travels from Reserve to PreBind).

Tests: tests/unit/plugins/dynamic_resources/test_pre_bind.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

Json = Mapping[str, Any]

#: The annotation of a claim that is made for extended resources.
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
#: The name of such a claim while it exists in memory alone; the pod's UID follows, for there is one for each pod.
IN_MEMORY = "<extended-resources>"


@dataclass(frozen=True, slots=True)
class ClaimToReserve:
    """One claim. `allocation` is to be written; None: it has one. `reserved`: the pod is known to use it.

    A claim that is still to be made has `requests`, and `mappings` for the pod's status; name and UID come later.
    It takes the place of `stale`, which an earlier attempt left.

    The pod may use the claim where its PodGroup, `group` by name, is known to. With `group_uid` the claim is the
    group's, and it is reserved for it in the place of the pod.
    """

    namespace: str
    name: str
    uid: str
    allocation: Json | None = None
    reserved: bool = False
    make: bool = False
    requests: tuple[Json, ...] = ()
    mappings: tuple[Json, ...] = ()
    stale: str = ""
    group: str = ""
    group_uid: str = ""


@dataclass(frozen=True, slots=True)
class DeviceClaims:
    """The work of PreBind for one pod.

    `reported`: an event already says what the pod waits for. `node_allocatable` is what the claims come to in resources
    of the node, for the pod's status.
    """

    claims: tuple[ClaimToReserve, ...] = field(default=())
    reported: bool = False
    node_allocatable: tuple[Json, ...] = ()

    def to_bytes(self) -> bytes:
        """Encode it as the plugin's state between Reserve and PreBind."""
        return orjson.dumps(asdict(self))

    @staticmethod
    def from_bytes(data: bytes) -> "DeviceClaims":
        """Decode what `to_bytes` made. Raises: ValueError for anything else."""
        try:
            fields: Mapping[str, Any] = orjson.loads(data)
            claims = tuple(_claim_from_json(entry) for entry in fields["claims"])
            return DeviceClaims(claims, fields["reported"], _checked_objects(fields["node_allocatable"]))
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise ValueError(f"not what Reserve gave: {error}") from error


def _claim_from_json(entry: Mapping[str, Any]) -> ClaimToReserve:
    """Make the record of one claim from its JSON, whose lists become tuples. Raises: LookupError, TypeError."""
    parts = {"requests": _checked_objects(entry["requests"]), "mappings": _checked_objects(entry["mappings"])}
    claim = ClaimToReserve(**{**entry, **parts})
    texts = (claim.namespace, claim.name, claim.uid, claim.stale, claim.group, claim.group_uid)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name or UID of a claim is no text")
    if claim.allocation is not None and not isinstance(claim.allocation, dict):
        raise TypeError("an allocation is no object")
    return claim


def _checked_objects(entries: Sequence[Any]) -> tuple[Json, ...]:
    """The entries. Raises: TypeError for anything but objects."""
    if not all(isinstance(entry, dict) for entry in entries):
        raise TypeError("an entry is no object")
    return tuple(entries)
