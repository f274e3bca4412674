"""Watches this frontend's own namespace: when it is deleted, the frontend releases the Lease at once.

`kubectl delete -k` deletes the namespace first and the roles a moment later. A frontend that waited for its SIGTERM
would no longer be allowed to release the Lease, and the next leader, which may be kube-scheduler, would wait until it
expires. The environment variable POD_NAMESPACE names the namespace; without it none is watched.

Tests: tests/unit/frontend/test_full_sync.py, tests/e2e/test_e2e_scheduling.py.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping

from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import Event

VARIABLE = "POD_NAMESPACE"


class NamespaceDeletionWatch:
    """Sees whether the namespace is being deleted."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.name = environment.get(VARIABLE, "")
        self.deleted = asyncio.Event()

    def on_namespaces(self, events: Iterable[Event[core_pb2.Namespace]]) -> None:
        """Namespaces were listed, added, changed or deleted."""
        for _, namespace in events:
            if namespace is None or not self.name or namespace.metadata.name != self.name:
                continue
            if namespace.metadata.HasField("deletion_timestamp"):
                self.deleted.set()
