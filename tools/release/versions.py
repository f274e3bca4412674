"""The version of this release, and where else it stands: `python -m tools.release.versions 0.3.0` sets all of them.

`TRIREME` in internal/trireme/framework/release.py is the version; pyproject.toml reads it. Package managers of other
languages, and the chart, want it written in files of their own: these are `PLACES`, and a test compares them.

Also change: docs/versioning.md.

Tests: tests/unit/project/test_versions.py.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "internal/trireme/framework/release.py"
_VERSION = r"(\d+\.\d+\.\d+(?:-?(?:rc|dev)\.?\d+)?)"


@dataclass(frozen=True, slots=True)
class Place:
    """Files that name the version: where the pattern's group is."""

    glob: str
    pattern: str


_OF_RUST = ("sdk/rust", "examples/*", "tools/bench/noop_plugins/rust")
_OF_JAVA = ("sdk/java", "examples/*", "tools/bench/noop_plugins/java")
_OF_GO = ("examples/*", "tools/bench/noop_plugins/go")
PLACES = (
    Place(SOURCE, rf'^TRIREME = "{_VERSION}"$'),
    Place("deploy/chart/Chart.yaml", rf"^(?:version|appVersion): {_VERSION}$"),
    Place("docs/deployment.md", rf"(?:\btrireme[:-]|newTag: ){_VERSION}"),
    Place("docs/tutorials/replacing.md", rf"\btrireme:{_VERSION}"),
    Place("README.md", rf"\btrireme:{_VERSION}"),
    Place("sdk/rust/Cargo.toml", rf'^name = "trireme-sdk"\nversion = "{_VERSION}"'),
    Place("sdk/rust/README.md", rf"trireme-sdk-{_VERSION}\.crate"),
    *(Place(f"{folder}/Cargo.lock", rf'^name = "trireme-sdk"\nversion = "{_VERSION}"') for folder in _OF_RUST),
    Place("sdk/typescript/package*.json", rf'"name": "@trireme/plugin-sdk",\n *"version": "{_VERSION}"'),
    *(
        Place(f"{folder}/pom.xml*", rf"<artifactId>trireme-plugin-sdk</artifactId>\s*<version>{_VERSION}</version>")
        for folder in _OF_JAVA
    ),
    Place("sdk/java/README.md", rf"<version>{_VERSION}</version>"),
    *(Place(f"{folder}/go.mod", rf"trireme\.dev/sdk/go v{_VERSION}$") for folder in _OF_GO),
    Place("sdk/go/README.md", rf"trireme\.dev/sdk/go@v{_VERSION}"),
)


def current() -> str:
    """The version."""
    found = re.search(PLACES[0].pattern, (ROOT / SOURCE).read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def found() -> Iterator[tuple[Path, str]]:
    """Each file and the version that it names."""
    for place in PLACES:
        for path in sorted(ROOT.glob(place.glob)):
            for match in re.finditer(place.pattern, path.read_text(), re.MULTILINE):
                yield path, match[1]


def write(version: str) -> None:
    """Write the version to all places. Raises: ValueError: it is none."""
    if not re.fullmatch(_VERSION, version):
        raise ValueError(f"{version!r} is no version such as 0.2.0")
    for place in PLACES:
        for path in sorted(ROOT.glob(place.glob)):
            text = path.read_text()
            new = re.sub(place.pattern, lambda match: match[0].replace(match[1], version), text, flags=re.MULTILINE)
            if new != text:
                path.write_text(new)
                print(path.relative_to(ROOT))


def main(arguments: Sequence[str]) -> int:
    """Set the version, or print it without arguments."""
    if not arguments:
        print(current())
        return 0
    write(arguments[0])
    print("now `make manifests chart-snapshots`, and for the tag `towncrier build`", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
