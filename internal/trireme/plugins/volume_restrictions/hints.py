"""What may help a pod that VolumeRestrictions refused.

Source: pkg/scheduler/framework/plugins/volumerestrictions.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_none
from trireme.plugin_kit import volumes_events
from trireme.plugins.volume_restrictions import filter as volume_restrictions
from trireme.snapshot import classes


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """VolumeRestrictions: what the pod wants is let go in its namespace, its claim is there, or a node is added."""

    def after_delete(old: Any, new: Any) -> ClassHint:
        gone = context.cluster.class_of(old.pod)
        claims = volumes_events.claim_names(gone, ephemeral=False)

        def helps(pod_class: classes.PodClass) -> bool:
            if pod_class.namespace != gone.namespace:
                return False
            if volume_restrictions.disks_conflict(pod_class.pod, gone.pod):
                return True
            return not claims.isdisjoint(volumes_events.claim_names(pod_class, ephemeral=False))

        return helps if gone.pod.spec.volumes else helps_none

    return (
        ClusterEventWithHint("AssignedPod", ("Delete",), after_delete),
        ClusterEventWithHint("Node", ("Add",)),
        ClusterEventWithHint(
            volumes_events.CLAIM, ("Add",), lambda old, new: volumes_events.helps_users_of(new, ephemeral=False)
        ),
    )
