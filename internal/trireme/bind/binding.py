"""One binding, as a pure state machine: what to do after each answer of the API server.

A pod is bound by a POST to its `binding` subresource. The API server refuses a second one and a wrong UID, so a POST
is safe to repeat; what is not safe is to *believe*: a reply may be lost after the pod was bound, and a request whose
reply is late may still take effect. So an answer that leaves a doubt is resolved by reading the pod, and a failure is
reported only when it is certain that no POST of ours can bind the pod any more. Where the API server cannot even be
read, the answer is `Open`: the caller asks again, and must not take the pod for unbound.

The shell (`trireme.bind.binder`) does what the steps say and brings back what happened; time and jitter come in as
arguments. Tries and waits are kube-scheduler's: four, after 10, 50 and 250 ms.
Source: pkg/scheduler/util BindPod and client-go's retry.DefaultBackoff of Kubernetes 1.37.
"""

from collections.abc import Callable
from dataclasses import dataclass

from trireme.framework.status import Reason
from trireme.kube.errors import ApiError, ApiUnreachable

WAITS_SECONDS = (0.010, 0.050, 0.250)
"""Before the second, third and fourth POST."""

JITTER = 0.1
"""Waits are up to so much longer."""

POST_DEADLINE_SECONDS = 10.0
"""For a POST. The API server gets the same deadline, so after it an unanswered POST has no effect any more."""

READ_DEADLINE_SECONDS = 5.0
"""For reading a pod back."""

RESOLVE_SECONDS = 30.0
"""For how long a pod that cannot be read is tried to be read."""

GATEWAY_TIMEOUT = 504


@dataclass(frozen=True, slots=True)
class Target:
    """The pod to bind and the node."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Found:
    """What reading a pod showed."""

    uid: str
    #: Empty: not bound.
    node: str


@dataclass(frozen=True, slots=True)
class Post:
    """POST the binding, after a wait in seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Read:
    """Read the pod, after a wait in seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The API server has the binding; `read_back`: known from reading the pod."""

    read_back: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """It is certain that we did not bind it and will not."""

    message: str
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Nobody knows: neither the POST nor reading the pod was answered."""

    message: str


Outcome = Bound | Failed | Open
Step = Post | Read | Outcome

BOUND = Bound(read_back=False)


class Attempt:
    """The state of one binding. Each `on_…` takes what happened and answers what is next.

    `active` says whether a POST may still begin: the leader that asked is in office, and the caller has not gone.
    """

    __slots__ = (
        "_conflict",
        "_doubt",
        "_failed_reads",
        "_give_up_at",
        "_jitter",
        "_message",
        "_posts",
        "_settled_at",
        "_target",
    )

    def __init__(self, target: Target, jitter: Callable[[], float]) -> None:
        """`jitter` answers a number from 0 up to 1."""
        self._target = target
        self._jitter = jitter
        self._posts = 0
        self._message = ""
        self._conflict = False
        #: An earlier POST may have bound the pod.
        self._doubt = False
        #: From when on no POST without an answer can take effect.
        self._settled_at = 0.0
        self._failed_reads = 0
        self._give_up_at = 0.0

    def on_post(self) -> None:
        """A POST begins."""
        self._posts += 1

    def on_post_error(self, error: ApiError | ApiUnreachable, sent_at: float, now: float, active: bool) -> Step:
        """The POST begun at `sent_at` was answered with an error, or not at all."""
        self._message = _text(error)
        if isinstance(error, ApiUnreachable):
            if error.sent:
                return self._doubted(sent_at)
            return self._again(0.0, active) or self._give_up(now)
        if error.conflict:
            self._conflict = True
            return self._read(now)
        if error.status == GATEWAY_TIMEOUT:
            return self._doubted(sent_at)
        if error.maybe_applied:
            self._doubt = True
            return self._again(error.retry_after or 0.0, active) or self._read(now)
        if error.transient:
            return self._again(error.retry_after or 0.0, active) or self._give_up(now)
        return self._give_up(now)

    def on_withdrawn(self, why: str, now: float) -> Step:
        """No POST may begin any more."""
        self._message = self._message or why
        return self._read(now) if self._doubt else Failed(why, Reason("notBegun"))

    def on_read(self, found: Found | None, now: float, active: bool) -> Step:
        """The pod was read; None: it does not exist."""
        target = self._target
        if found is None:
            return Failed(f'pods "{target.name}" not found', Reason("podNotFound"))
        if found.uid != target.uid:
            return Failed(
                self._message_of_conflict(f"pod {target.name} has UID {found.uid} now, not {target.uid}"),
                Reason.of("podReplaced", {"uid": found.uid}),
            )
        if found.node == target.node:
            return Bound(read_back=True)
        if found.node:
            return Failed(
                self._message_of_conflict(f'pod {target.name} is already assigned to node "{found.node}"'),
                Reason.of("alreadyAssigned", {"node": found.node}),
            )
        if not self._conflict and (again := self._again(0.0, active)):
            return again
        if now < self._settled_at:
            return Read(self._settled_at - now)
        return Failed(self._message, Reason("refused") if self._conflict else None)

    def on_read_error(self, error: ApiError | ApiUnreachable, now: float) -> Step:
        """The pod could not be read."""
        if isinstance(error, ApiError) and not error.transient:
            return Open(f"{self._message}; reading the pod back: {_text(error)}")
        if now >= self._give_up_at:
            return Open(f"{self._message}; reading the pod back for {RESOLVE_SECONDS:g} s: {_text(error)}")
        self._failed_reads += 1
        wait = min(0.05 * 2**self._failed_reads, 1.0) * (1 + self._jitter())
        return Read(wait)

    def _again(self, at_least: float, active: bool) -> Post | None:
        """Another POST, if there is a try left and somebody to try it for."""
        if not active or self._posts > len(WAITS_SECONDS):
            return None
        wait = WAITS_SECONDS[self._posts - 1] * (1 + JITTER * self._jitter())
        return Post(max(wait, at_least))

    def _doubted(self, sent_at: float) -> Read:
        self._doubt = True
        self._settled_at = max(self._settled_at, sent_at + POST_DEADLINE_SECONDS)
        return self._read(sent_at)

    def _give_up(self, now: float) -> Read | Failed:
        return self._read(now) if self._doubt else Failed(self._message)

    def _read(self, now: float) -> Read:
        self._failed_reads = 0
        self._give_up_at = now + RESOLVE_SECONDS
        return Read(0.0)

    def _message_of_conflict(self, otherwise: str) -> str:
        """The API server's own words where it refused; ours, in its form, where its answer did not come."""
        if self._conflict:
            return self._message
        return f'Operation cannot be fulfilled on pods/binding "{self._target.name}": {otherwise}'


def _text(error: ApiError | ApiUnreachable) -> str:
    return error.message if isinstance(error, ApiError) else str(error)
