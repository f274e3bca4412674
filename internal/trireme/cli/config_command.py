"""`trireme config`: validates configuration files, prints them with their defaults, or converts old ones.

Results go to stdout, problems to stderr, one line each; with problems the exit code is 1. Only `convert` may need a
cluster: for a Policy in a ConfigMap.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from trireme.cli import named_files
from trireme.config import inspection, trireme_configuration
from trireme.config_convert import command_lines, writing
from trireme.config_convert.drafts import Cluster, Sources
from trireme.config_convert.profile_conversion import VERSIONS
from trireme_kube.apimachinery import configuration_files
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.yaml_writer import write_yaml
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase.cli import arguments, flags

_DEADLINE_SECONDS = 10.0
#: argparse parses no argument of `convert`: old flags are parsed as the old schedulers did.
_NO_PREFIX = "\0"
#: The error text for such an argument.
_OLD_KINDS = (
    *(
        f'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/{version}"'
        for version in VERSIONS
    ),
    'no kind "Policy"',
)
_CONVERT = """Reads what older schedulers took and writes the KubeSchedulerConfiguration v1 that does the same, with a
comment for whatever has no equivalent: a Policy, a ConfigMap with one, a KubeSchedulerConfiguration v1alpha1 to
v1beta3, and old command lines."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme config`, with validate, print and convert, to the commands."""
    parser = commands.add_parser(
        "config", help="validate, print and convert configuration files", description=arguments.description_of(__doc__)
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    validate = actions.add_parser("validate", help="report the problems of configuration files; calls no remote plugin")
    validate.add_argument("files", nargs="+", metavar="FILE", help="KubeSchedulerConfiguration or TriremeConfiguration")
    _add_context_arguments(validate)
    validate.set_defaults(run=run_validate)

    show = actions.add_parser("print", help="show a configuration with all defaults")
    show.add_argument("file", nargs="?", metavar="FILE", help="KubeSchedulerConfiguration (default: the built-in one)")
    show.add_argument("--plugins", action="store_true", help="show what each profile runs instead, weights in brackets")
    _add_context_arguments(show)
    show.set_defaults(run=run_print)

    convert = actions.add_parser(
        "convert", help="convert an old configuration", prefix_chars=_NO_PREFIX, add_help=False
    )
    convert.add_argument("arguments", nargs="*")
    convert.set_defaults(run=run_convert)


def _add_context_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of what a configuration is checked with: remote plugins and feature gates."""
    parser.add_argument(
        "--trireme-config", default="", metavar="FILE", help="TriremeConfiguration with the remote plugins"
    )
    parser.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=BOOL", help="as the frontend's (may be repeated)"
    )


def run_validate(options: argparse.Namespace) -> int:
    """Check files. Returns the exit code."""
    # Profiles of one file may name the remote plugins of another.
    own = options.trireme_config or next((file for file in options.files if _is_trireme_configuration(file)), "")
    own_problems = _problems_raised_by(partial(_check_trireme_configuration, own))
    code = 0
    if own not in options.files or not _is_trireme_configuration(own):
        code = _print_problems(own, own_problems)
    for file in options.files:
        if own_problems and not _is_trireme_configuration(file):
            if file != own:
                print(f"{file}: not checked, because {own} cannot be used", file=sys.stderr)
            continue
        problems = _problems_raised_by(partial(_check_files_named_in, file, own, options.feature_gates))
        code |= _print_problems(file, problems)
        if not problems:
            print(f"{file}: valid")
    return code


def _check_trireme_configuration(path: str) -> None:
    """Check the file, if there is one. Raises: ConfigurationError."""
    if path:
        trireme_configuration.parse(configuration_files.read_file(path))


def _print_problems(file: str, problems: tuple[str, ...]) -> int:
    """Show the problems of a file. Returns the exit code."""
    for problem in problems:
        print(f"{_place_in_file(file, problem)}: {problem}", file=sys.stderr)
    if any(problem.startswith(_OLD_KINDS) for problem in problems):
        print(f"{file}: `trireme config convert {file}` brings an old configuration up to date", file=sys.stderr)
    return 1 if problems else 0


def _is_trireme_configuration(path: str) -> bool:
    """Whether the file has a TriremeConfiguration; a file that cannot be read has none."""
    try:
        return inspection.is_own(configuration_files.read_file(path))
    except ConfigurationError:
        return False


def _place_in_file(path: str, problem: str) -> str:
    """The file, with line and column if the problem is about a place in it, in the format of compilers."""
    try:
        position = inspection.locate(configuration_files.read_file(path), problem)
    except ConfigurationError:
        position = None
    return path if position is None else f"{path}:{position.line}:{position.column}"


def _check_files_named_in(path: str, own: str, gate_texts: Sequence[str]) -> None:
    """Check the files that a configuration names; `own` is the TriremeConfiguration beside it.

    Files that are not on this machine are only reported. Raises: ConfigurationError.
    """
    data = configuration_files.read_file(path)
    if inspection.is_own(data):
        file_groups = list(named_files.files_of_trireme_configuration(trireme_configuration.parse(data)))
    else:
        enabled = inspection.feature_gates(gate_texts)
        contents = inspection.inspect(data, trireme_configuration.load(own), enabled, elsewhere=True)
        file_groups = list(named_files.files_of_scheduler_configuration(contents))
    problems: list[str] = []
    for files in file_groups:
        here, absent = named_files.existing_files(files)
        for each in absent:
            print(f"{path}: {each} is not on this machine, and not checked", file=sys.stderr)
        problems += filter(None, [named_files.file_problem(here)])
    if problems:
        raise ConfigurationError("; ".join(problems), problems)


def run_print(options: argparse.Namespace) -> int:
    """Show a configuration. Returns the exit code."""

    def print_configuration() -> None:
        """Print the configuration with its defaults, or its plugins. Raises: ConfigurationError."""
        data = configuration_files.read_file(options.file) if options.file else None
        enabled = inspection.feature_gates(options.feature_gates)
        contents = inspection.inspect(data, trireme_configuration.load(options.trireme_config), enabled)
        if options.plugins:
            print(*(line for profile in contents.profiles for line in inspection.plugin_table(profile)), sep="\n")
        else:
            print(write_yaml(contents.document()), end="")

    return _print_errors(_problems_raised_by(print_configuration))


def run_convert(options: argparse.Namespace) -> int:
    """Write a current configuration with the effect of an old one. Returns the exit code."""
    arguments: list[str] = options.arguments
    if {"--help", "-h"} & set(arguments):
        usage = flags.usage(f"{command_lines.PROGRAM} [FILE]", command_lines.flag_set())
        print(f"{_CONVERT}\n\n{usage}", end="")
        return 0

    def print_converted() -> None:
        """Print the converted configuration. Raises: ConfigurationError, FlagError."""
        print(writing.convert(arguments, Sources(configuration_files.read_file, read_config_map)), end="")

    return _print_errors(_problems_raised_by(print_converted))


def _print_errors(problems: tuple[str, ...]) -> int:
    """Print the problems to stderr; returns the exit code."""
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _problems_raised_by(work: Callable[[], None]) -> tuple[str, ...]:
    """Run the function; return the problems of the configuration or flag error that it raises."""
    try:
        work()
    except ConfigurationError as error:
        return error.problems
    except flags.FlagError as error:
        return (str(error),)
    return ()


def read_config_map(cluster: Cluster, namespace: str, name: str) -> Mapping[str, str]:
    """Read the data of a ConfigMap.

    Raises: ConfigurationError: it cannot be read.
    """
    try:
        return asyncio.run(_read_config_map(cluster, namespace, name))
    except (ApiError, ApiUnreachable, ConfigurationError) as error:
        raise ConfigurationError(f"ConfigMap {namespace}/{name}: {error}") from error


async def _read_config_map(cluster: Cluster, namespace: str, name: str) -> Mapping[str, str]:
    """Read the ConfigMap. Raises: ApiError, ApiUnreachable, ConfigurationError."""
    settings = client.ClientSettings(credentials.Source(cluster.kubeconfig, cluster.master))
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    async with await client.connect(settings) as connection:
        answer = (await connection.get(path, deadline=_DEADLINE_SECONDS)).json()
    data: Mapping[str, str] = answer.get("data") or {}
    return data
