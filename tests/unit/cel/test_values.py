"""CEL values: equality, order, length, zero values and texts."""

import ipaddress
from typing import Any

import pytest

from trireme_kube.apimachinery import semver
from trireme_kube.cel import values
from trireme_kube.cel.values import Amount, Duration, Map, Optional, Timestamp, Uint

_VERSION = semver.parse("1.2.3")
_HOST = ipaddress.ip_address("10.0.0.1")
_NETWORK = ipaddress.ip_interface("10.0.0.0/20")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (Uint(1), 1, True),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        ([1, "a"], [Uint(1), "a"], True),
        ([1], [1, 2], False),
        (Map({1: "a"}), Map({1.0: "a"}), True),
        (Map({True: "a"}), Map({1: "a"}), False),
        (Optional(1, True), Optional(1, True), True),
        (Optional(), Optional(1, True), False),
        (Duration(5), Duration(5), True),
        (Timestamp(5, offset=3600), Timestamp(5), True),
        (Amount(5, digits=1), Amount(5), True),
        (ipaddress.ip_interface("10.0.0.1/20"), ipaddress.ip_interface("10.0.0.2/20"), False),
        # Elements that cannot be compared do not make lists differ.
        ([_VERSION], [1], True),
    ],
)
def test_values_are_equal_across_types_of_numbers_alone(left: Any, right: Any, expected: bool) -> None:
    assert values.equal(left, right) is values.same(left, right) is expected


@pytest.mark.parametrize("other", [1, "1.2.3", Amount(1)])
def test_values_of_kubernetes_are_compared_with_their_own_kind_alone(other: Any) -> None:
    with pytest.raises(values.EvaluationError, match="no such overload"):
        values.equal(_VERSION, other)
    assert not values.same(_VERSION, other)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("abc", 3),
        (b"ab", 2),
        ([1], 1),
        (Map({"a": 1}), 1),
        (_HOST, 4),
        (ipaddress.ip_address("::1"), 16),
        (_NETWORK, 3),
        (1, None),
    ],
)
def test_the_length_of_addresses_is_in_bytes(value: Any, expected: int | None) -> None:
    assert values.size(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        (0, True),
        (0.0, True),
        (float("nan"), False),
        ("", True),
        ([0], False),
        (Duration(0), True),
        (Duration(1), False),
        (Optional(), True),
        (Optional("", True), True),
        (Optional("a", True), False),
        (Timestamp(0), False),
    ],
)
def test_zero_values(value: Any, expected: bool) -> None:
    assert values.is_zero(value) is expected


@pytest.mark.parametrize(
    ("left", "right", "expected"), [(1, 2.5, -1), ("b", "a", 1), (b"a", b"a", 0), (False, True, -1)]
)
def test_order(left: Any, right: Any, expected: int) -> None:
    assert values.compare(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right", "error"),
    [(float("nan"), 1, "NaN values cannot be ordered"), ("a", 1, "no such overload"), ([1], [2], "no such overload")],
)
def test_values_without_an_order(left: Any, right: Any, error: str) -> None:
    with pytest.raises(values.EvaluationError, match=error):
        values.compare(left, right)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1e5, "100000"),
        (1e6, "1e+06"),
        (1.25e-5, "1.25e-05"),
        (-2.5e20, "-2.5e+20"),
        (0.0001, "0.0001"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Inf"),
    ],
)
def test_doubles_are_written_as_in_go(value: float, expected: str) -> None:
    assert values.value_text(value) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [(_HOST, "cel.IP"), (_NETWORK, "cel.CIDR"), (_VERSION, "cel.Semver"), (Optional(), "*types.Optional")],
)
def test_messages_name_types_as_go_does(value: Any, name: str) -> None:
    assert values.go_type(value) == name


def test_a_map_whose_default_is_found_does_not_have_the_key() -> None:
    default = Map()
    entries = Map({"a": values.Unreadable("broken")}, default)
    assert entries.find("b") == (True, default)
    assert "b" not in entries
    assert "a" not in entries
    with pytest.raises(values.EvaluationError, match="broken"):
        entries.find("a")
