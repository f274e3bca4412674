"""Flags of older schedulers that no longer exist, and what to do about them.

They are rejected like any unknown flag; the message names the command that writes the configuration that replaces them.
"""

import re
from types import MappingProxyType

#: Flags with a field in the configuration today.
_CONFIGURED = frozenset(
    {
        "address",
        "algorithm-provider",
        "hard-pod-affinity-symmetric-weight",
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
#: Flags for the destination and format of logs → whether the flag is a switch.
LOG_FLAGS = MappingProxyType(
    {
        "add-dir-header": True,
        "alsologtostderr": True,
        "experimental-logging-sanitization": True,
        "log-backtrace-at": False,
        "log-dir": False,
        "log-file": False,
        "log-file-max-size": False,
        "logtostderr": True,
        "one-output": True,
        "skip-headers": True,
        "skip-log-headers": True,
        "stderrthreshold": False,
    }
)
#: Flags of other programs' libraries, or without a use any more → whether the flag is a switch.
UNUSED_FLAGS = MappingProxyType(
    {
        "azure-container-registry-config": False,
        "cloud-provider-gce-l7lb-src-cidrs": False,
        "cloud-provider-gce-lb-src-cidrs": False,
        "failure-domains": False,
        "google-json-key": False,
    }
)
OLD_FLAGS = frozenset({*_CONFIGURED, *LOG_FLAGS, *UNUSED_FLAGS})
_UNKNOWN = re.compile(r"unknown flag: --(.*)", re.DOTALL)


def advice_for_unknown_flag(error: str) -> str:
    """The advice for an unknown flag; empty if it never existed."""
    found = _UNKNOWN.fullmatch(error)
    if found is None or found.group(1).replace("_", "-") not in OLD_FLAGS:
        return ""
    return (
        f"--{found.group(1)} is a flag of older schedulers: "
        "`trireme config convert` writes the configuration that replaces it."
    )
