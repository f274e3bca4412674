"""Candidacy for a Lease whose holder the API server chooses (gate CoordinatedLeaderElection).

Each candidate keeps a LeaseCandidate object with the versions it runs. The API server's controller compares the
candidates, writes the preferred one into the Lease as holder, and checks that candidates are alive by setting
`pingTime`, to which they reply with a new `renewTime`. They also renew the object every five minutes.

Source: k8s.io/client-go/tools/leaderelection (leasecandidate.go), cmd/kube-scheduler/app/server.go.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trireme_kube.apimachinery import json_values, timestamps
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

GATE: Final = "CoordinatedLeaderElection"

#: kube-scheduler is a candidate in this namespace and for this Lease, whatever Lease it is configured to hold.
NAMESPACE: Final = "kube-system"
LEASE_NAME: Final = "kube-scheduler"
STRATEGY: Final = "OldestEmulationVersion"

CANDIDATES: Final = resources.Resource(
    "LeaseCandidate",
    f"/apis/coordination.k8s.io/v1beta1/namespaces/{NAMESPACE}/leasecandidates",
    purpose="coordinated leader election",
)
_COLLECTION: Final = CANDIDATES.path
_PERIOD_SECONDS: Final = 300.0
_FIRST_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 1000.0

Json = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Candidacy:
    """A candidate's identity and versions, such as `1.37.0`."""

    identity: str
    binary_version: str
    emulation_version: str


class LeaseCandidate:
    """Creates and renews one LeaseCandidate."""

    def __init__(self, api: client.ApiClient, candidacy: Candidacy, wall: Callable[[], int]) -> None:
        """`wall` returns nanoseconds since 1970."""
        self._api = api
        self._candidacy = candidacy
        self._wall = wall
        self._current: Json | None = None
        self._due = asyncio.Event()
        self._listed = asyncio.Event()
        own = dataclasses.replace(CANDIDATES, field_selector=f"metadata.name={candidacy.identity}", page=1)
        self._informer = informer.Informer(api, own, dict, [self.on_events])

    @property
    def synced(self) -> bool:
        """Whether the informer of the object has synced."""
        return self._informer.synced

    def on_events(self, events: Sequence[Event[dict[str, Any]]]) -> None:
        """Take the informer's events about the object."""
        for kind, candidate in events:
            if kind is EventKind.LIST_END:
                self._listed.set()
            elif kind is EventKind.DELETED or candidate is None:  # or a list begins
                self._current = None
            else:
                self._current = candidate
                if kind is not EventKind.LISTED and _is_pinged_since_renewal(candidate):
                    self._due.set()

    async def run(self) -> None:
        """Keep the object renewed until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(supervision.supervise("informer of the lease candidate", self._informer.run))
            tasks.create_task(supervision.supervise("renewals of the lease candidate", self._write_candidate_when_due))

    async def _write_candidate_when_due(self) -> None:
        """Write our candidate whenever one is due, until cancelled; failures are tried again ever later."""
        await self._listed.wait()
        failures = 0
        while True:
            self._due.clear()
            try:
                await self._create_or_renew()
                failures, pause = 0, _PERIOD_SECONDS
            except (ApiError, ApiUnreachable) as error:
                log.warning("lease candidate %s/%s: %s; it is tried again", NAMESPACE, self._candidacy.identity, error)
                pause = min(_FIRST_PAUSE_SECONDS * 2**failures, _LONGEST_PAUSE_SECONDS)
                failures += 1
            try:
                async with asyncio.timeout(pause):
                    await self._due.wait()
            except TimeoutError:
                pass

    async def _create_or_renew(self) -> None:
        """Create the LeaseCandidate, or renew it. Raises: ApiError, ApiUnreachable."""
        renew_time = timestamps.rfc3339_micros(self._wall())
        current = self._current
        if current is None:
            await self._api.post(_COLLECTION, self._new_candidate(renew_time))
            return
        body = {**current, "spec": {**(current.get("spec") or {}), "renewTime": renew_time}}
        await self._api.put(f"{_COLLECTION}/{self._candidacy.identity}", body)

    def _new_candidate(self, renew_time: str) -> dict[str, Any]:
        """Return the LeaseCandidate to create."""
        return {
            "apiVersion": "coordination.k8s.io/v1beta1",
            "kind": "LeaseCandidate",
            "metadata": {"name": self._candidacy.identity, "namespace": NAMESPACE},
            "spec": {
                "leaseName": LEASE_NAME,
                "binaryVersion": self._candidacy.binary_version,
                "emulationVersion": self._candidacy.emulation_version,
                "strategy": STRATEGY,
                "renewTime": renew_time,
            },
        }


def _is_pinged_since_renewal(candidate: Json) -> bool:
    """Whether the candidate was pinged since its last renewal."""
    spec = candidate.get("spec") or {}
    ping_time, renew_time = (_parse_time(spec.get(name)) for name in ("pingTime", "renewTime"))
    return ping_time is not None and (renew_time is None or ping_time > renew_time)


def _parse_time(text: object) -> tuple[int, int] | None:
    """Parse an RFC 3339 time; None if it is missing or malformed."""
    if not isinstance(text, str):
        return None
    try:
        return json_values.parse_time(text)
    except ValueError:
        return None
