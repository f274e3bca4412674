"""The spec of NodeDeclaredFeatures."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, LazyImport, PluginSpec

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
    implementations={ExtensionPoint.FILTER: LazyImport(".filter:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    ignores_deferred_resizes=True,
)
