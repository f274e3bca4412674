"""Remote plugins at PlacementFeasible, as the frontend calls them.

Also change: protos/trireme/v1/pod_groups.proto (the messages).

Tests: tests/contract/test_plugin_placement_feasible.py.
"""

import dataclasses
from collections.abc import Sequence

from trireme.framework import status
from trireme.remote import remote_client, remote_connection, remote_response
from trireme.v1 import core_pb2, pod_groups_pb2

_METHOD = remote_connection.Method(
    "/trireme.v1.PodGroupPlugin/PlacementFeasible", pod_groups_pb2.PlacementFeasibleResponse
)
_PREFIX = "running PlacementFeasible plugin"
_CODES = (status.Code.WAIT, status.Code.UNSCHEDULABLE)
_ENDS_TRIAL = (status.Code.UNSCHEDULABLE, status.Code.ERROR)


class RemotePlacementFeasiblePlugin:
    """PlacementFeasible, called by the frontend."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def placement_feasible(
        self, trial: pod_groups_pb2.PlacementFeasibleRequest, tried: Sequence[tuple[core_pb2.Pod, str]]
    ) -> list[status.Status]:
        """A status for each step of `trial`, up to the first that ends it. On failure the error, or only successes.

        `tried` are the pods that were tried, with the nodes that they would get, which `trial` lacks.
        """
        request = pod_groups_pb2.PlacementFeasibleRequest()
        request.CopyFrom(trial)
        for pod, node_name in tried:
            request.tried.add(pod=self._client.project_named_pod(pod), node_name=node_name)
        steps = len(trial.steps)

        def read_statuses(response: pod_groups_pb2.PlacementFeasibleResponse) -> list[status.Status]:
            return self._read_statuses(response, steps)

        try:
            return await self._client.connection.call(_METHOD, request.SerializeToString(), read_statuses)
        except remote_connection.PluginError as error:
            failed = self._client.apply_failure_policy(_PREFIX, str(error))
            return [status.SUCCESS] * steps if failed is None else [failed]

    def _read_statuses(self, response: pod_groups_pb2.PlacementFeasibleResponse, steps: int) -> list[status.Status]:
        """Read the answer; an error that is ignored is a success. Raises: ValueError naming the field that is wrong."""
        answers: list[status.Status] = []
        for at, message in enumerate(response.statuses):
            if answers and answers[-1].code in _ENDS_TRIAL:
                raise ValueError(f"statuses: has {len(response.statuses)} entries, and entry {at - 1} ends the trial")
            field = f"statuses[{at}]"
            answer = remote_response.read_status(message, self.name, field, _CODES, may_refuse=False)
            if answer.code is status.Code.ERROR:
                answer = self._client.apply_failure_policy(_PREFIX, answer.message) or status.SUCCESS
            elif answer.code is not status.Code.SUCCESS and not answer.message:
                raise ValueError(f"{field}.messages: a status {answer.code.label} needs one")
            answers.append(dataclasses.replace(answer, plugin=self.name))
        ended = bool(answers) and answers[-1].code in _ENDS_TRIAL
        if len(answers) > steps or (len(answers) < steps and not ended):
            raise ValueError(f"statuses: has {len(answers)} entries, must have {steps}")
        return answers
