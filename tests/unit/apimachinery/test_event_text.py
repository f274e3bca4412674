"""Names and texts of events come out as kube-scheduler's do."""

import re
import uuid

import pytest

from trireme_kube.apimachinery import event_text

# Text, and what Go 1.26's fmt.Sprintf(text) answers.
SPRINTF = [
    ("plain", "plain"),
    ("100%", "100%!(NOVERB)"),
    ("100% sure", "100%!s(MISSING)ure"),
    ("%s", "%!s(MISSING)"),
    ("%d%%", "%!d(MISSING)%"),
    ("%%", "%"),
    ("a%+v b", "a%!v(MISSING) b"),
    ("%5.2f%", "%!f(MISSING)%!(NOVERB)"),
    ("%*d", "%!(BADWIDTH)%!d(MISSING)"),
    ("%.*f", "%!(BADPREC)%!f(MISSING)"),
    ("%[1]d", "%!d(BADINDEX)"),
    ("%[2]*[1]d", "%!(BADWIDTH)%!d(BADINDEX)"),
    ("%[x", "%!x(BADINDEX)"),
    ("%[]", "%!](BADINDEX)"),
    ("%[", "%!(NOVERB)"),
    ("%-10s|", "%!s(MISSING)|"),
    ("%é!", "%!é(MISSING)!"),
    ("%5%", "%"),
    ("%.3", "%!(NOVERB)"),
    ("% %", "%"),
    ("50%, 60%)", "50%!,(MISSING) 60%!)(MISSING)"),
    ("%[1]%", "%"),
    ("%.[1]d", "%!d(BADINDEX)"),
]


@pytest.mark.parametrize(("text", "expected"), SPRINTF, ids=[repr(text) for text, _ in SPRINTF])
def test_a_percent_sign_is_mangled_as_go_does(text: str, expected: str) -> None:
    """If this fails, a FailedScheduling event with a percent sign differs from kube-scheduler's."""
    assert event_text.format_without_arguments(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="fits"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="one-too-long"),
        pytest.param("é" * 600, "é" * 510 + " ...", id="counted-in-bytes"),
        pytest.param("x" + "é" * 600, "x" + "é" * 509 + "\ufffd ...", id="cut-inside-a-character"),
    ],
)
def test_a_long_note_is_cut_to_what_the_api_takes(text: str, expected: str) -> None:
    """If this fails, the API server refuses the event of a pod whose message is long."""
    assert event_text.cut_to_bytes(text) == expected


def test_an_event_is_named_after_its_object_and_the_time() -> None:
    """If this fails, events cannot be told apart, or the API server refuses their names."""
    assert event_text.event_name("web-1", 0x18EA06B3B9E8E14F) == "web-1.18ea06b3b9e8e14f"
    long = event_text.event_name("a" * 253, 1)
    assert uuid.UUID(long)
    assert re.fullmatch("[a-z0-9-]+", long)
