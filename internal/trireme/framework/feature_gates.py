"""The feature gates, as plugins see them.

Also change: internal/trireme/config/gate_effects.py, internal/trireme/config/feature_gates.json,
internal/trireme/plugins/dynamic_resources/features.py (the gates that have an effect).
Also change: docs/kubernetes-versions.md.
"""

from typing import Final, Protocol

#: Not a gate of Kubernetes, and no flag sets it: whether Trireme is right where the newest kube-scheduler is known to
#: be wrong (`compatibility: Corrected` of TriremeConfiguration). It travels with the gates, so it is wherever they are.
CORRECTED: Final = "trireme.dev/Corrected"


class Gates(Protocol):
    """Which features are on.

    Implementers: trireme.config.gates.FeatureGates.
    """

    def enabled(self, name: str) -> bool:
        """Whether a feature is on."""
        ...
