"""The reasons for which bind did not write what it was to write: bindings, claims, conditions, and evictions.

Also change: internal/trireme/bind/binding_retries.py,
internal/trireme/bind/action_executor.py (reasons and what they mean).

Tests: tests/unit/project/test_reason_codes.py.
"""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "alreadyAssigned": ReasonCode("The pod has another node."),
    "alreadyBinding": ReasonCode("The pod is being bound to another node.", {"node": Kind.NODE}),
    "conflict": ReasonCode("Somebody else changed the object in between."),
    "deadlineExceeded": ReasonCode("A plugin at PreBind did not answer in time."),
    "noBindPlugin": ReasonCode("No Bind plugin of the profile binds the pod."),
    "notBegun": ReasonCode("The write was not begun: bind ends, or its leader is not the leader any more."),
    "objectNotFound": ReasonCode("The object, which is no pod to be bound, does not exist any more."),
    "podNotFound": ReasonCode("The pod does not exist any more."),
    "readBack": ReasonCode("An answer in doubt was cleared up by reading: the write had been made."),
    "refused": ReasonCode("The API server refused the write.", {"status": Kind.HTTP_STATUS}),
    "unanswered": ReasonCode("It is not known whether the write was made: there was no answer in time."),
    "unreachable": ReasonCode("The API server was not reached."),
}
