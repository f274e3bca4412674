"""Configuration: files, flags and feature gates, from text to one checked value.

It is a package of its own because an operator's first hour with a scheduler is spent here: everything that
kube-scheduler accepts is accepted, everything that it rejects is rejected with the same message, and no later code has
to check a setting again. It is pure (input: text and a file system; output: values and messages), except for the port
that `serving` binds.

Modules: `commandline` runs all of it in kube-scheduler's order, up to a `CompletedConfig`; `options` types the flags;
`loading` decodes a KubeSchedulerConfiguration, with the steps `defaults`, `conversion` and `validation`; `profiles`
expands what each profile runs; `trireme_configuration` has Trireme's own settings. `config_convert` rewrites
configurations of older schedulers; `trireme_kube.apimachinery` parses durations, numbers and quoted strings.
"""
