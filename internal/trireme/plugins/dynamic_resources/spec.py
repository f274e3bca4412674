"""What DynamicResources consists of."""

from trireme.framework.plugin_spec import ASSUMING, FILTERING, ExtensionPoint, PluginSpec, Role, Side
from trireme.framework.resource_fields import RESOURCE_FIELDS

SPEC = PluginSpec(
    "DynamicResources",
    frozenset(
        {
            ExtensionPoint.PRE_ENQUEUE,
            *FILTERING,
            ExtensionPoint.POST_FILTER,
            ExtensionPoint.POD_GROUP_POST_FILTER,
            ExtensionPoint.SCORE,
            *ASSUMING,
        }
    ),
    __package__,
    pod_fields=(
        *RESOURCE_FIELDS,
        "metadata.ownerReferences",
        "spec.resourceClaims",
        "spec.schedulingGroup",
        "status.resourceClaimStatuses",
        "status.extendedResourceClaimStatus",
    ),
    sides={
        ExtensionPoint.PRE_ENQUEUE: Side(".pre_enqueue:make"),
        ExtensionPoint.FILTER: Side(".filter:make"),
        ExtensionPoint.SCORE: Side(".score:make"),
        ExtensionPoint.POST_FILTER: Side(".post_filter:make"),
        ExtensionPoint.POD_GROUP_POST_FILTER: Side(".pod_group_post_filter:make"),
        ExtensionPoint.PRE_BIND: Side(".bind:make"),
        ExtensionPoint.RESERVE: Side(".unreserve:unreserve"),
    },
    actions={"deallocate": Side(".claim_actions:deallocate"), "remove_claim_user": Side(".claim_actions:remove_user")},
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    ignores_deferred_resizes=True,
    role=Role.CLAIM_RELEASE,
)
