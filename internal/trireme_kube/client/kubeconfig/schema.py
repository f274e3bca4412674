"""The types of a kubeconfig file.

Source: k8s.io/client-go/tools/clientcmd/api/v1.
"""

from trireme_kube.apimachinery.schema import (
    BOOL,
    BYTES,
    INT32,
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

_EXTENSIONS = Field("extensions", Many(struct("v1", "NamedExtension", Field("name", STRING), Field("extension", RAW))))

CLUSTER = struct(
    "v1",
    "Cluster",
    Field("server", STRING),
    Field("tls-server-name", STRING),
    Field("insecure-skip-tls-verify", BOOL),
    Field("certificate-authority", STRING),
    Field("certificate-authority-data", BYTES),
    Field("proxy-url", STRING),
    Field("disable-compression", BOOL),
    Field("min-connection-pool-size", INT32),
    _EXTENSIONS,
)
USER = struct(
    "v1",
    "AuthInfo",
    Field("client-certificate", STRING),
    Field("client-certificate-data", BYTES),
    Field("client-key", STRING),
    Field("client-key-data", BYTES),
    Field("token", STRING),
    Field("tokenFile", STRING),
    Field("as", STRING),
    Field("as-uid", STRING),
    Field("as-groups", Many(STRING)),
    Field("as-user-extra", StringMap(lists=True)),
    Field("username", STRING),
    Field("password", STRING),
    Field(
        "auth-provider",
        struct("v1", "AuthProviderConfig", Field("name", STRING), Field("config", StringMap()), optional=True),
    ),
    Field(
        "exec",
        struct(
            "v1",
            "ExecConfig",
            Field("command", STRING),
            Field("args", Many(STRING)),
            Field("env", Many(struct("v1", "ExecEnvVar", Field("name", STRING), Field("value", STRING)))),
            Field("apiVersion", STRING),
            Field("installHint", STRING),
            Field("provideClusterInfo", BOOL),
            Field("interactiveMode", Scalar(Kind.STRING, go_name="v1.ExecInteractiveMode")),
            optional=True,
        ),
    ),
    _EXTENSIONS,
)
CONTEXT = struct(
    "v1",
    "Context",
    Field("cluster", STRING),
    Field("user", STRING),
    Field("namespace", STRING),
    _EXTENSIONS,
)
CONFIG: Struct = struct(
    "v1",
    "Config",
    Field("kind", STRING),
    Field("apiVersion", STRING),
    Field("preferences", struct("v1", "Preferences", Field("colors", BOOL), _EXTENSIONS)),
    Field("clusters", Many(struct("v1", "NamedCluster", Field("name", STRING), Field("cluster", CLUSTER)))),
    Field("users", Many(struct("v1", "NamedAuthInfo", Field("name", STRING), Field("user", USER)))),
    Field("contexts", Many(struct("v1", "NamedContext", Field("name", STRING), Field("context", CONTEXT)))),
    Field("current-context", STRING),
    _EXTENSIONS,
)
