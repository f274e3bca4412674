"""Configuration: files, flags and feature gates, from text to one checked value.

It is a package of its own because an operator's first hour with a scheduler is spent here: everything that
kube-scheduler accepts is accepted, everything that it rejects is rejected with the same message, and no later code has
to check a setting again. It is pure (input: text and a file system; output: values and messages), except for the port
that `secure_serving` binds.

Modules: `commandline` runs all of it in kube-scheduler's order, up to a `CompletedConfig`; `command_flags` types the
flags. API types are declared once, each in its module: KubeSchedulerConfiguration in `scheduler_configuration`,
Trireme's own settings in `trireme_configuration`, a plugin's arguments in its folder.
`trireme_kube.apimachinery.declaration` derives from that how they are read, checked and written; `loading` reads files,
with `defaults` for plugins and their arguments; `profiles` expands what each profile runs. `trireme.config_convert`
rewrites configurations of older schedulers.
"""
