"""What may be wrong with a request to an engine, apart from what plugins answer.

Tests: tests/unit/score/test_service.py, tests/unit/filter/test_service.py.
"""

from collections.abc import Container

from trireme.snapshot import classes, snapshot
from trireme.v1 import cycle_pb2


class InvalidRequestError(ValueError):
    """The request names what is not there, or does not fit together; the text begins with the field."""


class StaleRequestError(Exception):
    """The request builds on what is not known here, or not any more; the text begins with the field."""


def class_of(cycle: cycle_pb2.Cycle, profiles: Container[str], snap: snapshot.Snapshot) -> classes.PodClass:
    """The class that the request is about. Raises: InvalidRequestError where its profile or it is not there."""
    if cycle.profile not in profiles:
        raise InvalidRequestError(f"cycle.profile: no profile {cycle.profile!r}")
    pod_class = snap.classes.get(cycle.pod_class)
    if pod_class is None:
        raise InvalidRequestError(f"cycle.pod_class: no class {cycle.pod_class}")
    return pod_class
