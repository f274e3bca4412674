"""Remote plugins at PreEnqueue, and their queueing hints, as the frontend calls them.

Also change: protos/trireme/v1/queue.proto (the messages).

Tests: tests/unit/remote/test_remote_queue.py, tests/unit/remote/test_plugin_failures.py,
tests/contract/test_plugin_sdk_queue.py.
"""

from collections.abc import Sequence

from trireme.framework import canaries, status
from trireme.remote import remote_client, remote_connection, remote_results
from trireme.v1 import core_pb2, plugin_pb2, queue_pb2

_PRE_ENQUEUE = remote_connection.Method("/trireme.v1.QueueService/PreEnqueue", queue_pb2.PreEnqueueResponse)
_HINT = remote_connection.Method("/trireme.v1.QueueService/QueueingHint", queue_pb2.QueueingHintResponse)


class RemoteQueuePlugin:
    """PreEnqueue and QueueingHint, called by the frontend."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        #: The prefix of an error message of PreEnqueue.
        self.pre_enqueue_error_prefix = f'running PreEnqueue plugin "{client.name}"'
        self._client = client

    async def pre_enqueue(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[status.Status]:
        """Whether each pod may enter the queue. On failure each has the error, or passes where that is ignored."""
        request = queue_pb2.PreEnqueueRequest(
            profile=profile,
            pods=[self._client.project_named_pod(pod) for pod in pods],
            config_hash=self._client.config_hash,
        )
        prefix = self.pre_enqueue_error_prefix

        def read_pre_enqueue_statuses(response: queue_pb2.PreEnqueueResponse) -> list[status.Status]:
            remote_results.check_count("statuses", response.statuses, len(pods))
            return [
                remote_results.read_status_by_policy(entry, f"statuses[{at}]", self._client, prefix)
                for at, entry in enumerate(response.statuses)
            ]

        try:
            return await self._client.connection.call(
                _PRE_ENQUEUE, request.SerializeToString(), read_pre_enqueue_statuses
            )
        except remote_connection.PluginError as error:
            return [self._client.apply_failure_policy(prefix, str(error)) or status.SUCCESS] * len(pods)

    def _pod_with_profile(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """The fields that the plugin reads, and the profile, whose arguments decide what helps."""
        out = self._client.pods.project(pod)
        if out is pod:
            return pod
        out.spec.scheduler_name = pod.spec.scheduler_name
        return out

    async def queueing_hint(
        self, event: plugin_pb2.ClusterEvent, old_json: bytes, new_json: bytes, pods: Sequence[core_pb2.Pod]
    ) -> list[bool] | None:
        """Return whether the event may help each of the pods; None on failure: then every pod is tried again.

        The failure policy does not matter here.
        """
        request = queue_pb2.QueueingHintRequest(
            plugin=canaries.served_name(self.name),
            event=event,
            old_json=old_json,
            new_json=new_json,
            pods=[self._pod_with_profile(pod) for pod in pods],
            config_hash=self._client.config_hash,
        )

        def read_hints(response: queue_pb2.QueueingHintResponse) -> list[bool]:
            remote_results.check_count("hints", response.hints, len(pods))
            return [hint != queue_pb2.HINT_QUEUE_SKIP for hint in response.hints]

        try:
            return await self._client.connection.call(_HINT, request.SerializeToString(), read_hints)
        except remote_connection.PluginError:
            return None
