"""The steps that a workload is made of: one frozen record per opcode, every parameter resolved.

Apart from the reader, so that what carries steps out does not know how they are written down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tools.bench.driver.template import Value


@dataclasses.dataclass(frozen=True, slots=True)
class CreateNodes:
    """Creates nodes, all from one template (or the built-in one)."""

    count: int
    template: Path | None
    label_key: str
    label_values: tuple[str, ...]
    """Given to the nodes round robin; empty for none."""
    values: Mapping[str, Value]


@dataclasses.dataclass(frozen=True, slots=True)
class CreateNamespaces:
    """Creates namespaces `<prefix>-0`, `<prefix>-1` and so on."""

    count: int
    prefix: str
    template: Path | None


@dataclasses.dataclass(frozen=True, slots=True)
class ControllerKind:
    """A kind of controllers: what each of them creates."""

    share: int
    """Units: percent of all pods."""
    sizes: tuple[int, int]
    """The least and the most pods of one controller."""
    template: Path
    """Of a pod; as all templates of a kind it knows the numbers .Controller and .Size, and .Index in its controller."""
    controller_objects: tuple[Path, ...]
    """Created once for each controller, before any pod."""
    pod_objects: tuple[Path, ...]
    """Created for each pod, before any pod."""


@dataclasses.dataclass(frozen=True, slots=True)
class Controllers:
    """The kinds of controllers that pods come from; `seed` decides their sizes and the order of their pods."""

    seed: int
    kinds: tuple[ControllerKind, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CreatePods:
    """Creates pods, and waits until the last is bound unless told not to."""

    count: int
    template: Path | None
    """None for the built-in one."""
    namespace: str | None
    measured: bool
    wait: bool
    values: Mapping[str, Value]
    preassigned: bool
    one_at_a_time: bool
    per_second: float | None
    controllers: Controllers | None = None
    """Whose pods these are, each kind by its own template; None: they are all of `template`."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeletePods:
    """Deletes the bound pods of a namespace, in the background unless told to wait."""

    namespace: str
    per_second: float | None
    """None: as fast as possible."""
    wait: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StartProvisioner:
    """From now on makes volumes for claims for which the scheduler has chosen a node."""


@dataclasses.dataclass(frozen=True, slots=True)
class CreatePodSets:
    """The same pods in each of several namespaces."""

    count: int
    prefix: str
    pods: CreatePods


@dataclasses.dataclass(frozen=True, slots=True)
class CreateAny:
    """Creates objects of any kind from a template."""

    count: int
    template: Path
    namespace: str | None
    values: Mapping[str, Value]


@dataclasses.dataclass(frozen=True, slots=True)
class Churn:
    """Creates objects in the background until the workload ends, and with `recreate` deletes them again."""

    recreate: bool
    number: int
    """Objects of each template: in all (create; 0 for no bound), or at one time (recreate)."""
    templates: tuple[Path, ...]
    interval: float
    """Units: seconds between two creations."""


@dataclasses.dataclass(frozen=True, slots=True)
class Barrier:
    """Waits until the pods so far are bound, or (`attempted`) have been tried at least once."""

    attempted: bool
    namespaces: tuple[str, ...]
    """Empty for all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sleep:
    """Does nothing for a while."""

    duration: float


@dataclasses.dataclass(frozen=True, slots=True)
class Idle:
    """Does nothing for a while, after everything was measured, and looks what the scheduler needs for that."""

    duration: float


@dataclasses.dataclass(frozen=True, slots=True)
class StartCollecting:
    """Starts measuring; pods of the named namespaces count."""

    namespaces: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StopCollecting:
    """Ends measuring."""


@dataclasses.dataclass(frozen=True, slots=True)
class StartScheduler:
    """Starts the scheduler, in a workload where it is not there from the beginning."""


Step = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | DeletePods
    | StartProvisioner
    | CreateAny
    | Churn
    | Barrier
    | Sleep
    | Idle
    | StartCollecting
    | StopCollecting
    | StartScheduler
)
