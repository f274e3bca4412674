"""The clock, the uids and the random suffixes of one cluster: injected, so that a test can fix all three."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from trireme_kube.embedded.api.timestamps import timestamp

# Without vowels and digits that look like letters, so that no words result (as in Kubernetes' generated names).
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(slots=True)
class ClockAndIds:
    """What differs from run to run: times, uids and random characters."""

    clock: Callable[[], float] = time.time
    uid: Callable[[], str] = lambda: str(uuid.uuid4())
    random: random.Random = field(default_factory=random.Random)

    def now(self) -> str:
        """The time as metav1.Time."""
        return timestamp(self.clock())

    def suffix(self, length: int = 5) -> str:
        """Random characters for a generated name."""
        return "".join(self.random.choices(_ALPHABET, k=length))
