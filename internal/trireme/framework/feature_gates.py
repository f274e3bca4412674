"""The feature gates, as plugins see them."""

from typing import Protocol


class Gates(Protocol):
    """Which features are on."""

    def enabled(self, name: str) -> bool:
        """Whether a feature is on."""
        ...
