"""`trireme plugin run`: a plugin under development, in a scheduler on an embedded cluster of its own.

The plugin's folder says by `trireme-plugin.yaml` how it is built and started. After each change of its sources it is
built and started again, in a new cluster, so that nothing which the scheduler has cached of the former build counts;
then sample pods show what it does. A build that fails leaves the former one running.

Tests: tests/unit/cli/test_plugin_development.py.
"""

# Also change: docs/plugin-project.md.

import argparse
import asyncio
import contextlib
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Coroutine, Mapping
from typing import Any

import orjson
import yaml
from google.protobuf import message
from grpc import aio

from trireme.cli import frontend_connection, processes
from trireme.cli.plugin_development import project_file, sample_pods, source_changes
from trireme.config import defaults, inspection, scheduler_configuration, trireme_configuration
from trireme.framework import plugin_spec
from trireme.plugin_api import plugin_info_validation
from trireme.registry import default_profile
from trireme.registry.in_tree import IN_TREE
from trireme.remote import plugin_control, remote_client, remote_endpoint
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

# How often the sources are looked at, and how long they must have been still.
_POLL_SECONDS = 0.5
_START_SECONDS = 60.0
_HANDSHAKE_SECONDS = 10.0
# Of the scheduler's log, how many lines are shown if it ends.
_LOG_LINES = 5


class _StartError(Exception):
    """The plugin or the scheduler did not start; the text says why, and a change of the sources may help."""


class _LogFile:
    """Writes the lines of a process to a file."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def print_line(self, name: str, text: str) -> None:
        """One line of the process."""
        with self.path.open("a") as file:
            file.write(f"{name} | {text}\n")


class PluginRun:
    """The plugin and its scheduler, started again after each change."""

    def __init__(self, project: project_file.Project, nodes: int, folder: pathlib.Path) -> None:
        """`folder` is for the files of this run."""
        self._project = project
        self._nodes = nodes
        self._folder = folder
        self._stopping = asyncio.Event()
        self._output = processes.SharedOutput(self._stopping.set)
        self._running: list[processes.Process] = []
        self._builds = 0

    async def run(self, *, once: bool) -> int:
        """Build, start and show, after each change again, until Ctrl-C; `once`: the first time alone. The exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)
        try:
            while True:
                before = source_changes.take(self._project.folder, self._project.watch)
                shown = await self._until_stopped(self._build_and_show())
                if once or self._stopping.is_set():
                    return 0 if shown or not once else 1
                self._output.print_message(f"watching {len(before)} files; Ctrl-C ends")
                await self._until_stopped(self._wait_for_change(before))
                if self._stopping.is_set():
                    return 0
        finally:
            await self._stop()

    async def _until_stopped(self, work: Any) -> Any:
        """The result of the work; None if the run is to stop, and then the work is cancelled."""
        task = asyncio.ensure_future(work)
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    async def _build_and_show(self) -> bool:
        """Build, start the plugin and a scheduler, and show the samples. Whether all of it worked; else it says why.

        The project's file is read again each time: it may be what has changed.
        """
        say = self._output.print_message
        try:
            project = self._project = project_file.load(self._project.folder)
        except project_file.ProjectError as error:
            say(f"{error}{'; what runs goes on as it was' if self._running else ''}")
            return False
        if project.build and not await self._build():
            return False
        await self._stop()
        self._builds += 1
        try:
            info, address = await self._start_plugin()
            run_folder = self._folder / str(self._builds)
            up = await self._start_scheduler(run_folder, info, address)
            points = ", ".join(_profile_points(info))
            say(f"{project.name} {info.version} takes part: {points}".replace("  ", " "))
            for line in sample_pods.unread_label_lines(project, info):
                say(line)
            say(f"  export KUBECONFIG={_kubeconfig(run_folder)}")
            variable, socket_path = frontend_connection.SOCKET_VARIABLE, _admin_socket(run_folder)
            say(f"  export {variable}={socket_path}  # for trireme status and explain")
            showing = sample_pods.show(project, _kubeconfig(run_folder), socket_path, say)
            return await _unless_ended(up, showing, run_folder)
        except _StartError as error:
            say(f"{error}")
            await self._stop()  # half of a start is of no use
            return False
        except (ApiError, ApiUnreachable) as error:
            say(f"{error}")
            return False

    async def _build(self) -> bool:
        """Run the build command and show its output. Whether it succeeded."""
        build = processes.Process("build", self._command(self._project.build, ""), self._output)
        try:
            await build.start(folder=self._project.folder)
        except OSError as error:
            self._output.print_message(f"build: {self._project.build[0]}: {error.strerror}{self._goes_on()}")
            return False
        try:
            code = await build.wait_until_ended()
        finally:
            await build.stop()
        if code:
            self._output.print_message(f"build {processes.end_text(code)}{self._goes_on()}")
        return code == 0

    def _goes_on(self) -> str:
        """What a failure is followed by; empty where nothing runs."""
        return "; the former build goes on" if self._running else ""

    async def _start_plugin(self) -> tuple[plugin_pb2.PluginInfo, str]:
        """Start the plugin; return its description and address. Raises: _StartError."""
        address = f"127.0.0.1:{_free_port()}"
        plugin = processes.Process("plugin", self._command(self._project.run, address), self._output)
        try:
            await plugin.start(folder=self._project.folder)
        except OSError as error:
            raise _StartError(f"run: {self._project.run[0]}: {error.strerror}") from error
        self._running.append(plugin)
        ended = asyncio.create_task(plugin.wait_until_ended())
        described = asyncio.create_task(self._handshake(address))
        try:
            await asyncio.wait((ended, described), return_when=asyncio.FIRST_COMPLETED, timeout=_START_SECONDS)
            if ended.done():
                raise _StartError(f"the plugin {processes.end_text(ended.result())} before it served on {address}")
            if not described.done():
                raise _StartError(f"the plugin does not serve on {address} after {_START_SECONDS:.0f} s")
            return described.result(), address
        finally:
            for task in (ended, described):
                task.cancel()
            await asyncio.gather(ended, described, return_exceptions=True)

    async def _handshake(self, address: str) -> plugin_pb2.PluginInfo:
        """The plugin's description, once it serves. Raises: _StartError: it describes itself wrongly."""
        while True:
            if await _accepts_connections(address):
                break
            await asyncio.sleep(0.1)
        try:
            info = await remote_client.handshake(self._project.name, address, deadline_seconds=_HANDSHAKE_SECONDS)
            await self._check_arguments(address)
        except remote_client.HandshakeError as error:
            raise _StartError(str(error)) from error
        return info

    async def _check_arguments(self, address: str) -> None:
        """Ask the plugin whether it takes the arguments, as a scheduler does at its start.

        A plugin that does not answer is left to the scheduler. Raises: _StartError: it refuses them.
        """
        try:
            args_json = orjson.dumps(self._project.args, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
        except TypeError as error:
            raise _StartError(f"args: {error}") from error
        request = plugin_pb2.ConfigureRequest(
            plugin=self._project.name,
            profile=defaults.DEFAULT_SCHEDULER_NAME,
            args_json=args_json,
            feature_gates=inspection.feature_gates([]).all(),
        )
        connection = dialing.Dialer(None).open(address, remote_endpoint.OPTIONS)
        try:
            with contextlib.suppress(message.DecodeError, aio.AioRpcError):
                await plugin_control.configure(connection.channel, [request], 1, _HANDSHAKE_SECONDS)
        except plugin_control.ConfigurationRefused as error:
            where = f"from the plugin; args: in {project_file.FILE_NAME}"
            raise _StartError(f"{error.reason} ({where}). The scheduler was not started.") from error
        finally:
            await connection.close()

    async def _start_scheduler(
        self, folder: pathlib.Path, info: plugin_pb2.PluginInfo, address: str
    ) -> processes.Process:
        """Start a scheduler and a cluster in which the plugin takes part. Raises: _StartError."""
        files = _write_configuration(folder, info, self._project.args, address)
        log = _LogFile(_scheduler_log(folder))
        program = "import sys; from trireme.cli.main import main; sys.exit(main())"
        flags = ["up", "--nodes", str(self._nodes), *files]
        command = [sys.executable, "-u", "-c", program, *flags]
        up = processes.Process("scheduler", command, log, ready=processes.SCHEDULER_READY)
        self._running.append(up)
        environment = {frontend_connection.SOCKET_VARIABLE: str(_admin_socket(folder)), "XDG_STATE_HOME": str(folder)}
        try:
            await up.start(environment)
        except RuntimeError as error:
            raise _scheduler_error(str(error), folder) from error
        return up

    async def _wait_for_change(self, before: source_changes.Snapshot) -> None:
        """Wait until files have changed, and then are still for a moment; says which."""
        now = before
        while not source_changes.changed(before, now):
            await asyncio.sleep(_POLL_SECONDS)
            now = source_changes.take(self._project.folder, self._project.watch)
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            later = source_changes.take(self._project.folder, self._project.watch)
            if not source_changes.changed(now, later):
                break
            now = later
        names = [str(path.relative_to(self._project.folder)) for path in source_changes.changed(before, now)]
        self._output.print_message(f"changed: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}")

    async def _stop(self) -> None:
        while self._running:
            await self._running.pop().stop()

    def _command(self, words: Any, address: str) -> list[str]:
        """The words of a command with the address in its place; a program of the folder with its path."""
        program, *arguments = (word.replace(project_file.ADDRESS, address) for word in words)
        own = self._project.folder / program
        return [str(own) if "/" in program and own.exists() else program, *arguments]


def run(options: argparse.Namespace) -> int:
    """Run the plugin of a folder until Ctrl-C. Returns the exit code."""
    try:
        project = project_file.load(pathlib.Path(options.folder).absolute())
    except project_file.ProjectError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-plugin-"))
    try:
        return asyncio.run(_run(project, options, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(project: project_file.Project, options: argparse.Namespace, folder: pathlib.Path) -> int:
    return await PluginRun(project, options.nodes, folder).run(once=options.once)


async def _unless_ended(up: processes.Process, work: Coroutine[Any, Any, bool], folder: pathlib.Path) -> bool:
    """The result of work while the scheduler runs. Raises: _StartError: it ends before; and what the work raises."""
    working, ended = asyncio.create_task(work), asyncio.create_task(up.wait_until_ended())
    try:
        await asyncio.wait((working, ended), return_when=asyncio.FIRST_COMPLETED)
        if working.done() and isinstance(working.exception(), ApiUnreachable):
            await asyncio.wait((ended,), timeout=processes.STOP_SECONDS)  # its cluster ends before it
        if ended.done():
            await up.stop()  # it reads the rest of its output
            raise _scheduler_error(f"the scheduler {processes.end_text(ended.result())}", folder)
        return await working
    finally:
        working.cancel()
        ended.cancel()
        await asyncio.gather(working, ended, return_exceptions=True)


def _scheduler_error(text: str, folder: pathlib.Path) -> _StartError:
    """The error of a scheduler that has ended, with the last lines of its log."""
    log = _scheduler_log(folder)
    last = log.read_text().splitlines()[-_LOG_LINES:] if log.exists() else []
    return _StartError("\n".join((f"{text}; the end of its log:", *last)))


def _scheduler_log(folder: pathlib.Path) -> pathlib.Path:
    return folder / "scheduler.log"


def _admin_socket(folder: pathlib.Path) -> pathlib.Path:
    return folder / "admin.sock"


def _kubeconfig(folder: pathlib.Path) -> pathlib.Path:
    return folder / "trireme" / "kubeconfig"


def _write_configuration(
    folder: pathlib.Path, info: plugin_pb2.PluginInfo, args: Mapping[str, Any], address: str
) -> list[str]:
    """Write both configurations into a new folder; return the flags of `trireme up` that name them."""
    folder.mkdir()
    scheduler, trireme = folder / "scheduler.yaml", folder / "trireme.yaml"
    scheduler.write_text(yaml.safe_dump(_scheduler_document(info, args)))
    trireme.write_text(yaml.safe_dump(_trireme_document(info, address)))
    return ["--config", str(scheduler), "--trireme-config", str(trireme)]


def _profile_points(info: plugin_pb2.PluginInfo) -> list[str]:
    """The extension points at which a profile may enable the plugin, as profiles write them."""
    names = [plugin_info_validation.point_name(point) for point in info.extension_points]
    return [name for name in names if name != "normalizeScore"]  # a part of score there


def _scheduler_document(info: plugin_pb2.PluginInfo, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """A KubeSchedulerConfiguration whose profile enables the plugin wherever it takes part."""
    plugins: dict[str, Any] = {point: {"enabled": [{"name": info.name}]} for point in _profile_points(info)}
    if binding := plugins.get(plugin_spec.ExtensionPoint.BIND.value):
        # The first binder that does not skip a pod binds it: the plugin goes before the default one.
        by_default = [name for name, _ in default_profile.default_plugins(inspection.feature_gates([]))]
        binders = [name for name in by_default if IN_TREE.implements(name, plugin_spec.ExtensionPoint.BIND)]
        binding["enabled"] += [{"name": name} for name in binders]
        binding["disabled"] = [{"name": "*"}]
    if sorting := plugins.get(plugin_spec.ExtensionPoint.QUEUE_SORT.value):
        sorting["disabled"] = [{"name": "*"}]  # one plugin alone orders the queue
    profile = {"schedulerName": defaults.DEFAULT_SCHEDULER_NAME, "plugins": plugins}
    return {
        "apiVersion": scheduler_configuration.API_VERSION,
        "kind": scheduler_configuration.KIND,
        "profiles": [{**profile, **({"pluginConfig": [{"name": info.name, "args": dict(args)}]} if args else {})}],
    }


def _trireme_document(info: plugin_pb2.PluginInfo, address: str) -> Mapping[str, Any]:
    """A TriremeConfiguration that says where the plugin is."""
    plugin = {
        "name": info.name,
        "address": address,
        "extensionPoints": _profile_points(info),
    }
    return {
        "apiVersion": trireme_configuration.API_VERSION,
        "kind": trireme_configuration.KIND,
        "remotePlugins": [plugin],
    }


def _free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _accepts_connections(address: str) -> bool:
    """Whether something listens there."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        return True
    return False
