"""`trireme plugin`: begin a plugin that is a service, try it while it is written, and verify it.

`verify` checks whether it keeps to the contract. It needs no cluster: the plugin is called about sample nodes and pods,
and those of `--objects`. Each violation is shown with the sentence of the contract, the request and the answer. Exit
codes: 0 the plugin conforms, 1 it does not, 2 nothing listens at its address, or the command is wrong.
"""

# Also change: docs/plugin-verification.md.
# Also change: docs/plugin-project.md.
# Also change: internal/trireme/plugin_verification/reports.py,
# internal/trireme/plugin_verification/verification.py (the report's JSON).

import argparse
import asyncio
import json
import pathlib
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import orjson
import yaml

from trireme.cli import number_arguments
from trireme.cli.plugin_development import init, project_file, run
from trireme.config import defaults
from trireme.plugin_verification import reports, sample_cluster, session, verification
from trireme.rpc import dialing, listen_flags
from trireme_kube.componentbase.cli import arguments

_COLUMNS = 80
_WRONG_USAGE = 2
_DEFAULT_DEADLINE = "1s"
_MARKS = {"met": "ok  ", "violated": "FAIL", "notApplicable": "-   ", "notChecked": "?   "}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme plugin`, with its actions, to the commands."""
    parser = commands.add_parser(
        "plugin", help="begin, try and verify plugins that are services", description=arguments.description_of(__doc__)
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    _add_init_parser(actions)
    _add_run_parser(actions)
    verify = actions.add_parser(
        "verify", help="check that a plugin keeps to the contract", description=arguments.description_of(__doc__)
    )
    verify.add_argument("address", metavar="ADDRESS", help="host:port, dns:///name:port or unix:/path")
    verify.add_argument("--name", default="", help="the plugin's name (default: as it describes itself)")
    verify.add_argument("--args", default="{}", metavar="YAML", help="its arguments, as in pluginConfig (default {})")
    verify.add_argument("--profile", default=defaults.DEFAULT_SCHEDULER_NAME, help="default %(default)s")
    verify.add_argument("--objects", metavar="FILE", help="YAML or JSON with more Nodes and Pods to call it about")
    verify.add_argument(
        "--deadline-ms", type=number_arguments.whole_number(1), default=5000, help="default %(default)s"
    )
    verify.add_argument(
        "--latency-calls",
        type=number_arguments.whole_number(0),
        default=100,
        metavar="N",
        help="calls for each case of the latency profile; 0: no profile (default %(default)s)",
    )
    verify.add_argument("--ca-file", default="", metavar="FILE", help="authority of the plugin's certificate: with TLS")
    verify.add_argument("--cert-file", default="", metavar="FILE", help="certificate to call it with")
    verify.add_argument("--key-file", default="", metavar="FILE", help="its private key")
    verify.add_argument("--server-name", default="", metavar="NAME", help="a name in the plugin's certificate")
    verify.add_argument("--junit", metavar="FILE", help="also write the results as JUnit's XML")
    verify.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text", help="default %(default)s")
    verify.set_defaults(run=run_verify)


def _add_init_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme plugin init`."""
    parser = actions.add_parser(
        "init", help="write the repository of a new plugin", description=arguments.description_of(init.__doc__)
    )
    parser.add_argument("name", metavar="NAME", help="the plugin's name, such as MyPlugin")
    parser.add_argument("--language", choices=init.list_languages(), required=True, help="what it is written in")
    parser.add_argument(
        "--extension-points",
        type=init.parse_extension_points,
        default="filter",
        metavar="NAMES",
        help="filter, score or filter,score: where it takes part (default %(default)s)",
    )
    parser.add_argument("--directory", metavar="DIR", help="new or empty folder for it (default: the name, my-plugin)")
    parser.add_argument(
        "--sdk", metavar="DIR", help="folder of the SDKs' packages (default: build/sdk, of make sdk-packages)"
    )
    parser.set_defaults(run=init.run)


def _add_run_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme plugin run`."""
    text = "build a plugin and try it on an embedded cluster, again after each change"
    parser = actions.add_parser("run", help=text, description=arguments.description_of(run.__doc__))
    parser.add_argument(
        "folder",
        nargs="?",
        default=".",
        metavar="DIR",
        help=f"folder with {project_file.FILE_NAME} (default: this one)",
    )
    nodes = number_arguments.whole_number(1)
    parser.add_argument("--nodes", type=nodes, default=5, help="simulated nodes (default %(default)s)")
    parser.add_argument("--once", action="store_true", help="end after the first time; exit code 1: it did not work")
    parser.set_defaults(run=run.run)


def run_verify(options: argparse.Namespace) -> int:
    """Verify a plugin and print the report. Returns the exit code."""
    try:
        done = asyncio.run(verification.verify(make_settings(options), options.latency_calls))
        report = reports.document(done)
        if options.junit:
            pathlib.Path(options.junit).write_bytes(reports.junit(report))
    except (ValueError, OSError, listen_flags.ListenError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return _WRONG_USAGE
    if options.output == "json":
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print("\n".join(lines(report, wide=options.output == "wide")))
    return 0 if done.conformant else 1


def make_settings(options: argparse.Namespace) -> session.Settings:
    """What the flags say. Raises: ValueError, OSError: a flag or a file is wrong."""
    try:
        args_json = orjson.dumps(yaml.safe_load(options.args), option=orjson.OPT_NON_STR_KEYS)
    except (yaml.YAMLError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"--args: must be YAML or JSON, for example {{label: disktype}}: {reason}") from error
    try:
        documents = sample_cluster.read_objects(pathlib.Path(options.objects).read_text()) if options.objects else ()
        cluster = sample_cluster.sample_cluster(documents)
    except ValueError as error:
        raise ValueError(f"--objects: {error}") from error
    tls = None
    if options.ca_file or options.cert_file:
        names = (options.server_name,) if options.server_name else ()
        tls = dialing.TlsSettings(options.ca_file, options.cert_file, options.key_file, names)
    return session.Settings(
        address=options.address,
        name=options.name,
        tls=tls,
        deadline_seconds=options.deadline_ms / 1000,
        args_json=args_json,
        profile=options.profile,
        cluster=cluster,
    )


def lines(report: dict[str, Any], *, wide: bool = False) -> Iterator[str]:
    """The report for people, in lines of at most 80 columns. `wide` also lists what is met and what does not apply."""
    yield f"Plugin {report['plugin'] or '(without a name)'} {report['version']}".rstrip() + f" at {report['address']}"
    points = ", ".join(point.removeprefix("EXTENSION_POINT_") for point in report["extensionPoints"])
    yield from _wrap(f"Extension points: {points or 'none'}", "  ")
    for each in report["specifications"]:
        if wide or each["outcome"] == "violated":
            yield from _result_lines(each)
    unchecked: dict[str, list[str]] = {}
    for each in report["specifications"]:
        if each["outcome"] == "notChecked":
            unchecked.setdefault(each["text"], []).append(each["number"])
    if unchecked and not wide:
        yield ""
        for reason, numbers in unchecked.items():
            yield from _wrap(f"Not checked: {', '.join(numbers)}, because {reason}", "  ")
    yield from _latency_lines(report.get("latency"))
    counts = report["counts"]
    yield ""
    yield (
        f"{counts['met']} met, {counts['violated']} violated, {counts['notApplicable']} not applicable, "
        f"{counts['notChecked']} not checked"
    )


def _result_lines(each: dict[str, Any]) -> Iterator[str]:
    violated = each["outcome"] == "violated"
    if violated:
        yield ""
    yield from _wrap(f"{_MARKS[each['outcome']]} {each['number']} {each['title']}", "          ")
    if not violated:
        return
    yield from _wrap(f"  {each['text']}", "    ")
    for sentence in each["sentences"]:
        yield from _wrap(f'  contract: "{sentence["text"]}" ({sentence["source"]})', "    ")
    for key in ("request", "answer"):
        if key in each:
            yield from _wrap(f"  {key}: {each[key]}", "    ")


def _latency_lines(profile: dict[str, Any] | None) -> Iterator[str]:
    """The latency profile, if there is one."""
    if profile is None:
        return
    yield ""
    yield f"{'':8}{'nodes':>7}{'at once':>9}{'median':>11}{'p99':>11}{'calls/s':>9}"
    for each in profile["measurements"]:
        yield (
            f"{each['rpc']:8}{each['nodes']:7}{each['concurrent']:9}{each['medianMs']:8.2f} ms{each['p99Ms']:8.2f} ms"
            f"{each['callsPerSecond']:9}"
        )
    advice = profile["recommendation"]
    yield from _wrap(
        f"Recommended: deadline {advice['deadlineMs']}ms (remotePlugins[].deadline; default {_DEFAULT_DEADLINE}), "
        f"max_concurrent_calls {advice['maxConcurrentCalls']} (in the plugin's description).",
        "  ",
    )


def _wrap(text: str, indent: str) -> list[str]:
    """The text in lines of 80 columns, or of a longer word, all but the first indented further."""
    return textwrap.wrap(text, _COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
