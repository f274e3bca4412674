"""A guard that counts callers and verdicts, under the names that Kubernetes' servers use.

Tests: tests/contract/test_serving_access.py, tests/unit/componentbase/server/test_access.py.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from trireme_kube.componentbase.metrics.instruments import Counter, Histogram, Instrument, exponential
from trireme_kube.componentbase.server.authentication import User
from trireme_kube.componentbase.server.authorization import AccessVerdict
from trireme_kube.componentbase.server.http_site import Guard

_SECONDS = exponential(0.001, 2, 15)
# User names that may be labels; others would make the metric grow without bound.
_KNOWN = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


class MeasuredGuard:
    """Delegates to another guard, and counts."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._guard: Guard | None = None
        self._attempts = Counter("authentication_attempts", "Attempts to authenticate, by result.", ("result",))
        self._authentication = Histogram(
            "authentication_duration_seconds", "Time to authenticate, by result.", _SECONDS, ("result",)
        )
        self._users = Counter("authenticated_user_requests", "Requests by who made them.", ("username",))
        self._authorizations = Counter("authorization_attempts_total", "Attempts to authorise, by result.", ("result",))
        self._authorization = Histogram(
            "authorization_duration_seconds", "Time to authorise, by result.", _SECONDS, ("result",)
        )

    def instruments(self) -> Iterable[Instrument]:
        """What is counted."""
        return (self._attempts, self._authentication, self._users, self._authorizations, self._authorization)

    def delegate_to(self, guard: Guard) -> "MeasuredGuard":
        """Delegate to this guard from now on; return itself."""
        self._guard = guard
        return self

    async def authenticate(self, headers: Sequence[tuple[str, str]], certificate: bytes | None) -> User:
        """Authenticate by the other guard, and count and time that. Raises: Unauthenticated."""
        assert self._guard is not None  # `ask` came first
        started, result = self._clock(), "error"
        try:
            user = await self._guard.authenticate(headers, certificate)
            result = "success"
        finally:
            self._attempts.add((result,))
            self._authentication.observe(self._clock() - started, (result,))
        self._users.add((_user_label(user.name),))
        return user

    async def authorize(self, user: User, verb: str, path: str) -> AccessVerdict:
        """Authorize by the other guard, and count and time that. Raises: ReviewError."""
        assert self._guard is not None  # `ask` came first
        started, result = self._clock(), "error"
        try:
            verdict = await self._guard.authorize(user, verb, path)
            result = "allowed" if verdict.allowed else "denied"
            return verdict
        finally:
            self._authorizations.add((result,))
            self._authorization.observe(self._clock() - started, (result,))


def _user_label(name: str) -> str:
    """Return the metric's label for a user: few known names, else `email_id` or `other`."""
    if name in _KNOWN:
        return name
    return "email_id" if "@" in name else "other"
