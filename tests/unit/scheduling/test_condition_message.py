"""The condition's message as JSON: the text, and codes with parameters, within the limit."""

import json
import weakref

import pytest

from trireme.framework import status
from trireme.framework.status import Reason
from trireme.scheduling import condition_message
from trireme.scheduling.failure import MAX_KEPT, Failure

CPU = status.unschedulable(
    "NodeResourcesFit",
    "Insufficient cpu",
    reasons=(Reason.of("insufficientResource", {"resource": "cpu", "asked": "2"}),),
)
TAINT = status.unresolvable("TaintToleration", "untolerated", reasons=(Reason.of("untoleratedTaint", {"key": "gpu"}),))

NEVER = status.unschedulable("DefaultPreemption", "not eligible", reasons=(Reason("neverPreempts"),))
BROKEN = status.error("VolumeBinding", "boom", reasons=(Reason("brokenVolume"),))


def test_reasons_have_codes_parameters_and_nodes_most_nodes_first() -> None:
    failure = Failure("0/5 nodes are available", unschedulable=True, refusals=((TAINT, 1), (CPU, 4)))
    assert json.loads(condition_message.as_json(failure)) == {
        "message": "0/5 nodes are available",
        "reasons": [
            {
                "plugin": "NodeResourcesFit",
                "code": "insufficientResource",
                "parameters": {"resource": "cpu", "asked": "2"},
                "nodes": 4,
            },
            {"plugin": "TaintToleration", "code": "untoleratedTaint", "parameters": {"key": "gpu"}, "nodes": 1},
        ],
    }


@pytest.mark.parametrize(("unschedulable", "code"), [(True, "refused"), (False, "failed")])
def test_a_failure_without_statuses_has_a_code_too(unschedulable: bool, code: str) -> None:
    """If this fails, a program that reads codes has none for some failures."""
    found = json.loads(condition_message.as_json(Failure("text", unschedulable=unschedulable)))
    assert [(each["code"], each["nodes"]) for each in found["reasons"]] == [(code, 0)]


def test_it_is_json_however_long_it_would_be() -> None:
    """Cut as a text, it would be none."""
    many = tuple((status.unschedulable("P", f"m{number}"), number) for number in range(1000))
    shown = condition_message.as_json(Failure("x" * 5000, refusals=many), most=4000)
    assert len(shown.encode()) <= 4000
    found = json.loads(shown)
    assert found["message"]
    assert found["reasons"][0]["nodes"] == 999


@pytest.mark.parametrize(("longer", "kept"), [(0, 1000), (1, 500)], ids=["half", "more"])
def test_a_text_of_half_the_room_is_whole_and_a_longer_one_is_halved(longer: int, kept: int) -> None:
    most = 2 * (1000 + len('{"message":"","reasons":[]}'))
    found = json.loads(condition_message.as_json(Failure("x" * (1000 + longer), unschedulable=True), most=most))
    assert len(found["message"]) == kept


def test_a_long_text_leaves_room_for_codes() -> None:
    found = json.loads(condition_message.as_json(Failure("x" * 3900, refusals=((CPU, 1),)), most=4000))
    assert [each["code"] for each in found["reasons"]] == ["insufficientResource"]


@pytest.mark.parametrize("last", [(NEVER, 0), (BROKEN, 1)], ids=["PostFilter", "error"])
@pytest.mark.parametrize("kinds", [MAX_KEPT - 1, MAX_KEPT, 1000])
def test_however_many_statuses_nodes_have_the_others_are_kept_and_written(
    kinds: int, last: tuple[status.Status, int]
) -> None:
    """If this fails, nobody learns why preemption makes no room, or which error ended the attempt."""
    failure = Failure("text", refusals=(*((_hot(number), 2) for number in range(kinds)), last))
    kept = [each.reasons[0].code for each, _ in failure.to_keep().statuses]
    assert (len(kept), kept.count(last[0].reasons[0].code)) == (MAX_KEPT, 1)
    assert kept[0 if last[1] else -1] == last[0].reasons[0].code
    written = [each["code"] for each in json.loads(condition_message.as_json(failure, most=4000))["reasons"]]
    assert written[0 if last[1] else -1] == last[0].reasons[0].code
    assert set(written) == set(kept)


def _hot(number: int) -> status.Status:
    return status.unschedulable("P", f"{number} is hot", reasons=(Reason.of("hot", {"node": f"n{number}"}),))


def test_many_reasons_are_encoded_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frontend would stand still for minutes with thousands of them for each pod of a batch."""
    encoded = []
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda value, **how: encoded.append(value) or dumps(value, **how))
    condition_message.as_json(Failure("text", refusals=tuple((_hot(number), 1) for number in range(500))))
    assert len(encoded) < 600


def test_the_message_does_not_depend_on_how_a_replica_numbers_statuses() -> None:
    """A condition that says the same would be written each time that another replica answers."""
    one, other = (_hot(1), 3), (_hot(2), 3)
    first, second = (condition_message.as_json(Failure("text", refusals=each)) for each in ((one, other), (other, one)))
    assert first == second


def test_of_a_failure_with_many_statuses_a_few_are_kept() -> None:
    """Thousands of pods may wait, each refused by statuses of its own."""
    kept = Failure("text", refusals=tuple((_hot(number), number) for number in range(1, 100))).to_keep()
    assert (kept.message, [nodes for _, nodes in kept.statuses]) == ("text", list(range(99, 89, -1)))
    again = Failure("text", refusals=((_hot(99), 1),)).to_keep()
    assert again.statuses[0][0] is kept.statuses[0][0]
    alive = weakref.ref(kept.statuses[0][0])
    del kept, again
    assert alive() is None, "no pod has it any more"
