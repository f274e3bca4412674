"""Findings about a kube-scheduler's flags, gates and configuration: which carry over, which differ, and the next step.

Pure: what was read is an argument. Judged by the same code that the frontend starts with, so that a finding is what the
frontend would do.

Also change: internal/trireme/config/serving_flags.py,
internal/trireme/delegated_access/serving_trust.py (names of flags).

Tests: tests/unit/shadow/test_migration_findings.py.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from trireme.config import (
    command_flags,
    gate_effects,
    gates,
    inspection,
    loading,
    scheduler_configuration,
    trireme_configuration,
)
from trireme.config.gates import FeatureGates
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE
from trireme.shadow.migration.finding import Finding, FindingKind
from trireme.shadow.migration.scheduler_reading import VisibleScheduler
from trireme_kube.apimachinery import configuration_files
from trireme_kube.componentbase import documents
from trireme_kube.componentbase.cli import flags, versions

_VERSION = re.compile(r":(v\d+\.\d+)(\.\d+)?")
# What a URL may have of secrets: before its host, and after its path. It ends at a space or a quotation mark.
_USER = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'/?#]*@""")
_QUERY = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://[^\s"'?#]*)[?#][^\s"']*""")
# Flags that name files of the control plane's node, or addresses there.
_OF_THE_PLACE = frozenset(
    {
        "authentication-kubeconfig",
        "authorization-kubeconfig",
        "bind-address",
        "client-ca-file",
        "config",
        "kubeconfig",
        "tls-cert-file",
        "tls-private-key-file",
    }
)


def of_scheduler(found: VisibleScheduler) -> list[Finding]:
    """The findings about one kube-scheduler, in the order of reading; without next steps."""
    enabled, about_gates = _gates(found)
    all_findings = [
        *_version(found),
        *_flags(found),
        *about_gates,
        *_configuration(found, enabled),
    ]
    return [
        dataclasses.replace(each, subject=without_secrets(each.subject), text=without_secrets(each.text))
        for each in all_findings
    ]


def without_secrets(text: str) -> str:
    """The text with REDACTED in place of user, password and query of each URL in it: reports are sent around."""
    return _QUERY.sub(r"\1?REDACTED", _USER.sub(r"\1REDACTED@", text))


def next_steps(findings: Sequence[Finding]) -> list[Finding]:
    """The steps that follow from the findings, in order."""
    texts = []
    if any(each.kind is FindingKind.UNKNOWN for each in findings):
        texts.append("give the scheduler's file: `trireme shadow check --kube-scheduler-config FILE`")
    if any(each.kind is FindingKind.DIFFERS for each in findings):
        texts.append("decide about each difference above, and change the configuration where one matters to you")
    refused = ", ".join(dict.fromkeys(each.subject for each in findings if each.refused))
    if refused:
        texts.append(f"change what the frontend does not start with ({refused}), and run this check again")
        return _numbered(texts)
    texts += [
        "let `trireme shadow` run with that configuration (`--config FILE`) until it has compared the workloads that "
        "matter, and read each binding that is different",
        "run Trireme beside kube-scheduler under a schedulerName of its own, for a namespace that can be spared "
        f"({documents.MOVING_A_NAMESPACE})",
        f"put Trireme in kube-scheduler's place ({documents.REPLACING}); the way back is there too",
    ]
    return _numbered(texts)


def _numbered(texts: Sequence[str]) -> list[Finding]:
    return [Finding(FindingKind.NEXT, f"{number}.", text) for number, text in enumerate(texts, start=1)]


def unreadable_text(configuration: bytes) -> str:
    """Why a file is none that could be judged: it cannot be parsed, or is no KubeSchedulerConfiguration; empty: it is.

    One of another version is judged: `trireme config convert` may bring it up to date.
    """
    try:
        kind = configuration_files.read_kind(loading.parse(configuration).node)
    except configuration_files.ConfigurationError as error:
        return str(error)
    if not kind.kind or not kind.version:
        return "it has no apiVersion and kind, so it is no KubeSchedulerConfiguration"
    if kind.kind != scheduler_configuration.KIND:
        return f"it is a {kind.kind} of {kind.api_version}, and no {scheduler_configuration.KIND}"
    return ""


def not_visible(reason: str) -> Finding:
    """Nothing of the scheduler can be seen."""
    return Finding(FindingKind.UNKNOWN, "kube-scheduler", reason)


def _version(found: VisibleScheduler) -> Iterator[Finding]:
    """The version of the image."""
    if not found.image:
        return
    match = _VERSION.search(found.image)
    minor = ".".join(versions.KUBERNETES.split(".")[:2])
    if match is None:
        yield Finding(FindingKind.UNKNOWN, found.image, "the image's tag is no version of Kubernetes")
    elif match.group(1) == minor:
        yield Finding(FindingKind.CARRIES_OVER, found.image, f"Trireme decides as kube-scheduler {minor}")
    else:
        text = f"Trireme decides as kube-scheduler {minor}; this is {match.group(1)}"
        oldest = f"v{'.'.join(map(str, versions.OLDEST))}"
        if oldest <= match.group(1) < minor:
            text += f", which --emulated-version={match.group(1).removeprefix('v')} makes it decide as"
        yield Finding(FindingKind.DIFFERS, found.image, text)


def _flags(found: VisibleScheduler) -> Iterator[Finding]:
    """Each flag: whether the frontend takes it."""
    for argument in found.arguments:
        name = flags.normalize(argument.lstrip("-").partition("=")[0])
        if name == "feature-gates":
            continue
        try:
            flags.parse(command_flags.flag_set(), [argument])
        except flags.FlagError as error:
            advice = command_flags.advice_for_unknown_flag(str(error)) or "the frontend does not start with it"
            yield Finding(FindingKind.DIFFERS, f"--{name}", f"{error}: {advice}", refused=True)
            continue
        text = "the frontend takes the flag as it is"
        if name in _OF_THE_PLACE:
            text += "; what it names is on the control plane's node, where a pod elsewhere does not have it"
        yield Finding(FindingKind.CARRIES_OVER, argument, text)


def _gates(found: VisibleScheduler) -> tuple[FeatureGates, list[Finding]]:
    """The gates in force, and each that is set: its effect."""
    texts = [
        each.partition("=")[2]
        for each in found.arguments
        if flags.normalize(each.lstrip("-").partition("=")[0]) == "feature-gates"
    ]
    try:
        values = gates.parse_gates(",".join(texts))
    except ValueError as error:
        return FeatureGates(), [Finding(FindingKind.DIFFERS, "--feature-gates", str(error), refused=True)]
    findings = [_gate(name, on) for name, on in values.items()]
    known = [f"{name}={str(on).lower()}" for name, on in values.items() if name in gates.read_table().gates]
    try:
        return inspection.feature_gates(known), findings
    except configuration_files.ConfigurationError as error:
        return FeatureGates(), [*findings, Finding(FindingKind.DIFFERS, "--feature-gates", str(error), refused=True)]


def _gate(name: str, on: bool) -> Finding:
    """The effect of one gate that is set."""
    subject, row = f"{name}={str(on).lower()}", gate_effects.rows_by_gate().get(name)
    if name in gate_effects.OF_STAGES:
        return Finding(FindingKind.CARRIES_OVER, subject, "sets all gates of the stage, each with its own effect")
    if name in gate_effects.OF_OTHERS:
        return Finding(FindingKind.CARRIES_OVER, subject, "of other components: no scheduler reads it")
    if row is None:
        text = f"kube-scheduler {versions.KUBERNETES} has no such gate, and the frontend does not start with it"
        return Finding(FindingKind.DIFFERS, subject, text, refused=True)
    if row.ineffective is not None and row.ineffective == on:
        return Finding(FindingKind.DIFFERS, subject, f"has no effect in Trireme: {row.text}")
    return Finding(FindingKind.CARRIES_OVER, subject, row.text or "is implemented")


def _configuration(found: VisibleScheduler, enabled: FeatureGates) -> Iterator[Finding]:
    """The configuration file."""
    place = found.configuration_place
    if found.configuration is None:
        yield from _no_configuration(found)
        return
    if unreadable := unreadable_text(found.configuration):
        yield Finding(FindingKind.UNKNOWN, place, f"it cannot be read: {unreadable}", refused=True)
        return
    try:
        contents = inspection.inspect(found.configuration, trireme_configuration.TriremeConfiguration(), enabled)
    except configuration_files.ConfigurationError as error:
        for problem in error.problems:
            old = "no kind" in problem
            advice = "; `trireme config convert` brings it up to date" if old else _advice_for_plugin(problem)
            yield Finding(FindingKind.DIFFERS, place, f"{problem}{advice}", refused=True)
        return
    names = ", ".join(profile.scheduler_name for profile in contents.profiles)
    yield Finding(FindingKind.CARRIES_OVER, place, f"the frontend starts with it; profiles: {names}")
    for profile in contents.profiles:
        scored = ", ".join(f"{each.name} {each.weight}" for each in profile.plugins[ExtensionPoint.SCORE])
        yield Finding(FindingKind.CARRIES_OVER, profile.scheduler_name, f"scores with the same weights: {scored}")
        if not profile.percentage_of_nodes_to_score:
            yield _sampling(f"{profile.scheduler_name}, percentageOfNodesToScore")
    for extender in contents.configuration.extenders:
        text = "is called as by kube-scheduler; shadow does not call it, so its decisions are made without it"
        yield Finding(FindingKind.CARRIES_OVER, f"extender {extender.url_prefix}", text)


def _no_configuration(found: VisibleScheduler) -> Iterator[Finding]:
    """No configuration file was read: there is none, or it is not visible."""
    if found.configuration_place:
        text = found.problem or "the file is not in a ConfigMap, so it is on the node or in the image: not visible"
        yield Finding(FindingKind.UNKNOWN, found.configuration_place, text)
    elif found.problem:
        yield Finding(FindingKind.UNKNOWN, found.place, found.problem)
    elif found.arguments or found.image:
        yield Finding(FindingKind.CARRIES_OVER, "configuration", "none is given: both have the same defaults")
        yield _sampling("percentageOfNodesToScore")


def _sampling(subject: str) -> Finding:
    """The default share of nodes that are scored."""
    text = (
        "unset: in clusters of more than 100 nodes kube-scheduler scores a sample, Trireme all nodes; bindings may be "
        "different because a better node was not in the sample"
    )
    return Finding(FindingKind.DIFFERS, subject, text)


def _advice_for_plugin(problem: str) -> str:
    """Advice for plugins that are compiled into a kube-scheduler of one's own."""
    missing = "does not exist" in problem or "not found" in problem
    if not missing or any(name in problem for name in IN_TREE.plugins):
        return ""
    return f"; a plugin of your own becomes a service ({documents.PROTOCOL}), and a TriremeConfiguration names it"
