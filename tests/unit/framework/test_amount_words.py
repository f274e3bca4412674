"""Amounts in words."""

import pytest

from trireme.framework import amount_words


@pytest.mark.parametrize(
    ("resource", "text", "words"),
    [
        ("cpu", "1k", "1,000 CPUs"),
        ("cpu", "1", "1 CPU"),
        ("cpu", "2", "2 CPUs"),
        ("cpu", "7500m", "7.5 CPUs"),
        ("cpu", "500m", "500m CPU"),
        ("cpu", "0", "0 CPUs"),
        ("memory", "4Gi", "4Gi memory"),
        ("memory", "1k", "1k memory"),
        ("hugepages-2Mi", "10Mi", "10Mi hugepages-2Mi"),
        ("nvidia.com/gpu", "2k", "2,000 nvidia.com/gpu"),
        ("nvidia.com/gpu", "many", "many nvidia.com/gpu"),
    ],
)
def test_an_amount_has_its_unit(resource: str, text: str, words: str) -> None:
    assert amount_words.amount(resource, text) == words
