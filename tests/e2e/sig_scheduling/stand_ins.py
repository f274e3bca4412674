"""Stand-ins for modules that Kubernetes v1.38.0-beta.0 requires and the module proxy does not serve.

Both are new in v1.38: their packages were part of other modules before. A stand-in is those packages as the control
plane's release has them, under their new names. No spec is in these modules.

Tests: tests/e2e/sig_scheduling/test_stand_ins.py.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.controlplane import build_controlplane

VERSION = "v1.38.0-beta.0"


@dataclass(frozen=True, slots=True)
class StandIn:
    """A module made of packages that another module had.

    `folders`: those of the packages, in that other module and in this one. `additions`: texts of files, by their names,
    for what v1.38 calls and the packages lack, and for what they use of files that are left out.
    """

    module: str
    source: str
    folders: Mapping[str, str]
    additions: Mapping[str, str] = field(default_factory=dict)


STAND_INS = (
    StandIn(
        "k8s.io/ktesting",
        "k8s.io/kubernetes",
        {"test/utils/ktesting": ""},
        {
            "added.go": """package ktesting

import "time"

// WithDeadline is WithTimeout for a point in time.
func (tCtx TContext) WithDeadline(deadline time.Time, timeoutCause string) TContext {
	return tCtx.WithTimeout(time.Until(deadline), timeoutCause)
}

// CancelBecause is Cancel with the text of an error. Tests call it that start an API server themselves: none here.
func (tCtx TContext) CancelBecause(cause error) {
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	tCtx.Cancel(text)
}
"""
        },
    ),
    StandIn(
        "k8s.io/apiextensions-api",
        "k8s.io/apiextensions-apiserver",
        {name: name for name in ("pkg/apis/apiextensions/v1", "pkg/apis/apiextensions/v1beta1", "pkg/client")},
        {
            f"pkg/apis/apiextensions/{version}/null.go": f"package {version}\n\nvar nullLiteral = []byte(`null`)\n"
            for version in ("v1", "v1beta1")
        },
    ),
)
# Conversions to internal types, which stay where these are.
_LEFT_OUT = ("conversion.go", "zz_generated.conversion.go")
# Of a module whose types client-go has in its signatures.
_MAJOR_VERSION = ("sigs.k8s.io/structured-merge-diff/v6/", "sigs.k8s.io/structured-merge-diff/v7/")


def write_needed(version: str) -> dict[str, Path]:
    """Write the stand-ins that this version needs; returns the folder of each, by its module.

    Raises: SystemExit: the control plane's release cannot be downloaded.
    """
    written: dict[str, Path] = {}
    if version != VERSION:
        return written
    release = build_controlplane.pinned_version()
    for stand_in in STAND_INS:
        try:
            build_controlplane.downloaded(stand_in.module, build_controlplane.staging_version(version))
        except SystemExit as reason:
            why, *_ = str(reason).splitlines()
            print(f"{why}\nsig-scheduling: the code of {release} stands in for {stand_in.module}", flush=True)
        else:
            continue
        of_kubernetes = stand_in.source == "k8s.io/kubernetes"
        source_version = release if of_kubernetes else build_controlplane.staging_version(release)
        source = build_controlplane.downloaded(stand_in.source, source_version)
        folder = build_controlplane.folder_of(version) / "stand-ins" / stand_in.module
        write(stand_in, Path(source["Dir"]), Path(source["GoMod"]).read_text(), folder)
        written[stand_in.module] = folder
    return written


def write(stand_in: StandIn, source: Path, go_mod: str, folder: Path) -> None:
    """Write the module into a folder, in place of what was there.

    `source`: the folder of the module that had the packages; `go_mod`: the text of its go.mod.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for old, new in stand_in.folders.items():
        for path in sorted((source / old).rglob("*.go")):
            if path.name in _LEFT_OUT or path.name.endswith("_test.go"):
                continue
            target = folder / new / path.relative_to(source / old)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_renamed(stand_in, path.read_text()))
    for name, text in stand_in.additions.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    release = re.search(r"^go \S+$", go_mod, re.MULTILINE)
    # What else it requires is what Kubernetes requires.
    (folder / "go.mod").write_text(f"module {stand_in.module}\n\n{release.group() if release else ''}\n")


def _renamed(stand_in: StandIn, text: str) -> str:
    for old, new in stand_in.folders.items():
        name = f"{stand_in.module}/{new}".rstrip("/")
        text = re.sub(rf'"{re.escape(f"{stand_in.source}/{old}")}(?=["/])', f'"{name}', text)
    return text.replace(*_MAJOR_VERSION)
