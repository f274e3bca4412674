"""Configuration: files, flags and feature gates, from text to one checked value.

It is a package of its own because an operator's first hour with a scheduler is spent here: everything that
kube-scheduler accepts is accepted, what it refuses is refused with the same words, and nothing later has to check a
setting again. It is pure (text and a file system in, values and messages out) but for the port that `serving` binds.

Where to look: `commandline` runs the whole of it in kube-scheduler's order, up to a `CompletedConfig`; `options` types
the flags; `loading` decodes a KubeSchedulerConfiguration, `defaults`, `conversion` and `validation` are its
steps, `profiles` expands what each profile runs; `own` is Trireme's own TriremeConfiguration.
Configurations of older schedulers are the business of `config_convert`; how durations, numbers and quoted strings read
in each text format, that of `trireme_kube.apimachinery`.
"""
