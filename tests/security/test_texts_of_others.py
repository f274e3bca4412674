"""No answer of insight hands on a text about pods or nodes to who may not list them.

Every field of what the scheduler sends that can have a text has one here, and so have fields that are added later. The
answers of all paths are searched for them.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
import yarl

from tests.helpers import insight_http as support
from tests.helpers import texts_in_messages
from tests.helpers.phase_calls import PROFILE
from trireme.insight.console import views
from trireme.insight.http_api import recorded_paths
from trireme.v1 import scheduler_status_pb2, snapshot_pb2

# What everybody with a token sees of texts: which release, Lease and phases there are, and which plugins refuse pods.
SHOWN_TO_ALL = {
    "queuedpod-plugins",
    "schedulerstatus-lease",
    "schedulerstatus-missing-phases",
    "schedulerstatus-version",
}
# Names of nodes are also for who may list these.
SHOWN = {
    "nobody": SHOWN_TO_ALL,
    "developer": SHOWN_TO_ALL,
    "watcher-of-nodes": SHOWN_TO_ALL | {"preemptionrecord-node-name", "preemptionvictim-node-name"},
}
# Other pods' names, nodes and groups, as texts about the developer's own pod may name them.
NAMES = ("n1", "small", "other-group")

POD = "/v1/namespaces/default/pods/large"
PATHS = [
    *(view.path.format(namespace="default", name="large") for view in views.VIEWS),
    "/v1/nodes/n0",
    "/v1/nodes?after=0",
    "/v1/pending/pods?reason=0",
    "/v1/pods?text=secret",
    *(f"{POD}/explanation?scores=true&preemption=true&proposals={proposals}" for proposals in ("true", "false")),
    f"{POD}/explanation?nodes=n0",
    f"{POD}/decision",
    f"{POD.replace('large', 'pod-0')}/decision?maxFeasibleNodes=3",
    f"{POD.replace('large', 'absent')}/explanation",
    "/v1/simulation",
    "/v1/simulation/manifests",
    recorded_paths.RECORDING,
    f"{recorded_paths.MOMENTS}1/pending",
    f"{recorded_paths.MOMENTS}1/overview",
    "/v1/",
    "/metrics",
]


def _secret(field: str) -> str:
    """A text that says which field it is of."""
    return f"secret-{field.lower().replace('.', '-').replace('_', '-')}"


@contextlib.asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[support.Served]:
    """A replica that was sent a text in every field about the scheduler, a pod of others, and the pod large."""
    async with support.served(folder, recordings=folder / "recordings") as served:
        theirs, mine = snapshot_pb2.QueuedPod(), snapshot_pb2.QueuedPod()
        texts_in_messages.fill(theirs, _secret)
        texts_in_messages.fill(mine, lambda _: f"mine, beside {', '.join(NAMES)}")
        theirs.pod_class = 0  # as of a pod whose fields cannot be read
        theirs.state = snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
        mine.MergeFrom(support.queued("large", 2))
        del mine.plugins[:]
        mine.transitions[0].to = "unschedulable"  # one of the states of the queue
        mine.pod_group = ""
        scheduler = scheduler_status_pb2.SchedulerStatus()
        texts_in_messages.fill(scheduler, _secret)
        served.service.take_queue(snapshot_pb2.QueueDelta(scheduler_status=scheduler))
        small = support.queued("small", 1)
        small.pod_group = "other-group"
        pods = [theirs, mine, small]
        served.service.take_queue(snapshot_pb2.QueueDelta(reset=True, pods=pods))
        assert mine.profile == PROFILE
        yield served


async def _answers(served: support.Served, user: str) -> dict[str, str]:
    """By path, the code, headers and body of the answer."""
    out = {}
    for path in PATHS:
        assert yarl.URL(path).raw_path
        code, document, headers = await served.get(path, user)
        out[path] = f"{code} {dict(headers)} {orjson.dumps(document).decode()}"
    return out


@pytest.mark.parametrize("user", SHOWN)
async def test_texts_about_pods_are_for_who_may_list_pods(tmp_path: Path, user: str) -> None:
    """Names of groups, values of fields and what plugins write would be everybody's who has a token."""
    async with _served(tmp_path) as served:
        answers = await _answers(served, user)
        found = {path: set(re.findall(r"secret-([a-z-]+)", answer)) for path, answer in answers.items()}
        assert {path: texts - SHOWN[user] for path, texts in found.items() if texts - SHOWN[user]} == {}
        # The texts were there to be shown.
        assert found["/v1/pending"] == {"queuedpod-plugins"}
        assert "queuedpod-reason" in str((await served.get("/v1/pending", "operator"))[1])


async def test_texts_about_ones_own_pod_name_nothing_of_others(tmp_path: Path) -> None:
    """A plugin writes names as it likes, in any field."""
    async with _served(tmp_path) as served:
        answers = await _answers(served, "developer")
        for path in (f"{POD}/timeline", f"{POD}/explanation?scores=true&preemption=true&proposals=false"):
            assert "mine, beside (a node), (a pod), (a group)" in answers[path]
        names = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
        assert {path: names.findall(text) for path, text in answers.items() if names.search(text)} == {}


async def test_what_tells_reasons_apart_says_nothing_of_their_texts(tmp_path: Path) -> None:
    """Guesses of a text could be checked by the number, the order or the id of reasons."""

    def waits(name: str, text: str) -> snapshot_pb2.QueuedPod:
        pod = support.queued(name, 2)
        pod.reason = text
        pod.plugins.append("Licences")
        return pod

    async with support.served(tmp_path) as served:
        documents = []
        for texts in (("for b", "for b"), ("for a, on n1", "for b, on n2"), ("", "")):
            pods = [waits(f"pod-{number}", text) for number, text in enumerate(texts)]
            served.service.take_queue(snapshot_pb2.QueueDelta(reset=True, pods=pods))
            documents.append((await served.get("/v1/pending", "developer"))[1])
        assert documents[0] == documents[1] == documents[2]
        assert [(each["pods"], each["text"]) for each in documents[0]["reasons"]] == [(2, "")]


async def test_who_may_list_pods_alone_gets_ids_without_names_of_nodes(tmp_path: Path) -> None:
    """Guesses of a node's name could be checked by the id of a reason that has it."""
    async with support.served(tmp_path) as served:
        ids = []
        for node in ("n1", "n2"):
            pod = support.queued("large", 2)
            pod.reason = f"waits for {node}"
            served.service.take_queue(snapshot_pb2.QueueDelta(reset=True, pods=[pod]))
            (reason,) = (await served.get("/v1/pending", "watcher-of-pods"))[1]["reasons"]
            assert reason["text"] == "waits for (a node)"
            ids.append(reason["id"])
            _, found, _ = await served.get(f"/v1/pending/pods?reason={reason['id']}", "watcher-of-pods")
            assert [each["name"] for each in found["pods"]] == ["large"]
        assert ids[0] == ids[1]
