"""Writes the new configuration: comments, then YAML, after checking that the scheduler accepts it.

The result is loaded with the scheduler's own code before it is printed. An old configuration may contain mistakes that
were ignored then, and should fail here rather than when the scheduler starts.

Tests: tests/unit/config_convert/test_command_lines.py.
"""

import textwrap
from dataclasses import replace
from pathlib import Path

from trireme.config import gates, inspection, loading, profiles, scheduler_configuration
from trireme.config.gates import FeatureGates
from trireme.config.scheduler_configuration import Extender, SchedulerConfiguration
from trireme.config_convert import command_lines
from trireme.config_convert.drafts import Draft, Sources
from trireme.config_convert.reading import ConversionError
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.apimachinery.yaml_writer import write_yaml
from trireme_kube.componentbase.cli import versions

_WIDTH = 100


def convert(arguments: list[str], sources: Sources) -> str:
    """Convert a file or a command line.

    Raises:
        FlagError: the command line cannot be read.
        ConfigurationError: what was there before cannot be read, or makes no configuration that works.
    """
    draft = command_lines.convert(arguments, sources)
    text = write_yaml(draft.document())
    for file in _check_scheduler_accepts(text):
        draft.note("extenders", f"{file} is not on this machine, and not checked")
    return "\n".join([*_comment_lines(draft), text])


def _check_scheduler_accepts(text: str) -> list[str]:
    """Load the result as the scheduler would; returns the files of extenders that are not on this machine.

    Raises: ConversionError: it would not work.
    """
    current = gates.set_gates({}, versions.effective((), ())).gates
    try:
        config = loading.load(text.encode(), current, _discard_log_line)
        problems = scheduler_configuration.validate(config, current)
        if problems:
            raise ConfigurationError(join_messages(problems))
        here = replace(config, extenders=tuple(map(inspection.without_absent_files, config.extenders)))
        _check_profiles_constructible(here, current)
    except ConfigurationError as error:
        raise ConversionError(f"the result would not work: {error}") from error
    return [
        file
        for before, after in zip(config.extenders, here.extenders, strict=True)
        for file in sorted(_files_of(before) - _files_of(after))
        if not Path(file).exists()
    ]


def _files_of(extender: Extender) -> set[str]:
    """The files that the extender's TLS settings name."""
    tls = extender.tls_config
    return set() if tls is None else {file for file in (tls.cert_file, tls.key_file, tls.ca_file) if file}


def _check_profiles_constructible(config: SchedulerConfiguration, current: FeatureGates) -> None:
    """Construct the profiles; unknown plugins count as remote ones with every extension point."""
    names = {
        plugin.name
        for profile in config.profiles
        for point in ExtensionPoint
        for listed in (profile.plugins.at(point), profile.plugins.multi_point)
        for plugin in listed.enabled or ()
    }
    everywhere = frozenset(set(ExtensionPoint) - {ExtensionPoint.QUEUE_SORT})
    remote = (PluginSpec(name, everywhere, remote=True) for name in sorted(names) if name not in IN_TREE)
    profiles.construct_profiles(config, IN_TREE.with_remote(remote), current, _discard_log_line)


def _discard_log_line(_line: str) -> None:
    """Discard a log line."""


def _comment_lines(draft: Draft) -> list[str]:
    """The comments above the configuration: its origin, notes, and flags that stay."""
    lines = _wrapped_lines(f"Written by `{command_lines.PROGRAM}` from {draft.origin}.", "# ", "# ")
    if draft.notes:
        lines += ["#", "# To know:"]
        for note in dict.fromkeys(map(str, draft.notes)):
            lines += _wrapped_lines(note, "# - ", "#   ")
    if draft.flags:
        lines += ["#", "# Flags that stay on the command line, beside --config:"]
        lines += [f"#   {_in_one_line(flag)}" for flag in draft.flags]
    return lines


def _wrapped_lines(text: str, first: str, following: str) -> list[str]:
    """The text in lines of limited width, with these beginnings."""
    return textwrap.wrap(
        _in_one_line(text),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _in_one_line(text: str) -> str:
    """Make text safe for a comment: one line."""
    return "".join(char if char.isprintable() else " " for char in text)
