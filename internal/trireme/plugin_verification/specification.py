"""A specification: one requirement that a plugin has to meet, the sentence that states it, and how it is checked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trireme.plugin_verification import rpcs, session
from trireme.plugin_verification.sentences import Sentence

Check = Callable[[session.Session], Awaitable[None]]
"""Returns if the requirement is met. Raises: one of `outcomes`."""


@dataclass(frozen=True, slots=True)
class Specification:
    """One requirement. Its number stays the same from release to release; a retired one is not used again.

    It applies to plugins with one of `points`; to every plugin if there are none.
    """

    number: str
    group: str
    title: str
    sentences: tuple[Sentence, ...]
    points: frozenset[rpcs.Point]
    check: Check


def specification(
    number: str, group: str, *sentences: Sentence, points: tuple[rpcs.Point, ...] = ()
) -> Callable[[Check], Specification]:
    """Make a specification of a check, whose docstring is the title."""

    def make(check: Check) -> Specification:
        title = (check.__doc__ or "").partition("\n")[0].rstrip(".")
        return Specification(number, group, title, sentences, frozenset(points), check)

    return make
