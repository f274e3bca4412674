"""The types of `kubescheduler.config.k8s.io/v1`: KubeSchedulerConfiguration, and the arguments that plugins declare.

Source: k8s.io/kube-scheduler/config/v1, k8s.io/component-base/config/v1alpha1.
"""

from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_kit import args_schema
from trireme.registry import in_tree_args
from trireme_kube.apimachinery.schema import (
    BOOL,
    BYTES,
    DURATION,
    FLOAT32,
    INT32,
    INT64,
    OPTIONAL_BOOL,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    RAW,
    STRING,
    Field,
    Many,
    Struct,
    struct,
)

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
    *args_schema.TYPE_META,
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

#: The types of plugins' arguments, by kind.
ARGS: dict[str, Struct] = {args.schema.name: args.schema for args in in_tree_args.plugin_args().values()}
#: Every kind of the API version.
KINDS: dict[str, Struct] = {CONFIGURATION.name: CONFIGURATION, **ARGS}
