"""Assumed objects: volumes and claims as the scheduler expects the API server to show them.

An assumption is based on one version of the object. Once the informer delivers another version, the assumption is
dropped: either it was written, or another client's write won. A ResourceClaim is written in two steps, the first
without devices, so its assumption lasts until the claim has an allocation or is deleted. The assumption of a
claim that is still to be created for a pod ends with the first claim created for it.

While a pod group is tried, its pods may share what was assumed for the first of them: the assumption lasts until it is
forgotten for all of them. Afterwards no other pod may join (`close`).

Source: pkg/scheduler/util/assumecache, pkg/scheduler/framework/plugins/dynamicresources (dra_manager.go).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from trireme.v1 import snapshot_pb2

Key = tuple[str, str, str]  # kind, namespace, name

DEVICE_CLAIM = "resource_claim"
#: The assumed object before and after; None: no object.
Change = tuple[snapshot_pb2.ClusterObject | None, snapshot_pb2.ClusterObject | None]


class OutOfSyncError(Exception):
    """The object that is to be assumed has changed, or is gone, since it was evaluated."""


@dataclass(frozen=True, slots=True)
class _Assumption:
    """An assumed object, and the UIDs of the pods it is assumed for."""

    entry: snapshot_pb2.ClusterObject
    version: str
    users: frozenset[str]


class AssumedObjects:
    """Objects as the scheduler assumes they will be written, layered over those of the informers."""

    def __init__(self, informed: Mapping[Key, snapshot_pb2.ClusterObject]) -> None:
        self._informed = informed
        self._assumed: dict[Key, _Assumption] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def get(self, key: Key) -> snapshot_pb2.ClusterObject | None:
        """The assumed object, or the informer's if nothing is assumed."""
        assumption = self._assumed.get(key)
        return self._informed.get(key) if assumption is None else assumption.entry

    def all(self) -> Iterator[snapshot_pb2.ClusterObject]:
        """All objects, with the assumptions applied."""
        for key, entry in self._informed.items():
            assumption = self._assumed.get(key)
            yield entry if assumption is None else assumption.entry
        for key, assumption in self._assumed.items():
            if key not in self._informed:
                yield assumption.entry

    def assume(self, uid: str, entries: Mapping[Key, snapshot_pb2.ClusterObject]) -> None:
        """Assume all of these objects for the pod, or none. Raises: OutOfSyncError.

        An object without a version is still to be created. A claim that is open to the pod's group, and assumed for
        another member already, gets one user more.
        """
        shared = {key for key, entry in entries.items() if self._is_shared_with_group(key, entry)}
        for key, entry in entries.items():
            stored = self._informed.get(key)
            if key in shared:
                continue
            if stored is None and not version_of(entry):
                # It is still to be created.
                continue
            if stored is None:
                raise OutOfSyncError(f'"{_name_in_message(key)}" is not there any more')
            if version_of(stored) != version_of(entry):
                versions = f"stored: {version_of(stored)}, assume: {version_of(entry)}"
                raise OutOfSyncError(f'"{_name_in_message(key)}" is out of sync ({versions})')
        for key, entry in entries.items():
            if key in shared:
                existing = self._assumed[key]
                self._assumed[key] = replace(existing, users=existing.users | {uid})
            else:
                self._assumed[key] = _Assumption(entry, version_of(entry), frozenset((uid,)))

    def forget(self, uid: str) -> dict[Key, snapshot_pb2.ClusterObject]:
        """Drop the pod's assumptions; return the objects that were assumed for it alone."""
        dropped = {}
        for key, assumption in [each for each in self._assumed.items() if uid in each[1].users]:
            if len(assumption.users) > 1:
                self._assumed[key] = replace(assumption, users=assumption.users - {uid})
            else:
                dropped[key] = assumption.entry
                del self._assumed[key]
        return dropped

    def assumed_for(self, uid: str) -> list[snapshot_pb2.ClusterObject]:
        """The objects that are assumed for the pod."""
        return [assumption.entry for assumption in self._assumed.values() if uid in assumption.users]

    def end_sharing(self, uids: Collection[str]) -> list[Key]:
        """Stop other pods of the group from sharing these pods' assumptions; return the affected objects."""
        closed = []
        for key, assumption in self._assumed.items():
            if assumption.entry.open_to_group and not assumption.users.isdisjoint(uids):
                entry = snapshot_pb2.ClusterObject()
                entry.CopyFrom(assumption.entry)
                entry.ClearField("open_to_group")
                self._assumed[key] = replace(assumption, entry=entry)
                closed.append(key)
        return closed

    def _is_shared_with_group(self, key: Key, entry: snapshot_pb2.ClusterObject) -> bool:
        """Whether it is already assumed for another pod of the group being tried."""
        existing = self._assumed.get(key)
        return (
            existing is not None
            and bool(entry.open_to_group)
            and existing.entry.open_to_group == entry.open_to_group
            and existing.entry.resource_claim.metadata.uid == entry.resource_claim.metadata.uid
        )

    def on_informer_change(self, key: Key) -> list[Key]:
        """End the assumption about an object that the informer shows in another version, or shows to be gone.

        An allocated claim that a pod owns also ends the assumption of the claim that was to be created for that pod;
        their keys are returned.
        """
        if not self._assumed:
            return []
        assumption = self._assumed.get(key)
        entry = self._informed.get(key)
        if assumption is not None and _ends_assumption(key, assumption, entry):
            del self._assumed[key]
        if entry is None or key[0] != DEVICE_CLAIM or not entry.resource_claim.status.HasField("allocation"):
            return []
        owners = {owner.uid for owner in entry.resource_claim.metadata.owner_references if owner.controller}
        created = [
            other
            for other, assumed in self._assumed.items()
            if not assumed.users.isdisjoint(owners) and not assumed.version and other not in self._informed
        ]
        for other in created:
            del self._assumed[other]
        return created


def _ends_assumption(key: Key, assumption: _Assumption, entry: snapshot_pb2.ClusterObject | None) -> bool:
    """Whether the informer's state of the object (None: it is gone) ends the assumption about it.

    Another version does; of a ResourceClaim only one that is allocated, or has another UID.
    """
    if entry is None or version_of(entry) == assumption.version:
        return entry is None
    if key[0] != DEVICE_CLAIM:
        return True
    claim, assumed = entry.resource_claim, assumption.entry.resource_claim
    return claim.status.HasField("allocation") or claim.metadata.uid != assumed.metadata.uid


def version_of(entry: snapshot_pb2.ClusterObject) -> str:
    """The object's resourceVersion."""
    kind = entry.WhichOneof("object")
    return "" if kind is None else str(getattr(entry, kind).metadata.resource_version)


def _name_in_message(key: Key) -> str:
    """The object as messages name it: namespace/name, or the name alone."""
    _, namespace, name = key
    return f"{namespace}/{name}" if namespace else name
