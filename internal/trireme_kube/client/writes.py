"""The scheduler's writes of pods and claims: retries where they are safe, and outcomes that state what is certain.

Used by bind alone. Each write returns an outcome of `apimachinery.api_writes`; errors of the API server or the network
raise no exception. What is `Uncertain` of bindings is read back by `settle_binding`.

Retries as in kube-scheduler: up to four tries, 10, 50 and 250 ms apart, after a 500 or 503 or if no connection could be
made; for status patches also after a 409, since those carry no version. After a 429 it waits as long as the server
says. The first try costs nothing extra; tenacity is used only once it failed. Earlier tries count: a 409 after a 500 is
Uncertain, since the conflict may be with our own write.

Every write tells the server its deadline, so that the server does not execute an abandoned request long after.

Also change: internal/trireme/plugin_api/api_writer.py (the writes that plugins may make).
Also change: tools/fuzz/fuzzed_services.py (the writes).

Tests: tests/unit/client/test_write_refusals.py, tests/contract/test_kube_writes.py.
"""

import asyncio
import dataclasses
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
import tenacity

from trireme_kube.apimachinery.api_writes import (
    STRATEGIC_MERGE,
    Conflict,
    Gone,
    Outcome,
    PodName,
    Refused,
    SettledBinding,
    Unavailable,
    Unbound,
    Uncertain,
    Written,
)
from trireme_kube.client import write_refusals
from trireme_kube.client.rest import client
from trireme_kube.client.rest.content_types import METADATA
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

TRIES = 4
PAUSES_SECONDS = (0.01, 0.05, 0.25)
PAUSE_JITTER = 0.1
# If the server asks for a longer wait, the error is returned instead: the pod should go back to the queue.
LONGEST_WAIT_SECONDS = 2.0


@dataclasses.dataclass(slots=True)
class _TriesOfWrite:
    """State of the tries of one write. `doubt`: one of them may have had an effect."""

    repeatable: Callable[[Exception], bool]
    doubt: bool = False


class Writer:
    """Writes through one client. Every deadline is in seconds and covers all tries."""

    def __init__(
        self,
        api: client.ApiClient,
        rng: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._rng = rng
        self._clock = clock
        self._refusals = write_refusals.WriteRefusals()

    async def bind(self, pod: PodName, node: str, deadline: float) -> Outcome:
        """Bind the pod to the node. Conflict: it is bound already, perhaps by an earlier call of ours."""
        body = orjson.dumps(
            {
                "kind": "Binding",
                "apiVersion": "v1",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"kind": "Node", "name": node},
            }
        )
        path = f"{pod.path}/binding"
        return await self._write_with_retries(
            "POST",
            path,
            lambda remaining: self._api.post(path, body, client.timeout_parameter(remaining), deadline=remaining),
            deadline,
        )

    async def settle_binding(self, pod: PodName, node: str, deadline: float) -> SettledBinding:
        """Read back the result of a binding that is Uncertain or in Conflict.

        Written: the pod is on that node. Conflict: it is on another one. Gone: it does not exist any more. Unbound: it
        has no node, so the binding did not take place. Uncertain: it could not be read.
        """
        outcome = await self.get_pod(pod, deadline)
        match outcome:
            case Written(obj):
                bound_to = (obj.get("spec") or {}).get("nodeName")
                if bound_to == node:
                    return outcome
                if bound_to:
                    return Conflict(f'pod {pod.name} is already assigned to node "{bound_to}"')
                return Unbound(f"pod {pod.namespace}/{pod.name} is not bound")
            case Gone():
                return outcome
            case _:
                return Uncertain(outcome.message)

    async def get_pod(self, pod: PodName, deadline: float) -> Outcome:
        """Read the pod.

        Gone: it does not exist, or another one has its name by now. Unavailable: it could not be read.
        """
        outcome = await self.get(pod.path, deadline)
        if isinstance(outcome, Written) and outcome.obj["metadata"].get("uid") != pod.uid:
            return Gone(f"pod {pod.namespace}/{pod.name} is another one now")
        return outcome

    async def patch_pod_status(self, pod: PodName, patch: Mapping[str, Any], deadline: float) -> Outcome:
        """Patch the pod's status (see `status_patch`). Written has the pod's metadata at least."""
        path, body = f"{pod.path}/status", orjson.dumps(patch)
        return await self._write_with_retries(
            "PATCH",
            path,
            lambda remaining: self._api.patch(
                path, body, client.timeout_parameter(remaining), accept=METADATA, deadline=remaining
            ),
            deadline,
            _is_busy_or_conflict,
        )

    async def delete_pod(self, pod: PodName, deadline: float) -> Outcome:
        """Delete the pod, unless another one has its name by now (Conflict)."""
        return await self.delete(pod.path, pod.uid, deadline)

    async def get(self, path: str, deadline: float) -> Outcome:
        """Read any object. Unavailable: it could not be read; never Uncertain."""
        try:
            return Written((await self._api.read(path, deadline=deadline)).json())
        except ApiError as error:
            return Unavailable(error.message) if error.transient else _outcome_of_error(error, doubt=False)
        except ApiUnreachable as error:
            return Unavailable(str(error))

    async def create(self, collection: str, obj: Mapping[str, Any], deadline: float) -> Outcome:
        """Create any object. Retried only if no server was reached, so as not to create a second one."""
        body = orjson.dumps(obj)
        return await self._write_with_retries(
            "POST",
            f"{collection}/{obj.get('metadata', {}).get('name', '')}",
            lambda remaining: self._api.post(collection, body, client.timeout_parameter(remaining), deadline=remaining),
            deadline,
            _is_unsent,
        )

    async def put(self, path: str, obj: Mapping[str, Any], deadline: float) -> Outcome:
        """Update any object; its resourceVersion makes the write conditional (Conflict: read it again)."""
        body = orjson.dumps(obj)
        return await self._write_with_retries(
            "PUT",
            path,
            lambda remaining: self._api.put(path, body, client.timeout_parameter(remaining), deadline=remaining),
            deadline,
        )

    async def patch(
        self, path: str, patch: Mapping[str, Any], deadline: float, content_type: str = STRATEGIC_MERGE
    ) -> Outcome:
        """Patch any object."""
        body = orjson.dumps(patch)
        return await self._write_with_retries(
            "PATCH",
            path,
            lambda remaining: self._api.patch(
                path, body, client.timeout_parameter(remaining), content_type=content_type, deadline=remaining
            ),
            deadline,
        )

    async def delete(self, path: str, uid: str, deadline: float) -> Outcome:
        """Delete any object if it has that UID (else Conflict). Written has the object's metadata at least."""
        body = orjson.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        return await self._write_with_retries(
            "DELETE",
            path,
            lambda remaining: self._api.delete(
                path, body, client.timeout_parameter(remaining), accept=METADATA, deadline=remaining
            ),
            deadline,
        )

    async def _write_with_retries(
        self,
        method: str,
        path: str,
        send: Callable[[float], Awaitable[client.ApiResponse]],
        deadline: float,
        repeatable: Callable[[Exception], bool] | None = None,
    ) -> Outcome:
        """Try a write, with retries. `send` gets the remaining seconds; `method` and `path` are for the log."""
        tries = _TriesOfWrite(repeatable or _is_busy)
        end = self._clock() + deadline
        try:
            try:
                response = await send(deadline)
            except (ApiError, ApiUnreachable) as error:
                tries.doubt = _may_have_effect(error)
                if not tries.repeatable(error):
                    raise
                response = await self._repeat_after_failure(send, end, tries, error)
            self._refusals.written(method, path)
            return Written(response.json() if response.body else {})
        except (ApiError, ApiUnreachable) as error:
            if isinstance(error, ApiError):
                self._refusals.refused(method, path, error)
            return _outcome_of_error(error, tries.doubt)

    async def _repeat_after_failure(
        self,
        send: Callable[[float], Awaitable[client.ApiResponse]],
        end: float,
        tries: _TriesOfWrite,
        first: ApiError | ApiUnreachable,
    ) -> client.ApiResponse:
        """Repeat a write after its first failure, as long as tries and time allow; raises the last error."""
        pause = self._pause_seconds(1, first)
        if pause > LONGEST_WAIT_SECONDS or self._clock() + pause >= end:
            raise first
        await asyncio.sleep(pause)
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Exception) and tries.repeatable(error)),
            wait=lambda state: self._pause_seconds(
                state.attempt_number + 1, state.outcome.exception() if state.outcome else None
            ),
            stop=lambda state: (
                state.attempt_number + 1 >= TRIES
                or state.upcoming_sleep > LONGEST_WAIT_SECONDS
                or self._clock() + state.upcoming_sleep >= end
            ),
            reraise=True,
        ):
            with attempt:
                try:
                    return await send(max(end - self._clock(), 0.001))
                except (ApiError, ApiUnreachable) as error:
                    tries.doubt = tries.doubt or _may_have_effect(error)
                    raise
        raise AssertionError("tenacity ends with a result or an exception")

    def _pause_seconds(self, attempts: int, error: BaseException | None) -> float:
        """The pause after `attempts` tries, the last of which ended with this error. Units: seconds."""
        requested = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        planned = PAUSES_SECONDS[min(attempts, len(PAUSES_SECONDS)) - 1]
        return max(planned * (1 + PAUSE_JITTER * self._rng()), requested)


def _may_have_effect(error: ApiError | ApiUnreachable) -> bool:
    """Whether the write may have taken place in spite of the error."""
    return error.sent if isinstance(error, ApiUnreachable) else error.maybe_applied


def _is_unsent(error: Exception) -> bool:
    """Whether nothing was sent, or the server rejected the request before it did anything: a repeated write is safe."""
    if isinstance(error, ApiUnreachable):
        return not error.sent
    return isinstance(error, ApiError) and error.transient and not error.maybe_applied


def _is_busy(error: Exception) -> bool:
    """Whether the server may accept the write later, though a status of 500 or 503 may hide that it did already."""
    return _is_unsent(error) or (isinstance(error, ApiError) and error.status in (500, 503))


def _is_busy_or_conflict(error: Exception) -> bool:
    """Whether a write may be repeated that does not depend on the object's version."""
    return _is_busy(error) or (isinstance(error, ApiError) and error.conflict)


def _outcome_of_error(error: ApiError | ApiUnreachable, doubt: bool) -> Outcome:
    """Map the last error of a write to its outcome; `doubt`: it, or an earlier try, may have had an effect."""
    if isinstance(error, ApiUnreachable):
        return Uncertain(str(error)) if doubt else Unavailable(str(error))
    if error.not_found:
        return Gone(error.message)
    if doubt:
        return Uncertain(error.message)
    if error.conflict:
        return Conflict(error.message)
    return Unavailable(error.message) if error.transient else Refused(error.message, error.status)
