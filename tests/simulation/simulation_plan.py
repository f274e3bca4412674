"""What is done to a simulated cluster, and when: faults, and changes of its pods and nodes.

A plan follows from its options alone, not from what the cluster makes of it, and each event draws from a random source
of its own. So some of the events can be left out, and the others stay as they are.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Events for so long, then calm. Units: seconds.
STORM_SECONDS = 300.0
# Seconds between two faults on average, drawn for each storm.
_FAULT_INTERVALS = (3.0, 8.0, 15.0, 40.0)
_MIN_KINDS = 3


@dataclass(frozen=True, order=True)
class PlannedEvent:
    """A fault, or a change of pods or nodes."""

    storm: int
    #: Since the storm began. Units: seconds.
    at: float
    #: "fault" or "load".
    what: str
    name: str
    #: Names its random source.
    draw: int

    def source(self, seed: int) -> str:
        """The seed of its own random source, in the run of that seed."""
        return f"{self.what} {self.name} {self.storm} {self.draw} {seed}"

    def __str__(self) -> str:
        return f"storm {self.storm}, {self.at:7.3f} s: {self.what} {self.name} ({self.draw})"


@dataclass(frozen=True)
class Storm:
    """Some minutes of a plan."""

    number: int
    events: tuple[PlannedEvent, ...]
    description: str = ""


@dataclass(frozen=True)
class Options:
    """All that a run depends on. `events`, if they are given, are the whole plan; else it is drawn."""

    seed: int
    hours: float = 1.0
    nodes: int = 100
    #: The features of `simulated_features`; None: those that follow from the seed.
    features: tuple[str, ...] | None = None
    #: Kinds of faults that every storm has; empty: some of all.
    faults: tuple[str, ...] = ()
    no_faults: bool = False
    #: How many pods come and go: a name of `simulated_load.LOADS`.
    load: str = "busy"
    events: tuple[PlannedEvent, ...] | None = None

    def to_json(self) -> str:
        """As one line of JSON."""
        fields = dataclasses.asdict(self)
        if self.events is not None:
            fields["events"] = [list(dataclasses.astuple(event)) for event in self.events]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        fields["faults"] = tuple(fields["faults"])
        fields["features"] = None if fields["features"] is None else tuple(fields["features"])
        if fields["events"] is not None:
            fields["events"] = tuple(PlannedEvent(*event) for event in fields["events"])
        return cls(**fields)


def storms(options: Options, weights: Mapping[str, int], intervals: Mapping[str, Sequence[float]]) -> Iterator[Storm]:
    """The storms of a run; those that are drawn never end.

    `weights` of the kinds of faults. For each change of pods and nodes the `intervals`, in seconds on average; a storm
    has one of them.

    Raises: ValueError for kinds of faults that there are not.
    """
    unknown = set(options.faults) - weights.keys()
    if unknown:
        raise ValueError(f"not all of {options.faults} are among {sorted(weights)}")
    if options.events is not None:
        for number, events in itertools.groupby(sorted(options.events), lambda event: event.storm):
            yield Storm(number, tuple(events))
        return
    for number in itertools.count():
        yield _draw(options, number, weights, intervals)


def _draw(options: Options, number: int, weights: Mapping[str, int], intervals: Mapping[str, Sequence[float]]) -> Storm:
    """Of some kinds of faults, at some rates, for what hides one defect may show another."""
    pick = random.Random(f"storm {number} {options.seed}")
    found: list[tuple[float, str, str]] = []
    for name, choices in intervals.items():
        found.extend((at, "load", name) for at in _moments(pick, pick.choice(choices)))
    description = "no faults"
    if not options.no_faults:
        interval = pick.choice(_FAULT_INTERVALS)
        kinds = options.faults or pick.sample(list(weights), pick.randint(min(_MIN_KINDS, len(weights)), len(weights)))
        shares = [weights[kind] for kind in kinds]
        found.extend((at, "fault", pick.choices(kinds, shares)[0]) for at in _moments(pick, interval))
        description = f"a fault every {interval:g} s: {' '.join(kinds)}"
    events = (PlannedEvent(number, at, what, name, draw) for draw, (at, what, name) in enumerate(sorted(found)))
    return Storm(number, tuple(events), description)


def _moments(pick: random.Random, interval: float) -> Iterator[float]:
    """Random times of a storm, so far apart on average. They have few digits, so that their texts are exact."""
    at = 0.0
    while (at := round(at + pick.expovariate(1 / interval), 6)) < STORM_SECONDS:
        yield at
