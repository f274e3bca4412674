"""The processes that tests of the contract run: plugins in every language of examples/, and the phases."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from grpc import aio

from tests.contract import sdk_examples
from trireme.plugin_api import interfaces
from trireme.remote import remote_response
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, meta_pb2

ROOT = Path(__file__).resolve().parents[2]
UNLIMITED = 2**31 - 1
DEADLINE = 20.0

FILTER = "trireme.v1.FilterPlugin"
SCORE = "trireme.v1.ScorePlugin"
PLUGIN = "trireme.v1.PluginService"
SNAPSHOT = "trireme.v1.SnapshotFollower"


# Else it is the path of the socket, which a server in Rust refuses.
CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"),)


@dataclass(frozen=True)
class Served:
    """A process that serves the contract."""

    name: str
    address: str
    services: frozenset[str]
    process: "subprocess.Popen[str]"


SERVICES: Mapping[str, frozenset[str]] = {
    "python": frozenset({PLUGIN, FILTER, SCORE}),
    "go": frozenset({PLUGIN, FILTER, SCORE}),
    "filter": frozenset({PLUGIN, SNAPSHOT, "trireme.v1.FilterPhase"}),
    "score": frozenset({PLUGIN, SNAPSHOT, "trireme.v1.ScorePhase"}),
    "insight": frozenset({PLUGIN, SNAPSHOT, "trireme.v1.InsightService"}),
    "follower in python": frozenset({PLUGIN, SNAPSHOT, FILTER, SCORE}),
    "follower in go": frozenset({PLUGIN, SNAPSHOT, FILTER, SCORE}),
    "typescript": frozenset({PLUGIN, FILTER, SCORE}),
    "follower in typescript": frozenset({PLUGIN, SNAPSHOT, FILTER, SCORE}),
    "java": frozenset({PLUGIN, FILTER, SCORE}),
    "follower in java": frozenset({PLUGIN, SNAPSHOT, FILTER, SCORE}),
    "allocatable-go": frozenset({PLUGIN, SCORE}),
    "quota-permit-go": frozenset({PLUGIN, FILTER, "trireme.v1.BindPlugin"}),
    "maintenance-windows-typescript": frozenset({PLUGIN, FILTER, "trireme.v1.QueueService", "trireme.v1.BindPlugin"}),
    "data-locality-typescript": frozenset({PLUGIN, SCORE}),
    "gpu-memory-rust": frozenset({PLUGIN, SNAPSHOT, FILTER, SCORE}),
    "deadline-order-rust": frozenset({PLUGIN, "trireme.v1.QueueService"}),
    "cost-carbon-python": frozenset({PLUGIN, SCORE}),
    "spot-batch-python": frozenset({PLUGIN, SNAPSHOT, FILTER}),
    "learned-score-python": frozenset({PLUGIN, SNAPSHOT, SCORE}),
    "ipam-bind-python": frozenset({PLUGIN, "trireme.v1.BindPlugin"}),
    "score-phase-go": frozenset({PLUGIN, SNAPSHOT, "trireme.v1.ScorePhase"}),
    "floating-licences-java": frozenset({PLUGIN, SNAPSHOT, FILTER, "trireme.v1.QueueService"}),
}
PLUGINS = ("python", "go", "typescript", "java")
PHASES = ("filter", "score", "score-phase-go")
# Further examples, each with a purpose of its own.
EXAMPLES = (
    "allocatable-go",
    "quota-permit-go",
    "gpu-memory-rust",
    "deadline-order-rust",
    "maintenance-windows-typescript",
    "data-locality-typescript",
    "floating-licences-java",
    "cost-carbon-python",
    "ipam-bind-python",
    "spot-batch-python",
    "learned-score-python",
)
# Plugins with NODE_DATA_SNAPSHOT.
FOLLOWERS = ("follower in python", "follower in go", "follower in typescript", "follower in java")


# Of examples in Python the file that runs, and its flags. Nobody listens on the discard port.
PYTHON_EXAMPLES: Mapping[str, Sequence[str]] = {
    "cost-carbon-python": ("cost_carbon.py",),
    "spot-batch-python": ("spot_batch.py",),
    "learned-score-python": ("learned_score.py",),
    "ipam-bind-python": ("ipam_bind.py", "--ipam", "http://127.0.0.1:9", "--api-server", "http://127.0.0.1:9"),
}

WITH_GO_PACKAGE = ROOT / "sdk" / "go" / "with-package.sh"


def require_toolchain(program: str, purpose: str) -> None:
    """Skip the test if a language's toolchain is missing; with CI=true fail it."""
    if shutil.which(program) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {program} for {purpose}")
        pytest.skip(f"no {program}: {purpose} is not tested")


def go_plugin(example: str, package: str = ".") -> Path:
    """A Go example's binary, built with the SDK's package if need be."""
    name = f"{example}{package.removeprefix('.').replace('/', '-')}"
    return build_go(f"examples/{example}", name, package)


def build_go(module: str, name: str, package: str = ".") -> Path:
    """Build a Go module's package, named from the repository's root, with the SDK's package; returns build/`name`."""
    require_toolchain("go", module)
    binary = ROOT / "build" / name
    build = (WITH_GO_PACKAGE, module, "build", "-o", binary, package)
    subprocess.run(build, cwd=ROOT, check=True, timeout=600, stdout=subprocess.DEVNULL)
    return binary


RUST_PACKAGE = ROOT / "build" / "sdk" / "rust" / "trireme-sdk"


def run_cargo(example: str, *arguments: str) -> Path:
    """Run cargo for a Rust example, with the SDK's package; returns the folder of debug binaries."""
    return run_cargo_in(ROOT / "examples" / example, *arguments) / "debug"


def run_cargo_in(crate: Path, *arguments: str) -> Path:
    """Run cargo for a crate, with the SDK's package; returns the folder that has `debug` and `release`."""
    require_toolchain("cargo", str(crate.relative_to(ROOT)))
    # One folder for all, so that the dependencies are built once.
    target = ROOT / "build" / "sdk-rust-target"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "sdk-rust.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = (ROOT / "sdk" / "rust" / "package.sh", ROOT / "build" / "sdk" / "rust")
        subprocess.run(package, cwd=ROOT, env=environment, check=True, timeout=600)
        command = ("cargo", *arguments, "--quiet", "--locked")
        subprocess.run(command, cwd=crate, env=environment, check=True, timeout=900)
    return target


def command(name: str) -> Sequence[str | Path]:
    """What starts it."""
    if name == "python":
        return (sys.executable, ROOT / "examples" / "plugin-python" / "maintenance.py")
    if name in PYTHON_EXAMPLES:
        file, *flags = PYTHON_EXAMPLES[name]
        return (sys.executable, ROOT / "examples" / name / file, *flags)
    if name == "go":
        return (go_plugin("plugin-go"),)
    if name == "follower in go":
        return (go_plugin("plugin-go", "./podlimit"),)
    if name.endswith(("-go", "-rust")):
        binary = run_cargo(name, "build") / name.removesuffix("-rust") if name.endswith("-rust") else go_plugin(name)
        return (binary,)
    if name == "follower in python":
        return (sys.executable, ROOT / "examples" / "plugin-python" / "pod_limit.py")
    if name in sdk_examples.COMMANDS or name in sdk_examples.JAVA_CLASSES:
        return sdk_examples.command(name)
    return (sys.executable, ROOT / "cmd" / name)


CONFIG_HASH = 9
CYCLE = cycle_pb2.Cycle(
    profile="default-scheduler",
    generation=3,
    config_hash=CONFIG_HASH,
    pod=core_pb2.Pod(metadata=meta_pb2.ObjectMeta(namespace="shop")),
)


@asynccontextmanager
async def connected(served: Served) -> AsyncIterator[aio.Channel]:
    """A channel to it."""
    async with aio.insecure_channel(served.address, options=CHANNEL_OPTIONS) as channel:
        yield channel


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """The processes that tests of this module have started; each is started once."""
    started: dict[str, Served] = {}
    yield started
    for served in started.values():
        served.process.terminate()
    for served in started.values():
        served.process.communicate(timeout=DEADLINE)


def start(name: str, folder: Path) -> Served:
    """Start it, and wait for its one line on stdout."""
    address = f"unix:{folder}/plugin.sock"  # a short name: the path of a socket has at most 107 bytes
    process = subprocess.Popen([*command(name), "--listen", address], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line == f"listening on {address}"
    return Served(name, line.removeprefix("listening on "), SERVICES[name], process)


def get(name: str, running: dict[str, Served], factory: pytest.TempPathFactory) -> Served:
    """The process of this name."""
    if name not in running:
        running[name] = start(name, factory.mktemp("served"))
    return running[name]


def check_columns(
    columns: filter_pb2.NodeColumns, count: int, plugin: str = "Maintenance", newest: int = 3
) -> interfaces.Verdicts:
    """The columns as verdicts; fails where they are not what the contract asks for."""
    distinct = {status.SerializeToString(deterministic=True) for status in columns.statuses}
    assert len(distinct) == len(columns.statuses), "a status stands there twice"
    assert all(status.plugin for status in columns.statuses), "a status without its plugin"
    response = filter_pb2.FilterResponse(columns=columns)
    answers = remote_response.read_filter(response, plugin, count, interfaces.Dependency.NODE_PODS, newest)
    assert answers.error() is None
    assert not answers.capacity[answers.index > 0].any(), "a refused node has room"
    return interfaces.Verdicts(answers.index, answers.capacity)
