"""Remote plugins at PostFilter, as evaluation's HostedPostFilter.

Also change: protos/trireme/v1/filter.proto (the messages).

Tests: tests/contract/test_recorded_remote_answers.py, tests/unit/remote/test_remote_post_filter.py.
"""

from trireme.evaluation.preemption import post_filter_context
from trireme.framework import status
from trireme.remote import answer_recording, remote_client, remote_connection, remote_response
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, filter_pb2, meta_pb2, status_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status

_POST_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/PostFilter", filter_pb2.PostFilterResponse)


class RemotePostFilterPlugin:
    """PostFilter of one plugin."""

    remote = True

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def post_filter(
        self,
        context: post_filter_context.PostFilterContext,
        snap: snapshot.Snapshot,
        refused: node_columns.NodeColumns | None,
    ) -> filter_pb2.PostFilterResponse | None:
        """The plugin's PostFilter result; on failure the error, or None where that is ignored."""
        answer = await self._call_post_filter(context, snap, refused)
        answer_recording.add_post_filter(self.name, answer)
        return answer

    async def _call_post_filter(
        self,
        context: post_filter_context.PostFilterContext,
        snap: snapshot.Snapshot,
        refused: node_columns.NodeColumns | None,
    ) -> filter_pb2.PostFilterResponse | None:
        """As `post_filter`."""
        pod = core_pb2.Pod()
        pod.CopyFrom(snap.classes[context.cycle.pod_class].pod)
        pod.MergeFrom(context.cycle.pod)
        request = filter_pb2.PostFilterRequest(cycle=self._client.project_cycle(context.cycle, pod))
        # Evictions name the pod that room is made for.
        who = context.cycle.pod.metadata
        identity = meta_pb2.ObjectMeta(namespace=who.namespace, name=who.name, uid=who.uid)
        request.cycle.pod.metadata.MergeFrom(identity)
        request.columns.CopyFrom(filter_pb2.NodeColumns() if refused is None else node_columns.to_message(refused))
        if context.pre_filter is not None:
            request.pre_filter.CopyFrom(wire_status.to_message(context.pre_filter))

        def read_post_filter_response(response: filter_pb2.PostFilterResponse) -> filter_pb2.PostFilterResponse:
            value = remote_response.read_status(response.status, self.name)
            if value.code is not status.Code.SUCCESS and response.actions:
                raise ValueError("actions: are carried out with a status of success only")
            response.status.CopyFrom(wire_status.to_message(value))
            # A plugin speaks for itself alone.
            del response.refusals[:]
            return response

        try:
            answer = await self._client.connection.call(
                _POST_FILTER, request.SerializeToString(), read_post_filter_response
            )
        except remote_connection.PluginError as error:
            return self._response_to_failure(str(error))
        if answer.status.code == status_pb2.CODE_ERROR:
            return self._response_to_failure(", ".join(answer.status.messages))
        return answer

    def _response_to_failure(self, detail: str) -> filter_pb2.PostFilterResponse | None:
        """The response with the error of a failed call; None: the policy ignores it."""
        failed = self._client.apply_failure_policy(f'running PostFilter plugin "{self.name}"', detail)
        return None if failed is None else filter_pb2.PostFilterResponse(status=wire_status.to_message(failed))
