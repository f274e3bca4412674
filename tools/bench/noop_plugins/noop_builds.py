"""The plugin without work in each language, built with the SDK's package.

    python -m tools.bench.noop_plugins.noop_builds

Run as a program it builds all of them, and the HTTP extender without work in tools/bench/noop_extender.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.contract import contract_services, sdk_examples

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]


def _python() -> Sequence[str | Path]:
    return (sys.executable, FOLDER.parent / "noop_plugin.py")


def _go() -> Sequence[str | Path]:
    return (contract_services.build_go("tools/bench/noop_plugins/go", "noop-go"),)


def _typescript() -> Sequence[str | Path]:
    return ("node", sdk_examples.build_typescript(FOLDER / "typescript") / "dist/src/noop.js")


def _java() -> Sequence[str | Path]:
    target = sdk_examples.build_java(FOLDER / "java") / "target"
    return ("java", "-XX:+UseSerialGC", "-cp", f"{target}/classes:{target}/lib/*", "dev.trireme.bench.Noop")


def _rust() -> Sequence[str | Path]:
    return (contract_services.run_cargo_in(FOLDER / "rust", "build", "--release") / "release/noop",)


COMMANDS: Mapping[str, Callable[[], Sequence[str | Path]]] = {
    "python": _python,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "typescript": _typescript,
}
"""Build the plugin of a language, and say what starts it. DEPENDS_ON in its environment says what it declares."""


def build_extender() -> None:
    """Build build/noop-extender. Raises: CalledProcessError."""
    command = ("go", "build", "-buildvcs=false", "-o", ROOT / "build" / "noop-extender", ".")
    subprocess.run(command, cwd=FOLDER.parent / "noop_extender", check=True)


if __name__ == "__main__":
    build_extender()
    for language, command in COMMANDS.items():
        print(language, *command())
