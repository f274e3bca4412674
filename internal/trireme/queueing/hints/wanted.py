"""What a plugin's module states: the events that it wants, and for each how to read one.

An event is read once, and the reading then asked about each class of waiting pods; so what an event costs is what
differs between classes. Objects of pod events are `cluster_watch.PodInEvent`s, all others the API's messages; there is
no old object of what was added and no new one of what was deleted.

A reading, or what it answers, may raise: the pods concerned are then queued, as after any error of a hint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.config import gates
from trireme.queueing.hints import cluster_view
from trireme.snapshot import classes

#: Whether the event may help pods of the class.
Helps = Callable[[classes.PodClass], bool]
#: (old object, new object) -> whom the event may help.
Reading = Callable[[Any, Any], Helps]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Events of a resource, by the names of actions. Without a reading every such event helps."""

    resource: str
    actions: tuple[str, ...]
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """What a plugin's hints go by: its arguments in the profile, the feature gates, and the cluster."""

    args: Mapping[str, Any]
    features: gates.FeatureGates
    cluster: cluster_view.CacheView


def everybody(pod_class: classes.PodClass) -> bool:
    """The event may help whoever waits for it."""
    return True


def nobody(pod_class: classes.PodClass) -> bool:
    """The event helps no one."""
    return False


def always(old: Any, new: Any) -> Helps:
    """Reads any event as one that may help everybody."""
    return everybody


def never(old: Any, new: Any) -> Helps:
    """Reads any event as one that helps nobody."""
    return nobody


def on_node(pod: Any) -> bool:
    """The pod of an event holds room on a node, or is promised some."""
    return bool(pod.node_name or pod.nominated_node)
