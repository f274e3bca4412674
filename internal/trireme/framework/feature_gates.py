"""The feature gates, as plugins see them."""

from typing import Final, Protocol

#: Not a gate of Kubernetes, and no flag sets it: whether Trireme is right where the newest kube-scheduler is known to
#: be wrong (`compatibility: Corrected` of TriremeConfiguration). It travels with the gates, so it is wherever they are.
CORRECTED: Final = "trireme.dev/Corrected"


class Gates(Protocol):
    """Which features are on."""

    def enabled(self, name: str) -> bool:
        """Whether a feature is on."""
        ...
