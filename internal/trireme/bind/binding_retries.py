"""When the POST of one binding is repeated, when the pod is read back instead, and when the outcome is certain.

The API server refuses to bind a pod twice and refuses a wrong UID, so a POST is safe to repeat; what is not safe is to
believe an answer. A reply may be lost after the pod was bound, and a cancelled request may still take effect. So every
doubt is resolved by reading the pod, and a failure is reported only when it is certain that no POST of ours has bound
the pod or will. Where the pod cannot be read either, the outcome is `Uncertain`: the caller calls again, and must
not treat the pod as unbound.

This is a pure state machine. `trireme.bind.binding_writer` executes its steps and reports their outcomes; time and
jitter are arguments. Requests that certainly had no effect are repeated by `trireme_kube.client.writes`.

Also change: docs/fault-tolerance.md.
Also change: internal/trireme/bind/reasons.py, internal/trireme/bind/action_executor.py (reasons and what they mean).
"""

from collections.abc import Callable
from dataclasses import dataclass

from trireme.framework import status
from trireme.framework.status import Reason
from trireme.plugin_kit.pod_binder import BindOutcome, BindTarget
from trireme_kube.apimachinery import api_writes

POST_DEADLINE_SECONDS = 10.0
"""For a binding with its repetitions. Then the connection is closed, which cancels the request in the API server."""

READ_DEADLINE_SECONDS = 5.0
"""For reading a pod back, with repetitions."""

RESOLVE_SECONDS = 30.0
"""For how long a pod that cannot be read is tried to be read."""

SETTLE_SECONDS = 1.0
"""A cancelled request may take effect while it is being cancelled: "not bound" is believed when it is true twice."""

WAITS_SECONDS = (0.1, 0.5, 2.0)
"""Before the second, third and fourth POST, each after a reading that showed the pod unbound."""


@dataclass(frozen=True, slots=True)
class PostStep:
    """POST the binding, after a wait in seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class ReadStep:
    """Read the pod back, after a wait in seconds."""

    after: float


Step = PostStep | ReadStep | BindOutcome

BOUND = status.SUCCESS
READ_BACK = status.Status(status.Code.SUCCESS, reasons=(Reason("readBack"),))
"""Bound, as reading the pod showed."""


class BindingRetries:
    """Decides the next step of one binding: POST, read the pod back, or an outcome. It does no I/O itself.

    Each `on_…` takes the outcome of a step and returns the next one.
    """

    __slots__ = (
        "_conflict",
        "_doubt",
        "_failed_reads",
        "_give_up_at",
        "_jitter",
        "_message",
        "_posts",
        "_settled",
        "_target",
    )

    def __init__(self, target: BindTarget, jitter: Callable[[], float]) -> None:
        """`jitter` answers a number from 0 up to 1."""
        self._target = target
        self._jitter = jitter
        self._posts = 0
        self._message = ""
        #: The API server's words when it refused because of the pod's state.
        self._conflict = ""
        #: An earlier POST may have bound the pod, or may yet.
        self._doubt = target.outcome_unknown
        #: The pod was read unbound once since nothing is sent any more.
        self._settled = False
        self._failed_reads = 0
        self._give_up_at = 0.0

    def note_post_by_other_replica(self) -> None:
        """A call joined that says that another replica's POST may bind the pod yet."""
        self._doubt = True

    def on_post(self, outcome: api_writes.Outcome, now: float) -> Step:
        """Take the outcome of a POST, its repetitions included; returns the next step.

        A conflict, or an answer in doubt, has the pod read back; after a doubt so does any refusal, as the POST before
        may have bound it.
        """
        self._posts += 1
        match outcome:
            case api_writes.Written():
                return BOUND
            case api_writes.Conflict(message):
                self._conflict = message
                return self._begin_to_read_back(now)
            case api_writes.Gone(message):
                return status_of_not_bound(message, Reason("podNotFound"))
            case api_writes.Uncertain(message):
                self._message = message
                self._doubt = True
                return self._begin_to_read_back(now)
            case api_writes.Refused(message) | api_writes.Unavailable(message):
                self._message = message
                return (
                    self._begin_to_read_back(now)
                    if self._doubt
                    else status_of_not_bound(message, reason_of_write(outcome))
                )

    def on_posting_ended(self, why: str, now: float) -> Step:
        """No POST may begin any more, because of `why`: the leader's tenure is over, or no caller waits.

        An earlier POST that may have bound the pod has it read back; else it is not bound.
        """
        self._message = self._message or why
        return self._begin_to_read_back(now) if self._doubt else status_of_not_bound(why, Reason("notBegun"))

    def on_read(self, outcome: api_writes.SettledBinding, now: float, active: bool) -> Step:
        """Take what reading the pod back found; `active`: the binding may be posted again.

        Unbound has it posted again after a wait, a few times. Where the pod cannot be read, it is read again for a
        while; then the outcome is unknown.
        """
        match outcome:
            case api_writes.Written():
                return READ_BACK
            case api_writes.Conflict(message):
                return status_of_not_bound(self._conflict or self._conflict_text(message), Reason("alreadyAssigned"))
            case api_writes.Gone(message):
                return status_of_not_bound(message, Reason("podNotFound"))
            case api_writes.Unbound():
                return self._after_pod_read_unbound(active)
            case api_writes.Uncertain(message):
                return self._after_failed_read(message, now)

    def _after_pod_read_unbound(self, active: bool) -> Step:
        """POST again if allowed; else not bound, once the pod was read unbound twice after a doubt."""
        if not self._conflict and active and self._posts <= len(WAITS_SECONDS):
            self._settled = False
            return PostStep(WAITS_SECONDS[self._posts - 1] * (1 + self._jitter()) if self._posts else 0.0)
        if self._doubt and not self._settled:
            self._settled = True
            return ReadStep(SETTLE_SECONDS)
        return status_of_not_bound(
            self._conflict or self._message, Reason("conflict" if self._conflict else "unanswered")
        )

    def _after_failed_read(self, message: str, now: float) -> Step:
        """Read again after a growing wait; Uncertain once the time for reading is over."""
        if now >= self._give_up_at:
            return api_writes.Uncertain(f"{self._conflict or self._message}; reading the pod back: {message}")
        self._failed_reads += 1
        return ReadStep(min(0.05 * 2**self._failed_reads, 1.0) * (1 + self._jitter()))

    def _begin_to_read_back(self, now: float) -> ReadStep:
        """Read the pod at once, and limit from now for how long that is tried."""
        self._failed_reads = 0
        self._give_up_at = now + RESOLVE_SECONDS
        return ReadStep(0.0)

    def _conflict_text(self, message: str) -> str:
        """Word a conflict as the API server words its own, for a refusal whose text did not reach us."""
        return f'Operation cannot be fulfilled on pods/binding "{self._target.pod.name}": {message}'


def status_of_not_bound(message: str, reason: Reason) -> status.Status:
    """Make the status of a pod that is certain not to be bound: we did not bind it, and will not."""
    return status.Status(status.Code.ERROR, "", (message,), (reason,))


def reason_of_write(
    outcome: api_writes.Conflict | api_writes.Gone | api_writes.Refused | api_writes.Unavailable | api_writes.Uncertain,
) -> Reason:
    """The reason, for the frontend, of a write that failed."""
    match outcome:
        case api_writes.Refused():
            return Reason.of("refused", {"status": outcome.status})
        case api_writes.Unavailable():
            return Reason("unreachable")
        case api_writes.Conflict():
            return Reason("conflict")
        case api_writes.Gone():
            return Reason("objectNotFound")
        case api_writes.Uncertain():
            return Reason("unanswered")
