"""The sources of time, identity and randomness: injected, so that a test can fix all three."""

from __future__ import annotations

import datetime
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

# Without vowels and digits that look like letters, so that no words result (as in Kubernetes' generated names).
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def timestamp(seconds: float) -> str:
    """RFC 3339 with whole seconds, as metav1.Time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def micro_timestamp(seconds: float) -> str:
    """RFC 3339 with microseconds, as metav1.MicroTime."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.datetime.fromisoformat(text).timestamp()


@dataclass(slots=True)
class Sources:
    """The clock, the uids and the random suffixes of one cluster."""

    clock: Callable[[], float] = time.time
    uid: Callable[[], str] = lambda: str(uuid.uuid4())
    random: random.Random = field(default_factory=random.Random)

    def now(self) -> str:
        """The time as metav1.Time."""
        return timestamp(self.clock())

    def suffix(self, length: int = 5) -> str:
        """Random characters for a generated name."""
        return "".join(self.random.choices(_ALPHABET, k=length))
