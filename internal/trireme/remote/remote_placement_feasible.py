"""Remote plugins at PlacementFeasible, as the frontend calls them.

A call has up to STEPS_PER_CALL steps, so that the plugin's deadline is for a bounded amount of work. What the plugin
reads of pods is in a call once for all that are equal in it. The outcome is that of one call a step: an error that is
ignored lets its step pass, and the plugin is called about the steps behind it.

Also change: protos/trireme/v1/pod_groups.proto (the messages).

Tests: tests/unit/remote/test_remote_queue.py, tests/unit/remote/test_plugin_failures.py,
tests/contract/test_plugin_placement_feasible.py.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from trireme.framework import status
from trireme.remote import remote_client, remote_connection, remote_response
from trireme.rpc import message_sizes
from trireme.v1 import core_pb2, cycle_pb2, pod_groups_pb2

STEPS_PER_CALL = 64

_METHOD = remote_connection.Method(
    "/trireme.v1.PodGroupPlugin/PlacementFeasible", pod_groups_pb2.PlacementFeasibleResponse
)
_PREFIX = "running PlacementFeasible plugin"
_CODES = (status.Code.WAIT, status.Code.UNSCHEDULABLE)
_ENDS_TRIAL = (status.Code.UNSCHEDULABLE, status.Code.ERROR)


class TriedPod(NamedTuple):
    """A pod that was tried: which one, what the plugin reads of it (`project_fields`), and the node it would get."""

    pod: cycle_pb2.PodIdentity
    fields: bytes
    node_name: str


class RemotePlacementFeasiblePlugin:
    """PlacementFeasible, called by the frontend."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    def project_fields(self, pod: core_pb2.Pod) -> bytes:
        """Serialise the fields of a pod that the plugin reads, without which pod it is."""
        fields = core_pb2.Pod()
        fields.CopyFrom(self._client.pods.project(pod))
        for name in ("namespace", "name", "uid"):
            fields.metadata.ClearField(name)
        return fields.SerializeToString(deterministic=True)

    async def placement_feasible(
        self,
        trial: pod_groups_pb2.PlacementFeasibleRequest,
        tried: Sequence[TriedPod],
        steps: Sequence[pod_groups_pb2.PlacementStep],
    ) -> list[status.Status]:
        """A status for each of `steps`, up to the first that ends the trial; failures by the failure policy.

        `tried` are the pods that were tried, which `trial` lacks as it lacks the steps.
        """
        answers: list[status.Status] = []
        while len(answers) < len(steps):
            part = steps[len(answers) : len(answers) + STEPS_PER_CALL]
            for answer in await self._call(_request(trial, tried, part), len(part)):
                if answer.code is status.Code.ERROR:
                    answer = self._client.apply_failure_policy(_PREFIX, answer.message) or status.SUCCESS
                answers.append(dataclasses.replace(answer, plugin=self.name))
            if answers[-1].code in _ENDS_TRIAL:
                break
        return answers

    async def _call(self, request: bytes, steps: int) -> list[status.Status]:
        """The plugin's statuses; if there are none, an error, or successes where that is ignored."""
        if len(request) <= message_sizes.MAX_PLUGIN_BYTES:
            try:
                return await self._client.connection.call(
                    _METHOD, request, lambda response: self._read_statuses(response, steps)
                )
            except remote_connection.PluginError as error:
                failure = str(error)
        else:
            most = message_sizes.MAX_PLUGIN_BYTES
            failure = f"the pods that were tried make a request of {len(request)} bytes; {most} are the most"
        if self._client.ignores_failure:
            return [status.SUCCESS] * steps
        # The steps of a call that failed have failed alike.
        return [status.error(self.name, failure, reasons=(status.Reason("pluginCallFailed"),))]

    def _read_statuses(self, response: pod_groups_pb2.PlacementFeasibleResponse, steps: int) -> list[status.Status]:
        """Read the answer. Raises: ValueError naming the field that is wrong."""
        answers: list[status.Status] = []
        for at, message in enumerate(response.statuses):
            if answers and answers[-1].code in _ENDS_TRIAL:
                raise ValueError(f"statuses: has {len(response.statuses)} entries, and entry {at - 1} ends the trial")
            field = f"statuses[{at}]"
            answer = remote_response.read_status(message, self.name, field, _CODES, may_refuse=False)
            if answer.code is not status.Code.SUCCESS and not answer.message:
                raise ValueError(f"{field}.messages: a status {answer.code.label} needs one")
            answers.append(answer)
        ended = bool(answers) and answers[-1].code in _ENDS_TRIAL
        if len(answers) > steps or (len(answers) < steps and not ended):
            raise ValueError(f"statuses: has {len(answers)} entries, must have {steps}")
        return answers


def _request(
    trial: pod_groups_pb2.PlacementFeasibleRequest,
    tried: Sequence[TriedPod],
    steps: Sequence[pod_groups_pb2.PlacementStep],
) -> bytes:
    """Serialise the request about these steps, with the pods that were tried by the last of them."""
    request = pod_groups_pb2.PlacementFeasibleRequest(steps=steps)
    request.MergeFrom(trial)
    entries: dict[bytes, int] = {}
    for each in tried[: steps[-1].tried]:
        entry = entries.setdefault(each.fields, len(entries))
        message = request.tried.add(node_name=each.node_name, fields=entry)
        metadata = message.pod.metadata
        metadata.namespace, metadata.name, metadata.uid = each.pod.namespace, each.pod.name, each.pod.uid
    for fields in entries:
        request.pod_fields.add().ParseFromString(fields)
    return request.SerializeToString()
