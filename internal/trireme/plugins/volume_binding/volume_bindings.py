"""The state that VolumeBinding's Reserve passes to its PreBind: the objects to write, and those written already.

Filter makes it, the frontend forwards it unread, and bind reads it. Between two calls of PreBind it also records the
versions that bind wrote, so that a call on another replica continues where the one before stopped.

Also change: internal/trireme/plugins/dynamic_resources/reserve_state.py (how state travels from Reserve to PreBind).

Tests: tests/unit/plugins/test_volume_binding_bind.py.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class VolumeToBind:
    """An existing volume that PreBind is to bind to a claim. Versions are resourceVersions; `written`: that is done."""

    volume: str
    volume_version: str
    by_controller: bool  # the claim's name is put there by us, and not by the person who made the volume
    namespace: str
    claim: str
    claim_uid: str
    claim_version: str
    written: bool = False


@dataclass(frozen=True, slots=True)
class SelectedNodeWrite:
    """A claim into which PreBind is to write the node that its volume is to be provisioned for."""

    namespace: str
    claim: str
    claim_version: str
    written: bool = False


@dataclass(frozen=True, slots=True)
class VolumeBindings:
    """All that PreBind has to do for one pod."""

    to_bind: tuple[VolumeToBind, ...] = ()
    to_provision: tuple[SelectedNodeWrite, ...] = ()

    def to_bytes(self) -> bytes:
        """Encode it as the plugin's state between Reserve and PreBind."""
        return orjson.dumps(asdict(self))

    @staticmethod
    def from_bytes(data: bytes) -> "VolumeBindings":
        """Decode the bytes of `to_bytes`. Raises: ValueError for anything else."""
        try:
            fields: Mapping[str, Any] = orjson.loads(data)
            return VolumeBindings(
                tuple(VolumeToBind(**_checked_fields(entry)) for entry in fields["to_bind"]),
                tuple(SelectedNodeWrite(**_checked_fields(entry)) for entry in fields["to_provision"]),
            )
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise ValueError(f"not what Reserve gave: {error}") from error


def _checked_fields(entry: Any) -> Mapping[str, Any]:
    """The fields of an entry. Raises: TypeError where it is no object of texts and truth values."""
    if not isinstance(entry, dict) or not all(isinstance(value, (str, bool)) for value in entry.values()):
        raise TypeError("an entry is no object of texts and truth values")
    return entry
