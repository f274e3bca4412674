"""The types of `trireme.dev/v1alpha1`."""

from trireme_kube.apimachinery.schema import BOOL, DURATION, INT32, STRING, Field, Many, struct

_TLS_FIELDS = (
    Field("certFile", STRING),
    Field("keyFile", STRING),
    Field("caFile", STRING),
    Field("allowedIdentities", Many(STRING)),
)
TLS = struct("v1alpha1", "TLS", *_TLS_FIELDS)
PHASE = struct(
    "v1alpha1",
    "Phase",
    Field("endpoints", Many(STRING)),
    Field("localReplicas", INT32),
    Field("deadline", DURATION),
    Field("allowedIdentities", Many(STRING)),
)
REMOTE_PLUGIN = struct(
    "v1alpha1",
    "RemotePlugin",
    Field("name", STRING),
    Field("address", STRING),
    Field("addresses", Many(STRING)),
    Field("hedging", BOOL),
    Field("budgetPerSecond", DURATION),
    Field("extensionPoints", Many(STRING)),
    Field("deadline", DURATION),
    Field("mode", STRING),
    Field(
        "canary",
        struct(
            "v1alpha1",
            "Canary",
            Field("address", STRING),
            Field("addresses", Many(STRING)),
            Field("percent", INT32),
            Field("failurePolicy", STRING),
        ),
    ),
    Field("failurePolicy", STRING),
    Field(
        "circuitBreaker",
        struct("v1alpha1", "CircuitBreaker", Field("failures", INT32), Field("openFor", DURATION)),
    ),
    Field("tls", struct("v1alpha1", "TLS", *_TLS_FIELDS, optional=True)),
    Field("handleIdentities", Many(STRING)),
)
CONFIGURATION = struct(
    "v1alpha1",
    "TriremeConfiguration",
    Field("kind", STRING, embedded_in="TypeMeta"),
    Field("apiVersion", STRING, embedded_in="TypeMeta"),
    Field(
        "phases",
        struct("v1alpha1", "Phases", Field("filter", PHASE), Field("score", PHASE), Field("bind", PHASE)),
    ),
    Field(
        "insight",
        struct(
            "v1alpha1",
            "Insight",
            Field("endpoints", Many(STRING)),
            Field("deadline", DURATION),
            Field("allowedIdentities", Many(STRING)),
        ),
    ),
    Field("fallback", struct("v1alpha1", "Fallback", Field("mode", STRING), Field("after", DURATION))),
    Field("remotePlugins", Many(REMOTE_PLUGIN)),
    Field("tls", TLS),
    Field("batch", struct("v1alpha1", "Batch", Field("maxPods", INT32), Field("linger", DURATION))),
    Field("handle", struct("v1alpha1", "Handle", Field("listen", STRING), Field("allowedIdentities", Many(STRING)))),
    Field("admin", struct("v1alpha1", "Admin", Field("socket", STRING))),
    Field("columnCacheClasses", INT32),
)
