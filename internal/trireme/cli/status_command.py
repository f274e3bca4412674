"""`trireme status`: the state of a running frontend.

Tests: tests/unit/cli/test_display.py.
"""

# Also change: protos/trireme/v1/scheduler_status.proto (the messages).

import argparse
import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import console, measure, text

from trireme.cli import (
    display,
    frontend_connection,
    leadership_display,
    number_arguments,
    processes,
    row_table,
    self_check_display,
    wake_ups_display,
)
from trireme.cli.display import Report
from trireme.framework import programs
from trireme.v1.scheduler_status_pb2 import (
    AbsentApi,
    ConfigurationStatus,
    EndpointStatus,
    LocalPhaseStatus,
    PluginStatus,
    ProfileStatus,
    ReplicaStatus,
    SchedulerStatus,
)
from trireme.wire import json_documents
from trireme_kube.componentbase.cli import arguments

LINES = 20
# More than any cluster has.
_ALL = 1 << 31
# Reasons for which caches are not read: what is wrong with a role or with the API server is wrong with few of them.
_CACHE_ERRORS = 5
# Columns of a terminal on which any table fits.
_UNBOUNDED = 10_000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme status` to the commands."""
    parser = commands.add_parser(
        "status", help="show the state of the scheduler", description=arguments.description_of(__doc__)
    )
    frontend_connection.add_arguments(parser)
    parser.add_argument(
        "--pods",
        type=number_arguments.whole_number(0),
        help=f"show so many pending pods, one per line (default: {LINES} lines, one for all that wait for the same; "
        "all pods as JSON or YAML)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the scheduler's status. Returns the exit code."""
    limit: int | None = options.pods
    pods = limit if limit is not None else _ALL if options.output in ("json", "yaml") else 0
    render_pods = functools.partial(render, one_by_one=limit is not None)
    return frontend_connection.print_report(options, programs.STATUS_PATH, {"pods": str(pods)}, render_pods)


def render(report: Report, wide: bool = False, *, one_by_one: bool = False) -> console.Group:
    """Render a status as text; pending pods by name, or grouped if they wait for the same."""
    status = json_documents.parse(report, SchedulerStatus())
    parts: list[console.RenderableType] = [display.table_of_fields(_summary_fields(status))]
    if status.replicas or status.endpoints:  # a standby has none
        parts += ["", _render_phases(status, wide)]
    if status.plugins:
        parts += ["", _render_plugins(status.plugins)]
    if missed := wake_ups_display.table_of_missed(status.missed_wake_ups):
        parts += ["", missed]
    pending, count = _render_pending_pods(status, wide) if one_by_one else _render_pending_groups(status, wide)
    if count:
        parts += ["", pending]
    more = status.pending_pods - count
    if more > 0:
        parts.append(f"… and {more} more pending pods" if count else f"\n{more} pending pods")
    return console.Group(*parts)


def _summary_fields(status: SchedulerStatus) -> list[tuple[str, str | text.Text]]:
    """Return the first lines of the status: leader, caches, missing phases, queue, cluster."""
    out: list[tuple[str, str | text.Text]] = [
        ("Leader", leadership_display.state_line(status.leadership)),
        *_readiness_fields(status),
        ("Caches", _caches_text(status)),
    ]
    if status.absent_apis:
        out.append(("Not served", _absent_apis_text(status.absent_apis)))
    if status.HasField("configuration"):  # older frontends have none
        out.append(("Configuration", _configuration_text(status.configuration)))
    if status.profiles:  # older frontends have none
        out.append(("Profiles", _profiles_text(status.profiles)))
    if status.missing_phases:
        out.append(("Missing", text.Text(", ".join(status.missing_phases), display.BAD)))
    out.append(("Queue", ", ".join(f"{count} {name}" for name, count in queue_counts(status).items())))
    if status.HasField("wake_up_check"):  # neither older frontends nor a standby have any
        out.append(("Wake-ups", wake_ups_display.check_text(status.wake_up_check)))
    if (checked := self_check_display.check_text(status.replicas)) is not None:
        out.append(("Self-check", checked))
    cluster = status.cluster
    assumed = f" ({cluster.assumed_pods} not yet confirmed)" if cluster.assumed_pods else ""
    counts = f"{cluster.nodes} nodes, {cluster.pods} pods{assumed}, in {cluster.pod_classes} classes of equal pods"
    return [*out, ("Cluster", counts)]


def readiness_lines(status: SchedulerStatus) -> tuple[list[str], list[str]]:
    """The checks of /readyz that fail, and those that warn, each with what is wrong."""
    failing, warning = (
        [f"{each.check}: {each.text}" for each in status.readiness_problems if each.fails == fails]
        for fails in (True, False)
    )
    return failing, warning


def _readiness_fields(status: SchedulerStatus) -> list[tuple[str, text.Text]]:
    """A line for each check of /readyz that fails, then for each that warns."""
    failing, warning = readiness_lines(status)
    fields = [("Not ready", text.Text("\n".join(failing), display.BAD)), ("Warnings", text.Text("\n".join(warning)))]
    return [(name, lines) for name, lines in fields if lines]


def queue_counts(status: SchedulerStatus) -> Mapping[str, int]:
    """How many pods are in each state, by its name for people."""
    queue = status.queue
    return {
        "active": queue.active,
        "backing off": queue.backoff,
        "unschedulable": queue.unschedulable,
        "gated": queue.gated,
        "in flight": queue.in_flight,
        "binding": queue.binding,
    }


def _configuration_text(configuration: ConfigurationStatus) -> text.Text:
    """The hash and age of the configuration in force, and the last one that was refused."""
    age = display.age_text(configuration.loaded_at_ms / 1000)
    out = text.Text(f"{configuration.hash or 'defaults'}, loaded {age} ago")
    if not configuration.HasField("last_refusal"):
        return out
    refusal = configuration.last_refusal
    if not refusal.current:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(refusal.at_ms / 1000))
        return out.append(f"\nthe last refusal, of {at}, is over: {refusal.error}")
    return out.append(f"\nthe files, as they are now, are refused: {refusal.error}", display.BAD)


def _profiles_text(profiles: Iterable[ProfileStatus]) -> text.Text:
    """A line for all profiles with the same differences from the default one."""
    names_by_differences: dict[str, list[str]] = {}
    for profile in profiles:
        parts = [
            f"{verb} {', '.join(plugins)}"
            for verb, plugins in (
                ("adds", profile.added_plugins),
                ("removes", profile.removed_plugins),
                ("changes", profile.changed_plugins),
            )
            if plugins
        ]
        names_by_differences.setdefault("; ".join(parts) or "default plugins", []).append(profile.scheduler_name)
    return text.Text(
        "\n".join(f"{', '.join(names)}: {differences}" for differences, names in names_by_differences.items())
    )


def _absent_apis_text(absent: Iterable[AbsentApi]) -> text.Text:
    """A line for each thing that is off, with the APIs that the API server does not serve for it."""
    apis_by_purpose: dict[str, list[str]] = {}
    for each in absent:
        apis_by_purpose.setdefault(each.purpose, []).append(each.api)
    return text.Text("\n".join(f"{', '.join(apis)}: no {purpose}" for purpose, apis in apis_by_purpose.items()))


def _caches_text(status: SchedulerStatus) -> text.Text:
    """Whether the caches are synced, and a line for each reason why objects cannot be read."""
    names_by_error: dict[str, list[str]] = {}
    for informer in status.informers:
        if informer.last_error or not informer.synced:
            names_by_error.setdefault(informer.last_error, []).append(informer.name)
    listing = names_by_error.pop("", [])
    lines = [f"{', '.join(names)}: {error}" for error, names in names_by_error.items()]
    more = len(lines) - _CACHE_ERRORS
    if more > 0:
        lines[_CACHE_ERRORS:] = [f"… and {more} more that cannot be read"]
    if listing:
        lines.append(f"waiting for {', '.join(listing)}")
    state = "not synced yet" if not status.synced else "synced, but not up to date" if lines else "synced"
    return text.Text("\n".join([state, *lines]), display.BAD if lines or not status.synced else display.GOOD)


def _render_phases(status: SchedulerStatus, wide: bool) -> console.RenderableType:
    """Render a table of the replicas, and of the DNS names and Services that stand for none.

    With the restarts of the replicas that are processes of the frontend, and below the table how each of these ended.
    `wide`: with how far each replica is behind, what it was sent, and with all DNS names and Services.
    """
    own = {each.address: each for each in status.local_phases if each.address}  # older frontends name no address
    restarts = ["RESTARTS"] if own else []
    headers = ["PHASE", "ADDRESS", *restarts, "STATE"]
    if wide:
        headers = ["PHASE", "ADDRESS", *restarts, "BEHIND", "BACKLOG", "SENT", "FULL SYNCS", "STATE"]
    entries: list[Sequence[str | text.Text]] = []
    phases = [*(each.phase for each in status.replicas), *(each.phase for each in status.endpoints)]
    for phase in dict.fromkeys(phases):
        entries += [
            [phase, lookup.endpoint, *("-" * (len(headers) - 3)), _lookup_state(lookup)]
            for lookup in status.endpoints
            if lookup.phase == phase and (wide or lookup.last_error or not lookup.addresses)
        ]
        entries += [
            [
                phase,
                replica.address,
                *([_restarts_text(own.get(replica.address))] if own else ()),
                *(_stream_cells(replica) if wide else ()),
                _replica_state(replica),
            ]
            for replica in status.replicas
            if replica.phase == phase
        ]
    # Beside the long name of a Service the state would be cut off.
    wrapped = ("ADDRESS", "STATE")
    right = ("BEHIND", "BACKLOG", "SENT", "FULL SYNCS")
    table = display.table_of_rows(headers, entries, right=right, wrapped=wrapped)
    ends = [text.Text(f"{each.name} {processes.end_text(each.exit_code)}") for each in own.values() if each.ended_at_ms]
    return console.Group(table, *ends)


def _restarts_text(process: LocalPhaseStatus | None) -> str:
    """How often a process was started again, and when it last ended, as kubectl's RESTARTS column has it."""
    if process is None:
        return "-"
    ended = f" ({display.age_text(process.ended_at_ms / 1000)} ago)" if process.ended_at_ms else ""
    return f"{max(process.starts - 1, 0)}{ended}"


_PLUGIN_HEADERS = ("PLUGIN", "ADDRESS", "VERSION", "POLICY", "BREAKER", "CALLS", "FAILED", "P99", "FOLLOWS AT", "STATE")


def _render_plugins(plugins: Sequence[PluginStatus]) -> console.RenderableType:
    """The remote plugins, and below the table the problem of each."""
    problems = [
        text.Text(_problem_with_plugin_name(plugin), "" if plugin.health == "ok" else display.BAD)
        for plugin in plugins
        if plugin.problem
    ]
    compared = [_comparison_line(plugin) for plugin in plugins if plugin.HasField("shadow")]
    shares = [_canary_line(plugin) for plugin in plugins if plugin.HasField("canary")]
    return console.Group(_PluginTable(plugins), *problems, *compared, *shares)


class _PluginTable:
    """A line for each plugin. On a narrow terminal a second table has the addresses: the state would be cut off."""

    def __init__(self, plugins: Sequence[PluginStatus]) -> None:
        self._rows = [_plugin_cells(plugin) for plugin in plugins]
        follow = any(plugin.HasField("follows") for plugin in plugins)
        self._headers = [header for header in _PLUGIN_HEADERS if follow or header != "FOLLOWS AT"]

    def __rich_console__(
        self, terminal: console.Console, options: console.ConsoleOptions
    ) -> Iterator[console.RenderableType]:
        """The table, or the two."""
        whole = self._table(self._headers)
        if measure.Measurement.get(terminal, options.update(max_width=_UNBOUNDED), whole).maximum <= options.max_width:
            yield whole
            return
        yield self._table([header for header in self._headers if header not in ("ADDRESS", "VERSION")])
        yield ""
        yield self._table(["PLUGIN", "VERSION", "ADDRESS"])

    def _table(self, headers: Sequence[str]) -> row_table.RowTable:
        rows = [[cells[header] for header in headers] for cells in self._rows]
        right = ("CALLS", "FAILED", "P99", "FOLLOWS AT")
        return display.table_of_rows(headers, rows, right=right, wrapped=("PLUGIN", "ADDRESS", "VERSION"))


def _plugin_cells(plugin: PluginStatus) -> Mapping[str, str | text.Text]:
    """The meaning of each column about a plugin."""
    return {
        "PLUGIN": plugin.name,
        "ADDRESS": plugin.address,
        "VERSION": plugin.version or "-",
        "POLICY": plugin.failure_policy,
        "BREAKER": plugin.breaker,
        "CALLS": str(plugin.calls),
        "FAILED": str(plugin.failed_calls),
        "P99": f"{plugin.p99_s * 1000:.1f}ms" if plugin.HasField("p99_s") else "-",
        "FOLLOWS AT": str(plugin.follows.generation) if plugin.HasField("follows") else "-",
        "STATE": text.Text(plugin.health, display.GOOD if plugin.health == "ok" else display.BAD),
    }


def _canary_line(plugin: PluginStatus) -> text.Text:
    canary = plugin.canary
    return text.Text(f"plugin {plugin.name} answers for {canary.percent}% of the pods of {canary.of}")


def _comparison_line(plugin: PluginStatus) -> text.Text:
    """The changes that a plugin in shadow mode would make."""
    compared = plugin.shadow
    parts = [f"{compared.differed} of {compared.compared} comparisons differ"]
    parts += [
        f"{count} {word}" for count, word in ((compared.failed, "failed"), (compared.skipped, "left out")) if count
    ]
    refused = f", {compared.refused_nodes} nodes refused that the others let pass" if compared.refused_nodes else ""
    return text.Text(f"plugin {plugin.name} is in shadow mode: {', '.join(parts)}{refused}")


def _problem_with_plugin_name(plugin: PluginStatus) -> str:
    in_problem = f"plugin {plugin.name} " in plugin.problem
    return plugin.problem if in_problem else f"plugin {plugin.name}: {plugin.problem}"


def _stream_cells(replica: ReplicaStatus) -> list[str]:
    """How far a replica is behind, and what it was sent; bind follows no cluster."""
    if replica.phase == "bind":
        return ["-"] * 4
    return [str(count) for count in (replica.behind, replica.backlog_bytes, replica.sent_bytes, replica.full_syncs)]


def _lookup_state(lookup: EndpointStatus) -> text.Text:
    """The addresses of a DNS name or a Service, or why they are not known."""
    count, error = len(lookup.addresses), lookup.last_error
    if error:
        earlier = f"; {_addresses_text(count)} from before" if count else ""
        return text.Text(f"cannot be looked up: {error}{earlier}", display.BAD)
    if not lookup.listed:
        return text.Text("not looked up yet", display.BAD)
    return text.Text(_addresses_text(count), display.GOOD if count else display.BAD)


def _addresses_text(count: int) -> str:
    return f"{count or 'no'} address{'' if count == 1 else 'es'}"


def _replica_state(replica: ReplicaStatus) -> text.Text:
    """The state of a replica, and whether it stands in for configured ones."""
    state = _follower_state(replica)
    if replica.stands_in:
        return text.Text(f"stands in, {state}", display.BAD)
    return state


def _follower_state(replica: ReplicaStatus) -> text.Text:
    """Whether a replica is in step, how far it is behind, or why it is not."""
    if not replica.in_step:
        # A replica that was in step and does not answer is different from one that never was in step.
        silent = "it does not answer" if replica.full_syncs else "not reached yet"
        return text.Text(f"not in step: {replica.last_error or silent}", display.BAD)
    behind = replica.behind
    return text.Text(f"in step, {behind} generation{'s' * (behind > 1)} behind" if behind else "in step", display.GOOD)


def _render_pending_pods(status: SchedulerStatus, wide: bool) -> tuple[console.RenderableType, int]:
    """A table of pending pods by name, and how many its rows are."""
    headers = ["POD", "AGE", "ATTEMPTS", *(["PRIORITY", "PROFILE"] if wide else []), "STATUS"]
    entries = [
        [
            f"{pod.pod.namespace}/{pod.pod.name}",
            display.age_text(pod.waiting_since_ms / 1000),
            str(pod.attempts),
            *([str(pod.priority), pod.profile] if wide else []),
            pod.summary,
        ]
        for pod in status.pending
    ]
    return display.table_of_rows(headers, entries, right=("ATTEMPTS", "PRIORITY")), len(entries)


def _render_pending_groups(status: SchedulerStatus, wide: bool) -> tuple[console.RenderableType, int]:
    """A table with a row for all pods that wait for the same, and how many pods its rows stand for."""
    rows = status.pending_alike[:LINES]
    headers = ["PENDING", "EXAMPLE", "AGE", "ATTEMPTS", *(["CLASS"] if wide else []), "STATUS"]
    entries = []
    for alike in rows:
        least, most = alike.min_attempts, alike.max_attempts
        attempts = str(least) if least == most else f"{least} to {most}"
        entries.append(
            [
                str(alike.count),
                f"{alike.example.namespace}/{alike.example.name}",
                display.age_text(alike.waiting_since_ms / 1000),
                attempts,
                *([str(alike.pod_class)] if wide else []),
                alike.summary,
            ]
        )
    count = sum(alike.count for alike in rows)
    return display.table_of_rows(headers, entries, right=("PENDING", "ATTEMPTS", "CLASS")), count
