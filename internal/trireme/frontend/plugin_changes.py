"""When a remote plugin that describes itself otherwise is called by its new description.

A new description has all phases begin anew, with the new configuration. A plugin is updated now and then, and the first
new description counts at once. One whose descriptions differ again and again, by a mistake or because several versions
serve one address, would keep scheduling from going on: each further one counts only after a back-off.
"""

from collections.abc import Callable

FIRST_BACK_OFF_SECONDS = 30.0
MAX_BACK_OFF_SECONDS = 300.0
# Without a differing description for so long, the next one counts at once again.
STEADY_SECONDS = 600.0


class DescriptionChanges:
    """The changes of one plugin's description."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` answers seconds."""
        self._clock = clock
        self._last_seen: float | None = None
        self._back_off = 0.0
        self._end = 0.0  # of the back-off
        self._refused = False

    @property
    def repeating(self) -> bool:
        """Whether a change was refused in the back-off that lasts."""
        return self._refused and self._clock() < self._end

    def problem(self) -> str:
        """What is wrong while changes repeat, and what to do."""
        return (
            "describes itself otherwise again and again: it is called by an earlier description, and a new one does "
            f"not count for another {max(0.0, self._end - self._clock()):.0f} s; see that its answers to GetPluginInfo "
            "do not differ"
        )

    def admits(self) -> bool:
        """Whether a description that was seen just now and differs from the one in force may count."""
        now = self._clock()
        if self._last_seen is None or now - self._last_seen > STEADY_SECONDS:
            self._back_off = 0.0
        self._last_seen = now
        if now >= self._end:
            return True
        self._refused = True
        return False

    def begin_back_off(self) -> None:
        """A new description counts from now on."""
        self._back_off = min(max(self._back_off * 2, FIRST_BACK_OFF_SECONDS), MAX_BACK_OFF_SECONDS)
        self._end = self._clock() + self._back_off
        self._refused = False
