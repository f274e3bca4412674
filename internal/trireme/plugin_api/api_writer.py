"""What plugins may read and write of the API server, in the bind phase. No plugin's folder imports the client.

Every deadline is in seconds and covers all tries. `trireme_kube.client.writes.Writer` is such a writer.

Also change: internal/trireme_kube/client/writes.py (the writes that plugins may make).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from trireme_kube.apimachinery.api_writes import STRATEGIC_MERGE, Outcome, PodName


class ApiWriter(Protocol):
    """Writes objects by their path in the API. No method raises for what the API server or the network does.

    Implementers: trireme_kube.client.writes.Writer, tools.fuzz.fuzzed_services.ApiServer.
    """

    async def get(self, path: str, deadline: float) -> Outcome:
        """Read any object. Unavailable: it could not be read; never Uncertain."""
        ...

    async def get_pod(self, pod: PodName, deadline: float) -> Outcome:
        """Read the pod. Gone: also where another one has its name by now."""
        ...

    async def create(self, collection: str, obj: Mapping[str, Any], deadline: float) -> Outcome:
        """Create any object. Conflict: one of that name exists."""
        ...

    async def put(self, path: str, obj: Mapping[str, Any], deadline: float) -> Outcome:
        """Update any object; its resourceVersion makes the write conditional (Conflict: read it again)."""
        ...

    async def patch(
        self, path: str, patch: Mapping[str, Any], deadline: float, content_type: str = STRATEGIC_MERGE
    ) -> Outcome:
        """Patch any object."""
        ...

    async def patch_pod_status(self, pod: PodName, patch: Mapping[str, Any], deadline: float) -> Outcome:
        """Patch the pod's status. Written has the pod's metadata at least."""
        ...

    async def delete(self, path: str, uid: str, deadline: float) -> Outcome:
        """Delete any object if it has that UID (else Conflict). Written has the object's metadata at least."""
        ...
