"""The APIs that the API server does not serve, and what is off without them.

An API server of an earlier minor version, or one with an API turned off, lacks collections that the scheduler can do
without. They count as empty: their informers look for them again now and then, and nothing else requests them.

Tests: tests/unit/cache/test_absent_apis.py.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from trireme_kube.client.informers import informer, resources


def find(informers: Iterable[informer.Informer[Any]]) -> list[resources.Resource]:
    """The collections of these informers that are not served."""
    return [entry.resource for entry in informers if entry.absent]


def sentence(absent: Sequence[resources.Resource]) -> str:
    """Name the APIs, and what is off, for the log."""
    purposes = dict.fromkeys(resource.purpose for resource in absent)
    return f"not served by this API server: {', '.join(each.api for each in absent)}; off: {', '.join(purposes)}"
