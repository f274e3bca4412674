"""Builds the real control plane, once: `python -m tools.controlplane.build_controlplane` leaves `build/controlplane`.

With `--node` also `build/node`, the programs of a node. `--version v1.36.3` builds the control plane of another version
of Kubernetes, as `build/kubernetes-v1.36.3/controlplane`, with the modules and the Go release of that version.

A cold build compiles most of Kubernetes (some six minutes on two cores, at low priority so that the machine stays
usable); every later call says that there is nothing to do.

Standard library only, so that it runs before anything is installed.
"""

# Also change: tools/controlplane/launcher.py, tools/controlplane/main.go (the programs of the control plane).

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.controlplane import go_programs

MODULE = Path(__file__).resolve().parent
REPOSITORY = MODULE.parent.parent
BINARY = REPOSITORY / "build" / "controlplane"
NODE = REPOSITORY / "build" / "node"
SOURCES = {BINARY.name: "main.go", NODE.name: "node/main.go"}
# Which resources the API server of another version serves with all APIs enabled, as Kubernetes publishes it.
DISCOVERY = "aggregated_v2.json"
# Versions of modules that Kubernetes requires and the module proxy does not serve, and those taken in their place.
_UNSERVED = {"sigs.k8s.io/structured-merge-diff/v7": ("v7.0.1", "v7.0.0")}


@dataclass(frozen=True, slots=True)
class Module:
    """The downloaded module k8s.io/kubernetes of a version.

    `toolchain`: the release of Go that it is built with, such as 1.27.3; empty: the installed one will do.
    """

    folder: Path
    go_mod: str
    toolchain: str = ""


def kubernetes_version(go_mod: str) -> str:
    """The Kubernetes release that go.mod pins, such as v1.37.0."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", go_mod, re.MULTILINE)
    if not found:
        raise SystemExit("tools/controlplane/go.mod does not require k8s.io/kubernetes")
    return found.group(1)


def pinned_version() -> str:
    """The release of `build/controlplane`."""
    return kubernetes_version((MODULE / "go.mod").read_text())


def binary_of(version: str) -> Path:
    """The place of the control plane of this version; an empty one is that of go.mod."""
    return BINARY if version in ("", pinned_version()) else folder_of(version) / BINARY.name


def folder_of(version: str) -> Path:
    """The folder of what is built with another version of Kubernetes."""
    return REPOSITORY / "build" / f"kubernetes-{version}"


def ldflags(version: str) -> str:
    """Linker flags: no debug tables (half the size), and the version that the programs report of themselves."""
    return f"-s -w -X k8s.io/component-base/version.gitVersion={version}"


def digest(binary: Path = BINARY, module: Path = MODULE, version: str = "") -> str:
    """The digest of the binary's inputs."""
    # The modules of another version do not come from go.mod.
    names = (SOURCES[binary.name],) if version else (SOURCES[binary.name], "go.mod", "go.sum")
    inputs = [(module / name).read_bytes() for name in names]
    return go_programs.digest([*inputs, *([version.encode()] if version else [])])


def up_to_date(binary: Path = BINARY, module: Path = MODULE, version: str = "") -> bool:
    """Whether the binary exists and was built from the inputs as they are now."""
    return go_programs.is_built(binary, digest(binary, module, version))


def build(binary: Path = BINARY) -> None:
    """Compiles and links the binary; raises SystemExit with one line where that is impossible."""
    _compile(binary, pinned_version(), digest(binary))


def build_version(version: str) -> Path:
    """Build the control plane of a version, if it is not there. Raises: SystemExit, with the reason."""
    binary = binary_of(version)
    if binary == BINARY:
        if not up_to_date():
            build()
        return binary
    if up_to_date(binary, version=version):
        return binary
    folder = folder_of(version)
    kubernetes = download(version)
    folder.mkdir(parents=True, exist_ok=True)
    modfile = write_modfile(version, kubernetes, BINARY.name)
    (folder / DISCOVERY).write_bytes((kubernetes.folder / "api" / "discovery" / DISCOVERY).read_bytes())
    flags = ("-mod=mod", f"-modfile={modfile}")
    _compile(binary, version, digest(binary, version=version), *flags, environment=environment_for(kubernetes))
    return binary


def write_modfile(version: str, kubernetes: Module, name: str, replacements: Mapping[str, Path] | None = None) -> Path:
    """Write the go.mod of a program for this version, to be given with `-modfile` and `-mod=mod`; returns its path.

    `replacements`: folders to take staging modules from, by module.
    """
    modfile = folder_of(version) / f"{name}.mod"
    modfile.parent.mkdir(parents=True, exist_ok=True)
    modfile.write_text(module_of(version, kubernetes, f"trireme.dev/{name}", replacements or {}))
    modfile.with_suffix(".sum").unlink(missing_ok=True)
    return modfile


def environment_for(kubernetes: Module) -> dict[str, str]:
    """The environment of Go that builds with a file of `write_modfile`: Go chooses its release by go.mod alone."""
    return {**os.environ, "GOTOOLCHAIN": f"go{kubernetes.toolchain}" if kubernetes.toolchain else "auto"}


def module_of(version: str, kubernetes: Module, name: str, replacements: Mapping[str, Path]) -> str:
    """The text of a go.mod that requires this version of Kubernetes, and of all else what that version requires.

    k8s.io/kubernetes replaces its staging modules by folders of its repository; outside of that they are modules with
    a version of their own. `replacements`: as for `write_modfile`.
    """
    staging = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", kubernetes.go_mod, re.MULTILINE)
    released = staging_version(version)
    go = re.search(r"^go (\S+)", kubernetes.go_mod, re.MULTILINE)
    lines = [
        f"module {name}",
        f"go {go.group(1)}" if go else "",
        f"toolchain go{kubernetes.toolchain}" if kubernetes.toolchain else "",
        f"require k8s.io/kubernetes {version}",
        *(f"replace {each} => {replacements.get(each, f'{each} {released}')}" for each in staging),
        *(f"replace {each} {absent} => {each} {served}" for each, (absent, served) in _UNSERVED.items()),
    ]
    return "\n".join(lines) + "\n"


def staging_version(version: str) -> str:
    """The version of the staging modules of a version of Kubernetes, such as v0.36.3 of v1.36.3."""
    return re.sub(r"^v1\.", "v0.", version)


def downloaded(module: str, version: str) -> Mapping[str, Any]:
    """Download a module; returns the JSON of `go mod download`, with `Dir` and `GoMod`.

    Raises: SystemExit: there is none, or no Go toolchain.
    """
    command = [go_programs.toolchain(), "mod", "download", "-json", f"{module}@{version}"]
    # Outside of a module, so that no go.mod has a say.
    environment = {**os.environ, "GOTOOLCHAIN": "auto"}  # it may require a newer release than the installed one
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    found: Mapping[str, Any] = json.loads(done.stdout or "{}")
    if done.returncode != 0:
        why = found.get("Error") or done.stderr.strip()
        raise SystemExit(f"controlplane: {module} {version} cannot be downloaded: {why}")
    return found


def download(version: str) -> Module:
    """Download the module of Kubernetes. Raises: SystemExit: there is none, or no Go toolchain."""
    found = downloaded("k8s.io/kubernetes", version)
    folder = Path(found["Dir"])
    wanted = (folder / ".go-version").read_text().strip()
    asking = [go_programs.toolchain(), "env", "GOVERSION"]
    installed = subprocess.run(asking, capture_output=True, text=True, check=True).stdout
    # Another patch release would compile everything anew, and change nothing.
    enough = _minor(installed.removeprefix("go")) >= _minor(wanted)
    return Module(folder, Path(found["GoMod"]).read_text(), "" if enough else wanted)


def _minor(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])


def served_resources(folder: Path) -> frozenset[str]:
    """What the API server of a built version serves at most: `scheduling.k8s.io/v1beta1/podgroups`, and groups too."""
    found = set()
    for group in json.loads((folder / DISCOVERY).read_text())["items"]:
        for version in group["versions"]:
            name = "/".join(filter(None, (group["metadata"].get("name", ""), version["version"])))
            found.add(name)
            found.update(f"{name}/{each['resource']}" for each in version["resources"])
    return frozenset(found)


def _compile(
    binary: Path, version: str, inputs: str, *flags: str, environment: Mapping[str, str] | None = None
) -> None:
    """Compile and link; raises SystemExit with one line where that is impossible."""
    started = time.monotonic()
    print(f"controlplane: building {binary.relative_to(REPOSITORY)} (about six minutes the first time)", flush=True)
    command = ("build", "-buildvcs=false", *flags, "-ldflags", ldflags(version))
    package = f"./{Path(SOURCES[binary.name]).parent}"
    go_programs.compile_program(
        binary, inputs, command, MODULE, package=package, environment=environment, quiet=bool(flags)
    )
    print(f"controlplane: built in {time.monotonic() - started:.0f} s, {binary.stat().st_size >> 20} MiB")


def main() -> int:
    """Builds where needed; with --check only says whether a build is needed (exit code 1)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="build nothing; exit 1 where the binary is out of date")
    parser.add_argument("--node", action="store_true", help="also the programs of a node")
    parser.add_argument("--version", default="", help="of Kubernetes, such as v1.36.3 (default: that of go.mod)")
    arguments = parser.parse_args()
    version = "" if arguments.version == pinned_version() else arguments.version
    if version and arguments.node:
        parser.error("--node builds with the version of go.mod alone")
    for binary in (BINARY, NODE) if arguments.node else (binary_of(version),):
        if up_to_date(binary, version=version):
            print(f"controlplane: {binary.relative_to(REPOSITORY)} is up to date")
        elif arguments.check:
            print("controlplane: not built, or built from other inputs; run `make controlplane`", file=sys.stderr)
            return 1
        elif version:
            build_version(version)
        else:
            build(binary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
