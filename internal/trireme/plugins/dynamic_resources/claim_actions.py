"""Actions on claims that other parts of the scheduler decide on.

PostFilter and a group's preemption deallocate claims, and a claim of a PodGroup loses its users.
"""

from collections.abc import Mapping
from typing import Any

from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugin_kit import bind_phase_plugin
from trireme.plugins.dynamic_resources import claim_api_calls, claim_bodies
from trireme.v1 import bind_pb2
from trireme_kube.apimachinery import api_writes

ROUNDS = 4
"""How often an action starts over from reading the claim, after a conflict or an answer in doubt."""


async def deallocate(action: bind_pb2.Action, context: bind_phase_plugin.ActionContext) -> api_writes.Outcome:
    """Take a claim's allocation away, or delete the claim; read it first, and start over after a conflict.

    A claim that is gone counts as done. Refused: another user than the stated one uses it.
    """
    requested = action.deallocate
    path = claim_api_calls.claim_path(requested.namespace, requested.name)
    outcome: api_writes.Outcome = api_writes.Uncertain("")
    for _ in range(ROUNDS):
        context.begin_round()
        outcome = await context.writer.get(path, claim_api_calls.DEADLINE_SECONDS)
        if isinstance(outcome, api_writes.Written):
            outcome = await _deallocate_claim_read(context.writer, path, action, outcome)
        if not isinstance(outcome, (api_writes.Uncertain, api_writes.Conflict)):
            break
    return _gone_as_written(outcome)


async def _deallocate_claim_read(
    writer: ApiWriter, path: str, action: bind_pb2.Action, found: api_writes.Written
) -> api_writes.Outcome:
    """Deallocate or delete the claim, given as just read; Gone if another claim has its name by now."""
    requested = action.deallocate
    if found.obj["metadata"].get("uid") != requested.uid:
        return api_writes.Gone(f"resourceclaim {requested.namespace}/{requested.name} is another one now")
    if requested.delete:
        return await _delete_unprotected(writer, path, found.obj, requested.uid)
    try:
        freed = claim_bodies.deallocated_claim(found.obj, requested.user_uid or action.pod.uid)
    except ValueError as error:
        return api_writes.Refused(f"resourceclaim {requested.namespace}/{requested.name}: {error}", 0)
    return found if freed is None else await writer.put(f"{path}/status", freed, claim_api_calls.DEADLINE_SECONDS)


async def remove_user(action: bind_pb2.Action, context: bind_phase_plugin.ActionContext) -> api_writes.Outcome:
    """Remove a user from a claim's reservedFor; a claim that is gone counts as done."""
    requested = action.remove_claim_user
    path = f"{claim_api_calls.claim_path(requested.namespace, requested.name)}/status"
    patch = claim_bodies.remove_user_patch(requested.uid, requested.user_uid)
    outcome: api_writes.Outcome = api_writes.Uncertain("")
    for _ in range(ROUNDS):
        outcome = await context.writer.patch(path, patch, claim_api_calls.DEADLINE_SECONDS)
        if not isinstance(outcome, (api_writes.Uncertain, api_writes.Conflict)):
            break
    return _gone_as_written(outcome)


async def _delete_unprotected(writer: ApiWriter, path: str, claim: Mapping[str, Any], uid: str) -> api_writes.Outcome:
    """Remove the scheduler's finalizer from the claim, if it has it, and delete the claim."""
    freed = claim_bodies.unprotected_claim(claim)
    if freed is not None:
        outcome = await writer.put(path, freed, claim_api_calls.DEADLINE_SECONDS)
        if not isinstance(outcome, api_writes.Written):
            return outcome
    return await writer.delete(path, uid, claim_api_calls.DEADLINE_SECONDS)


def _gone_as_written(outcome: api_writes.Outcome) -> api_writes.Outcome:
    """Count a claim that is gone as done: it holds nothing, and nobody uses it."""
    return api_writes.Written({}) if isinstance(outcome, api_writes.Gone) else outcome
