"""Versions in the format of the compatibility flags.

`--emulated-version` and `--min-compatibility-version` let a newer scheduler behave as an older one during an upgrade;
`Effective` holds the three versions that result and checks that they can be emulated.

Source: k8s.io/apimachinery/pkg/util/version, k8s.io/component-base/compatibility.

Also change: docs/kubernetes-versions.md.

Tests: tests/unit/config/test_gates.py, tests/unit/frontend/test_start_with_each_gate.py,
tests/unit/config/test_options.py.
"""

import re
from dataclasses import dataclass

from trireme_kube.apimachinery.golang import quote

#: The Kubernetes whose behaviour this is, of the embedded cluster too, and the oldest that can be emulated.
KUBERNETES = "v1.38.0-beta.0"
OLDEST = (1, 35)
_MAX_UINT = 1 << 64

_MATCH = re.compile(r"[\t\n\f\r ]*v?([0-9]+(?:\.[0-9]+)*)(.*)")
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_EXTRA = re.compile(rf"(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?[\t\n\f\r ]*")


@dataclass(frozen=True, slots=True)
class Version:
    """A parsed version."""

    components: tuple[int, ...]
    pre_release: str = ""
    build_metadata: str = ""

    @property
    def minor(self) -> tuple[int, int]:
        """Major and minor number."""
        return self.components[0], self.components[1]

    @property
    def patch(self) -> int:
        """The third number."""
        return self.components[2] if len(self.components) > 2 else 0

    def __str__(self) -> str:
        text = ".".join(str(component) for component in self.components)
        if self.pre_release:
            text += f"-{self.pre_release}"
        return text + (f"+{self.build_metadata}" if self.build_metadata else "")


def _parse_version(text: str, *, semantic: bool) -> Version:
    """Parse a version as Go's `version` package does. Raises: ValueError with its message.

    `semantic`: exactly three numbers without leading zeros, with pre-release and build. Else two numbers or more, and
    what follows them is dropped.
    """
    found = _MATCH.fullmatch(text)
    if not found:
        raise ValueError(f"could not parse {quote(text)} as version")
    numbers, extra = found.groups()
    parts = numbers.split(".")
    if len(parts) != 3 if semantic else len(parts) < 2:
        raise ValueError(f"illegal version string {quote(text)}")
    for index, part in enumerate(parts):
        if (index == 0 or semantic) and part.startswith("0") and part != "0":
            raise ValueError(f"illegal zero-prefixed version component {quote(part)} in {quote(text)}")
        if int(part) >= _MAX_UINT:
            raise ValueError(
                f"illegal non-numeric version component {quote(part)} in {quote(text)}: "
                f"strconv.ParseUint: parsing {quote(part)}: value out of range"
            )
    components = tuple(int(part) for part in parts)
    if not semantic or not extra:
        return Version(components)
    more = _EXTRA.fullmatch(extra)
    if not more:
        raise ValueError(f"could not parse pre-release/metadata ({extra}) in version {quote(text)}")
    pre_release, build_metadata = more.group(1) or "", more.group(2) or ""
    for part in pre_release.split("."):
        if part.isdigit() and part.startswith("0") and part != "0":
            raise ValueError(f"illegal zero-prefixed version component {quote(part)} in {quote(text)}")
    return Version(components, pre_release, build_metadata)


def parse(text: str) -> Version:
    """Parses a version, as a semantic one where it is one.

    Raises:
        ValueError: it is none.
    """
    try:
        return _parse_version(text, semantic=True)
    except ValueError:
        return _parse_version(text, semantic=False)


def parse_semantic(text: str) -> Version:
    """Parses a semantic version.

    Raises:
        ValueError: it is none.
    """
    return _parse_version(text, semantic=True)


BINARY = parse(KUBERNETES)


def _minor_version_before(minor: tuple[int, int]) -> tuple[int, int]:
    return minor[0], max(minor[1] - 1, 0)


def _version_text(minor: tuple[int, int]) -> str:
    return f"{minor[0]}.{minor[1]}"


@dataclass(frozen=True, slots=True)
class Effective:
    """The emulated version, and the oldest version that the rest of the control plane may have."""

    emulated: tuple[int, int] = BINARY.minor
    oldest_peer: tuple[int, int] = _minor_version_before(BINARY.minor)

    @staticmethod
    def emulating(emulated: Version) -> "Effective":
        """Emulating an older version; its peers may be one minor version older still."""
        return Effective(emulated.minor, max(_minor_version_before(emulated.minor), OLDEST))

    def with_oldest_peer(self, oldest: Version) -> "Effective":
        """With another oldest peer."""
        return Effective(self.emulated, oldest.minor)

    def problems(self) -> list[str]:
        """Why these versions are invalid; empty if they are valid."""
        found: list[str] = []
        emulated, oldest, floor = _version_text(self.emulated), _version_text(self.oldest_peer), _version_text(OLDEST)
        if not OLDEST <= self.emulated <= BINARY.minor:
            found.append(f"emulation version {emulated} is not between [{floor}, {BINARY}]")
        if not OLDEST <= self.oldest_peer <= self.emulated:
            found.append(f"minCompatibilityVersion version {oldest} is not between [{floor}, {emulated}]")
        return found


DEFAULT = Effective()


def emulation_range() -> str:
    """The versions that `--emulated-version` accepts, for its help."""
    return f"{_version_text(OLDEST)}..{_version_text(BINARY.minor)}(default:{_version_text(BINARY.minor)})"


def oldest_peer_range() -> str:
    """The versions that `--min-compatibility-version` accepts, for its help."""
    default = _version_text(_minor_version_before(BINARY.minor))
    return f"{_version_text(OLDEST)}..{_version_text(BINARY.minor)}(default:{default})"


def parse_flag(values: tuple[str, ...]) -> dict[str, Version]:
    """The versions of a flag by component; `kube` if none is named.

    Raises: ValueError: a version is malformed, has a patch, or is given twice.
    """
    found: dict[str, Version] = {}
    for value in values:
        component, text = "kube", value
        if "=" in value:
            component, _, text = value.partition("=")
            component, text = component.strip(), text.strip()
        version = parse(text)
        if version.patch:
            raise ValueError(f"patch version not allowed, got: {component}={version}")
        if component in found:
            raise ValueError(f"duplicate version flag, {component}={found[component]} and {component}={version}")
        found[component] = version
    for component in found:
        if component != "kube":
            raise ValueError(f"component not registered: {component}")
    return found


def effective(emulated: tuple[str, ...], oldest_peer: tuple[str, ...]) -> Effective:
    """The versions that two flags specify. Raises: ValueError: a flag is malformed."""
    result = DEFAULT
    version = parse_flag(emulated).get("kube")
    if version:
        result = Effective.emulating(version)
    oldest = parse_flag(oldest_peer).get("kube")
    return result.with_oldest_peer(oldest) if oldest else result
