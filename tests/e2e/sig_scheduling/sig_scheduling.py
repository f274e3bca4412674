"""Kubernetes' own end-to-end tests of scheduling, on a real control plane, with Trireme as its scheduler.

    python -m tests.e2e.sig_scheduling.sig_scheduling [--scheduler kube-scheduler] [--folder DIR] [--focus TEXT]
        [--version v1.38.0] [--parts groups scheduling]

The suite is Kubernetes' code, from the module that the control plane is built from, or of another version on that
control plane (TRIREME_KUBERNETES in the environment chooses that one); ours are the kubelets that it plays
(kubelets.go). Not a pytest: it takes a quarter of an hour, most of which the specs spend waiting. What must hold
is that every spec that passes with kube-scheduler, which can be asked for in the same way, passes with Trireme.
"""

import argparse
import asyncio
import json
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e import installation
from tests.e2e.sig_scheduling import stand_ins
from tools.controlplane import build_controlplane, go_programs, launcher

SOURCES = Path(__file__).resolve().parent


BINARY = launcher.REPOSITORY / "build" / "sige2e"


@dataclass(frozen=True, slots=True)
class Part:
    """Specs that need the same control plane."""

    name: str
    labels: str
    gates: Mapping[str, bool] = field(default_factory=dict)
    runtime: Mapping[str, bool] = field(default_factory=dict)
    skip: str = ""


PARTS = (
    Part(
        "groups",
        "sig-scheduling && FeatureGate:GenericWorkload && !FeatureGate:TopologyAwareWorkloadScheduling",
        {"GenericWorkload": True},
        {"scheduling.k8s.io/v1beta1": True},
    ),
    # None before v1.38. A spec is labelled with the gates that its gate depends on, too.
    Part(
        "topology",
        "sig-scheduling && FeatureGate:TopologyAwareWorkloadScheduling && !FeatureGate:CompositePodGroup",
        {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True},
        {"scheduling.k8s.io/v1beta1": True},
    ),
    # The other specs of devices have a kubelet call a plugin, or are not about scheduling.
    Part(
        "devices",
        "DRA && !Feature:DynamicResourceAllocation && !Feature:OffByDefault",
        skip=r"\[DRA\] CRUD|ResourceSlice Controller",
    ),
    Part("scheduling", "sig-scheduling && !FeatureGate:GenericWorkload"),
)


def build(version: str = "") -> Path:
    """Compile the suite of a version (default: that of go.mod) where its sources have changed; returns the program.

    Raises: SystemExit with one line where that is impossible.
    """
    binary = build_controlplane.folder_of(version) / BINARY.name if version else BINARY
    modules = [Path(stand_ins.__file__)] if version else [SOURCES / "go.mod", SOURCES / "go.sum"]
    inputs = go_programs.digest(path.read_bytes() for path in [*sorted(SOURCES.glob("*.go")), *modules])
    if go_programs.is_built(binary, inputs):
        return binary
    print("sig-scheduling: building the suite (some five minutes the first time)", flush=True)
    flags: tuple[str, ...] = ()
    environment = None
    if version:
        kubernetes = build_controlplane.download(version)
        modfile = build_controlplane.write_modfile(version, kubernetes, BINARY.name, stand_ins.write_needed(version))
        # Compiled as the oracle is, which shares most of it if it is of this version.
        flags = ("-mod=mod", f"-modfile={modfile}", "-gcflags=all=-dwarf=false")
        environment = build_controlplane.environment_for(kubernetes)
    else:
        _check_versions()
    command = ("test", "-c", "-vet=off", *flags, "-ldflags=-s -w")
    go_programs.compile_program(binary, inputs, command, SOURCES, environment=environment)
    return binary


def _check_versions() -> None:
    suite, plane = ((path / "go.mod").read_text() for path in (SOURCES, launcher.REPOSITORY / "tools/controlplane"))
    if build_controlplane.kubernetes_version(suite) != build_controlplane.kubernetes_version(plane):
        raise SystemExit(
            "sig-scheduling: tests/e2e/sig_scheduling/go.mod and tools/controlplane/go.mod pin different releases"
        )


async def run_part(part: Part, suite: Path, scheduler: str, folder: Path, focus: str) -> list[str]:
    """Run the specs of a part, print how each ended, and answer those that failed."""
    folder.mkdir(parents=True)
    options = launcher.Options(
        authorization="RBAC",
        feature_gates=part.gates,
        runtime_config=part.runtime,
        disable_admission=("TaintNodesByCondition",),
        controllers=True,
        scheduler=scheduler == "kube-scheduler",
        extra={"kube-apiserver": ("--allow-privileged=true",)},
    )
    with launcher.ControlPlane(options, directory=folder / "controlplane") as plane:
        if options.scheduler:
            await asyncio.to_thread(_run_specs, part, suite, plane, folder, focus)
        else:
            await _run_with_trireme(part, suite, plane, folder, focus)
    return _report(json.loads((folder / "report.json").read_text()))


async def _run_with_trireme(part: Part, suite: Path, plane: launcher.ControlPlane, folder: Path, focus: str) -> None:
    headers = {"Authorization": f"Bearer {plane.token()}"}
    tls = ssl.create_default_context(cafile=str(plane.authority))
    here = installation.Installation(folder, plane.kubeconfig, plane.server, headers, tls)
    here.frontend_flags += launcher.gate_flags(part.gates)
    async with aiohttp.ClientSession() as here.session:
        try:
            await here.start(filters=2)
            await asyncio.to_thread(_run_specs, part, suite, plane, folder, focus)
        finally:
            here.stop()


def _run_specs(part: Part, suite: Path, plane: launcher.ControlPlane, folder: Path, focus: str) -> None:
    command = [
        str(suite),
        f"--kubeconfig={plane.kubeconfig}",
        "--provider=skeleton",
        "--test.timeout=0",
        "--dump-logs-on-failure=false",
        "--ginkgo.v",
        "--ginkgo.no-color",
        f"--ginkgo.json-report={folder}/report.json",
        f"--ginkgo.label-filter={part.labels}",
        *([f"--ginkgo.skip={part.skip}"] if part.skip else []),
        *([f"--ginkgo.focus={focus}"] if focus else []),
    ]
    with (folder / "specs.log").open("wb") as log:
        # What failed is in the report.
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)


def _report(suites: list[dict[str, Any]]) -> list[str]:
    failed = []
    for spec in (each for suite in suites for each in suite["SpecReports"]):
        message = spec.get("Failure", {}).get("Message", "")
        # Specs that the labels leave out are skipped without a word.
        left_out = spec["State"] == "skipped" and not message
        if left_out or (spec["State"] == "passed" and spec["LeafNodeType"] != "It"):
            continue
        name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"] or spec["LeafNodeType"]])
        first, _, _ = message.partition("\n")
        print(f"{spec['State']:8} {spec['RunTime'] / 1e9:6.1f} s  {name}" + (f": {first}" if first else ""), flush=True)
        if spec["State"] not in ("passed", "skipped"):
            failed.append(name)
    return failed


async def main() -> int:
    """Run all parts; 1 where a spec failed."""
    parser = argparse.ArgumentParser(description="Run Kubernetes' end-to-end tests of scheduling.")
    parser.add_argument("--scheduler", choices=("trireme", "kube-scheduler"), default="trireme")
    parser.add_argument("--folder", type=Path, help="keep logs and reports here (default: a temporary folder)")
    parser.add_argument("--focus", default="", help="only specs whose names match this expression")
    parser.add_argument("--version", default="", help="of the suite, such as v1.38.0 (default: the control plane's)")
    parser.add_argument("--parts", nargs="+", choices=[part.name for part in PARTS], help="default: all")
    options = parser.parse_args()
    if shutil.which("go") is None:
        print("sig-scheduling: skipped, there is no Go toolchain to build the suite")
        return 0
    suite = build(options.version)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="sig-scheduling-"))
    failed = []
    for part in PARTS:
        if options.parts and part.name not in options.parts:
            continue
        print(f"sig-scheduling: {part.name}, with {options.scheduler}", flush=True)
        failed += await run_part(part, suite, options.scheduler, folder / part.name, options.focus)
    print(f"sig-scheduling: {len(failed)} failed; logs are in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
