"""An observer for simulations: nothing of them is measured, since metrics are about the cluster."""

from collections.abc import Callable
from typing import Any, cast

from trireme.scheduling import ports


def make() -> ports.Observer:
    """An observer that ignores all that it is called for."""
    return cast(ports.Observer, _SilentObserver())


def make_log() -> ports.BindingLog:
    """A log of bindings that takes nothing down."""
    return cast(ports.BindingLog, _SilentObserver())


class _SilentObserver:
    """Has all methods of an observer, and each does nothing."""

    @property
    def clock(self) -> Callable[[], float]:
        """A clock by which nothing takes time."""
        return _stopped_clock

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Any method of an observer. Raises: AttributeError."""
        if name not in vars(ports.Observer) and name not in vars(ports.BindingLog):
            raise AttributeError(name)
        return _do_nothing


def _stopped_clock() -> float:
    """A clock that stands still."""
    return 0.0


def _do_nothing(*_: Any, **__: Any) -> None:
    """Ignore a call."""
