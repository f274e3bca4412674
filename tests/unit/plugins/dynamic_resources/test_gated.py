"""The search for devices with feature gates that are off by default."""

import re
from typing import Any

import pytest

from tests.helpers.device_searches import (
    DRIVER,
    Json,
    claim_of,
    exactly,
    held_device,
    search,
    slices_of,
)
from trireme.plugins.dynamic_resources import features
from trireme.plugins.dynamic_resources.allocation_errors import AllocationError

LISTS = features.Features(list_attributes=True)
DERIVED = features.Features(derived_attributes=True)
GROUPS = features.Features(compatibility_groups=True)
SKIPPING = features.Features(optional_node_operations=True)


def _with(attribute: str, *devices: tuple[str, Json]) -> Any:
    return slices_of({"devices": [{"name": name, "attributes": {attribute: value}} for name, value in devices]})


ROOTS = (("a", {"strings": ["x", "y"]}), ("b", {"string": "z"}), ("c", {"strings": ["y", "z"]}), ("d", {"ints": [1]}))


@pytest.mark.parametrize(
    ("constraint", "count", "expected"),
    [
        pytest.param("matchAttribute", 2, [["r=a", "r=c"]], id="one in common"),
        pytest.param("matchAttribute", 3, None, id="none in common"),
        pytest.param("distinctAttribute", 3, [["r=a", "r=b", "r=d"]], id="disjoint"),
        pytest.param("distinctAttribute", 4, None, id="not disjoint"),
    ],
)
def test_lists_are_compared_as_sets(constraint: str, count: int, expected: list[list[str]] | None) -> None:
    """`matchAttribute` compares list-valued attributes as sets: devices must share an element."""
    wanted = claim_of(exactly(count=count), constraints=[{constraint: f"{DRIVER}/root"}])
    assert search(_with("root", *ROOTS), wanted, on=LISTS) == expected


def test_without_the_gate_lists_are_of_no_known_kind() -> None:
    """The request is named by the stable allocator alone."""
    wanted = claim_of(exactly(), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    problem = f"device {DRIVER}/pool/a: unsupported attribute value for {DRIVER}/root"
    with pytest.raises(AllocationError, match=f"^claim ns/c, request r: {problem}$"):
        search(_with("root", ROOTS[0]), wanted)
    with pytest.raises(AllocationError, match=f"^{problem}$"):
        search(_with("root", ROOTS[0]), wanted, on=DERIVED)


def test_an_expression_that_comes_to_an_empty_list_has_nothing_in_common() -> None:
    computed = [{"name": "x/y", "expression": "[]"}]
    alike, unlike = ([{constraint: "x/y"}] for constraint in ("matchAttribute", "distinctAttribute"))
    on = features.Features(derived_attributes=True, list_attributes=True)
    slices = _with("n", ("a", {"int": 1}), ("b", {"int": 2}))
    assert search(slices, claim_of(exactly(derivedAttributes=computed), constraints=alike), on=on) == [["r=a"]]
    assert search(slices, claim_of(exactly(count=2, derivedAttributes=computed), constraints=alike), on=on) is None
    both = search(slices, claim_of(exactly(count=2, derivedAttributes=computed), constraints=unlike), on=on)
    assert both == [["r=a", "r=b"]]
    with pytest.raises(AllocationError, match=r"unsupported attribute value for x/y$"):
        search(slices, claim_of(exactly(derivedAttributes=computed), constraints=alike), on=DERIVED)


def test_constraints_see_computed_attributes_before_those_of_the_driver() -> None:
    seen = _with("n", ("a", {"int": 1}), ("b", {"int": 2}), ("c", {"int": 3}))
    parity = [{"name": f"{DRIVER}/n", "expression": f'device.attributes["{DRIVER}"].n % 2'}]
    constraints = [{"matchAttribute": f"{DRIVER}/n"}]
    wanted = claim_of(exactly(count=2, derivedAttributes=parity), constraints=constraints)
    assert search(seen, wanted, on=DERIVED) == [["r=a", "r=c"]]
    with pytest.raises(AllocationError, match="derived attributes, the feature is disabled"):
        search(seen, wanted)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param("1.5", "compile derived attribute x/y failed: must evaluate to a primitive scalar", id="type"),
        pytest.param(
            f'device.attributes["{DRIVER}"].nosuch',
            f"evaluate derived attribute x/y on device {DRIVER}/pool/a failed: no such key: nosuch",
            id="no such attribute",
        ),
        pytest.param("dyn(1.5)", "failed: unsupported CEL return type: float64", id="dynamic type"),
        pytest.param(
            "[dyn(1), dyn(true)]", "failed: expected list element at index 1 to be int, got bool", id="mixed list"
        ),
    ],
)
def test_a_computed_attribute_that_has_no_value_ends_the_search(expression: str, problem: str) -> None:
    computed = [{"name": "x/y", "expression": expression}]
    wanted = claim_of(exactly(derivedAttributes=computed), constraints=[{"distinctAttribute": "x/y"}])
    with pytest.raises(AllocationError, match=re.escape(problem)):
        search(_with("n", ("a", {"int": 1})), wanted, on=DERIVED)


def _partitions(*groups: list[str]) -> Any:
    drawn = {"counterSet": "all", "counters": {"slots": {"value": "1"}}}
    return slices_of(
        {"sharedCounters": [{"name": "all", "counters": {"slots": {"value": "4"}}}]},
        {
            "devices": [
                {"name": f"p{number}", "consumesCounters": [{**drawn, "compatibilityGroups": each}]}
                for number, each in enumerate(groups)
            ]
        },
    )


@pytest.mark.parametrize(
    ("groups", "taken", "expected"),
    [
        pytest.param([["a"], ["b"], ["a", "b"]], "", [["r=p0", "r=p2"]], id="a group in common"),
        pytest.param([["a"], ["b"], []], "", None, id="none in common"),
        pytest.param([["a"], [], []], "", [["r=p1", "r=p2"]], id="without groups"),
        pytest.param([["a", "b"], ["a"], ["b"], ["b"]], "p0", [["r=p2", "r=p3"]], id="beside one that is taken"),
        pytest.param([["a"], [], []], "p0", None, id="without groups beside one that has some"),
    ],
)
def test_devices_on_one_set_of_counters_have_a_group_in_common(
    groups: list[list[str]], taken: str, expected: list[list[str]] | None
) -> None:
    allocated = [held_device(taken)] if taken else []
    assert search(_partitions(*groups), claim_of(exactly(count=2)), taken=allocated, on=GROUPS) == expected


def test_without_the_gate_slices_with_groups_are_ignored() -> None:
    assert search(_partitions(["a"], ["a"]), claim_of(exactly())) is None


def test_devices_that_skip_steps_are_for_nodes_that_support_it() -> None:
    skipping = slices_of({"devices": [{"name": "a"}], "skipNodeOperations": ["NodePrepareResources"]})
    assert search(skipping, claim_of(exactly()), on=SKIPPING) is None
    assert search(skipping, claim_of(exactly()), on=SKIPPING, skips_operations=True) == [["r=a"]]
    # Without one of the features that are experimental, nobody looks.
    assert search(skipping, claim_of(exactly())) == [["r=a"]]
    assert search(skipping, claim_of(exactly()), on=LISTS, skips_operations=True) is None
