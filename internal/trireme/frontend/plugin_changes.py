"""Decides when a changed description of a remote plugin takes effect, and when a restart is worth to be reported.

With a new description all phases begin anew, with the new configuration. A plugin is updated now and then, and its
first new description takes effect at once. If its descriptions differ again and again, by a mistake or because several
versions serve one address, scheduling would never continue; so each further one takes effect only after a back-off.

A restart has pods tried again that the plugin refused: a plugin that restarts again and again must not have them tried
all the time.

Also change: docs/operating-plugins.md.
"""

import collections
from collections.abc import Callable

FIRST_BACK_OFF_SECONDS = 30.0
MAX_BACK_OFF_SECONDS = 300.0
# After this long without a differing description, the next one takes effect at once again.
STEADY_SECONDS = 600.0

# Between two reports of restarts.
RESTART_SECONDS = 30.0
# Instances that are remembered: several may serve one address.
MAX_INSTANCES = 64


class DescriptionChanges:
    """The changes of one plugin's description."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._last_difference: float | None = None
        self._back_off = 0.0
        self._end = 0.0  # of the back-off
        self._refused = False

    @property
    def is_repeating(self) -> bool:
        """Whether a change was refused in the current back-off."""
        return self._refused and self._clock() < self._end

    def problem(self) -> str:
        """The problem while changes repeat, and the remedy, as text for status."""
        return (
            "changes its description again and again: an earlier one stays in force, and a new one has no effect for "
            f"another {max(0.0, self._end - self._clock()):.0f} s; check why its answers to GetPluginInfo differ"
        )

    def may_take_effect(self) -> bool:
        """Whether a description that differs from the one in force may take effect now.

        A refusal is remembered until the back-off ends: see `is_repeating`.
        """
        now = self._clock()
        if self._last_difference is None or now - self._last_difference > STEADY_SECONDS:
            self._back_off = 0.0
        self._last_difference = now
        if now >= self._end:
            return True
        self._refused = True
        return False

    def begin_back_off(self) -> None:
        """Begin the back-off after a new description that takes effect now: the next one has to wait."""
        self._back_off = min(max(self._back_off * 2, FIRST_BACK_OFF_SECONDS), MAX_BACK_OFF_SECONDS)
        self._end = self._clock() + self._back_off
        self._refused = False


class Restarts:
    """The instances of one plugin: each new one is to be reported once, and not too soon after another one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._known: collections.deque[str] = collections.deque(maxlen=MAX_INSTANCES)
        self._unreported = False
        self._not_before = 0.0

    def observe(self, instance: str) -> None:
        """Note the instance that answers; one not known yet is a restart. Empty: the plugin does not name instances."""
        if instance and instance not in self._known:
            self._known.append(instance)
            self._unreported = True

    @property
    def due(self) -> bool:
        """Whether a restart is to be reported now."""
        return self._unreported and self._clock() >= self._not_before

    def report(self) -> None:
        """Note that all instances up to now are reported."""
        self._unreported = False
        self._not_before = self._clock() + RESTART_SECONDS
