"""What a plugin changes: sample nodes and pods on the embedded cluster, and the scheduler's verdict.

Tests: tests/unit/cli/test_plugin_development.py.
"""

import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from trireme.cli import frontend_connection
from trireme.cli.plugin_development import project_file
from trireme.cli.simulation_tables import count_text
from trireme.framework import programs
from trireme.plugin_api import pod_fields
from trireme.v1 import insight_pb2, plugin_pb2, status_pb2
from trireme.v1.scheduler_explanation_pb2 import SchedulerExplanation
from trireme.wire import json_documents
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError

Say = Callable[[str], None]

_PODS = "/api/v1/namespaces/default/pods"
#: The pod that is only evaluated: its scheduling gate keeps it in the queue.
_PROBE = "probe"
_WAIT_SECONDS = 15.0
_SHOWN_NODES = 5
#: The forms of nodes that have no labels.
_WITHOUT_LABELS = (plugin_pb2.NODE_DATA_UNSPECIFIED, plugin_pb2.NODE_DATA_NAMES)
#: What pods wait for until somebody acts: a plugin holds them, or does not answer about them. After so many seconds in
#: which all undecided pods do, they are not waited for.
_HELD = frozenset({"permit", "preBind", "plugin", "gate"})
_HELD_SECONDS = 3.0


async def show(project: project_file.Project, kubeconfig: pathlib.Path, socket: pathlib.Path, say: Say) -> bool:
    """Label the sample nodes, create the sample pods, and print which nodes the plugin refuses and where pods went.

    Returns whether the plugin answered about the nodes, and not with an error.

    Raises: ApiError, ApiUnreachable: the embedded cluster does not take the samples.
    """
    settings = client.ClientSettings(credentials.Source(str(kubeconfig)), user_agent="trireme-plugin-run", qps=-1)
    async with await client.connect(settings) as api:
        await _label_nodes(api, project.node_labels, say)
        await api.post(_PODS, sample_pod(_PROBE, project.pod_labels, gated=True))
        names = [f"sample-{number}" for number in range(1, project.pods + 1)]
        for name in names:
            await api.post(_PODS, sample_pod(name, project.pod_labels, gated=False))
        report = await _fetch_evaluation(socket)
        for line in evaluation_lines(project.name, report):
            say(line)

        async def list_pods() -> Sequence[Mapping[str, Any]]:
            pods: Sequence[Mapping[str, Any]] = (await api.get(_PODS)).json()["items"]
            return pods

        async def explain(name: str) -> SchedulerExplanation:
            found = await _explain(socket, name)
            return SchedulerExplanation() if found is None else found.scheduler

        for line in await wait_for_placements(list_pods, names, explain):
            say(line)
        return not failure_lines(project.name, report)


async def _label_nodes(api: client.ApiClient, labels: Mapping[str, Mapping[str, str]], say: Say) -> None:
    """Set the labels; says which node does not exist."""
    for node, wanted in labels.items():
        try:
            await api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": dict(wanted)}})
        except ApiError as error:
            if error.status != 404:
                raise
            say(f"  samples.nodeLabels: there is no node {node}; the nodes are node-0, node-1 …")


def sample_pod(name: str, labels: Mapping[str, str], *, gated: bool) -> Mapping[str, Any]:
    """A pod with one container and these labels; `gated`: it is never placed."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
    gates = {"schedulingGates": [{"name": "trireme.dev/evaluated-only"}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels)},
        "spec": {"containers": [container], **gates},
    }


async def _fetch_evaluation(socket: pathlib.Path) -> insight_pb2.ExplainResponse:
    """Fetch the nodes' verdicts on the probe, once insight knows it; the last ones where that takes too long."""
    report = insight_pb2.ExplainResponse()
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            while not report.HasField("queued_pod"):
                await asyncio.sleep(0.2)
                report = await _explain(socket, _PROBE) or report
    except TimeoutError:
        return report
    return report


async def _explain(socket: pathlib.Path, name: str) -> insight_pb2.ExplainResponse | None:
    """The explanation of a pod; None: the scheduler has not answered."""
    options = frontend_connection.options_of_socket(socket)
    try:
        report = await frontend_connection.fetch_report(options, programs.EXPLAIN_PATH, {"pod": f"default/{name}"})
    except frontend_connection.ReportUnavailable:
        return None
    return json_documents.parse(report, insight_pb2.ExplainResponse())


def unread_label_lines(project: project_file.Project, info: plugin_pb2.PluginInfo) -> list[str]:
    """The labels of the samples that the plugin does not get, by its description, in lines."""
    lines = []
    if any(project.node_labels.values()) and info.node_data in _WITHOUT_LABELS:
        lines.append("  samples.nodeLabels: not sent to the plugin, because node_data of its description is NAMES")
    read = pod_fields.PodFields(info.pod_fields).label_keys
    if unread := [] if read is None else sorted(project.pod_labels.keys() - read):
        fields = ", ".join(f"metadata.labels['{key}']" for key in unread)
        why = f"pod_fields of its description lack {fields}"
        lines.append(f"  samples.podLabels: not sent to the plugin, because {why}")
    return lines


def evaluation_lines(plugin: str, found: insight_pb2.ExplainResponse) -> list[str]:
    """The plugin's answers about the nodes, in lines: its refusals, and its scores of the best nodes."""
    if not found.HasField("queued_pod"):
        return [f"  no evaluation: {found.insight_error or 'the scheduler has not answered'}"]
    lines = failure_lines(plugin, found)
    for refusal in found.refusals:
        if refusal.status.plugin == plugin:
            more = " …" if len(refusal.nodes) > _SHOWN_NODES else ""
            text = ", ".join(refusal.nodes[:_SHOWN_NODES])
            messages = "; ".join(refusal.status.messages)
            lines.append(f"  refuses {len(refusal.nodes)} of {found.node_count} nodes: {messages} ({text}{more})")
    column = [number for number, each in enumerate(found.score_plugins) if each.name == plugin and not each.skipped]
    scores = [(node.scores[number], node.name) for node in found.feasible_nodes for number in column]
    if scores:
        best = ", ".join(f"{node} {score}" for score, node in sorted(scores, reverse=True)[:_SHOWN_NODES])
        more = " …" if len(scores) > _SHOWN_NODES else ""
        lines.append(f"  scores {count_text(len(scores), 'node')}: {best}{more}")
        chosen, without = found.feasible_nodes[0].name, _best_without(found, column)
        text = "as without these scores" if chosen == without else f"without these scores to {without}"
        lines.append(f"  the next pod would go to {chosen}, {text}")
    if not lines:
        lines.append(f"  refuses none of {found.node_count} nodes")
    return lines


def failure_lines(plugin: str, found: insight_pb2.ExplainResponse) -> list[str]:
    """The calls of the plugin that failed, in lines; none: it answered about the nodes."""
    calls = (("filters", found.pre_filter), ("scores", found.score_failure))
    failed = [(verb, each) for verb, each in calls if each.plugin == plugin and each.code == status_pb2.CODE_ERROR]
    return [f"  {verb} no node: {'; '.join(each.messages)}" for verb, each in failed]


def _best_without(found: insight_pb2.ExplainResponse, column: Sequence[int]) -> str:
    """The node with the highest total of the other plugins' scores; of equal ones the one that is chosen now."""

    def total(node: insight_pb2.FeasibleNode) -> int:
        return node.total - sum(node.scores[number] * found.score_plugins[number].weight for number in column)

    return max(found.feasible_nodes, key=total).name


async def wait_for_placements(
    list_pods: Callable[[], Awaitable[Sequence[Mapping[str, Any]]]],
    names: Sequence[str],
    explain: Callable[[str], Awaitable[SchedulerExplanation]],
) -> list[str]:
    """Where each pod went, or why it waits, in lines; of those that are undecided after a while what they wait for.

    `explain` returns the scheduler's explanation of a pod, nothing if it does not answer.
    """
    texts = dict.fromkeys(names, "")
    clock = asyncio.get_running_loop().time
    moving = clock()
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            while True:
                for pod in await list_pods():
                    name = pod["metadata"]["name"]
                    if name in texts:
                        texts[name] = _placement(pod)
                undecided = [name for name, text in texts.items() if not text]
                if not undecided:
                    break
                reports = {name: await explain(name) for name in undecided}
                if not all(report.pending.waits_for.kind in _HELD for report in reports.values()):
                    moving = clock()
                elif clock() - moving >= _HELD_SECONDS:
                    texts.update({name: report.summary for name, report in reports.items()})
                    break
                await asyncio.sleep(0.2)
    except TimeoutError:
        for name in [name for name, text in texts.items() if not text]:
            texts[name] = (await explain(name)).summary or "undecided"
    return [f"  {name}: {text}" for name, text in texts.items()]


def _placement(pod: Mapping[str, Any]) -> str:
    """Where the pod is, or the message of its refusal; empty: neither is known."""
    node: str = pod["spec"].get("nodeName", "")
    if node:
        return f"on {node}"
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"pending: {condition.get('message', '')}"
    return ""
