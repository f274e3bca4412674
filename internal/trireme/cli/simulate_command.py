"""`trireme simulate`: what the scheduler would do if the cluster, or its configuration, were different.

Insight makes the changes on a copy of the cluster and runs the scheduler's own algorithm there. Nothing is carried out.
"""

# Also change: docs/simulate.md.

import argparse
import functools
import sys
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format

from trireme.cli import (
    frontend_connection,
    named_input,
    number_arguments,
    scenario_file,
    simulation_display,
    submitted_files,
)
from trireme.config import (
    gates,
    inspection,
    loading,
    remote_plugin_settings,
    scheduler_configuration,
    trireme_configuration,
)
from trireme.framework import programs
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import phase_configuration
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import snapshot_pb2
from trireme_kube.apimachinery import configuration_files
from trireme_kube.componentbase.cli import arguments

Json = dict[str, Any]

# Insight ends simulations before.
_SECONDS = 60.0
_MOST_REPLICAS = 2**31 - 1
_EXAMPLES = """examples:
  trireme simulate -f app.yaml                       whether it fits, before `kubectl apply -f app.yaml`
  helm template web | trireme simulate -f -          the same of standard input
  trireme simulate --add-nodes 3 --like n17          which pending pods fit on three more nodes like n17
  trireme simulate --drain n4                        where the pods of n4 go
  trireme simulate --scale deployment/web=200        whether 200 replicas fit
  trireme simulate --how-many pod.yaml               how many copies of a pod fit
  trireme simulate --config new.yaml -f day.yaml     a scenario under another configuration
  trireme simulate compact                           which nodes can be emptied
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme simulate` to the commands."""
    parser = commands.add_parser(
        "simulate",
        help="say what the scheduler would do if something were different (insight)",
        description=arguments.description_of(__doc__),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "plan", nargs="?", choices=("compact",), help="look for moves that empty nodes: a plan to read, not carried out"
    )
    parser.add_argument(
        "-f",
        "--file",
        default="",
        metavar="FILE",
        help="manifests as `kubectl apply` takes them, or a Scenario; -: standard input",
    )
    parser.add_argument(
        "--add-nodes", type=number_arguments.whole_number(1), metavar="N", help="add N nodes like --like"
    )
    parser.add_argument("--like", default="", metavar="NODE", help="the node whose shape --add-nodes have")
    parser.add_argument(
        "--drain", action="append", default=[], metavar="NODE[,NODE]", help="drain nodes, as far as budgets allow"
    )
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="KIND/NAME=N",
        help="give a workload N pods (deployment, replicaset, statefulset, replicationcontroller, job)",
    )
    parser.add_argument(
        "-n", "--namespace", default="default", help="of --scale, and of manifests that name none, default %(default)s"
    )
    parser.add_argument(
        "--how-many", default="", metavar="FILE", help="count how many copies of the pod in FILE fit; -: standard input"
    )
    parser.add_argument(
        "--config", default="", metavar="FILE", help="schedule by the profiles of this KubeSchedulerConfiguration"
    )
    parser.add_argument(
        "--without-plugin", action="append", default=[], metavar="NAME", help="leave the plugin out of all profiles"
    )
    parser.add_argument(
        "--without-pending-pods", action="store_true", help="leave out the pods that are pending in the cluster"
    )
    parser.add_argument(
        "--max-nodes",
        type=number_arguments.whole_number(1),
        default=0,
        metavar="N",
        help="of compact: empty at most N nodes",
    )
    frontend_connection.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask, and print the answer. Returns the exit code."""
    try:
        question = make_question(options)
    except (
        scenario_file.ScenarioFileError,
        configuration_files.ConfigurationError,
        argparse.ArgumentTypeError,
    ) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    ask = functools.partial(frontend_connection.fetch_report, options, programs.SIMULATE_PATH, {}, question, _SECONDS)
    return frontend_connection.print_report_of(options, ask, simulation_display.render)


def make_question(options: argparse.Namespace) -> Json:
    """The SimulateRequest that the options ask, as JSON.

    Raises: ScenarioFileError, ConfigurationError, ArgumentTypeError: options exclude each other or are incomplete.
    """
    changes = _changes(options)
    kinds = [
        name
        for name, given in (
            ("compact", options.plan),
            ("--how-many", options.how_many),
            ("-f, --add-nodes, --drain, --scale", changes or options.file or options.without_pending_pods),
        )
        if given
    ]
    if len(kinds) > 1:
        raise argparse.ArgumentTypeError(f"{' and '.join(kinds)} are different questions: ask one of them")
    question: Json = {}
    if options.plan:
        question["compaction"] = {"maxNodes": options.max_nodes}
    elif options.how_many:
        question["howMany"] = {"manifest": scenario_file.read_manifest(options.how_many, "Pod")}
    else:
        if not kinds and not options.config and not options.without_plugin:
            raise argparse.ArgumentTypeError("nothing to simulate: name a change, as `trireme simulate --help` shows")
        scenario = _read_file(options) if options.file else {}
        scenario["changes"] = [*scenario.get("changes", []), *changes]
        if options.without_pending_pods:
            scenario["withoutPendingPods"] = True
        question["scenario"] = scenario
    if options.config:
        question.update(_profiles(options.config))
    if options.without_plugin:
        question["withoutPlugins"] = options.without_plugin
    return question


def _read_file(options: argparse.Namespace) -> Json:
    """The scenario of --file: as it says, or submitting its manifests. Raises: ScenarioFileError."""
    data = scenario_file.read(options.file)
    return submitted_files.parse(data, named_input.shown(options.file), options.namespace)


def _changes(options: argparse.Namespace) -> list[Json]:
    """The changes that flags name: nodes to add first, then workloads, then drains. Raises: ArgumentTypeError."""
    changes: list[Json] = []
    if bool(options.add_nodes) != bool(options.like):
        raise argparse.ArgumentTypeError("--add-nodes and --like belong together: --add-nodes 3 --like n17")
    if options.add_nodes:
        changes.append({"addNodes": {"count": options.add_nodes, "likeNode": options.like}})
    changes += [{"scale": _scale(text, options.namespace)} for text in options.scale]
    names = [name for text in options.drain for name in text.split(",") if name]
    if names:
        changes.append({"drain": {"nodeNames": names}})
    return changes


def _scale(text: str, namespace: str) -> Json:
    """The change that KIND/NAME=N names. Raises: ArgumentTypeError."""
    workload, _, replicas = text.rpartition("=")
    kind, _, name = workload.partition("/")
    if not kind or not name or not replicas.isdecimal():
        raise argparse.ArgumentTypeError(f"--scale: {text!r} is not of the form KIND/NAME=N, as deployment/web=200")
    # 32 bits, as in the object's field; Python refuses to read thousands of digits.
    digits = replicas.lstrip("0") or "0"
    number = int(digits) if len(digits) <= 10 else _MOST_REPLICAS + 1
    if number > _MOST_REPLICAS:
        raise argparse.ArgumentTypeError(f"--scale {workload}: the number of replicas must be {_MOST_REPLICAS} at most")
    return {"kind": kind.lower(), "namespace": namespace, "name": name, "replicas": number}


def _profiles(path: str) -> Json:
    """The profiles of a KubeSchedulerConfiguration, as phases receive them, in the request's fields.

    Insight knows the scheduler's remote plugins, and checks the names that are not in-tree, and that those which the
    file names at an extension point serve it.

    Raises: ConfigurationError.
    """
    data, enabled = configuration_files.read_file(path), inspection.feature_gates([])
    trireme = trireme_configuration.TriremeConfiguration(remote_plugins=tuple(_other_plugins(data, enabled)))
    found = inspection.inspect(data, trireme, enabled).profiles
    messages = [phase_configuration.profile_message(profile, frozenset()) for profile in found]
    named = filter(None, map(_named_at_points, loading.load(data, enabled, lambda line: None).profiles))
    return {
        "profiles": [json_format.MessageToDict(each) for each in messages],
        "namedAtPoints": [json_format.MessageToDict(each) for each in named],
    }


def _named_at_points(profile: scheduler_configuration.Profile) -> snapshot_pb2.Profile | None:
    """The plugins that are not in-tree and that the profile names at points, not by multiPoint; None: none."""
    message = snapshot_pb2.Profile(scheduler_name=profile.scheduler_name)
    for point, number in phase_configuration.POINTS.items():
        enabled = profile.plugins.at(point).enabled or () if point in remote_plugin_settings.REMOTE_POINTS else ()
        names = [entry.name for entry in enabled if entry.name not in IN_TREE]
        if names:
            plugins = [snapshot_pb2.WeightedPlugin(name=name) for name in names]
            message.plugin_sets.add(extension_point=number, plugins=plugins)
    return message if message.plugin_sets else None


def _other_plugins(data: bytes, enabled: gates.FeatureGates) -> Iterator[remote_plugin_settings.RemotePlugin]:
    """The plugins of the file that are not in-tree, at all points where they may be. Raises: ConfigurationError.

    Those of `multiPoint` are taken to be at all points but QueueSort, where a profile has one plugin.
    """
    points: dict[str, set[ExtensionPoint]] = {}
    for profile in loading.load(data, enabled, lambda line: None).profiles:
        for entry in profile.plugins.multi_point.enabled or ():
            points.setdefault(entry.name, set()).update(
                remote_plugin_settings.REMOTE_POINTS - {ExtensionPoint.QUEUE_SORT}
            )
        for point in remote_plugin_settings.REMOTE_POINTS:
            for entry in profile.plugins.at(point).enabled or ():
                points.setdefault(entry.name, set()).add(point)
    for name, named in points.items():
        if name not in IN_TREE:
            yield remote_plugin_settings.RemotePlugin(name, "", tuple(named))
