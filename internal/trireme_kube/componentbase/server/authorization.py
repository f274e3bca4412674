"""Authorises callers: paths that everybody may read, the administrators' group, else a SubjectAccessReview.

Source: k8s.io/apiserver/pkg/server/options/authorization.go.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trireme_kube.componentbase.server.authentication import User
from trireme_kube.componentbase.server.expiring_cache import ExpiringCache

ADMINISTRATORS = "system:masters"


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """Whether it is allowed, and the API server's reason."""

    allowed: bool
    reason: str = ""


#: Reviews by the API server whether the user may use this verb at this path. Raises: ReviewError.
ReviewAccess = Callable[[User, str, str], Awaitable[AccessVerdict]]


class Authorizer:
    """Authorises requests."""

    def __init__(
        self,
        always_allowed: Sequence[str],
        review: ReviewAccess | None,
        allow_seconds: float,
        deny_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`always_allowed` are paths, or prefixes that end in a star. `review` None: nothing else is allowed."""
        self._paths = frozenset(_without_leading_slash(path) for path in always_allowed if not path.endswith("*"))
        self._prefixes = tuple(_without_leading_slash(path[:-1]) for path in always_allowed if path.endswith("*"))
        self._review = review
        self._seconds = {True: allow_seconds, False: deny_seconds}
        self._verdicts: ExpiringCache[tuple[object, ...], AccessVerdict] = ExpiringCache(clock)

    async def verdict(self, user: User, verb: str, path: str) -> AccessVerdict:
        """Whether the user may. Raises: ReviewError."""
        if ADMINISTRATORS in user.groups:
            return AccessVerdict(True)
        plain = _without_leading_slash(path)
        if plain in self._paths or any(plain.startswith(prefix) for prefix in self._prefixes):
            return AccessVerdict(True)
        if self._review is None:
            return AccessVerdict(False)
        key = (user.name, user.uid, user.groups, tuple(sorted(user.extra.items())), verb, path)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = await self._review(user, verb, path)
            self._verdicts.put(key, verdict, self._seconds[verdict.allowed])
        return verdict


def forbidden_message(user: User, verb: str, path: str, reason: str) -> str:
    """The message for a caller who may not."""
    message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
    return f"{message}: {reason}" if reason else message


def _without_leading_slash(path: str) -> str:
    """Return the path without its leading slash."""
    return path.removeprefix("/")
