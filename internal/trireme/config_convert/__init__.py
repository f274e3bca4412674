"""Configurations of older schedulers, brought up to date: `trireme config convert`.

Kubernetes has changed how its scheduler is configured five times, and refuses what is older. This package reads all of
it and writes the KubeSchedulerConfiguration `v1` that does the same: a Policy, an algorithm provider, the versions
`v1alpha1` to `v1beta3`, and the command lines of those days. What has no equivalent is not passed over in silence: each
such thing becomes a `Note`, which the written file has as a comment.

`reading` takes old objects apart and notices what nobody looked at; `legacy` are the facts about what was renamed and
removed; `plugin_lists`, `profiles`, `policies` and `versions` convert the parts; `command_lines` the flags; `writing`
puts it together, and checks what came of it as the scheduler would.
"""
