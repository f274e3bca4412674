"""Plugins in mode Shadow: which classes are compared in the background, and that those that are gone are not."""

from types import SimpleNamespace
from typing import Any

import pytest

from trireme.remote import compared_filters, compared_scores

KINDS = [compared_filters.ComparedFilters, compared_scores.ComparedScores]


@pytest.mark.parametrize("make", KINDS)
async def test_a_class_is_compared_if_its_profile_has_a_plugin_to_compare(make: Any) -> None:
    evaluated: list[tuple[str, int]] = []

    async def evaluate(profile: str, class_id: int) -> Any:
        evaluated.append((profile, class_id))
        return None if make is compared_scores.ComparedScores else SimpleNamespace(refusal="no node")

    snap: Any = SimpleNamespace(classes={1: SimpleNamespace()})
    compared = make(snap, {"p": [(SimpleNamespace(), 1)], "empty": []}, evaluate)
    for profile in ("p", "empty", "unknown"):
        compared.observe(profile, 1)
    compared.observe("p", 2)  # it is gone by then
    await compared.queue.wait_until_idle()
    assert evaluated == [("p", 1)]
