"""`trireme up`: the whole scheduler on one machine, against the embedded cluster or the one that a kubeconfig names.

Every service is a separate process, as in a cluster; the log lines have their names in front. A status line shows the
state, and Ctrl-C ends everything. A service that ends is started again; the embedded cluster is not, for its objects
are gone.
"""

# Also change: docs/tutorials/laptop.md, docs/starting.md (the first steps).

# Also change: docs/starting.md.
# Also change: docs/recording.md.
# Also change: tools/release/checks.py (the command line of trireme up).
# Also change: internal/trireme_kube/embedded/__main__.py (flags of the embedded cluster).

import argparse
import asyncio
import contextlib
import fcntl
import pathlib
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from trireme.cli import cluster_counts, demo, frontend_connection, number_arguments, processes
from trireme.config import inspection, leader_election, scheduler_configuration, trireme_configuration
from trireme.framework import programs
from trireme_kube.apimachinery import configuration_files
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.rest import credentials
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase.cli import arguments

_CLUSTER = "cluster"
# A service that ends after at least this time is restarted; one that ends earlier would do so again.
RESTART_SECONDS = 10.0
# Lines that the frontend logs at every start, as kube-scheduler does; here they would look like a failure.
_HIDDEN = ("] The manifest file is empty, ignoring.",)
# Without a folder for recordings, so much is kept, in memory where /tmp is, until the end.
_OWN_RECORDING_BYTES, _OWN_RECORDING_AGE = "64Mi", "6h"
# How often the given configuration files are looked at, as often as a frontend looks at its own.
_LOOK_SECONDS = 1.0
# A scheduler that does not lead after this time is reported as a standby.
_STANDBY_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of one run are: configurations and sockets."""

    folder: pathlib.Path
    kubeconfig: pathlib.Path
    admin: pathlib.Path

    @property
    def own_file(self) -> pathlib.Path:
        """The path of this run's TriremeConfiguration."""
        return self.folder / "trireme.yaml"

    @property
    def scheduler_file(self) -> pathlib.Path:
        """The path of this run's KubeSchedulerConfiguration."""
        return self.folder / "scheduler.yaml"

    def socket(self, phase: str, number: int) -> str:
        """The path of the socket of a phase; `number` counts its processes."""
        return f"unix:{self.folder}/{phase}-{number}.sock"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme up` to the commands."""
    parser = commands.add_parser(
        "up", help="run everything on this machine", description=arguments.description_of(__doc__)
    )
    some, one = number_arguments.whole_number(0), number_arguments.whole_number(1)
    port = number_arguments.whole_number(0, number_arguments.LARGEST_PORT)
    parser.add_argument("--nodes", type=some, default=100, help="simulated nodes (default %(default)s)")
    parser.add_argument("--kubeconfig", default="", help="use this cluster instead of the embedded one")
    parser.add_argument(
        "--config",
        default="",
        help="KubeSchedulerConfiguration file; the cluster is filled in, and changes are taken over",
    )
    parser.add_argument(
        "--trireme-config",
        default="",
        help="TriremeConfiguration file; the phases are filled in, and changes are taken over",
    )
    parser.add_argument(
        "--feature-gates",
        action="append",
        default=[],
        metavar="NAME=BOOL",
        help="as the frontend's (may be repeated); with GenericWorkload the embedded cluster serves groups of pods",
    )
    parser.add_argument("--filters", type=one, default=1, help="filter replicas (default %(default)s)")
    parser.add_argument("--scores", type=one, default=1, help="score replicas (default %(default)s)")
    parser.add_argument("--binds", type=one, default=1, help="bind replicas (default %(default)s)")
    parser.add_argument("--insights", type=some, default=1, help="insight replicas (default %(default)s)")
    parser.add_argument(
        "--record-dir",
        type=pathlib.Path,
        metavar="DIR",
        help="record what insight receives, and the decisions, in a folder here for each replica; without it the "
        f"console looks back at the last {_OWN_RECORDING_AGE} or {_OWN_RECORDING_BYTES}, and none of it is kept",
    )
    parser.add_argument(
        "--console-port",
        type=port,
        default=0,
        metavar="PORT",
        help="port of the console, and the next ones for more replicas of insight (default: a free one for each)",
    )
    parser.add_argument("--port", type=port, default=0, help="port of the embedded API server (default: a free one)")
    parser.add_argument("--demo", action="store_true", help="create a few workloads and show where they go")
    parser.add_argument("--once", action="store_true", help="as --demo, and end when the workloads are scheduled")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the scheduler, and the embedded cluster unless another one is named, until Ctrl-C. Returns the exit code."""
    for flag, given in (("--record-dir", options.record_dir), ("--console-port", options.console_port)):
        if given and not options.insights:
            print(f"Error: {flag}: insight alone does that, and --insights 0 leaves it out", file=sys.stderr)
            return 1
    try:
        return asyncio.run(_run_until_stopped(options))
    except (ConfigurationError, RuntimeError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


async def _run_until_stopped(options: argparse.Namespace) -> int:
    """Start the processes in their order, show their output, and stop them in reverse; returns the exit code."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-up-"))
    free = frontend_connection.choose_socket_for_new_frontend(folder)
    held = contextlib.ExitStack()
    kubeconfig = _choose_kubeconfig_path(options, folder, held)
    layout = Layout(folder, kubeconfig, _admin_socket_path(options, free))
    stopping = asyncio.Event()
    output = processes.SharedOutput(stopping.set)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    running: list[processes.Process] = []
    try:
        election = _write_configuration(options, layout)
        if options.kubeconfig:
            await credentials.load(credentials.Source(options.kubeconfig))  # else each process reports it
        for together in _processes_by_start_order(options, layout, election, output):
            running += together
            await asyncio.gather(*(process.start() for process in together))
            if stopping.is_set():
                return 0
        if not options.kubeconfig:
            output.print_message("kubectl, helm and every other client use the embedded cluster after")
            output.print_message(f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}")
        socket_flag = "" if layout.admin == frontend_connection.default_socket() else f" --socket {layout.admin}"
        program = sys.argv[0]
        output.print_message(
            f"{processes.SCHEDULER_READY}{program} status{socket_flag}, {program} explain{socket_flag} NAMESPACE/POD"
        )
        for url in [process.announced for process in running if process.announced]:
            output.print_message(f"the console: {url}/")
            output.print_message(f"why a pod waits: curl {url}/v1/namespaces/NAMESPACE/pods/POD/explanation")
        return await _show_status_until_stopped(options, layout, running, output, stopping)
    finally:
        output.set_status("")
        for process in reversed(running):
            await process.stop()
        shutil.rmtree(folder, ignore_errors=True)
        held.close()
        if output.closed:
            raise BrokenPipeError


def _admin_socket_path(options: argparse.Namespace, free: pathlib.Path) -> pathlib.Path:
    """The socket that the TriremeConfiguration names, or else one that is free for this run."""
    try:
        path = trireme_configuration.load(options.trireme_config).admin.socket
    except ConfigurationError:
        return free  # the problem is reported when all files are checked
    return pathlib.Path(path) if path else free


def _choose_kubeconfig_path(
    options: argparse.Namespace, folder: pathlib.Path, held: contextlib.ExitStack
) -> pathlib.Path:
    """Choose the kubeconfig named on the command line, or the file for that of the embedded cluster.

    Only its owner may read the latter. It is in the same place each time, unless another `up` uses that, however it was
    started, or this user has no writable home: then it is in `folder`. The place is this run's until `held` is closed.
    """
    if options.kubeconfig:
        return pathlib.Path(options.kubeconfig)
    lasting = frontend_connection.state_folder()
    try:
        lasting.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = held.enter_context((lasting / "kubeconfig.lock").open("wb"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return folder / "kubeconfig"
    return lasting / "kubeconfig"


async def _report_standby(layout: Layout, output: processes.SharedOutput) -> None:
    """Report who leads while this scheduler does not, and when it does."""
    asking = frontend_connection.options_of_socket(layout.admin)
    waited, standing_by = 0.0, False
    while True:
        await asyncio.sleep(1.0)
        try:
            report = await frontend_connection.fetch_report(asking, programs.STATUS_PATH, {"pods": "0"})
        except frontend_connection.ReportUnavailable:
            continue
        leadership = report["leadership"]
        if leadership["leading"]:
            if standing_by:
                output.print_message("this scheduler leads now")
            return
        waited += 1.0
        if not standing_by and leadership["holder"] and waited >= _STANDBY_SECONDS:
            standing_by = True
            output.print_message(
                f"standing by: {leadership['holder']} holds the lease {leadership['lease']} and schedules the pods. "
                "To run beside it, give this scheduler a lease and a name of its own with --config "
                "(leaderElection.resourceName, profiles[].schedulerName)."
            )


async def _follow_configuration(options: argparse.Namespace, layout: Layout, output: processes.SharedOutput) -> None:
    """Take over changes of the given files into those of this run, which the frontend reads again by itself.

    What is wrong goes to the frontend as well, which refuses it, and says so in its status and by an event.
    """
    paths = [pathlib.Path(path) for path in (options.config, options.trireme_config) if path]
    taken = seen = _read_contents(paths)
    while paths:
        await asyncio.sleep(_LOOK_SECONDS)
        before, seen = seen, _read_contents(paths)
        if seen == taken or seen != before:
            continue  # known, or still being written
        taken = seen
        try:
            _write_configuration(options, layout)
        except (RuntimeError, OSError) as error:
            output.print_message(f"the changed configuration is wrong; the one before stays: {error}")
            _write_wrong_configuration(options, layout)
        else:
            output.print_message("the changed configuration goes to the frontend, which reloads it")


def _read_contents(paths: Sequence[pathlib.Path]) -> list[bytes | None]:
    """Read the files; None for one that cannot be read."""
    found: list[bytes | None] = []
    for path in paths:
        try:
            found.append(path.read_bytes())
        except OSError:
            found.append(None)
    return found


async def _show_status_until_stopped(
    options: argparse.Namespace,
    layout: Layout,
    running: Sequence[processes.Process],
    output: processes.SharedOutput,
    stopping: asyncio.Event,
) -> int:
    """Show the status until a signal to stop, or until a process ends for good."""
    counting = asyncio.create_task(cluster_counts.follow_cluster(layout.kubeconfig, output.set_status))
    reporting = asyncio.create_task(_report_standby(layout, output))
    following = asyncio.create_task(_follow_configuration(options, layout, output))
    ends = {asyncio.create_task(_keep_running(process, output)) for process in running}
    stop = asyncio.create_task(stopping.wait())
    demonstrate = options.demo or options.once
    showing = asyncio.create_task(demo.run(layout.kubeconfig, output.print_message)) if demonstrate else None
    # Not the report of a standby: it ends by itself, and nothing follows from that.
    waited: set[asyncio.Task[Any]] = {stop, counting, *ends, *([showing] if showing else [])}
    try:
        while True:
            done, waited = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if stop in done:
                return 0
            if counting in done:
                await counting  # it ends by an error alone, which is handled below
            if ended := done & ends:
                await asyncio.gather(*ended)  # it has said why, unless it failed
                return 1
            if showing in done and showing is not None:
                scheduled = await showing
                if options.once:
                    return 0 if scheduled else 1
    except (ApiError, ApiUnreachable) as error:
        output.print_message(f"the API server does not answer: {error}")
        return 1
    finally:
        for task in (counting, reporting, following, stop, *ends, *([showing] if showing else [])):
            task.cancel()
        await asyncio.gather(counting, reporting, following, stop, *ends, return_exceptions=True)


async def _keep_running(process: processes.Process, output: processes.SharedOutput) -> None:
    """Restart a process whenever it ends, as a kubelet would; return, having said why, if that is of no use."""
    clock = asyncio.get_running_loop().time
    while True:
        started = clock()
        how = f"{process.name} {processes.end_text(await process.wait_until_ended())}"
        if process.name == _CLUSTER:
            output.print_message(f"{how}: everything ends, for all objects were in its memory")
            return
        if clock() - started < RESTART_SECONDS:
            output.print_message(f"{how} within {RESTART_SECONDS:.0f} s of its start: everything ends")
            return
        output.print_message(f"{how} and is started again")
        try:
            await process.start()
        except RuntimeError as error:
            output.print_message(f"{error}: everything ends")
            return


def _processes_by_start_order(
    options: argparse.Namespace,
    layout: Layout,
    election: scheduler_configuration.LeaderElection,
    output: processes.SharedOutput,
) -> list[list[processes.Process]]:
    """The processes in the order of their start: the cluster, then all others together."""
    cluster = []
    if not options.kubeconfig:
        command = [sys.executable, "-u", "-m", "trireme_kube.embedded", "--nodes", str(options.nodes)]
        command += ["--port", str(options.port), "--kubeconfig", str(layout.kubeconfig)]
        if inspection.feature_gates(options.feature_gates).enabled("GenericWorkload"):
            command.append("--pod-groups")
        cluster.append(processes.Process(_CLUSTER, command, output, ready="embedded cluster"))
    out = []
    for phase, count in _process_counts(options).items():
        extra = []
        if phase == "bind":
            extra = ["--kubeconfig", str(layout.kubeconfig), *leader_election.bind_flags(election)]
            extra += [] if options.kubeconfig else ["--kube-api-qps", "-1"]
        for number in range(count):
            name = phase if count == 1 else f"{phase}-{number}"
            own = _insight_flags(options, layout, number, name) if phase == "insight" else []
            command = _phase_command(phase, ["--listen", layout.socket(phase, number), *extra, *own])
            out.append(
                processes.Process(name, command, output, ready=programs.LISTENING, announcement=programs.SERVING_HTTP)
            )
    frontend = ["--trireme-config", str(layout.own_file), "--config", str(layout.scheduler_file), "--secure-port", "0"]
    frontend += [f"--feature-gates={gates}" for gates in options.feature_gates]
    out.append(processes.Process("frontend", _phase_command("frontend", frontend), output, hidden=_HIDDEN))
    return [cluster, out]


def _insight_flags(options: argparse.Namespace, layout: Layout, number: int, name: str) -> Sequence[str]:
    address = f"127.0.0.1:{options.console_port + number}" if options.console_port else processes.ANY_ADDRESS
    return ["--http-listen", address, *_recording_flags(options, layout, name)]


def _recording_flags(options: argparse.Namespace, layout: Layout, name: str) -> Sequence[str]:
    """The flags of a replica of insight for its recording: in the given folder, or, bounded, in that of this run."""
    if options.record_dir is not None:
        return ["--record-dir", str(options.record_dir / name)]
    bounds = ["--record-max-bytes", _OWN_RECORDING_BYTES, "--record-max-age", _OWN_RECORDING_AGE]
    return ["--record-dir", str(layout.folder / "recordings" / name), *bounds]


def _process_counts(options: argparse.Namespace) -> Mapping[str, int]:
    phases = {"filter": options.filters, "score": options.scores, "bind": options.binds}
    return {**phases, **({"insight": options.insights} if options.insights else {})}


def _write_configuration(options: argparse.Namespace, layout: Layout) -> scheduler_configuration.LeaderElection:
    """Check the given files before anything starts, and write them with the settings of this run; return the Lease.

    Raises: RuntimeError.
    """
    what = "--feature-gates"
    try:
        gates = inspection.feature_gates(options.feature_gates)
        what = "--trireme-config"
        own = trireme_configuration.load(options.trireme_config)
        what = f"--config: {options.config}"
        data = configuration_files.read_file(options.config) if options.config else None
        inspected = inspection.inspect(data, own, gates)
    except ConfigurationError as error:
        raise RuntimeError("\n".join(f"{what}: {problem}" for problem in error.problems)) from error
    layout.own_file.write_text(yaml.safe_dump(_trireme_document(options, layout)))
    layout.scheduler_file.write_text(yaml.safe_dump(_scheduler_document(options, layout)))
    return inspected.configuration.leader_election


def _write_wrong_configuration(options: argparse.Namespace, layout: Layout) -> None:
    """Give the frontend files with an error in one: with the settings of this run, or as they are if unreadable."""
    for path, target, make in (
        (options.trireme_config, layout.own_file, _trireme_document),
        (options.config, layout.scheduler_file, _scheduler_document),
    ):
        try:
            target.write_text(yaml.safe_dump(make(options, layout)))
        except OSError:
            target.unlink(missing_ok=True)
        except (yaml.YAMLError, UnicodeError, AttributeError, TypeError, ValueError):
            target.write_bytes(pathlib.Path(path).read_bytes())


def _trireme_document(options: argparse.Namespace, layout: Layout) -> Mapping[str, Any]:
    """The given TriremeConfiguration, or an empty one, with the phases and the insight that run here."""
    document = _read_document(options.trireme_config, trireme_configuration.API_VERSION, trireme_configuration.KIND)
    phases = document.get("phases") or {}
    endpoints = {
        name: [layout.socket(name, number) for number in range(count)]
        for name, count in _process_counts(options).items()
    }
    insight = {**(document.get("insight") or {}), "endpoints": endpoints.pop("insight", [])}
    document["insight"] = insight
    document["phases"] = {
        phase: {**(phases.get(phase) or {}), "endpoints": sockets} for phase, sockets in endpoints.items()
    }
    document["admin"] = {**(document.get("admin") or {}), "socket": str(layout.admin)}
    return document


def _scheduler_document(options: argparse.Namespace, layout: Layout) -> Mapping[str, Any]:
    """The given KubeSchedulerConfiguration, or an empty one, for the cluster that runs here.

    Without a rate limit against the embedded one.
    """
    document = _read_document(options.config, scheduler_configuration.API_VERSION, scheduler_configuration.KIND)
    unlimited = {} if options.kubeconfig else {"qps": 5000, "burst": 5000}
    connection = document.get("clientConnection") or {}
    document["clientConnection"] = {**unlimited, **connection, "kubeconfig": str(layout.kubeconfig)}
    return document


def _read_document(path: str, api_version: str, kind: str) -> dict[str, Any]:
    """The file's document; an empty one of that kind without a file."""
    if not path:
        return {"apiVersion": api_version, "kind": kind}
    document: dict[str, Any] = yaml.safe_load(pathlib.Path(path).read_text())
    return document


def _phase_command(phase: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs a phase as a process of its own."""
    program = f"import sys; from trireme.{phase}.process import main; sys.exit(main())"
    return [sys.executable, "-u", "-c", program, *arguments]
