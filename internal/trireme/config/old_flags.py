"""Flags that older schedulers had and this one has not, and what to do about them.

They are refused like any unknown flag; the operator is told which command writes the configuration that replaces them.
"""

import re

OLD_FLAGS = frozenset(
    {
        "address",
        "algorithm-provider",
        "alsologtostderr",
        "azure-container-registry-config",
        "failure-domains",
        "hard-pod-affinity-symmetric-weight",
        "insecure-bind-address",
        "lock-object-name",
        "lock-object-namespace",
        "policy-config-file",
        "policy-configmap",
        "policy-configmap-namespace",
        "port",
        "scheduler-name",
        "use-legacy-policy-config",
    }
)
_UNKNOWN = re.compile(r"unknown flag: --(.*)", re.DOTALL)


def replacement(error: str) -> str:
    """What to tell somebody whose flag is unknown; empty where it never existed."""
    found = _UNKNOWN.fullmatch(error)
    if found is None or found.group(1).replace("_", "-") not in OLD_FLAGS:
        return ""
    return (
        f"--{found.group(1)} is a flag of older schedulers: "
        "`trireme config convert` writes the configuration that replaces it."
    )
