"""Calling the services of phases without a network: a context that remembers how a call ended, and a stream."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, NoReturn

import grpc

from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.v1 import cycle_pb2, plugin_pb2, snapshot_pb2

PROFILE = "p"
HASH = 77


class Aborted(Exception):
    """The call was ended with a code."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class _Context:
    """What the services use of a call's context."""

    def __init__(self, seconds: float | None, peer: str, certificate: str) -> None:
        self._seconds = seconds
        self._peer = peer
        self._certificate = certificate

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> NoReturn:
        raise Aborted(code, details)

    def peer(self) -> str:
        return self._peer

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_common_name": [self._certificate.encode()]} if self._certificate else {}

    async def write(self, message: Any) -> None:
        """An acknowledgement, which nobody waits for here."""

    def time_remaining(self) -> float | None:
        return self._seconds


def context(seconds: float | None = 0.1, *, peer: str = "unix:test", certificate: str = "") -> Any:
    """The context of one call, which has so much time left (None: no deadline).

    `certificate` is the caller's name in it.
    """
    return _Context(seconds, peer, certificate)


def configuration(
    filters: Iterable[str], scores: Iterable[tuple[str, int]], remote: Iterable[str] = ()
) -> snapshot_pb2.Configuration:
    """One profile of these plugins."""
    profile = snapshot_pb2.Profile(scheduler_name=PROFILE)
    at_filter = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
    for name in filters:
        at_filter.plugins.add(name=name)
    at_score = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE)
    for name, weight in scores:
        at_score.plugins.add(name=name, weight=weight)
    plugins = [snapshot_pb2.RemotePlugin(name=name) for name in remote]
    return snapshot_pb2.Configuration(profiles=[profile], remote_plugins=plugins)


async def greet(service: Any, message: snapshot_pb2.Configuration, epoch: int = 1) -> None:
    """A frontend opens a stream; the snapshot is what the test makes it."""

    async def stream() -> AsyncIterator[snapshot_pb2.SyncRequest]:
        fence = cycle_pb2.Fence(epoch=epoch)
        hello = snapshot_pb2.Hello(fence=fence, config_hash=HASH, configuration=message)
        yield snapshot_pb2.SyncRequest(hello=hello)
        at = service.follow.statistics().generation
        # It changes nothing; but what was there before the frontend came is not the frontend's.
        yield snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(from_generation=at, to_generation=at))

    await service.follow.Sync(stream(), context())


def cycle(builder: SnapshotBuilder, pod_class: int, epoch: int = 1, profile: str = PROFILE) -> cycle_pb2.Cycle:
    """The cycle of a class, at the snapshot's generation."""
    return cycle_pb2.Cycle(
        fence=cycle_pb2.Fence(epoch=epoch),
        generation=builder.snap.generation,
        config_hash=HASH,
        profile=profile,
        pod_class=pod_class,
    )
