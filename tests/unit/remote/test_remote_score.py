"""RemoteScorePlugin: which calls a class costs, and what their answers and failures become."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.called_plugin import CalledPlugin
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.framework import status
from trireme.plugin_api import scorers
from trireme.remote import answer_recording, remote_connection, remote_score
from trireme.v1 import plugin_pb2, remote_answer_pb2, score_copies_pb2, score_pb2, status_pb2

PRE_SCORE, SCORE = plugin_pb2.EXTENSION_POINT_PRE_SCORE, plugin_pb2.EXTENSION_POINT_SCORE
NODE, NODE_PODS, CLUSTER = (
    plugin_pb2.DEPENDENCY_NODE,
    plugin_pb2.DEPENDENCY_NODE_PODS,
    plugin_pb2.DEPENDENCY_CLUSTER,
)
SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
SKIP = status_pb2.Status(code=status_pb2.CODE_SKIP)
ERROR = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["broken"])
AWAY = remote_connection.PluginError("away")
STATE = score_pb2.PreScoreResponse(status=SUCCESS, state=b"own")
SLOTS = np.arange(3)


def scoring(request: Any) -> Any:
    """Ten times the number of the node, and one less for each copy before."""
    names = [node.name for node in request.nodes.nodes]
    tens = [10 * int(name.removeprefix("n")) + 10 for name in names]
    if isinstance(request, score_copies_pb2.ScoreCopiesRequest):
        scores = [ten - copy for ten in tens for copy in range(request.copies)]
        return score_copies_pb2.ScoreCopiesResponse(status=SUCCESS, scores=scores)
    if isinstance(request, score_pb2.NormalizeScoreRequest):
        return score_pb2.NormalizeScoreResponse(status=SUCCESS, scores=[100 - score for score in request.scores])
    return score_pb2.ScoreResponse(status=SUCCESS, scores=tens)


class Scored:
    """Three nodes, two classes that are equal to a plugin that reads labels, and the plugin."""

    def __init__(self, called: CalledPlugin, *points: plugin_pb2.ExtensionPoint.ValueType, **client: Any) -> None:
        builder = SnapshotBuilder()
        for name in ("n0", "n1", "n2"):
            builder.set_node(name)
        for number, cpu in ((1, "1"), (2, "2")):
            builder.add_class(number, pod_of(requesting(cpu=cpu)))
        self.snap, self.called = builder.snap, called
        client = {"pod_fields": ["metadata.labels"], "depends_on": NODE_PODS, **client}
        self.plugin = remote_score.RemoteScorePlugin(called.client(*(points or (PRE_SCORE, SCORE)), **client), "p")

    async def prepare(self, state: Any = None, number: int = 1) -> scorers.PreparedScores:
        return await self.plugin.prepare(self.snap.classes[number], self.snap, state, SLOTS)

    def scores(self, state: Any, number: int = 1) -> list[int]:
        found: list[int] = self.plugin.score(self.snap.classes[number], self.snap, state, SLOTS).tolist()
        return found

    async def normalize(self, state: Any) -> Any:
        return await self.plugin.normalize(self.snap.classes[1], self.snap, state, SLOTS, np.array([10, 20, 30]))


@pytest.mark.parametrize("depends_on", [NODE, NODE_PODS, CLUSTER])
async def test_each_node_has_the_plugins_score(depends_on: plugin_pb2.Dependency.ValueType) -> None:
    scored = Scored(CalledPlugin(PreScore=STATE, Score=scoring), depends_on=depends_on)
    found = await scored.prepare()
    assert (found.silent, found.failure) == (False, None)
    assert scored.scores(found.state) == [10, 20, 30]
    (first,), (second,) = scored.called.requests_of("PreScore"), scored.called.requests_of("Score")
    assert (first.cycle.profile, first.cycle.pod_class, first.cycle.state) == ("p", 1, b"")
    assert [node.name for node in first.nodes.nodes] == ["n0", "n1", "n2"]
    assert (second.cycle.state, second.cycle.generation) == (b"own", scored.snap.generation)
    again = await scored.prepare(found.state)
    assert again.state is found.state
    # What PreScore answered about the whole cluster may be another answer now.
    assert len(scored.called.requests_of("PreScore")) == (2 if depends_on == CLUSTER else 1)
    other = await scored.prepare(None, 2)
    assert scored.scores(other.state, 2) == [10, 20, 30]
    calls = {NODE: (1, 1), NODE_PODS: (2, 3), CLUSTER: (3, 3)}
    assert tuple(len(scored.called.requests_of(rpc)) for rpc in ("PreScore", "Score")) == calls[depends_on]


async def test_a_plugin_without_pre_score_is_called_once() -> None:
    scored = Scored(CalledPlugin(Score=scoring), SCORE)
    found = await scored.prepare()
    assert scored.scores(found.state) == [10, 20, 30]
    assert [(name, request.cycle.state) for name, request in scored.called.requests] == [("Score", b"")]


@pytest.mark.parametrize("depends_on", [NODE, NODE_PODS])
async def test_a_plugin_that_has_nothing_to_say_is_silent(depends_on: plugin_pb2.Dependency.ValueType) -> None:
    scored = Scored(CalledPlugin(PreScore=score_pb2.PreScoreResponse(status=SKIP)), depends_on=depends_on)
    found = await scored.prepare()
    assert (found.silent, found.failure) == (True, None)
    assert (await scored.prepare(found.state)).silent
    assert len(scored.called.requests) == 1


@pytest.mark.parametrize("depends_on", [NODE, NODE_PODS])
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("rpc", "answer", "text"),
    [
        ("PreScore", AWAY, 'running PreScore plugin "Quota": away'),
        ("PreScore", score_pb2.PreScoreResponse(status=ERROR), 'running PreScore plugin "Quota": broken'),
        ("Score", AWAY, 'running Score plugins: plugin "Quota" failed with: away'),
        ("Score", score_pb2.ScoreResponse(status=ERROR), 'running Score plugins: plugin "Quota" failed with: broken'),
    ],
)
async def test_a_call_that_fails_fails_the_pods_or_adds_nothing(
    rpc: str, answer: Any, text: str, ignore: bool, depends_on: plugin_pb2.Dependency.ValueType
) -> None:
    called = CalledPlugin(**{"PreScore": STATE, "Score": scoring, rpc: answer})
    scored = Scored(called, ignore=ignore, depends_on=depends_on)
    found = await scored.prepare()
    assert found.silent is ignore
    if ignore:
        assert found.failure is None
    else:
        assert found.failure is not None
        assert (found.failure.code, found.failure.message) == (status.Code.ERROR, text)
    called.answers = {"PreScore": STATE, "Score": scoring}
    # The error is not kept.
    assert scored.scores((await scored.prepare(found.state)).state) == [10, 20, 30]


async def test_many_nodes_are_several_calls_each_with_its_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trireme.remote.remote_request.NODES_PER_CALL", 2)
    scored = Scored(CalledPlugin(Score=scoring, ScoreCopies=scoring), SCORE)
    found = await scored.prepare()
    assert scored.scores(found.state) == [10, 20, 30]
    copies = await scored.plugin.prepare_copies(scored.snap.classes[1], scored.snap, found.state, SLOTS, 2)
    assert copies is not None
    assert copies.tolist() == [[10, 9], [20, 19], [30, 29]]
    assert [len(request.nodes.nodes) for _, request in scored.called.requests] == [2, 1, 2, 1]


@pytest.mark.parametrize(
    "answer",
    [
        AWAY,
        score_copies_pb2.ScoreCopiesResponse(status=ERROR),
        score_copies_pb2.ScoreCopiesResponse(status=SUCCESS, scores=[1, 2, 3]),
    ],
    ids=["away", "failed", "too few"],
)
async def test_without_scores_of_copies_pods_are_placed_one_by_one(answer: Any) -> None:
    scored = Scored(CalledPlugin(PreScore=STATE, Score=scoring, ScoreCopies=answer))
    state = (await scored.prepare()).state
    assert await scored.plugin.prepare_copies(scored.snap.classes[1], scored.snap, state, SLOTS, 2) is None
    (request,) = scored.called.requests_of("ScoreCopies")
    assert (request.cycle.state, request.copies) == (b"own", 2)


async def test_normalised_scores_are_the_plugins_own_and_recorded() -> None:
    scored = Scored(CalledPlugin(PreScore=STATE, Score=scoring, NormalizeScore=scoring))
    state = (await scored.prepare()).state
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        assert (await scored.normalize(state)).tolist() == [90, 80, 70]
    (request,) = scored.called.requests_of("NormalizeScore")
    assert (request.cycle.state, list(request.scores)) == (b"own", [10, 20, 30])
    (answer,) = remote_answer_pb2.RemoteAnswers.FromString(collected.content()).answers
    assert (answer.plugin, list(answer.scores.normalized)) == ("Quota", [90, 80, 70])


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (AWAY, "away"),
        (score_pb2.NormalizeScoreResponse(status=ERROR), "broken"),
        (score_pb2.NormalizeScoreResponse(status=SUCCESS, scores=[1, 101, 2]), "wrong: scores[1]"),
    ],
)
async def test_a_normalisation_that_fails_fails_the_pods_or_gives_no_node_any_score(
    answer: Any, text: str, ignore: bool
) -> None:
    scored = Scored(CalledPlugin(NormalizeScore=answer), ignore=ignore)
    found = await scored.normalize(remote_score.RemoteScoreState())
    if ignore:
        assert found.tolist() == [0, 0, 0]
    else:
        assert found.code is status.Code.ERROR
        assert found.message.startswith(f'running Normalize on Score plugins: plugin "Quota" failed with: {text}')
