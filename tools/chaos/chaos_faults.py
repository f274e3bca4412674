"""What is done to the processes, drawn from a seed: the same seed gives the same faults.

All sides draw from one sequence. A fault of a process that a side does not have (kube-scheduler has no filter process)
is passed over there, so both sides get the faults that they share in the same order and with the same durations.

Also change: docs/reliability.md.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

LEADER, FOLLOWER = "leader", "follower"
API_SERVER, ETCD = "kube-apiserver", "etcd"
CONTROL_PLANE = (API_SERVER, ETCD)
LOGS = "logs"
PHASES = ("filter", "score", "bind")
BOTH, REQUESTS, REPLIES = "both", "requests", "replies"

KILL, STOP, CUT, CLOCK, RESTART, FILL = "kill", "stop", "cut", "clock", "restart", "fill"

# Units: seconds. Certificates are valid from five minutes ago on, so a clock that is further back would end TLS.
SHIFTS = (-120.0, -10.0, -3.0, 3.0, 10.0, 120.0, 3600.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    verb: str
    target: str
    """A role, a phase, a program of the control plane, or the logs' disk."""
    server: str = ""
    """The far end of an edge that is cut."""
    beyond_lease: bool = False
    """Whether it lasts longer than a Lease."""

    @property
    def name(self) -> str:
        """What it is called in a report."""
        edge = f" – {self.server}" if self.server else ""
        return f"{self.verb} {self.target}{edge}{' beyond the Lease' if self.beyond_lease else ''}"


# How many of each are in a deck, which is drawn to its end before it is shuffled again: a short run has every kind.
DECK: tuple[tuple[int, Kind], ...] = (
    (4, Kind(KILL, LEADER)),
    (1, Kind(KILL, FOLLOWER)),
    (2, Kind(KILL, "filter")),
    (2, Kind(KILL, "score")),
    (2, Kind(KILL, "bind")),
    (3, Kind(STOP, LEADER, beyond_lease=True)),
    (1, Kind(STOP, LEADER)),
    (1, Kind(STOP, FOLLOWER, beyond_lease=True)),
    (1, Kind(STOP, "filter", beyond_lease=True)),
    (1, Kind(STOP, "score", beyond_lease=True)),
    (2, Kind(STOP, "bind", beyond_lease=True)),
    (3, Kind(CUT, LEADER, API_SERVER, beyond_lease=True)),
    (1, Kind(CUT, LEADER, API_SERVER)),
    (1, Kind(CUT, FOLLOWER, API_SERVER, beyond_lease=True)),
    (1, Kind(CUT, LEADER, "filter", beyond_lease=True)),
    (1, Kind(CUT, LEADER, "score", beyond_lease=True)),
    (2, Kind(CUT, LEADER, "bind", beyond_lease=True)),
    (2, Kind(CUT, "bind", API_SERVER, beyond_lease=True)),
    (2, Kind(CLOCK, LEADER)),
    (1, Kind(CLOCK, FOLLOWER)),
    (1, Kind(CLOCK, "bind")),
    (1, Kind(RESTART, API_SERVER)),
    (1, Kind(STOP, API_SERVER)),
    (1, Kind(RESTART, ETCD)),
    (1, Kind(STOP, ETCD)),
    (1, Kind(FILL, LOGS)),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `at_once` faults (kill, restart) have no duration."""

    number: int
    kind: Kind
    replica: int
    """Which replica of a phase: of the target, or of the far end of an edge."""
    way: str
    """Which packets of an edge are dropped."""
    seconds: float
    shift: float
    """How far a clock is set. Units: seconds."""
    pause: float
    """Before it, once all has recovered from the last one. Units: seconds."""

    def __str__(self) -> str:
        kind = self.kind
        target = f"{kind.target}-{self.replica}" if kind.target in PHASES else kind.target
        text = f"{kind.verb} {target}"
        if kind.server:
            server = f"{kind.server}-{self.replica}" if kind.server in PHASES else kind.server
            text += f" – {server} ({self.way})"
        if kind.verb == CLOCK:
            text += f" by {self.shift:+g} s"
        if self.seconds:
            text += f" for {self.seconds:.1f} s"
        return text


def draw(seed: int, lease_seconds: float) -> Iterator[Fault]:
    """The faults of a seed, without end."""
    number = 0
    source = random.Random(f"deck {seed}")
    while True:
        deck = [kind for count, kind in DECK for _ in range(count)]
        source.shuffle(deck)
        for kind in deck:
            number += 1
            yield _drawn(number, kind, random.Random(f"fault {seed} {number}"), lease_seconds)


def _drawn(number: int, kind: Kind, source: random.Random, lease_seconds: float) -> Fault:
    seconds = source.uniform(0.3, 0.6) * lease_seconds
    if kind.beyond_lease:
        seconds = lease_seconds + source.uniform(1.0, 3.0)
    if kind.verb in (KILL, RESTART):
        seconds = 0.0
    return Fault(
        number=number,
        kind=kind,
        replica=source.randrange(2),
        way=source.choice((BOTH, BOTH, REQUESTS, REPLIES)),
        seconds=seconds,
        shift=source.choice(SHIFTS),
        pause=source.uniform(0.2, 1.0),
    )
