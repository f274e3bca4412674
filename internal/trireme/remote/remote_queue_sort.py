"""Remote QueueSort plugins, as the frontend calls them.

Also change: protos/trireme/v1/queue.proto (the messages).

Tests: tests/unit/remote/test_queue_sort_keys.py, tests/contract/test_plugin_sdk_queue.py.
"""

from collections.abc import Sequence
from typing import TypeAlias

from trireme.framework import sort_key, status
from trireme.remote import remote_client, remote_connection, remote_response, remote_results
from trireme.v1 import core_pb2, queue_pb2

_QUEUE_SORT = remote_connection.Method("/trireme.v1.QueueService/QueueSort", queue_pb2.QueueSortResponse)
_PREFIX = "running QueueSort plugin"

Answer: TypeAlias = "sort_key.SortKey | status.Status | None"
"""About one pod: its key, the error why it has none, or None where that is ignored: it is ordered by its priority."""


class RemoteQueueSortPlugin:
    """QueueSort, called by the frontend."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def sort_keys(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[Answer]:
        """The key of each pod, or the error of a pod for which there is none; None where that is ignored.

        A call that fails is an error for each pod.
        """
        request = queue_pb2.QueueSortRequest(
            profile=profile, pods=[self._pod_with_priority(pod) for pod in pods], config_hash=self._client.config_hash
        )

        def read_answers(response: queue_pb2.QueueSortResponse) -> list[Answer]:
            remote_results.check_count("keys", response.keys, len(pods))
            if response.statuses:
                remote_results.check_count("statuses", response.statuses, len(pods))
            return [self._read_answer(response, at) for at in range(len(pods))]

        try:
            return await self._client.connection.call(_QUEUE_SORT, request.SerializeToString(), read_answers)
        except remote_connection.PluginError as error:
            return [self._client.apply_failure_policy(_PREFIX, str(error))] * len(pods)

    def _read_answer(self, response: queue_pb2.QueueSortResponse, at: int) -> Answer:
        """The answer about the pod at this place. Raises: ValueError naming the field that is wrong."""
        if response.statuses:
            field = f"statuses[{at}]"
            value = remote_response.read_status(response.statuses[at], self.name, field, may_refuse=False)
            if value.code is status.Code.ERROR:
                return self._client.apply_failure_policy(_PREFIX, value.message)
        return read_key(response.keys[at], f"keys[{at}]")

    def _pod_with_priority(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """The fields that the plugin reads, its priority, and which pod it is."""
        out = self._client.project_named_pod(pod)
        out.spec.priority = pod.spec.priority
        return out


def read_key(key: queue_pb2.SortKey, where: str) -> sort_key.SortKey:
    """Read one key, which is at this place in the answer. Raises: ValueError naming the field that is wrong."""
    if not key.level:
        raise ValueError(f"{where}.level: is empty; a key needs at least one number")
    for field, numbers in (("level", key.level), ("rest", key.rest)):
        if len(numbers) > sort_key.MAX_NUMBERS:
            raise ValueError(f"{where}.{field}: has {len(numbers)} numbers; {sort_key.MAX_NUMBERS} are the most")
    return sort_key.SortKey(tuple(key.level), tuple(key.rest))
