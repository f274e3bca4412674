"""The codes of reasons as an interface: what each means, and the parameters that it has, with their kinds.

A plugin declares those of its refusals in its `explain.py`. Codes only come: docs/reference/reason-codes.md lists them,
and a test holds each to its parameters.

Also change: internal/trireme/scheduling/failure.py (the reasons of the condition).

Tests: tests/unit/project/test_reason_codes.py.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


class Kind(enum.StrEnum):
    """How the text of a parameter is to be read."""

    RESOURCE = "resource name"
    QUANTITY = "quantity"
    NODE = "node name"
    LABEL_KEY = "label key"
    TAINT_KEY = "taint key"
    TAINT_VALUE = "taint value"
    TAINT_EFFECT = "taint effect"
    CLAIM = "claim name"
    DEVICE_CLASS = "device class"
    DRIVER = "CSI driver"
    FEATURES = "features, separated by commas"
    HTTP_STATUS = "HTTP status"


@dataclass(frozen=True, slots=True)
class ReasonCode:
    """One code. `text` is it in words, for people: with names of parameters in braces, or made of the parameters.

    Without a text `trireme explain` shows the parameters.
    """

    meaning: str
    parameters: Mapping[str, Kind] = field(default_factory=dict)
    text: str | Callable[[Mapping[str, str]], str] = ""

    def text_of(self, parameters: Mapping[str, str]) -> str:
        """The reason with these parameters in words; empty: the code has no text."""
        return self.text(parameters) if callable(self.text) else self.text.format(**parameters)


OF_ANY = {
    "failed": ReasonCode("A plugin or a phase failed; the message says why."),
    "pending": ReasonCode("The plugin waits for something outside the scheduler; the message says what."),
    "refused": ReasonCode("Refused, for a reason that has no code of its own; the message says which."),
    "waits": ReasonCode("The pod waits at Permit or PreBind; the message says for what."),
}
"""Of statuses without a code of their own, such as those of remote plugins that give none."""

OF_REMOTE_CALLS = {
    "pluginNotCalled": ReasonCode("The plugin was not called, because calls before had failed: no answer of its own.")
}
"""Beside the errors of calls of remote plugins; their refusals have the codes that the plugins give."""

OF_ATTEMPTS = {
    "Unschedulable": ReasonCode("Plugins refuse the pod on all nodes, or on the chosen one: it waits for an event."),
    "SchedulerError": ReasonCode("The attempt failed by an error: the pod is tried again after a back-off."),
}
"""The reasons of the condition PodScheduled, as kube-scheduler has them."""
