"""Which resource versions are numbers, and so have an order."""

import pytest

from trireme_kube.apimachinery import resource_versions


@pytest.mark.parametrize(
    ("version", "number"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("12", 12, id="number"),
        pytest.param(str((1 << 64) - 1), (1 << 64) - 1, id="largest"),
        pytest.param("9" * 21, 10**21 - 1, id="longer-than-64-bits"),
        pytest.param("9" * 5000, None, id="endless"),
        pytest.param("", None, id="empty"),
        pytest.param("x", None, id="word"),
        pytest.param("²", None, id="superscript"),
        pytest.param("1²", None, id="number-and-superscript"),
        pytest.param("٦", None, id="other-script"),
        pytest.param("-3", None, id="negative"),
        pytest.param("1_0", None, id="underscore"),
        pytest.param(" 7 ", None, id="spaces"),
    ],
)
def test_digits_alone_make_a_number(version: str, number: int | None) -> None:
    """Python's `isdigit` and `int` each take some of the others."""
    assert resource_versions.number_of(version) == number
