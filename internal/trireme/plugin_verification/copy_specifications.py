"""ScoreCopies: what nodes score with copies of the pod on them.

Also change: docs/declared-dependencies.md.
Also change: protos/trireme/v1/score_copies.proto (the messages).

Tests: tests/contract/test_plugin_verification.py.
"""

from collections.abc import Sequence

from trireme.framework import plugin_spec
from trireme.plugin_verification import (
    check_factories,
    exchanges,
    node_answer_specifications,
    outcomes,
    rpcs,
    sample_requests,
    score_specifications,
)
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import plugin_pb2, score_copies_pb2, status_pb2

_GROUP = "Score"
_POINTS = (rpcs.SCORE_POINT,)
_COPIES = 3
_SCORES = Sentence(
    "ScoreCopiesResponse.scores",
    "REQUIRED with CODE_SUCCESS. For each node, in the order of the request, `copies` entries: the raw score that "
    "Score would return with one copy of the pod placed on the node, with two, and so on.",
)


async def _call(session: Session, nodes: Sequence[int], copies: int) -> exchanges.Exchange:
    """Call ScoreCopies about these sample nodes. Raises: NotApplicable: it is not announced, or Score left out."""
    if not session.info.score_copies:
        raise outcomes.NotApplicable("score_copies is not set")
    cycle = await sample_requests.cycle_for(session, rpcs.SCORE)
    request = score_copies_pb2.ScoreCopiesRequest(cycle=cycle, nodes=session.selection(nodes), copies=copies)
    return await session.call(rpcs.SCORE_COPIES, request)


async def _answer(session: Session, nodes: Sequence[int], copies: int = _COPIES) -> exchanges.Exchange:
    """As `_call`. Raises: NotChecked: it fails."""
    each = await _call(session, nodes, copies)
    if each.failure is not None:
        raise outcomes.NotChecked(f"ScoreCopies fails: {each.failure}")
    return each


async def _rows(
    session: Session, nodes: Sequence[int], copies: int = _COPIES
) -> tuple[exchanges.Exchange, list[list[int]]]:
    """The scores of each node, by copies. Raises: NotChecked: they do not fit the request."""
    each = await _answer(session, nodes, copies)
    response = _response(each)
    if response.status.code != status_pb2.CODE_SUCCESS or len(response.scores) != len(nodes) * copies:
        raise outcomes.NotChecked("ScoreCopies does not answer `copies` scores for each node")
    return each, [list(response.scores[at * copies : (at + 1) * copies]) for at in range(len(nodes))]


def _response(each: exchanges.Exchange) -> score_copies_pb2.ScoreCopiesResponse:
    assert isinstance(each.response, score_copies_pb2.ScoreCopiesResponse)
    return each.response


@specification("P104", _GROUP, Sentence(PROTOCOL, "`ScorePlugin.ScoreCopies`"), points=_POINTS)
async def score_copies_is_served(session: Session) -> None:
    """ScoreCopies is served where `score_copies` announces it: no gRPC error for a valid request."""
    check_factories.require_answer(await _call(session, session.all_nodes, _COPIES))


@specification(
    "P105",
    _GROUP,
    Sentence(
        "ScoreCopiesResponse.status",
        "REQUIRED. With anything but CODE_SUCCESS the pods of the class are placed one at a time; none fails by it.",
    ),
    points=_POINTS,
)
async def score_copies_answers_a_status(session: Session) -> None:
    """ScoreCopies answers a status that belongs there."""
    each = await _answer(session, session.all_nodes)
    response = _response(each)
    if not response.HasField("status"):
        raise outcomes.Violation("status is not set", each)
    if response.status.code not in (status_pb2.CODE_SUCCESS, status_pb2.CODE_ERROR):
        raise outcomes.Violation(f"status.code is {response.status.code}; expected CODE_SUCCESS or CODE_ERROR", each)


@specification("P106", _GROUP, _SCORES, points=_POINTS)
async def each_node_has_a_score_for_each_copy(session: Session) -> None:
    """ScoreCopies answers `copies` scores for each node."""
    each = await _answer(session, session.all_nodes)
    response, expected = _response(each), len(session.all_nodes) * _COPIES
    if response.status.code == status_pb2.CODE_SUCCESS and len(response.scores) != expected:
        raise outcomes.Violation(f"scores has {len(response.scores)} entries; expected {expected}", each)


@specification("P107", _GROUP, Sentence("ScoreCopiesResponse.scores", "In the range of Score's."), points=_POINTS)
async def scores_with_copies_are_in_range(session: Session) -> None:
    """Scores with copies are in the range of Score's."""
    most = (
        score_specifications.LARGEST
        if session.info.normalization > plugin_pb2.NORMALIZATION_NONE
        else plugin_spec.MAX_SCORE
    )
    if session.info.normalization == plugin_pb2.NORMALIZATION_CUSTOM:
        raise outcomes.NotApplicable("the plugin normalises by itself")
    each = await _answer(session, session.all_nodes)
    for at, score in enumerate(_response(each).scores):
        if not 0 <= score <= most:
            raise outcomes.Violation(f"scores[{at}] is {score}; expected 0 to {most}", each)


@specification(
    "P108",
    _GROUP,
    _SCORES,
    Sentence("ScoreCopiesRequest.nodes", "REQUIRED. The nodes, each by itself."),
    points=_POINTS,
)
async def scores_with_copies_are_each_by_itself(session: Session) -> None:
    """A score with copies depends neither on how many copies are asked for nor on the other nodes in the call."""
    _, together = await _rows(session, session.all_nodes)
    backwards = session.all_nodes[::-1]
    each, reversed_rows = await _rows(session, backwards, _COPIES - 1)
    for at, row in zip(backwards, reversed_rows, strict=True):
        if row != together[at][: _COPIES - 1]:
            name = session.cluster.nodes[at].name
            text = f"node {name} has {row}, and {together[at]} in a call about {_COPIES} copies and the nodes reversed"
            raise outcomes.Violation(text, each)


@specification(
    "P109",
    "determinism",
    Sentence(
        "ScorePlugin.ScoreCopies",
        "ScoreCopies is Score for nodes as if copies of the pod had been placed on them, so that many pods are placed "
        "by one answer. Idempotent.",
    ),
    points=_POINTS,
)
async def score_copies_is_deterministic(session: Session) -> None:
    """ScoreCopies answers the same call in the same way, and Score the same once the copies are there."""
    _, rows = await _rows(session, session.all_nodes)
    each, again = await _rows(session, session.all_nodes)
    if rows != again:
        raise outcomes.Violation("the repeated call is answered in another way", each)
    followed = session.followed
    if followed is None or session.info.depends_on != plugin_pb2.DEPENDENCY_NODE_PODS:
        return
    # The placed pods are of the first class.
    pod = await sample_requests.cycle_for(session, rpcs.SCORE)
    if pod.pod_class != 1:
        return
    for copies in range(1, _COPIES + 1):
        if not await followed.place_pods([1], session.settings.deadline_seconds):
            raise outcomes.NotChecked("the plugin does not acknowledge a delta")
        each, scores = await node_answer_specifications.node_answers(session, rpcs.SCORE, [1])
        if scores[0] != rows[1][copies - 1]:
            name = session.cluster.nodes[1].name
            text = f"node {name} scores {scores[0]} with {copies} more pods, and ScoreCopies said {rows[1][copies - 1]}"
            raise outcomes.Violation(text, each)
