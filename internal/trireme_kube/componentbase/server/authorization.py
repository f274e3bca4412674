"""Authorises callers: paths that everybody may read, the administrators' group, else a SubjectAccessReview.

Source: k8s.io/apiserver/pkg/server/options/authorization.go.

Tests: tests/unit/componentbase/server/test_access.py.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trireme_kube.componentbase.server.authentication import User
from trireme_kube.componentbase.server.expiring_cache import ExpiringCache

ADMINISTRATORS = "system:masters"


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """Whether it is allowed, and the API server's reason."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PathAccess:
    """The use of a verb at a path of a server that is no object of the API."""

    verb: str
    path: str

    def to_spec(self) -> Mapping[str, object]:
        """The part of a SubjectAccessReview's spec that describes the access."""
        return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """The use of a verb on objects of the API's core group; no namespace: in all, no name: whatever it is."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def to_spec(self) -> Mapping[str, object]:
        """The part of a SubjectAccessReview's spec that describes the access."""
        of_object = {"namespace": self.namespace, "name": self.name}
        stated = {key: value for key, value in of_object.items() if value}
        return {"resourceAttributes": {"verb": self.verb, "version": "v1", "resource": self.resource, **stated}}


Access: TypeAlias = PathAccess | ResourceAccess

#: Reviews by the API server whether the user has this access. Raises: ReviewError.
ReviewAccess = Callable[[User, Access], Awaitable[AccessVerdict]]


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

    async def authorize(self, user: User, verb: str, path: str) -> AccessVerdict:
        """Return whether the user may do this to the path. Raises: ReviewError."""
        if ADMINISTRATORS in user.groups:
            return AccessVerdict(True)
        plain = _without_leading_slash(path)
        if plain in self._paths or any(plain.startswith(prefix) for prefix in self._prefixes):
            return AccessVerdict(True)
        return await self._review_access(user, PathAccess(verb, path))

    async def authorize_resource(self, user: User, access: ResourceAccess) -> AccessVerdict:
        """Return whether the user has this access to objects. Raises: ReviewError."""
        if ADMINISTRATORS in user.groups:
            return AccessVerdict(True)
        return await self._review_access(user, access)

    async def _review_access(self, user: User, access: Access) -> AccessVerdict:
        """Return the API server's verdict, cached or by a new review; without a reviewer nothing is allowed."""
        if self._review is None:
            return AccessVerdict(False)
        key = (user.name, user.uid, user.groups, tuple(sorted(user.extra.items())), access)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = await self._review(user, access)
            self._verdicts.put(key, verdict, self._seconds[verdict.allowed])
        return verdict


def forbidden_message(user: User, verb: str, path: str, reason: str) -> str:
    """The message for a caller who may not."""
    message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
    return f"{message}: {reason}" if reason else message


def forbidden_resource_message(user: User, access: ResourceAccess, reason: str) -> str:
    """The message for a caller who has not this access, in the words of the API server."""
    what = f'{access.resource} "{access.name}"' if access.name else access.resource
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    message = (
        f'{what} is forbidden: User "{user.name}" cannot {access.verb} resource "{access.resource}" '
        f'in API group "" {where}'
    )
    return f"{message}: {reason}" if reason else message


def _without_leading_slash(path: str) -> str:
    """Return the path without its leading slash."""
    return path.removeprefix("/")
