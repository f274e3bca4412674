"""What `trireme status -o json` says of the frontend beside its pending pods."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from frontend_world import World, one_node

from trireme.frontend.serving import status_report
from trireme_kube.client.informers import informer, resources

FORBIDDEN = 'leases.coordination.k8s.io "l" is forbidden (403 Forbidden)'


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """One node, and a frontend that leads."""
    with one_node() as world:
        yield world


def test_why_the_lease_cannot_be_read_is_reported(world: World) -> None:
    """A permission that is missing would be in the log alone."""
    state = dataclasses.replace(world.frontend_state(), lease_error=lambda: FORBIDDEN)
    assert status_report.status(state)["leadership"]["lastError"] == FORBIDDEN
    state.context.leader.term = None
    assert status_report.status(state)["leadership"]["lastError"] == FORBIDDEN


def test_why_objects_cannot_be_listed_is_reported(world: World) -> None:
    """Eight failures, and nobody knows of what."""
    api: Any = None  # no request is made
    listing = informer.Informer(api, resources.STORAGE_CLASSES, dict, [])
    listing._protocol._note_failure("storageclasses is forbidden")
    (entry,) = status_report.status(dataclasses.replace(world.frontend_state(), informers=[listing]))["informers"]
    expected = {"name": "storageclasses", "synced": False, "failures": 1, "lastError": "storageclasses is forbidden"}
    assert {name: entry[name] for name in expected} == expected
    stream: Any = object()
    listing._stream = stream  # the watch is open again
    assert listing.statistics().last_error == ""
