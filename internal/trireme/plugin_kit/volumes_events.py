"""Which pods an event of a claim concerns, as hints of the plugins that look at volumes ask it.

Tests: tests/unit/plugins/test_hints_of_several_plugins.py.
"""

from trireme.plugin_api.hints import ClassHint
from trireme.plugin_kit import volumes_claims
from trireme.snapshot import classes
from trireme.v1 import core_pb2

CLAIM = "PersistentVolumeClaim"


def helps_users_of(claim: core_pb2.PersistentVolumeClaim, *, ephemeral: bool = True) -> ClassHint:
    """Make the hint by which an event helps the pods that use the claim; `ephemeral`: also if it was made for them."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return lambda pod_class: pod_class.namespace == namespace and name in claim_names(pod_class, ephemeral=ephemeral)


def claim_names(pod_class: classes.PodClass, *, ephemeral: bool) -> set[str]:
    """The names of the claims that pods of the class use; `ephemeral`: those that are made for the pod too."""
    return {use.name for use in volumes_claims.claims_of(pod_class) if ephemeral or not use.ephemeral}
