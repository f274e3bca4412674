"""The types of `kubescheduler.config.k8s.io/v1`: KubeSchedulerConfiguration and the plugins' arguments.

Source: k8s.io/kube-scheduler/config/v1, k8s.io/component-base/config/v1alpha1, and the parts of k8s.io/api/core/v1 that
plugin arguments contain.
"""

from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery.schema import (
    BOOL,
    BYTES,
    DURATION,
    FLOAT32,
    INT32,
    INT64,
    OPTIONAL_BOOL,
    OPTIONAL_DURATION,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    RAW,
    STRING,
    Field,
    Kind,
    Many,
    Scalar,
    StringMap,
    Struct,
    struct,
)

TYPE_META = (
    Field("kind", STRING, embedded_in="TypeMeta"),
    Field("apiVersion", STRING, embedded_in="TypeMeta"),
)


def _named(name: str, *, optional: bool = False) -> Scalar:
    return Scalar(Kind.STRING, optional=optional, go_name=name)


LEADER_ELECTION = struct(
    "v1alpha1",
    "LeaderElectionConfiguration",
    Field("leaderElect", OPTIONAL_BOOL, omitempty=False),
    Field("leaseDuration", DURATION, omitempty=False),
    Field("renewDeadline", DURATION, omitempty=False),
    Field("retryPeriod", DURATION, omitempty=False),
    Field("resourceLock", STRING, omitempty=False),
    Field("resourceName", STRING, omitempty=False),
    Field("resourceNamespace", STRING, omitempty=False),
)

CLIENT_CONNECTION = struct(
    "v1alpha1",
    "ClientConnectionConfiguration",
    Field("kubeconfig", STRING, omitempty=False),
    Field("acceptContentTypes", STRING, omitempty=False),
    Field("contentType", STRING, omitempty=False),
    Field("qps", FLOAT32, omitempty=False),
    Field("burst", INT32, omitempty=False),
)

PLUGIN = struct("v1", "Plugin", Field("name", STRING, omitempty=False), Field("weight", OPTIONAL_INT32))
PLUGIN_SET = struct("v1", "PluginSet", Field("enabled", Many(PLUGIN)), Field("disabled", Many(PLUGIN)))
MULTI_POINT = "multiPoint"
PLUGINS = struct(
    "v1",
    "Plugins",
    *(Field(point.value, PLUGIN_SET) for point in ExtensionPoint),
    Field(MULTI_POINT, PLUGIN_SET),
    optional=True,
)
PLUGIN_CONFIG = struct("v1", "PluginConfig", Field("name", STRING, omitempty=False), Field("args", RAW))
PROFILE = struct(
    "v1",
    "KubeSchedulerProfile",
    Field("schedulerName", OPTIONAL_STRING),
    Field("percentageOfNodesToScore", OPTIONAL_INT32),
    Field("plugins", PLUGINS),
    Field("pluginConfig", Many(PLUGIN_CONFIG)),
)

EXTENDER_TLS = struct(
    "v1",
    "ExtenderTLSConfig",
    Field("insecure", BOOL),
    Field("serverName", STRING),
    Field("certFile", STRING),
    Field("keyFile", STRING),
    Field("caFile", STRING),
    Field("certData", BYTES),
    Field("keyData", BYTES),
    Field("caData", BYTES),
    optional=True,
)
MANAGED_RESOURCE = struct(
    "v1", "ExtenderManagedResource", Field("name", STRING, omitempty=False), Field("ignoredByScheduler", BOOL)
)
EXTENDER = struct(
    "v1",
    "Extender",
    Field("urlPrefix", STRING, omitempty=False),
    Field("filterVerb", STRING),
    Field("preemptVerb", STRING),
    Field("prioritizeVerb", STRING),
    Field("weight", INT64),
    Field("bindVerb", STRING),
    Field("enableHTTPS", BOOL),
    Field("tlsConfig", EXTENDER_TLS),
    Field("httpTimeout", DURATION),
    Field("nodeCacheCapable", BOOL),
    Field("managedResources", Many(MANAGED_RESOURCE)),
    Field("ignorable", BOOL),
)

CONFIGURATION = struct(
    "v1",
    "KubeSchedulerConfiguration",
    *TYPE_META,
    Field("parallelism", OPTIONAL_INT32),
    Field("leaderElection", LEADER_ELECTION, omitempty=False),
    Field("clientConnection", CLIENT_CONNECTION, omitempty=False),
    Field("enableProfiling", OPTIONAL_BOOL, embedded_in="DebuggingConfiguration"),
    Field("enableContentionProfiling", OPTIONAL_BOOL, embedded_in="DebuggingConfiguration"),
    Field("percentageOfNodesToScore", OPTIONAL_INT32),
    Field("podInitialBackoffSeconds", OPTIONAL_INT64),
    Field("podMaxBackoffSeconds", OPTIONAL_INT64),
    Field("profiles", Many(PROFILE)),
    Field("extenders", Many(EXTENDER)),
    Field("delayCacheUntilActive", BOOL),
)

# Arguments of the plugins.

NODE_SELECTOR_REQUIREMENT = struct(
    "v1",
    "NodeSelectorRequirement",
    Field("key", STRING, omitempty=False),
    Field("operator", _named("v1.NodeSelectorOperator"), omitempty=False),
    Field("values", Many(STRING)),
)
NODE_SELECTOR_TERM = struct(
    "v1",
    "NodeSelectorTerm",
    Field("matchExpressions", Many(NODE_SELECTOR_REQUIREMENT)),
    Field("matchFields", Many(NODE_SELECTOR_REQUIREMENT)),
)
NODE_AFFINITY = struct(
    "v1",
    "NodeAffinity",
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        struct(
            "v1",
            "NodeSelector",
            Field("nodeSelectorTerms", Many(NODE_SELECTOR_TERM), omitempty=False),
            optional=True,
        ),
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        Many(
            struct(
                "v1",
                "PreferredSchedulingTerm",
                Field("weight", INT32, omitempty=False),
                Field("preference", NODE_SELECTOR_TERM, omitempty=False),
            )
        ),
    ),
    optional=True,
)
LABEL_SELECTOR = struct(
    "v1",
    "LabelSelector",
    Field("matchLabels", StringMap()),
    Field(
        "matchExpressions",
        Many(
            struct(
                "v1",
                "LabelSelectorRequirement",
                Field("key", STRING, omitempty=False),
                Field("operator", _named("v1.LabelSelectorOperator"), omitempty=False),
                Field("values", Many(STRING)),
            )
        ),
    ),
    optional=True,
)
SPREAD_CONSTRAINT = struct(
    "v1",
    "TopologySpreadConstraint",
    Field("maxSkew", INT32, omitempty=False),
    Field("topologyKey", STRING, omitempty=False),
    Field("whenUnsatisfiable", _named("v1.UnsatisfiableConstraintAction"), omitempty=False),
    Field("labelSelector", LABEL_SELECTOR),
    Field("minDomains", OPTIONAL_INT32),
    Field("nodeAffinityPolicy", _named("v1.NodeInclusionPolicy", optional=True)),
    Field("nodeTaintsPolicy", _named("v1.NodeInclusionPolicy", optional=True)),
    Field("matchLabelKeys", Many(STRING)),
)
RESOURCE_SPEC = struct("v1", "ResourceSpec", Field("name", STRING, omitempty=False), Field("weight", INT64))
SHAPE_POINT = struct(
    "v1",
    "UtilizationShapePoint",
    Field("utilization", INT32, omitempty=False),
    Field("score", INT32, omitempty=False),
)
SCORING_STRATEGY = struct(
    "v1",
    "ScoringStrategy",
    Field("type", _named("v1.ScoringStrategyType")),
    Field("resources", Many(RESOURCE_SPEC)),
    Field(
        "requestedToCapacityRatio",
        struct("v1", "RequestedToCapacityRatioParam", Field("shape", Many(SHAPE_POINT)), optional=True),
    ),
    optional=True,
)

ARGS: dict[str, Struct] = {
    args.name: args
    for args in (
        struct(
            "v1",
            "DefaultPreemptionArgs",
            *TYPE_META,
            Field("minCandidateNodesPercentage", OPTIONAL_INT32),
            Field("minCandidateNodesAbsolute", OPTIONAL_INT32),
        ),
        struct(
            "v1",
            "DynamicResourcesArgs",
            *TYPE_META,
            Field("filterTimeout", OPTIONAL_DURATION, omitempty=False),
            Field("bindingTimeout", OPTIONAL_DURATION),
        ),
        struct(
            "v1",
            "InterPodAffinityArgs",
            *TYPE_META,
            Field("hardPodAffinityWeight", OPTIONAL_INT32),
            Field("ignorePreferredTermsOfExistingPods", BOOL, omitempty=False),
        ),
        struct("v1", "NodeAffinityArgs", *TYPE_META, Field("addedAffinity", NODE_AFFINITY)),
        struct("v1", "NodeResourcesBalancedAllocationArgs", *TYPE_META, Field("resources", Many(RESOURCE_SPEC))),
        struct(
            "v1",
            "NodeResourcesFitArgs",
            *TYPE_META,
            Field("ignoredResources", Many(STRING)),
            Field("ignoredResourceGroups", Many(STRING)),
            Field("scoringStrategy", SCORING_STRATEGY),
        ),
        struct(
            "v1",
            "PodTopologySpreadArgs",
            *TYPE_META,
            Field("defaultConstraints", Many(SPREAD_CONSTRAINT)),
            Field("defaultingType", _named("v1.PodTopologySpreadConstraintsDefaulting")),
        ),
        struct(
            "v1",
            "VolumeBindingArgs",
            *TYPE_META,
            Field("bindTimeoutSeconds", OPTIONAL_INT64),
            Field("shape", Many(SHAPE_POINT)),
        ),
    )
}
#: Every kind of the API version.
KINDS: dict[str, Struct] = {CONFIGURATION.name: CONFIGURATION, **ARGS}

_WITHOUT_SCHEMA = {plugin.args_kind for plugin in IN_TREE.plugins.values()} - {"", *ARGS}
if _WITHOUT_SCHEMA:
    raise RuntimeError(f"plugin arguments without a schema: {sorted(_WITHOUT_SCHEMA)}")
