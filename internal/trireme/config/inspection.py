"""Checks configuration files without starting anything: for `trireme config validate` and `print`.

The rules and their order are those of the start, except for what depends on the machine: no socket is opened, no
certificate made, no kubeconfig read. So a file can be checked at a desk or in CI. `locate` finds the line and column of
a problem.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trireme.config import gates, loading, scheduler_configuration, trireme_configuration
from trireme.config.commandline import without_secrets
from trireme.config.gates import FeatureGates
from trireme.config.leader_election import check_lock, check_timing
from trireme.config.profiles import construct_profiles
from trireme.config.scheduler_configuration import CompletedProfile, Extender, SchedulerConfiguration
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery import configuration_files
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.componentbase.cli import versions

_FIELD = re.compile(r'(?:unknown|duplicate) field "((?:[^"\\]|\\.)+)"')
_TYPE = re.compile(r"cannot unmarshal (\w+) into Go struct field \w*\.(\S+) of type")
#: In messages about plugins' arguments, what follows names fields relative to the arguments.
_PLUGIN_CONFIG = re.compile(r"decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\]): ")
_LINE = re.compile(r"\bline (\d+):")
_PATH = re.compile(r"([A-Za-z]\w*(?:\.[\w-]+|\[[^\]]*\])*): (Required value)?")
_STEP = re.compile(r"\.?([\w-]+)|\[([^\]]*)\]")

_KINDS = {"object": yaml.MappingNode, "array": yaml.SequenceNode}
_TAGS = {
    "string": ("str", "timestamp"),
    "number": ("int", "float"),
    "bool": ("bool",),
}
# Booleans without quotes for Kubernetes' parser, not all of them for this one.
_BOOLEANS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})

# In a text that cannot be parsed: at the beginning of a line, or in JSON.
_OWN_API_VERSION = re.compile(
    rb"""(?:^|[{,])\W*apiVersion["']?\s*:\s*["']?%s/""" % re.escape(trireme_configuration.API_GROUP).encode(),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class InspectedConfiguration:
    """The contents of files, with all defaults."""

    configuration: SchedulerConfiguration
    profiles: tuple[CompletedProfile, ...]
    trireme: TriremeConfiguration

    def document(self) -> dict[str, Any]:
        """The configuration as YAML would have it, without private keys."""
        return without_secrets(scheduler_configuration.to_document(self.configuration))


def feature_gates(texts: Sequence[str]) -> FeatureGates:
    """Feature gates from `name=true|false` texts. Raises: ConfigurationError: one is invalid."""
    try:
        return gates.set_gates(gates.parse_gates(",".join(texts)), versions.effective((), ())).gates
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def is_own(data: bytes) -> bool:
    """Whether a file has a TriremeConfiguration, or seems to if it cannot be parsed."""
    try:
        return configuration_files.read_kind(loading.parse(data).node).group == trireme_configuration.API_GROUP
    except ConfigurationError:
        return _OWN_API_VERSION.search(data) is not None


def without_absent_files(extender: Extender) -> Extender:
    """The extender without certificates, keys and authorities that are not on this machine; inline data stays."""
    tls = extender.tls_config
    if tls is None:
        return extender
    pair = bool(tls.cert_data or tls.key_data) or all(Path(file).exists() for file in (tls.cert_file, tls.key_file))
    authorities = bool(tls.ca_data) or Path(tls.ca_file).exists()
    return replace(
        extender,
        tls_config=replace(
            tls,
            cert_file=tls.cert_file if pair else "",
            key_file=tls.key_file if pair else "",
            ca_file=tls.ca_file if authorities else "",
        ),
    )


def inspect(
    data: bytes | None, trireme: TriremeConfiguration, enabled: FeatureGates, *, elsewhere: bool = False
) -> InspectedConfiguration:
    """Checks a KubeSchedulerConfiguration, or the default one, together with Trireme's settings.

    `elsewhere`: it is for another machine, so files of extenders that are absent here are not checked.

    Raises:
        ConfigurationError: the scheduler would not start with it.
    """
    if data is None:
        config = loading.default_configuration(enabled)
    else:
        config = loading.load(data, enabled, _discard_log_line)
    problems = scheduler_configuration.validate(config, enabled)
    if problems:
        raise ConfigurationError(join_messages(problems), problems)
    check_lock(config.leader_election)
    checked = replace(config, extenders=tuple(map(without_absent_files, config.extenders))) if elsewhere else config
    constructed = construct_profiles(
        checked, trireme_configuration.registry_with_remote_plugins(IN_TREE, trireme), enabled, _discard_log_line
    )
    check_timing(config.leader_election)
    configuration = constructed.configuration
    if elsewhere:
        configuration = replace(configuration, extenders=config.extenders)
    return InspectedConfiguration(configuration, constructed.profiles, trireme)


def plugin_table(profile: CompletedProfile) -> list[str]:
    """The plugins of a profile by extension point, for people."""
    lines = [f"{profile.scheduler_name}:"]
    for point in ExtensionPoint:
        plugins = profile.plugins[point]
        if plugins:
            labels = (f"{plugin.name} ({plugin.weight})" if point.weighted else plugin.name for plugin in plugins)
            lines.append(f"  {point.value:<20} {', '.join(labels)}")
    return lines


def _discard_log_line(_line: str) -> None:
    """Discard a log line: those about a configuration are for the scheduler's log."""


# The place of a problem in a file. Messages are kube-scheduler's, which name a field path or, if the file cannot be
# parsed, a line. Both are looked up in the text, with a second, lenient parser.


class Position(NamedTuple):
    """A place in a text; both numbers begin with 1."""

    line: int
    column: int


def locate(data: bytes, problem: str) -> Position | None:
    """Find the place of a problem (one of our error messages) in the text, by the path in it; None: nowhere."""
    text = data.decode("utf-8", "replace")
    if "json parse error" in problem and "cannot unmarshal" not in problem:
        return _json_syntax_position(text)
    if text.lstrip().startswith("{"):
        # JSON has tabs between values only, where YAML has none.
        text = text.replace("\t", " ")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return _yaml_syntax_position(problem, error)
    except yaml.YAMLError:
        return None
    if root is None:
        return None
    if found := _PLUGIN_CONFIG.match(problem):
        path = f"{found[1]}.args"
        _, arguments = _nearest_entry(root, path)
        return _position_below_node(arguments, problem) or _position_at(root, path, of_key=False)
    return _position_below_node(root, problem)


def _position_below_node(root: yaml.Node, problem: str) -> Position | None:
    """The place of a problem whose message names fields relative to this node; None: the message names no place."""
    if found := _FIELD.search(problem):
        return _position_at(root, found[1], of_key=True)
    if found := _TYPE.search(problem):
        return _position_of_wrong_type(root, found[1], found[2])
    if found := _LINE.search(problem):
        return Position(int(found[1]), 1)
    if found := _PATH.match(problem):
        # What is missing is to be added here, where nothing of it is there.
        return _position_at(root, found[1], of_key=False) or (_start_position(root) if found[2] else None)
    return None


def _json_syntax_position(text: str) -> Position | None:
    """The place where the text stops being JSON; None: it is valid JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return Position(error.lineno, error.colno)
    return None


def _yaml_syntax_position(problem: str, error: yaml.MarkedYAMLError) -> Position | None:
    """The place where the text stops being YAML; None: the error names none."""
    mark = error.problem_mark
    found = _LINE.search(problem)
    if mark is not None and (found is None or mark.line + 1 == int(found[1])):
        return Position(mark.line + 1, mark.column + 1)
    return Position(int(found[1]), 1) if found else None


def _position_at(root: yaml.Node, path: str, *, of_key: bool) -> Position | None:
    """The field at that path, or the nearest existing one that contains it; None if there is none."""
    key, node = _nearest_entry(root, path)
    if node is root:
        return None
    return _start_position(key if of_key else node)


def _start_position(node: yaml.Node) -> Position:
    """The place where the node begins."""
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _nearest_entry(root: yaml.Node, path: str) -> tuple[yaml.Node, yaml.Node]:
    """Key and value of the field at that path, or of the nearest existing one that contains it."""
    node = key = root
    for name, index in _STEP.findall(path):
        step = _key_and_value_of(node, name or index)
        if step is None:
            break
        key, node = step
    return key, node


def _key_and_value_of(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """The key and the value of a mapping's member; of a list's element, itself twice. None: there is none."""
    if isinstance(node, yaml.MappingNode):
        # Of duplicate keys the last one is at fault.
        found = [pair for pair in node.value if getattr(pair[0], "value", None) == name]
        return found[-1] if found else None
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        element = node.value[int(name)]
        return element, element
    return None


def _position_of_wrong_type(root: yaml.Node, kind: str, path: str) -> Position | None:
    """The first value with a type that the field, whose path names no elements of lists, cannot have."""
    for node in _values_below(root, path.split(".")):
        if _is_of_reported_type(node, kind):
            return _start_position(node)
    return None


def _is_of_reported_type(node: yaml.Node, kind: str) -> bool:
    """Whether a value is of the type `kind`, as error messages about wrong types name it."""
    if kind in _KINDS:
        return isinstance(node, _KINDS[kind])
    if kind == "bool" and isinstance(node, yaml.ScalarNode) and node.style is None and node.value.lower() in _BOOLEANS:
        return True
    return node.tag.rpartition(":")[2] in _TAGS.get(kind, ())


def _values_below(node: yaml.Node, names: list[str]) -> Iterator[yaml.Node]:
    """All values at a path, whatever the position in lists on the way."""
    if isinstance(node, yaml.SequenceNode) and names:
        for element in node.value:
            yield from _values_below(element, names)
    elif not names:
        yield node
        if isinstance(node, yaml.SequenceNode):
            yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if getattr(key, "value", None) == names[0]:
                yield from _values_below(value, names[1:])
