"""Reading what plugins answer: what fits the question is taken, everything else names its field."""

import numpy as np
import pytest

from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import remote_response
from trireme.rpc import message_sizes
from trireme.v1 import filter_pb2, score_pb2, status_pb2

NODE = interfaces.Dependency.NODE
NODE_PODS = interfaces.Dependency.NODE_PODS
UNLIMITED = interfaces.UNLIMITED

REFUSED = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="P", messages=["no"])
OTHER = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, plugin="P", messages=["never"])
SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
# A receiver of the protobuf encoding keeps the number of an enum value that it does not know.
UNKNOWN = status_pb2.Status.FromString(bytes([1 << 3, 42]))


def columns(
    index: list[int], capacity: list[int], *statuses: status_pb2.Status, **fields: int
) -> filter_pb2.FilterResponse:
    """An answer to Filter."""
    fields.setdefault("size", len(index))
    made = filter_pb2.NodeColumns(status_index=index, capacity=capacity, statuses=statuses, **fields)
    return filter_pb2.FilterResponse(columns=made)


def test_an_answer_becomes_verdicts_in_the_tables_numbers() -> None:
    """If this fails, a node gets the refusal of another plugin, or none."""
    table = interfaces.StatusTable()
    table.intern(status.unschedulable("Other", "taken"))
    answers = remote_response.read_filter(
        columns([2, 0, 1, 2], [0, 3, 0, 0], REFUSED, OTHER), "P", 4, interfaces.Dependency.CLUSTER
    )
    index = answers.intern(table)
    named = [None if not number else table.statuses[number - 1].message for number in index.tolist()]
    assert named == ["never", None, "no", "never"]
    assert answers.capacity.tolist() == [0, 3, 0, 0]
    assert index.dtype == np.int16


def test_an_unused_status_is_dropped() -> None:
    """If this fails, a plugin's unused statuses fill the table of the class."""
    table = interfaces.StatusTable()
    answers = remote_response.read_filter(columns([0], [UNLIMITED], REFUSED), "P", 1, NODE)
    answers.intern(table)
    assert table.statuses == []


@pytest.mark.parametrize("name", ["", "P"])
def test_a_refusal_is_in_the_name_of_the_plugin_called(name: str) -> None:
    """If this fails, a refused pod waits for no event."""
    given = status_pb2.Status(code=status_pb2.CODE_PENDING, plugin=name, messages=["no"])
    answers = remote_response.read_filter(columns([1], [0], given), "P", 1, NODE)
    assert answers.statuses == (status.Status(status.Code.PENDING, "P", ("no",)),)


def test_a_status_in_the_name_of_another_plugin_is_refused() -> None:
    """If this fails, the author of a plugin does not learn that it names the wrong one."""
    foreign = status_pb2.Status(code=status_pb2.CODE_PENDING, plugin="NodeName", messages=["no"])
    with pytest.raises(ValueError, match=r"columns.statuses\[0\].plugin: 'NodeName' is another plugin; allowed: 'P'"):
        remote_response.read_filter(columns([1], [0], foreign), "P", 1, NODE)


def test_a_generation_from_the_future_is_refused() -> None:
    """If this fails, an answer about another scheduler's cluster passes for one about this."""
    response = columns([0], [UNLIMITED])
    response.columns.generation = 8
    assert remote_response.read_filter(response, "P", 1, NODE, 8).index.tolist() == [0]
    assert remote_response.read_filter(response, "P", 1, NODE).index.tolist() == [0]
    with pytest.raises(ValueError, match=r"columns\.generation: 8 is newer than the call's; allowed: at most 7"):
        remote_response.read_filter(response, "P", 1, NODE, 7)


def _reason(code: str, value: str = "v") -> status_pb2.Reason:
    return status_pb2.Reason(code=code, parameters={"p": value})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["x" * 1024], ["x" * 1024]),
        (["x" * 1025], ["x" * 1020 + " ..."]),
        (["\u00e9" * 600, "y"], ["\u00e9" * 510 + " ..."]),
        (["x" * 1000, "y" * 22, "z"], ["x" * 1000, "y" * 22]),
        (["x" * 1000, "y" * 23, "z"], ["x" * 1000]),
        (["", *["y"] * 100_000], ["", *["y"] * 341]),
    ],
    ids=["longest", "too long", "not ASCII", "two", "a second too long", "many"],
)
@pytest.mark.parametrize("code", [status_pb2.CODE_WAIT, status_pb2.CODE_ERROR], ids=status_pb2.Code.Name)
def test_the_texts_of_a_status_are_limited(code: status_pb2.Code.ValueType, given: list[str], kept: list[str]) -> None:
    """If this fails, a plugin fills the memory of the frontend, where each waiting pod keeps some statuses."""
    message = status_pb2.Status(code=code, messages=given)
    value = remote_response.read_status(message, "P", also=(status.Code.WAIT,))
    assert list(value.messages) == list(message.messages) == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([_reason(f"r{number}") for number in range(16)], 16),
        ([_reason(f"r{number}") for number in range(100_000)], 16),
        ([_reason(f"r{number}", "v" * 200) for number in range(16)], 9),
        ([_reason("first"), _reason("second", "v" * 3000), _reason("third")], 1),
    ],
    ids=["most", "too many", "too large together", "one too large"],
)
def test_the_reasons_of_a_status_are_limited(given: list[status_pb2.Reason], kept: int) -> None:
    message = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["no"], reasons=given)
    value = remote_response.read_status(message, "P")
    assert [reason.code for reason in value.reasons] == [reason.code for reason in given[:kept]]
    assert len(message.reasons) == kept


def test_a_status_without_a_reason_that_fits_has_the_code_of_its_kind() -> None:
    message = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["no"], reasons=[_reason("r" * 3000)])
    assert remote_response.read_status(message, "P").reasons == (status.Reason("refused"),)


def test_statuses_of_nodes_are_limited_as_others() -> None:
    given = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["x" * 5000], reasons=[_reason("r")] * 20)
    (value,) = remote_response.read_filter(columns([1], [0], given), "P", 1, NODE).statuses
    assert (len(value.message), len(value.reasons)) == (1024, 16)


def test_an_answer_of_a_phase_with_as_many_statuses_as_there_can_be_fits_into_a_message() -> None:
    reasons = remote_response.MAX_REASON_BYTES * interfaces.DETAILED_STATUSES
    texts = (remote_response.MAX_TEXT_BYTES + 100) * interfaces.MAX_STATUSES
    assert reasons + texts < message_sizes.MAX_PHASE_BYTES


def test_the_name_of_a_foreign_plugin_is_cut_in_the_error() -> None:
    with pytest.raises(ValueError, match=r"status.plugin: 'x+…' is another plugin") as caught:
        remote_response.read_status(status_pb2.Status(code=status_pb2.CODE_ERROR, plugin="x" * 100_000), "P")
    assert len(str(caught.value)) < 500


def test_as_many_statuses_as_are_allowed_are_read() -> None:
    """If this fails, a plugin that keeps to the limit is failed."""
    response = columns([2000], [0], *[REFUSED] * 2000)
    assert len(remote_response.read_filter(response, "P", 1, NODE).statuses) == 2000


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (filter_pb2.FilterResponse(), "columns.size: 0, but the call is about 2 nodes"),
        (columns([0], [1]), "columns.size: 1, but the call is about 2 nodes"),
        (columns([0], [1, 1], size=2), "columns.status_index: has 1 entries, must have 2"),
        (columns([0, 0], [], size=2), "columns.capacity: has 0 entries, must have 2"),
        (columns([0, 2], [1, 0], REFUSED), "columns.status_index: 2 is beyond the 1 statuses"),
        (columns([0, 65537], [1, 0], REFUSED), "columns.status_index: 65537 is beyond the 1 statuses"),
        (columns([0, 1], [1, 0], status_pb2.Status()), "columns.statuses[0].code is not set"),
        (columns([0, 1], [1, 0], UNKNOWN), "columns.statuses[0].code: 42 is not known here"),
        (columns([0, 1], [1, 0], SUCCESS), "columns.statuses[0]: nodes that pass have the index 0"),
        (
            columns([0, 1], [1, 0], status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE)),
            "columns.statuses[0].messages: a status Unschedulable needs one",
        ),
        (
            columns([0, 1], [1, 0], status_pb2.Status(code=status_pb2.CODE_WAIT, messages=["m"])),
            "columns.statuses[0].code: Wait does not belong here",
        ),
        (columns([0, 1], [0, 0], REFUSED), "columns.capacity[0]: 0, but a node that passes"),
        (columns([0, 1], [-1, 0], REFUSED), "columns.capacity[0]: -1, but a node that passes"),
        (columns([0, 1], [1, 0], REFUSED, base_generation=4), "columns.base_generation"),
        (columns([0, 0], [1, 1], *[REFUSED] * 2001), "columns.statuses: more than 2000"),
    ],
    ids=[
        "nothing",
        "too few",
        "short index",
        "no capacity",
        "index beyond",
        "index far beyond",
        "no code",
        "an unknown code",
        "a success",
        "no message",
        "a foreign code",
        "passes without room",
        "negative",
        "a patch",
        "too many statuses",
    ],
)
def test_a_wrong_answer_names_its_field(response: filter_pb2.FilterResponse, words: str) -> None:
    """If this fails, a faulty plugin crashes the replica or places pods at random, and its author is not told why."""
    with pytest.raises(ValueError, match="columns") as caught:
        remote_response.read_filter(response, "P", 2, NODE_PODS)
    assert words in str(caught.value)


def test_a_plugin_that_depends_on_the_node_only_cannot_limit_copies() -> None:
    """If this fails, its kept answer would admit as many pods again after each batch."""
    with pytest.raises(ValueError, match=r"columns.capacity\[1\]: 5; .* depends on NODE_PODS"):
        remote_response.read_filter(columns([1, 0], [0, 5], REFUSED), "P", 2, NODE)


def test_a_node_may_take_one_pod_more() -> None:
    """If this fails, a plugin's last free place is lost to a complaint."""
    answers = remote_response.read_filter(columns([0], [1]), "P", 1, NODE_PODS)
    assert answers.capacity.tolist() == [1]


def test_scorers_fail_or_skip_and_refuse_nothing() -> None:
    """If this fails, a score plugin that has no place to refuse a pod makes it unschedulable, or its error is lost."""
    error = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["disk"])
    failed = status.error("P", "disk")
    assert (
        remote_response.read_score(score_pb2.ScoreResponse(status=error), "P", 2, scorers.Normalization.NONE) == failed
    )
    assert remote_response.read_pre_score(score_pb2.PreScoreResponse(status=error), "P") == (failed, b"")
    skip = status_pb2.Status(code=status_pb2.CODE_SKIP)
    assert remote_response.read_pre_score(score_pb2.PreScoreResponse(status=skip), "P")[0].code is status.Code.SKIP
    with pytest.raises(ValueError, match=r"Unschedulable does not belong here; allowed: Success, Skip, Error$"):
        remote_response.read_pre_score(score_pb2.PreScoreResponse(status=REFUSED), "P")
    with pytest.raises(ValueError, match=r"Skip does not belong here; allowed: Success, Error, a refusal$"):
        remote_response.read_score(score_pb2.ScoreResponse(status=skip), "P", 0, scorers.Normalization.NONE)


def test_an_error_of_one_node_is_an_error_of_the_answer() -> None:
    """If this fails, a node that the plugin failed on counts as refused by it."""
    failed = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["disk"])
    answers = remote_response.read_filter(columns([0, 2], [UNLIMITED, 0], REFUSED, failed), "P", 2, NODE)
    error = answers.error()
    assert error is not None
    assert error.message == "disk"
    answers = remote_response.read_filter(columns([0, 1], [UNLIMITED, 0], REFUSED, failed), "P", 2, NODE)
    assert answers.error() is None


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (filter_pb2.PreFilterResponse(status=SUCCESS, state=b"s"), interfaces.PreFilterResult(state=b"s")),
        (
            filter_pb2.PreFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_SKIP, plugin="P")),
            interfaces.SKIPPED,
        ),
        (
            filter_pb2.PreFilterResponse(status=SUCCESS, narrowed=True),
            interfaces.PreFilterResult(nodes=frozenset(), state=b""),
        ),
        (
            filter_pb2.PreFilterResponse(status=SUCCESS, narrowed=True, node_names=["b", "a", "a"]),
            interfaces.PreFilterResult(nodes=frozenset({"a", "b"}), state=b""),
        ),
        (
            filter_pb2.PreFilterResponse(status=REFUSED),
            interfaces.PreFilterResult(status=status.unschedulable("P", "no")),
        ),
    ],
    ids=["goes on", "skip", "narrowed to none", "narrowed", "refused"],
)
def test_answers_that_pre_filter_may_give(
    response: filter_pb2.PreFilterResponse, expected: interfaces.PreFilterResult
) -> None:
    """If this fails, a plugin's PreFilter has another effect than its author meant."""
    assert remote_response.read_pre_filter(response, "P") == expected


def scores(*values: int) -> score_pb2.ScoreResponse:
    """An answer to Score."""
    return score_pb2.ScoreResponse(status=SUCCESS, scores=values)


@pytest.mark.parametrize(
    ("response", "normalization", "words"),
    [
        (scores(), scorers.Normalization.NONE, "scores: has 0 entries, must have 2"),
        (scores(1), scorers.Normalization.NONE, "scores: has 1 entries, must have 2"),
        (scores(1, 101), scorers.Normalization.NONE, "scores[1]: 101, must be from 0 to 100"),
        (scores(-1, 1), scorers.Normalization.NONE, "scores[0]: -1, must be from 0 to 100"),
        (scores(-1, 1), scorers.Normalization.MAX, "scores[0]: -1"),
        (scores(1, 2**62), scorers.Normalization.MAX_REVERSED, "scores[1]"),
        (score_pb2.ScoreResponse(), scorers.Normalization.NONE, "status.code is not set"),
        (
            score_pb2.ScoreResponse(status=UNKNOWN),
            scorers.Normalization.NONE,
            "status.code: 42 is not known here",
        ),
    ],
    ids=["none", "short", "too large", "negative", "negative max", "overflow", "no status", "unknown code"],
)
def test_wrong_scores_name_their_field(
    response: score_pb2.ScoreResponse, normalization: scorers.Normalization, words: str
) -> None:
    """If this fails, one plugin's scores drown all others', or overflow."""
    with pytest.raises(ValueError, match=r"status|scores") as caught:
        remote_response.read_score(response, "P", 2, normalization)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("values", "normalization"),
    [
        ([0, 100], scorers.Normalization.NONE),
        ([0, 10**15], scorers.Normalization.MAX),
        ([-(2**63), 2**63 - 1], scorers.Normalization.CUSTOM),
    ],
    ids=["none", "max", "custom"],
)
def test_scores_that_fit_are_taken(values: list[int], normalization: scorers.Normalization) -> None:
    """If this fails, a plugin's good scores count as an error."""
    answer = remote_response.read_score(scores(*values), "P", 2, normalization)
    assert isinstance(answer, np.ndarray)
    assert answer.tolist() == values


@pytest.mark.parametrize(("index", "wrong"), [([1, 1], None), ([1, 2], 1), ([2, 0], 1), ([1, 3], None)])
def test_a_status_of_success_is_no_refusal(index: list[int], wrong: int | None) -> None:
    capacity = [0 if each else UNLIMITED for each in index]
    response = columns(index, capacity, REFUSED, SUCCESS, OTHER)
    if wrong is None:
        assert remote_response.read_filter(response, "P", 2, NODE).index.tolist() == index
    else:
        with pytest.raises(ValueError, match=rf"columns.statuses\[{wrong}\]: nodes that pass have the index 0"):
            remote_response.read_filter(response, "P", 2, NODE)
