"""The writes beside bindings: conditions, nominations, evictions, and what plugins write beside PreBind.

Others decide on them (PostFilter in filter, the frontend for a pod that failed) and bind carries them out. Invariants:
what concerns one pod is done in the order of the requests, also across calls; what concerns different pods is
done at once; each action may be repeated, and one that is done already is a success. As with bindings, nothing begins
once the tenure of the calling leader is over.

Also change: internal/trireme/plugin_verification/filter_step_specifications.py (actions that a plugin may ask for).
Also change: internal/trireme/plugins/dynamic_resources/claim_api_calls.py,
internal/trireme/plugins/volume_binding/bind.py (deadlines of writes in PreBind).
Also change: internal/trireme/bind/binding_writer.py, internal/trireme/bind/pre_binder.py (limits of waiting work).
Also change: protos/trireme/v1/bind.proto (the messages).
Also change: internal/trireme/bind/reasons.py, internal/trireme/bind/binding_retries.py (reasons and what they mean).

Tests: tests/unit/bind/test_action_executor.py, tests/contract/test_bind_actions.py,
tests/unit/bind/test_waiting_for_rate_limit.py.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from trireme.bind import binding_retries, patch_bodies, work_in_flight
from trireme.bind.call_results import CallResults, check_not_busy
from trireme.bind.write_turns import WriteTurns
from trireme.framework import status
from trireme.framework.status import Reason, Status
from trireme.plugin_kit import bind_phase_plugin
from trireme.registry import bind_plugins
from trireme.rpc.fencing import Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2
from trireme_kube.apimachinery import api_writes, timestamps
from trireme_kube.client import writes
from trireme_kube.client.informers import resources

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 10.0
"""For one write with its repetitions."""

ROUNDS = 4
"""How often an action starts over from reading the object, after a conflict or an answer in doubt."""

ROUND_SECONDS = 3 * DEADLINE_SECONDS
"""For how long a round may have effects: it reads an object, and writes it twice at most."""


class ActionExecutor:
    """Executes what bind writes beside bindings (evictions, conditions, nominations, claims), for each pod in order."""

    def __init__(
        self,
        writer: writes.Writer,
        register: work_in_flight.WorkInFlight,
        turns: WriteTurns,
        *,
        cancel_pre_bind: Callable[[str], Awaitable[None]],
        clock: Callable[[], float],
        wall: Callable[[], int],
    ) -> None:
        """`wall` returns nanoseconds since 1970, for the times that are written.

        `cancel_pre_bind` ends the PreBind of the pod with that UID, because what it wrote is to be undone.
        """
        self._writer = writer
        self._in_flight = register
        self._clock = clock
        self._wall = wall
        self._turns = turns
        self._cancel_pre_bind = cancel_pre_bind
        self._last: dict[str, asyncio.Task[None]] = {}  # the last request, by the pod's UID
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: Counter[tuple[str, str]] = Counter()
        self._earlier_kinds: set[str] = set()  # kinds that the API server serves in the earlier version alone

    def statistics(self) -> dict[tuple[str, str], int]:
        """The number of actions by kind and result (`success` or `error`)."""
        return dict(self._done)

    async def apply(
        self, actions: Sequence[bind_pb2.Action], tenure: Tenure
    ) -> AsyncGenerator[list[tuple[int, Status]], None]:
        """Execute actions, and yield their outcomes as they are known, by index. Raises: BusyError.

        Those for one pod go in order, behind those of earlier calls; pods go concurrently. If the caller goes away,
        actions that have not begun are not executed.
        """
        check_not_busy(len(self._tasks), "actions for {} pods wait")
        results: CallResults[Status] = CallResults()
        by_pod: dict[str, list[int]] = {}
        for index, action in enumerate(actions):
            by_pod.setdefault(action.pod.uid, []).append(index)
        for uid, indexes in by_pod.items():
            self._start_actions_of_pod(uid, [(index, actions[index]) for index in indexes], tenure, results)
        try:
            async for batch in results.batches(len(actions)):
                yield batch
        finally:
            results.gone = True

    async def close(self, patience: float) -> None:
        """Wait `patience` seconds for the actions under way, then cancel the rest; returns once they have ended."""
        await work_in_flight.end_tasks(self._tasks, patience)

    def _start_actions_of_pod(
        self, uid: str, actions: list[tuple[int, bind_pb2.Action]], tenure: Tenure, results: CallResults[Status]
    ) -> None:
        """Start the task that executes one call's actions for a pod, behind the task of the call before."""
        before = self._last.get(uid)
        task = asyncio.get_running_loop().create_task(self._execute_in_order(before, actions, tenure, results))
        self._last[uid] = task
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._forget_task(uid, done))

    def _forget_task(self, uid: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._last.get(uid) is task:
            del self._last[uid]

    async def _execute_in_order(
        self,
        before: asyncio.Task[None] | None,
        actions: list[tuple[int, bind_pb2.Action]],
        tenure: Tenure,
        results: CallResults[Status],
    ) -> None:
        """Execute the actions that one call has for a pod, after those of the call before.

        An error of one does not stop the next.

        PreBind of a pod that is to be undone is cancelled at once, not when a turn is free.
        """
        if before is not None:
            await asyncio.wait((before,))
        for _, action in actions:
            if action.HasField("undo_pre_bind"):
                await self._cancel_pre_bind(action.pod.uid)
        async with self._turns:
            for index, action in actions:
                outcome = status.error("", "the action was interrupted")
                try:
                    outcome = await self._execute_action(action, tenure, results)
                except Exception as error:
                    log.exception(
                        "an action for pod %s/%s failed; report this defect", action.pod.namespace, action.pod.name
                    )
                    outcome = status.error("", f"internal error: {error!r}")
                finally:
                    kind = action.WhichOneof("action") or "none"
                    self._done[kind, "success" if outcome.code is status.Code.SUCCESS else "error"] += 1
                    results.put(index, outcome)

    async def _execute_action(self, action: bind_pb2.Action, tenure: Tenure, results: CallResults[Status]) -> Status:
        """Execute one action, unless the caller has gone or leads no longer; then nothing is written."""
        if results.gone or not tenure.active:
            return _not_begun_status("the caller has gone" if results.gone else tenure.ended_because)
        pod = api_writes.PodName(action.pod.namespace, action.pod.name, action.pod.uid)
        with self._in_flight.track(tenure.leader, self._clock() + ROUND_SECONDS) as work:
            match action.WhichOneof("action"):
                case "set_condition":
                    patch = patch_bodies.condition_patch(action.set_condition, timestamps.rfc3339_seconds(self._wall()))
                    return await self._patch_pod_status(pod, patch)
                case "set_group_condition":
                    return await self._set_group_condition(pod, action.set_group_condition)
                case "nominate":
                    return await self._patch_pod_status(pod, patch_bodies.nomination_patch(action.nominate.node_name))
                case "clear_nomination":
                    return await self._patch_pod_status(pod, patch_bodies.nomination_patch(""))
                case "evict":
                    return await self._evict(pod, action.evict, tenure)
                case "undo_pre_bind":
                    return await self._undo_pre_bind(pod, action.undo_pre_bind)
                case _:
                    return await self._execute_plugin_action(action, tenure, work)

    async def _patch_pod_status(self, pod: api_writes.PodName, patch: dict[str, Any]) -> Status:
        """Patch the pod's status, sent again a few times while its outcome is uncertain."""
        # A patch says the same however often it is sent, so a doubt is settled by sending it again.
        outcome: api_writes.Outcome = api_writes.Uncertain("")
        for _ in range(ROUNDS):
            outcome = await self._writer.patch_pod_status(pod, patch, DEADLINE_SECONDS)
            if not isinstance(outcome, api_writes.Uncertain):
                break
        return _status_of_write(outcome)

    async def _set_group_condition(self, group: api_writes.PodName, wanted: bind_pb2.SetGroupCondition) -> Status:
        """Patch the group's status, sent again a few times after an uncertain outcome or a conflict.

        A group that is not there is looked for in the other version of the API, where there are two.
        """
        resource = resources.COMPOSITE_POD_GROUPS if wanted.composite else resources.POD_GROUPS
        paths = [f"{each.path_in(group.namespace)}/{group.name}/status" for each in resource.versions()]
        newest = paths[0]
        if resource.kind in self._earlier_kinds:
            paths.reverse()
        path, *others = paths
        patch = patch_bodies.group_condition_patch(wanted)
        outcome: api_writes.Outcome = api_writes.Uncertain("")
        for _ in range(ROUNDS):
            outcome = await self._writer.patch(path, patch, DEADLINE_SECONDS)
            if isinstance(outcome, api_writes.Gone) and others:
                path = others.pop()
            elif not isinstance(outcome, (api_writes.Uncertain, api_writes.Conflict)):
                break
        if isinstance(outcome, api_writes.Written):
            # The next one is requested in the version that was found.
            (self._earlier_kinds.discard if path == newest else self._earlier_kinds.add)(resource.kind)
        return _status_of_write(outcome)

    async def _evict(self, pod: api_writes.PodName, evict: bind_pb2.Evict, tenure: Tenure) -> Status:
        """Mark the pod with DisruptionTarget and delete it; SUCCESS also if it is gone already.

        With an observed generation the caller has seen the pod, and the pod is read only if the patch leaves a doubt
        that it is still the same. It is read and tried again a few times while the outcome is uncertain.
        """
        outcome: api_writes.Outcome = api_writes.Uncertain("")
        if evict.observed_generation:
            patch = patch_bodies.disruption_patch_of_unread_pod(
                pod.uid, evict, timestamps.rfc3339_seconds(self._wall())
            )
            outcome = await self._writer.patch_pod_status(pod, patch, DEADLINE_SECONDS)
            if isinstance(outcome, (api_writes.Refused, api_writes.Conflict)):
                outcome = api_writes.Uncertain(outcome.message)
            elif isinstance(outcome, api_writes.Written):
                outcome = await self._delete_marked_pod(pod, outcome)
        for _ in range(ROUNDS):
            if not isinstance(outcome, api_writes.Uncertain):
                break
            if not tenure.active:
                return _not_begun_status(tenure.ended_because)
            outcome = await self._read_and_evict(pod, evict)
        return status.SUCCESS if isinstance(outcome, api_writes.Gone) else _status_of_write(outcome)

    async def _read_and_evict(self, pod: api_writes.PodName, evict: bind_pb2.Evict) -> api_writes.Outcome:
        """Read whether the pod is still there, still this one and not terminating yet; only then mark and delete it."""
        found = await self._writer.get_pod(pod, DEADLINE_SECONDS)
        if not isinstance(found, api_writes.Written) or found.obj["metadata"].get("deletionTimestamp"):
            return found
        patch = patch_bodies.disruption_patch(found.obj, evict, timestamps.rfc3339_seconds(self._wall()))
        # Without a patch it carries the condition already.
        marked = found if patch is None else await self._writer.patch_pod_status(pod, patch, DEADLINE_SECONDS)
        return await self._delete_marked_pod(pod, marked) if isinstance(marked, api_writes.Written) else marked

    async def _delete_marked_pod(self, pod: api_writes.PodName, marked: api_writes.Written) -> api_writes.Outcome:
        """Delete the pod unless it is terminating by now. Uncertain: a conflict; another pod may have the name."""
        if marked.obj["metadata"].get("deletionTimestamp"):
            return marked
        deleted = await self._writer.delete_pod(pod, DEADLINE_SECONDS)
        # Its UID may be another one by now, or an admission plugin may have refused: only reading the pod tells.
        return api_writes.Uncertain(deleted.message) if isinstance(deleted, api_writes.Conflict) else deleted

    async def _undo_pre_bind(self, pod: api_writes.PodName, wanted: bind_pb2.UndoPreBind) -> Status:
        """Have each plugin undo what its PreBind wrote."""
        states = bind_phase_pb2.PluginStates.FromString(wanted.state).plugin_states
        for plugin, state in sorted(states.items()):
            unreserve = bind_plugins.unreserve_call(plugin)
            if unreserve is None or not state:
                continue
            try:
                failed = await unreserve(self._writer, pod, state)
            except ValueError as error:
                return status.error("", f"undo_pre_bind: {error}")
            if failed is not None:
                return _status_of_write(failed)
        return status.SUCCESS

    async def _execute_plugin_action(
        self, action: bind_pb2.Action, tenure: Tenure, work: work_in_flight.Work
    ) -> Status:
        """Let the plugin that owns the action execute it; an action of no plugin is an error.

        Between its writes the plugin checks that the caller still leads; if not, the status says that it was not begun.
        """

        def begin_round() -> None:
            if not tenure.active:
                raise bind_phase_plugin.TenureOver(tenure.ended_because)
            work.until = self._clock() + ROUND_SECONDS

        execute = bind_plugins.action_call(action.WhichOneof("action"))
        if execute is None:
            return status.error("", "action: not set")
        try:
            return _status_of_write(await execute(action, bind_phase_plugin.ActionContext(self._writer, begin_round)))
        except bind_phase_plugin.TenureOver as why:
            return _not_begun_status(str(why))


def _status_of_write(outcome: api_writes.Outcome) -> Status:
    """SUCCESS for a write that was done, else an error with the outcome's message."""
    if isinstance(outcome, api_writes.Written):
        return status.SUCCESS
    return status.error("", outcome.message, reasons=(binding_retries.reason_of_write(outcome),))


def _not_begun_status(why: str) -> Status:
    """The error, with the reason notBegun, of an action that wrote nothing."""
    return Status(status.Code.ERROR, "", (f"not done: {why}",), (Reason("notBegun"),))
