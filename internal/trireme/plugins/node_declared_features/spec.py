"""What NodeDeclaredFeatures consists of."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeDeclaredFeatures",
    frozenset(FILTERING),
    __package__,
    pod_fields=(
        "spec.containers.restartPolicyRules",
        "spec.initContainers.restartPolicyRules",
        "spec.containers.volumeMounts",
        "spec.initContainers.volumeMounts",
        "spec.ephemeralContainers",
        "spec.hostNetwork",
        "spec.hostUsers",
    ),
    sides={ExtensionPoint.FILTER: Side(".filter:make")},
    events_to_register=Side(".hints:events_to_register"),
    explain=Side(".explain:TEXTS"),
    ignores_deferred_resizes=True,
)
