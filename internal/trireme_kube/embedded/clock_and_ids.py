"""The clock, the uids and the random suffixes of one cluster: injected, so that a test can fix all three."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from trireme_kube.apimachinery import generated_names
from trireme_kube.embedded.api.timestamps import timestamp


@dataclass(slots=True)
class ClockAndIds:
    """What differs from run to run: times, uids and random characters."""

    clock: Callable[[], float] = time.time
    uid: Callable[[], str] = lambda: str(uuid.uuid4())
    random: random.Random = field(default_factory=random.Random)

    def now(self) -> str:
        """The time as metav1.Time."""
        return timestamp(self.clock())

    def suffix(self, length: int = generated_names.SUFFIX_LENGTH) -> str:
        """Random characters for a generated name."""
        return "".join(self.random.choices(generated_names.ALPHABET, k=length))
