"""Makes volumes for claims, in the place of a CSI driver's provisioner and of the controller that binds them.

The benchmark's control plane has neither, as scheduler_perf's has not, which binds with a controller of its own
(StartFakePVController). Here the claim waits for its first pod: once the scheduler has written the node into its
annotations, the volume is created with the claim's name in it, and the claim gets the volume's.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tools.bench.driver.api import Api, event_of_watch, follow

_CLAIMS = "/api/v1/persistentvolumeclaims"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


class Provisioner:
    """Follows the claims of a cluster, and binds each that has a node to a new volume."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._taken: set[str] = set()
        self._waiting: asyncio.Queue[Any] = asyncio.Queue()

    async def run(self) -> None:
        """Provisions until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(self._api, _CLAIMS, self.take))
            while True:
                group.create_task(self._provision(await self._waiting.get()))

    def take(self, line: bytes) -> str:
        """Notes one event of the watch; answers its version. Raises ApiError for an error sent instead of one."""
        version, claim = event_of_watch(_CLAIMS, line)
        if claim is not None and _SELECTED_NODE in claim["metadata"].get("annotations", {}):
            uid = claim["metadata"]["uid"]
            if uid not in self._taken:
                self._taken.add(uid)
                self._waiting.put_nowait(claim)
        return version

    async def _provision(self, claim: Any) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        volume = f"pvc-{metadata['uid']}"
        claim_ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **{key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")},
        }
        made = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "claimRef": claim_ref,
                "csi": {"driver": "csi.bench.example.com", "volumeHandle": volume},
                "storageClassName": spec["storageClassName"],
            },
        }
        await self._api.create("/api/v1/persistentvolumes", orjson.dumps(made))
        bound = {"metadata": {"annotations": _BOUND}, "spec": {"volumeName": volume}}
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
        await self._api.patch(path, orjson.dumps(bound))
