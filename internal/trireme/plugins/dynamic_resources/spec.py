"""The spec of DynamicResources."""

from trireme.framework.plugin_spec import ASSUMING, FILTERING, ExtensionPoint, LazyImport, PluginSpec, Role
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
    implementations={
        ExtensionPoint.PRE_ENQUEUE: LazyImport(".pre_enqueue:make"),
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
        ExtensionPoint.POST_FILTER: LazyImport(".post_filter:make"),
        ExtensionPoint.POD_GROUP_POST_FILTER: LazyImport(".pod_group_post_filter:make"),
        ExtensionPoint.PRE_BIND: LazyImport(".bind:make"),
        ExtensionPoint.RESERVE: LazyImport(".unreserve:unreserve"),
    },
    actions={
        "deallocate": LazyImport(".claim_actions:deallocate"),
        "remove_claim_user": LazyImport(".claim_actions:remove_user"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    args=LazyImport(".args:ARGS"),
    ignores_deferred_resizes=True,
    role=Role.CLAIM_RELEASE,
)
