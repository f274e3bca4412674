"""What a plugin changes: sample nodes and pods on the embedded cluster, and what the scheduler says of them."""

import argparse
import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from trireme.cli import frontend_connection
from trireme.cli.plugin_development import project_file
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError

Say = Callable[[str], None]

_PODS = "/api/v1/namespaces/default/pods"
#: The pod that is only evaluated: its scheduling gate keeps it in the queue.
_PROBE = "probe"
_WAIT_SECONDS = 15.0
_SHOWN_NODES = 5
#: What pods wait for until somebody acts: a plugin holds them, or does not answer about them. After so many seconds in
#: which all undecided pods do, they are not waited for.
_HELD = frozenset({"permit", "preBind", "plugin", "gate"})
_HELD_SECONDS = 3.0


async def show(project: project_file.Project, kubeconfig: pathlib.Path, socket: pathlib.Path, say: Say) -> None:
    """Label the sample nodes, create the sample pods, and print which nodes the plugin refuses and where pods went.

    Raises: ApiError, ApiUnreachable: the embedded cluster does not take the samples.
    """
    settings = client.ClientSettings(credentials.Source(str(kubeconfig)), user_agent="trireme-plugin-run", qps=-1)
    async with await client.connect(settings) as api:
        await _label_nodes(api, project.node_labels, say)
        await api.post(_PODS, sample_pod(_PROBE, project.pod_labels, gated=True))
        names = [f"sample-{number}" for number in range(1, project.pods + 1)]
        for name in names:
            await api.post(_PODS, sample_pod(name, project.pod_labels, gated=False))
        report = await _evaluation(socket)
        for line in evaluation_lines(project.name, report):
            say(line)

        async def list_pods() -> Sequence[Mapping[str, Any]]:
            pods: Sequence[Mapping[str, Any]] = (await api.get(_PODS)).json()["items"]
            return pods

        async def explain(name: str) -> Mapping[str, Any]:
            return await _explain(socket, name) or {}

        for line in await placements(list_pods, names, explain):
            say(line)


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


async def _evaluation(socket: pathlib.Path) -> Mapping[str, Any]:
    """What the nodes say of the probe, once insight knows it; what it said last where that takes too long."""
    report: Mapping[str, Any] = {}
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            while "feasibleNodes" not in report:
                await asyncio.sleep(0.2)
                answer = await _explain(socket, _PROBE)
                if answer is not None:
                    report = answer.get("evaluation", {})
    except TimeoutError:
        return report
    return report


async def _explain(socket: pathlib.Path, name: str) -> Mapping[str, Any] | None:
    """The scheduler's report about a pod; None: it has not answered."""
    options = argparse.Namespace(socket=str(socket), server="")
    try:
        return await frontend_connection.fetch_report(options, "/trireme/v1/explain", {"pod": f"default/{name}"})
    except frontend_connection.ReportUnavailable:
        return None


def evaluation_lines(plugin: str, report: Mapping[str, Any]) -> list[str]:
    """What the plugin says of the nodes, in lines: its refusals, and its scores of the best nodes."""
    if "feasibleNodes" not in report:
        return [f"  no evaluation: {report.get('error', 'the scheduler has not answered')}"]
    lines = []
    for refusal in report.get("refusals", ()):
        if refusal["plugin"] == plugin:
            names = refusal["names"]
            more = " …" if len(names) > _SHOWN_NODES else ""
            text = ", ".join(names[:_SHOWN_NODES])
            messages = "; ".join(refusal["messages"])
            lines.append(f"  refuses {refusal['nodes']} of {report['nodes']} nodes: {messages} ({text}{more})")
    scores = [(node["scores"][plugin], node["node"]) for node in report["feasible"] if plugin in node.get("scores", {})]
    if scores:
        best = ", ".join(f"{node} {score}" for score, node in sorted(scores, reverse=True)[:_SHOWN_NODES])
        lines.append(f"  scores {len(scores)} nodes: {best}{' …' if len(scores) > _SHOWN_NODES else ''}")
    if not lines:
        lines.append(f"  refuses none of {report['nodes']} nodes")
    return lines


async def placements(
    list_pods: Callable[[], Awaitable[Sequence[Mapping[str, Any]]]],
    names: Sequence[str],
    explain: Callable[[str], Awaitable[Mapping[str, Any]]],
) -> list[str]:
    """Where each pod went, or why it waits, in lines; of those that are undecided after a while what they wait for.

    `explain` returns the scheduler's report about a pod, or nothing.
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
                if not all(report.get("waitsFor", {}).get("for") in _HELD for report in reports.values()):
                    moving = clock()
                elif clock() - moving >= _HELD_SECONDS:
                    texts.update({name: report["summary"] for name, report in reports.items()})
                    break
                await asyncio.sleep(0.2)
    except TimeoutError:
        for name in [name for name, text in texts.items() if not text]:
            texts[name] = (await explain(name)).get("summary") or "undecided"
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
