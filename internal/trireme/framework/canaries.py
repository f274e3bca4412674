"""Canaries of remote plugins: another version of a plugin that answers for a share of the pods.

To the scheduler a canary is a plugin of its own, named after the plugin, with connection, description and counters of
its own. Which of the two answers for a pod follows from its UID, so a pod stays with it however often it is tried, and
more pods join when the share grows. Answers are about classes, so the choice is part of the class: its pod has an
annotation for each plugin whose canary answers for it. No other code sees that one: plugins do not get it, and pods
that have it in the cluster lose it when they are read.
"""

import hashlib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

#: Ends the name of a canary; no configured plugin's name ends so.
SUFFIX = "/canary"
#: Begins the key of a class's annotation, which a plugin's name follows.
ANNOTATION_PREFIX = "canary.trireme.dev/"


def canary_name(plugin: str) -> str:
    """The name of the plugin's canary."""
    return plugin + SUFFIX


def served_name(name: str) -> str:
    """The name by which a plugin's service knows it: a canary's is that of its plugin."""
    return name.removesuffix(SUFFIX)


def is_canary(name: str) -> bool:
    """Whether a plugin of this name is a canary."""
    return name.endswith(SUFFIX)


def is_chosen(plugin: str, uid: str, percent: int) -> bool:
    """Whether the plugin's canary answers for the pod, if it does for so many percent of all pods.

    Never for a pod without a UID, which is a question of what if.
    """
    if not uid:
        return False
    digest = hashlib.blake2b(f"{plugin}\0{uid}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 100 < percent


def answers_for(name: str, annotations: Mapping[str, str]) -> bool:
    """Whether the plugin or canary of this name answers for the class with these annotations, if both take part."""
    return (ANNOTATION_PREFIX + served_name(name) in annotations) == is_canary(name)


def mark(annotations: MutableMapping[str, str], plugins: Iterable[str]) -> None:
    """Add to a class's annotations that the canaries of these plugins answer for it."""
    for plugin in plugins:
        annotations[ANNOTATION_PREFIX + plugin] = ""


def remove_marks(annotations: MutableMapping[str, str]) -> None:
    """Remove what `mark` adds."""
    for key in [key for key in annotations if key.startswith(ANNOTATION_PREFIX)]:
        del annotations[key]


class Shares:
    """Which plugins have a canary, by profile, and for how many percent of the pods."""

    def __init__(self, shares: Mapping[str, Sequence[tuple[str, int]]] | None = None) -> None:
        """`shares`: by schedulerName each plugin with a canary, and its percentage."""
        self._shares = dict(shares or {})

    def replace(self, shares: Mapping[str, Sequence[tuple[str, int]]]) -> bool:
        """Have other shares from now on; False if they are the same. The caller has all pods read again."""
        if self._shares == shares:
            return False
        self._shares = dict(shares)
        return True

    def chosen(self, scheduler_name: str, uid: str) -> tuple[str, ...]:
        """The plugins whose canary answers for the pod, in the order of the configuration."""
        entries = self._shares.get(scheduler_name, ())
        return tuple(plugin for plugin, percent in entries if is_chosen(plugin, uid, percent))
