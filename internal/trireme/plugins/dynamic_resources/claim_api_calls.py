"""Calls of the API server about claims: their paths, deadline and repetitions, and the deletion of a claim.

PreBind, Unreserve and the actions share them.

Also change: internal/trireme/plugins/volume_binding/bind.py,
internal/trireme/bind/action_executor.py (deadlines of writes in PreBind).

Tests: tests/unit/plugins/dynamic_resources/test_pre_bind.py.
"""

from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugins.dynamic_resources import claim_bodies
from trireme_kube.apimachinery import api_writes

DEADLINE_SECONDS = 10.0
"""For each write and each read, with repetitions."""

ROUNDS = 5
"""How often a claim is read again after another client's change."""


def claims_path(namespace: str) -> str:
    """Return the API path of the namespace's ResourceClaims."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def claim_path(namespace: str, name: str) -> str:
    """Return the API path of the ResourceClaim."""
    return f"{claims_path(namespace)}/{name}"


async def delete_claim(writer: ApiWriter, namespace: str, name: str, uid: str) -> api_writes.Outcome | None:
    """Delete a claim that the scheduler made, protected or not; None: it is gone, else the write that failed."""
    path = claim_path(namespace, name)
    outcome: api_writes.Outcome = api_writes.Uncertain("")
    for _ in range(ROUNDS):
        outcome = await writer.get(path, DEADLINE_SECONDS)
        if not isinstance(outcome, api_writes.Written) or (uid and outcome.obj["metadata"].get("uid") != uid):
            break
        claim, freed = outcome.obj, claim_bodies.unprotected_claim(outcome.obj)
        if freed is not None:
            outcome = await writer.put(path, freed, DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Written):
            outcome = await writer.delete(path, claim["metadata"].get("uid", ""), DEADLINE_SECONDS)
        if not isinstance(outcome, (api_writes.Conflict, api_writes.Uncertain)):
            break
    return None if isinstance(outcome, (api_writes.Written, api_writes.Gone)) else outcome
