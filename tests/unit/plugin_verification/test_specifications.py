"""Each specification quotes the contract, and each requirement of the contract has a specification."""

import re
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor

from tests.helpers import contract_comments, verification_document
from trireme.plugin_verification import catalogue, exchanges, node_answer_specifications, outcomes, rpcs, sentences
from trireme.v1 import plugin_pb2, score_pb2, snapshot_pb2, status_pb2

_SENTENCES = [(each.number, sentence) for each in catalogue.SPECIFICATIONS for sentence in each.sentences]
_QUOTED = {sentence.source for _, sentence in _SENTENCES}
# Required of somebody else than a plugin's service, or of objects that are the API server's.
_OF_OTHERS = {"PermitResult.waits", "PermitWait.plugin", "PermitWait.timeout"}
_OBJECTS = {"ClusterObject", "NodeAllocatableResourceClaimStatus", "PodCondition", "Condition"}
# What insight alone answers on the stream that plugins may follow too.
_OF_INSIGHT = {"SelfCheck", "DecisionDifference"}


def _messages_in(descriptor: Descriptor, found: dict[str, Descriptor]) -> dict[str, Descriptor]:
    """The message and those in its fields, but for objects and what is insight's."""
    ours = descriptor.full_name.startswith("trireme.v1.") and not descriptor.GetOptions().map_entry
    if ours and descriptor.name not in _OBJECTS | _OF_INSIGHT and descriptor.name not in found:
        found[descriptor.name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None:
                _messages_in(field.message_type, found)
    return found


def _required_of_answers() -> Iterator[str]:
    """The fields of plugins' answers whose comment requires them, and what in an answer has to be one of several."""
    found: dict[str, Descriptor] = {}
    for rpc in rpcs.ALL:
        _messages_in(rpc.response.DESCRIPTOR, found)
    _messages_in(snapshot_pb2.SyncResponse.DESCRIPTOR, found)
    for name, comment in contract_comments.comments().items():
        message, _, _ = name.partition(".")
        if message in found and re.search(r"\b(REQUIRED|MUST)\b", comment):
            yield name


def test_numbers_are_unique_and_in_order() -> None:
    """If this fails, a number in a report means one of two things."""
    numbers = [each.number for each in catalogue.SPECIFICATIONS]
    assert len(set(numbers)) == len(numbers) > 100
    assert all(re.fullmatch(r"P\d{3}", number) for number in numbers)


def test_each_specification_has_a_title_and_a_sentence() -> None:
    """If this fails, a violation does not say what is violated."""
    assert [each.number for each in catalogue.SPECIFICATIONS if not each.title or not each.sentences] == []


def test_quoted_sentences_are_in_the_contract() -> None:
    """If this fails, an author sees a requirement that the contract does not have."""
    comments = contract_comments.comments()
    texts = {source: comments.get(source, "") for source in _QUOTED}
    texts[sentences.PROTOCOL] = contract_comments.protocol()
    missing = [
        f"{number} {sentence.source}: {sentence.text}"
        for number, sentence in _SENTENCES
        if contract_comments.one_line(sentence.text) not in texts[sentence.source]
    ]
    assert missing == []


def test_each_required_field_of_an_answer_has_a_specification() -> None:
    """If this fails, a plugin that leaves the field out passes."""
    required = set(_required_of_answers())
    assert len(required) > 40
    assert sorted(required - _QUOTED - _OF_OTHERS) == []


def test_each_idempotent_rpc_of_a_plugin_has_a_specification() -> None:
    """If this fails, a plugin that must not be called twice passes."""
    comments = contract_comments.comments()
    idempotent = {
        f"{rpc.service}.{rpc.name}" for rpc in rpcs.ALL if "Idempotent" in comments[f"{rpc.service}.{rpc.name}"]
    }
    assert len(idempotent) == len(rpcs.ALL)
    assert sorted(idempotent - _QUOTED) == []


def test_each_sentence_of_a_plugin_service_that_says_must_has_a_specification() -> None:
    """If this fails, a MUST that is added to a service's comment is checked by nothing."""
    services = {rpc.service for rpc in rpcs.ALL}
    musts = [
        name
        for name, comment in contract_comments.comments().items()
        if name.partition(".")[0] in services and re.search(r"\b(MUST|REQUIRED)\b", comment)
    ]
    assert sorted(set(musts) - _QUOTED) == []


def test_each_extension_point_has_specifications() -> None:
    """If this fails, a plugin of that extension point passes unseen."""
    points = set(plugin_pb2.ExtensionPoint.values()) - {0, plugin_pb2.EXTENSION_POINT_QUEUE_SORT}
    assert points - {point for each in catalogue.SPECIFICATIONS for point in each.points} == set()


def test_the_document_lists_the_specifications() -> None:
    """If this fails, an author looks up a number that the page does not have."""
    assert verification_document.write() == verification_document.DOCUMENT.read_text(), "run `make docs`"


def test_an_error_of_score_is_named() -> None:
    """If this fails, an author whose scores the SDK refuses reads of a count of scores."""
    said = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["Score returned 1000 for node 0"])
    failed = exchanges.Exchange(rpcs.SCORE, score_pb2.ScoreRequest(), score_pb2.ScoreResponse(status=said), None)
    with pytest.raises(outcomes.NotChecked, match=r"^Score answered CODE_ERROR: Score returned 1000 for node 0$"):
        node_answer_specifications.read(failed)
