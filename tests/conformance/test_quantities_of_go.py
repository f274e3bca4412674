"""Quantities are read as apimachinery reads them, in every notation and in texts that are none."""

import random

import pytest

from tests.conformance import oracle_fixture, real_framework
from trireme_kube.apimachinery import quantity

_SIGNS = ("", "", "", "+", "-")
_SUFFIXES = ("", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_ODD = (
    "e3",
    "E3",
    "e-3",
    "E+2",
    "e",
    "e999",
    "e-40",
    "ki",
    "K",
    "mi",
    "Mi3",
    "3Mi",
    " ",
    ".",
    "+",
    "-",
    "..",
    "m1",
    "é",
    "1e1.5",
)


def _number(draw: random.Random) -> str:
    digits = "".join(draw.choice("0012345678999") for _ in range(draw.choice((0, 1, 1, 2, 3, 6, 12, 20))))
    if draw.random() < 0.4:
        digits += "." + "".join(draw.choice("0015999") for _ in range(draw.choice((0, 1, 2, 3, 9, 12))))
    return digits


def _text(draw: random.Random) -> str:
    text = draw.choice(_SIGNS) + _number(draw)
    text += draw.choice(_SUFFIXES) if draw.random() < 0.7 else draw.choice(_ODD)
    if draw.random() < 0.1:
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice("0.eEimMK+- x") + text[at:]
    return text


@pytest.mark.timeout(300)
def test_quantities_are_those_of_go() -> None:
    """Quantities are parsed and rounded as by Go's resource.Quantity."""
    oracle_fixture.require_oracle()
    draw = random.Random(5)
    texts = sorted({_text(draw) for _ in range(6000)})
    differing = []
    for text, go in zip(texts, real_framework.quantities(texts), strict=True):
        try:
            ours = quantity.parse_quantity(text)
        except ValueError as error:
            if go.get("error") != str(error):
                differing.append((text, go, str(error)))
            continue
        said = {"value": ours.value(), "milli": ours.milli_value(), "text": str(ours)}
        # Beyond 64 bits Go's numbers wrap around, and below zero they may be one off or anything: no API server takes
        # such amounts of what a scheduler counts. Ours are the nearest there are.
        compared = ("text",) if ours.nanos < 0 else tuple(said)
        if not go.get("overflows") and any(said[name] != go[name] for name in compared):
            differing.append((text, go, said))
    assert differing == []
    assert len(texts) > 4000
