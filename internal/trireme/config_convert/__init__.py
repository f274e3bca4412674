"""Converts configurations of older schedulers: `trireme config convert`.

Kubernetes has changed the configuration of its scheduler five times, and rejects older ones. This package reads all of
them and writes the KubeSchedulerConfiguration `v1` with the same effect: a Policy, an algorithm provider, the versions
`v1alpha1` to `v1beta3`, and the command lines of those versions. Each setting without an equivalent becomes a `Note`,
which the written file has as a comment.

`reading` reads old objects and reports fields that no conversion has read; `registry.legacy` has the tables of renamed
and removed plugins; `plugin_lists`, `profiles`, `policies` and `configurations` convert the parts; `command_lines` the
flags; `writing` assembles the result, and checks it as the scheduler would.
"""
