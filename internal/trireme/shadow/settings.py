"""The configuration that shadow decides with: a KubeSchedulerConfiguration as the frontend would complete it.

The connection of the file is not used: it is the other scheduler's. Extenders are left out, because calling them would
be an effect on the cluster; profiles that name plugins which are not in-tree are refused as the frontend does.

Tests: tests/unit/shadow/test_flags.py.
"""

import dataclasses
from collections.abc import Sequence

from trireme.config import command_flags, commandline, inspection, trireme_configuration
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery import configuration_files
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.componentbase.cli import flags


@dataclasses.dataclass(frozen=True, slots=True)
class ShadowConfiguration:
    """The completed configuration, and what of the file does not take part."""

    completed: commandline.CompletedConfig
    #: Sentences for people.
    notices: tuple[str, ...]


def load(path: str, gate_texts: Sequence[str], server: str) -> ShadowConfiguration:
    """Complete the configuration of a file, or the default one for an empty path; `server` is the API server's address.

    Raises: ConfigurationError: the scheduler would not start with it.
    """
    enabled = inspection.feature_gates(gate_texts)
    data = configuration_files.read_file(path) if path else None
    contents = inspection.inspect(data, trireme_configuration.TriremeConfiguration(), enabled)
    configuration, notices = contents.configuration, []
    if configuration.extenders:
        count = len(configuration.extenders)
        notices.append(f"{count} HTTP extenders of the configuration are not called: decisions are made without them")
        configuration = dataclasses.replace(configuration, extenders=())
    completed = commandline.CompletedConfig(
        configuration,
        contents.profiles,
        enabled.with_corrections(contents.trireme.corrected),
        command_flags.options_of(flags.parse(command_flags.flag_set(), [])),
        contents.trireme,
        IN_TREE,
        Connection(server),
        None,
    )
    return ShadowConfiguration(completed, tuple(notices))
