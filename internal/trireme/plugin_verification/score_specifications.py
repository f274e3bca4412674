"""PreScore, Score and NormalizeScore.

Tests: tests/contract/test_plugin_verification.py.
"""

from trireme.framework import plugin_spec
from trireme.plugin_verification import check_factories, node_answer_specifications, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import Specification, specification
from trireme.v1 import plugin_pb2, score_pb2, status_pb2

_GROUP = "Score"
_SUCCESS_OR_ERROR = (status_pb2.CODE_SUCCESS, status_pb2.CODE_ERROR)
LARGEST = 92233720368547758
_SERVED = Sentence(PROTOCOL, "`ScorePlugin.PreScore`; `Score`; `NormalizeScore` (with `NORMALIZATION_CUSTOM`)")

score_is_served = check_factories.served("P090", _GROUP, rpcs.SCORE, _SERVED)
score_status = check_factories.status_set(
    "P091",
    _GROUP,
    rpcs.SCORE,
    "",
    _SUCCESS_OR_ERROR,
    Sentence("ScoreResponse.status", "REQUIRED. Anything but CODE_SUCCESS ends the cycle with an error."),
)


def _one_score_a_node(number: str, rpc: rpcs.Rpc, sentence: Sentence) -> Specification:
    """A successful answer has one score for each node."""

    async def check(session: Session) -> None:
        for each in await sample_requests.answered(session, rpc):
            assert isinstance(each.response, score_pb2.ScoreResponse | score_pb2.NormalizeScoreResponse)
            count = len(session.cluster.nodes)
            if each.response.status.code == status_pb2.CODE_SUCCESS and len(each.response.scores) != count:
                raise outcomes.Violation(f"scores has {len(each.response.scores)} entries; expected {count}", each)

    title = f"{rpc.name} answers one score for each node"
    return Specification(number, _GROUP, title, (sentence,), frozenset(rpc.points), check)


each_node_has_a_score = _one_score_a_node(
    "P092",
    rpcs.SCORE,
    Sentence("ScoreResponse.scores", "REQUIRED with CODE_SUCCESS. One a node, in the order of the request."),
)


async def _check_range(session: Session, rpc: rpcs.Rpc, most: int) -> None:
    """Raises: Violation for a score that is not from 0 to `most`."""
    for each in await sample_requests.answered(session, rpc):
        assert isinstance(each.response, score_pb2.ScoreResponse | score_pb2.NormalizeScoreResponse)
        for at, score in enumerate(each.response.scores):
            if not 0 <= score <= most:
                raise outcomes.Violation(f"scores[{at}] is {score}; expected 0 to {most}", each)


@specification(
    "P093",
    _GROUP,
    Sentence(PROTOCOL, "Raw scores are from 0 to 100 with `NORMALIZATION_NONE`"),
    points=(rpcs.SCORE_POINT,),
)
async def scores_that_are_not_normalized_are_in_range(session: Session) -> None:
    """Scores that are not normalised are from 0 to 100."""
    if session.info.normalization > plugin_pb2.NORMALIZATION_NONE:
        raise outcomes.NotApplicable("the scores are normalised")
    await _check_range(session, rpcs.SCORE, plugin_spec.MAX_SCORE)


@specification(
    "P094",
    _GROUP,
    Sentence("ScoreResponse.scores", "from 0 to 92233720368547758 with MAX and MAX_REVERSED"),
    points=(rpcs.SCORE_POINT,),
)
async def scores_that_are_divided_are_in_range(session: Session) -> None:
    """Scores that are normalised by the largest are from 0 to 92233720368547758."""
    divided = (plugin_pb2.NORMALIZATION_MAX, plugin_pb2.NORMALIZATION_MAX_REVERSED)
    if session.info.normalization not in divided:
        raise outcomes.NotApplicable("normalization is neither MAX nor MAX_REVERSED")
    await _check_range(session, rpcs.SCORE, LARGEST)


score_order = node_answer_specifications.ordered(
    "P095",
    rpcs.SCORE,
    _GROUP,
    Sentence("ScoreResponse.scores", "One a node, in the order of the request."),
)
pre_score_is_served = check_factories.served("P096", _GROUP, rpcs.PRE_SCORE, _SERVED)
pre_score_status = check_factories.status_set(
    "P097",
    _GROUP,
    rpcs.PRE_SCORE,
    "",
    (*_SUCCESS_OR_ERROR, status_pb2.CODE_SKIP),
    Sentence("PreScoreResponse.status", "REQUIRED. CODE_SUCCESS, CODE_SKIP or an error."),
)
pre_score_may_be_repeated = check_factories.repeated(
    "P098",
    _GROUP,
    rpcs.PRE_SCORE,
    Sentence(
        "ScorePlugin.PreScore",
        "PreScore prepares scoring and gives state for Score; CODE_SKIP leaves the plugin's Score out. Idempotent.",
    ),
)
normalize_score_is_served = check_factories.served("P099", _GROUP, rpcs.NORMALIZE_SCORE, _SERVED)
normalize_score_status = check_factories.status_set(
    "P100",
    _GROUP,
    rpcs.NORMALIZE_SCORE,
    "",
    _SUCCESS_OR_ERROR,
    Sentence("NormalizeScoreResponse.status", "REQUIRED. Anything but CODE_SUCCESS ends the cycle with an error."),
)
_NORMALIZED = Sentence(
    "NormalizeScoreResponse.scores", "REQUIRED with CODE_SUCCESS. One a node, each 0 to 100, in the order of the nodes."
)
each_node_has_a_normalized_score = _one_score_a_node("P101", rpcs.NORMALIZE_SCORE, _NORMALIZED)


@specification("P102", _GROUP, _NORMALIZED, points=(rpcs.NORMALIZE_POINT,))
async def normalized_scores_are_in_range(session: Session) -> None:
    """NormalizeScore answers scores from 0 to 100."""
    await _check_range(session, rpcs.NORMALIZE_SCORE, 100)


normalize_score_may_be_repeated = check_factories.repeated(
    "P103",
    _GROUP,
    rpcs.NORMALIZE_SCORE,
    Sentence(
        "ScorePlugin.NormalizeScore",
        "NormalizeScore brings raw scores of all feasible nodes into the range 0 to 100. Idempotent.",
    ),
)
