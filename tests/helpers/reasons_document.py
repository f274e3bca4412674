"""docs/reference/reason-codes.md, written from the code: `make docs` runs this, and a test compares.

With `--freeze` it also writes down the codes as they are, which have to stay.
"""

import json
import pathlib
import sys
from collections.abc import Mapping

from tests.helpers import contract_comments
from trireme.bind import reasons as bind_reasons
from trireme.framework import reason_codes
from trireme.framework.reason_codes import ReasonCode
from trireme.registry import reason_texts
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import decision_explanation_pb2, simulation_pb2, snapshot_pb2

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/reference/reason-codes.md"
FROZEN = ROOT / "tests/contract/data/reason_codes.json"

_HEAD = """# Reason codes

<!-- Written by `make docs` from the plugins' explain.py, internal/trireme/bind/reasons.py and protos/trireme/v1. -->

Messages are for people, and change. Programs read codes: a code keeps its meaning and its parameters, and new ones may
come at any time. All are in `trireme explain -o json`, over HTTP and over gRPC. Parameters are texts; their kind says
how to read them.
"""

_OF_PLUGINS = """
## Refusals by in-tree plugins

`refusals[].status` of an explanation has `plugin` and `reasons[]`, each with `code` and `parameters`; so have
`preFilter` and `refusals[]` of simulated pods that stay pending. A remote plugin gives codes of its own.

| plugin | code | parameters | what it means |
| --- | --- | --- | --- |
"""

_OTHERS = (
    (
        "Bindings that were not written",
        "`reasons[]` of `scheduler.refusedPlacement`, where the extension point is Bind or PreBind.",
        bind_reasons.REASONS,
    ),
    (
        "Answers without a code of their own",
        "Beside any status that is no success: of remote plugins that give no codes, and of failures.",
        reason_codes.OF_ANY,
    ),
    ("Errors of remote plugins", "Beside a status with the plugin's name.", reason_codes.OF_REMOTE_CALLS),
    (
        "The scheduler itself",
        "Beside a status without a plugin; or, of a wait on Permit or PreBind that ended, with the plugin that the pod"
        " waited for.",
        reason_codes.OF_SCHEDULER,
    ),
    (
        "Pod groups",
        "Of pods that fail with their group, and with `conditionMessage: JSON` in the conditions of PodGroups and"
        " CompositePodGroups. Codes of the plugin, or of the group above or below, follow.",
        reason_codes.OF_GROUPS,
    ),
    (
        "Preemptions that evict nobody",
        "`preemption.reasons[]` of `trireme explain -o json`.",
        reason_codes.OF_PREEMPTION,
    ),
    ("Failed attempts", "`reason` of the pod's condition PodScheduled.", reason_codes.OF_ATTEMPTS),
    (
        "Waits",
        "`waitsFor.kind` of a pending pod, in `trireme status -o json` and `trireme explain -o json`.",
        reason_codes.OF_WAITS,
    ),
)
_CODES_HEAD = "| code | parameters | what it means |\n| --- | --- | --- |\n"

_ENUMERATIONS = (
    ("States in the queue", "`queuedPod.state`.", snapshot_pb2.QueuedPodState.DESCRIPTOR),
    (
        "Pods in a preemption",
        "`reason` of the pods of a preemption.",
        decision_explanation_pb2.PreemptionPodReason.DESCRIPTOR,
    ),
    ("Verdicts about manifests", "`verdicts[].verdict` of a simulation.", simulation_pb2.Verdict.DESCRIPTOR),
)
_VALUES_HEAD = "| code | what it means |\n| --- | --- |\n"


def sections() -> Mapping[str, Mapping[str, ReasonCode]]:
    """All codes with parameters, by plugin, or by what gives them."""
    plugins = {name: reason_texts.reasons_of(name) for name in sorted(IN_TREE.plugins)}
    others = {title: codes for title, _, codes in _OTHERS}
    return {name: codes for name, codes in (plugins | others).items() if codes}


def contract() -> dict[str, dict[str, dict[str, str]]]:
    """Each code with the kinds of its parameters."""
    return {
        name: {code: {key: str(kind) for key, kind in of.parameters.items()} for code, of in sorted(codes.items())}
        for name, codes in sections().items()
    }


def write() -> str:
    """The document's text."""
    out = [_HEAD, _OF_PLUGINS]
    for name in sorted(IN_TREE.plugins):
        out += [f"| {name} {_row(code, of)}" for code, of in sorted(reason_texts.reasons_of(name).items())]
    for title, where, codes in _OTHERS:
        out += [f"\n## {title}\n\n{where}\n\n{_CODES_HEAD}", *(_row(code, of) for code, of in sorted(codes.items()))]
    comments = contract_comments.comments()
    for title, where, enumeration in _ENUMERATIONS:
        out.append(f"\n## {title}\n\n{where}\n\n{_VALUES_HEAD}")
        out += [
            f"| `{value.name}` | {comments[f'{enumeration.name}.{value.name}']} |\n" for value in enumeration.values
        ]
    return "".join(out)


def _row(code: str, of: ReasonCode) -> str:
    parameters = ", ".join(f"`{key}` ({kind})" for key, kind in of.parameters.items())
    return f"| `{code}` | {parameters} | {of.meaning} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(write())
    if "--freeze" in sys.argv:
        FROZEN.write_text(json.dumps(contract(), indent=1) + "\n")
