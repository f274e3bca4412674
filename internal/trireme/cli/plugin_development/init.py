"""Writes the repository of a new plugin: code, tests, Makefile, image, manifest.

Its `packages/` has the packages of the SDK, so that it builds without anything else of Trireme. In a checkout they are
built first, if their sources have changed; packages of another folder are taken as they are.

Tests: tests/unit/cli/test_plugin_development.py, tests/e2e/test_plugin_tutorials.py,
tests/e2e/test_plugin_templates.py.
"""

# A template is a folder of `templates/`; each of its files ends with `.template`, so that no tool takes it for code of
# Trireme. Words such as PLUGIN_NAME are replaced, in the names of files too, and lines for other extension points than
# those of the plugin are left out.

# Also change: docs/plugin-project.md.

import argparse
import datetime
import keyword
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from trireme.cli.plugin_development import taken_names
from trireme.framework import release

_TEMPLATES = pathlib.Path(__file__).parent / "templates"
_SUFFIX = ".template"
_CHECKOUT = pathlib.Path(__file__).parents[4]
#: Where `make sdk-packages` puts the packages, in a checkout of this repository.
_PACKAGES = _CHECKOUT / "build" / "sdk"
#: What builds them; an installed package does not have it.
_BUILDER = _CHECKOUT / "sdk" / "build_packages.py"
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
#: The extension points that templates have.
EXTENSION_POINTS = ("filter", "score")
# A line that says for which extension points the lines up to the next such line are; after `%%` alone they are for all.
_MARKER = re.compile(r"^%%(?: (.*))?\n", re.MULTILINE)
_SOURCES = (".java", ".py", ".rs", ".ts", ".go")
# What the plugin does.
_SUMMARIES = {
    ("filter",): "keeps pods off nodes with a label",
    ("score",): "prefers nodes by the number in a label",
    ("filter", "score"): "keeps pods off nodes with a label, and prefers nodes by the number in another",
}


class InitError(Exception):
    """The repository cannot be made; the text says what to change."""


def list_languages() -> list[str]:
    """List the languages that have a template."""
    return sorted(path.name for path in _TEMPLATES.iterdir() if path.is_dir())


def parse_extension_points(text: str) -> Sequence[str]:
    """Read names with commas, in the order of the templates. Raises: argparse.ArgumentTypeError."""
    names = text.split(",")
    if unknown := [name for name in names if name not in EXTENSION_POINTS]:
        raise argparse.ArgumentTypeError(
            f"no template has {unknown[0]!r}: name {' or '.join(EXTENSION_POINTS)}, or both with a comma between them"
        )
    return [name for name in EXTENSION_POINTS if name in names]


def run(options: argparse.Namespace) -> int:
    """Write the repository of a new plugin. Returns the exit code."""
    folder = pathlib.Path(options.directory or project_name(options.name))
    packages = pathlib.Path(options.sdk or _PACKAGES)
    try:
        _check(options.name, options.language, folder)
        if not options.sdk and _BUILDER.exists():
            print(f"building the SDK's package in {options.language}, about a minute the first time", file=sys.stderr)
            build_packages(options.language, _BUILDER)
        write(options.name, options.language, folder, packages, options.extension_points)
    except InitError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"{folder}: the plugin {options.name} in {options.language}")
    print(f"  packages/ has the SDK, built {_find_build_time(packages / options.language)}")
    print(f"  {f'cd {folder} && make test':<41} # build and test it")
    print(f"  {'trireme plugin run':<41} # try it, and again after each change")
    print("  README.md says how to verify and deploy it")
    return 0


def write(
    name: str,
    language: str,
    folder: pathlib.Path,
    packages: pathlib.Path,
    points: Sequence[str] = EXTENSION_POINTS[:1],
) -> None:
    """Write the repository into a folder that is new or empty; `points` are the plugin's extension points.

    Raises: InitError: the name cannot be a plugin's, the folder has files, or the SDK's packages are missing.
    """
    _check(name, language, folder)
    sdk = packages / language
    if not sdk.is_dir() or not any(sdk.iterdir()):
        raise InitError(f"--sdk: {sdk}: no packages are there; `make sdk-packages` in Trireme's repository builds them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        words = _words(name, points)
        for template in _list_files(_TEMPLATES / language):
            path = folder / _replace(str(template.relative_to(_TEMPLATES / language)).removesuffix(_SUFFIX), words)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_replace(_lines_for(template.read_text(), points), words))
        shutil.copytree(sdk, folder / "packages", ignore=shutil.ignore_patterns(".*"))
    except OSError as error:
        raise InitError(f"{error.filename}: {error.strerror}") from error


def build_packages(language: str, builder: pathlib.Path) -> None:
    """Build the SDK's packages, unless they are of the present sources. Raises: InitError: why it failed."""
    command = [sys.executable, str(builder), "--if-changed", language]
    built = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise InitError(
            f"the SDK's packages could not be built from the sources beside this command:\n{built.stderr.rstrip()}\n"
            "Mend that, or name a folder with packages by --sdk"
        )


def _check(name: str, language: str, folder: pathlib.Path) -> None:
    """Check the arguments. Raises: InitError."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise InitError(f"NAME: {name!r}: must begin with a capital letter and have letters and digits, as MyPlugin")
    sources = [_MARKER.sub("", path.read_text()) for path in _list_sources(language)]
    if taken_names.is_taken(name, _module_name(name, language), language, sources):
        raise InitError(f"NAME: {name!r}: has another meaning in {language}; choose another name, such as My{name}")
    try:
        if folder.exists() and any(folder.iterdir()):
            raise InitError(f"{folder}: has files already; name another folder by --directory")
    except OSError as error:
        raise InitError(f"{error.filename}: {error.strerror}") from error


def _module_name(name: str, language: str) -> str:
    return project_name(name).replace("-", "" if language == "java" else "_")


def _find_build_time(packages: pathlib.Path) -> str:
    newest = max(path.stat().st_mtime for path in packages.rglob("*") if path.is_file())
    return f"{datetime.datetime.fromtimestamp(newest).astimezone():%Y-%m-%d %H:%M %Z}"


def project_name(name: str) -> str:
    """The name of the repository: MyPlugin2 → my-plugin2, GPUPacking → gpu-packing."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def _lines_for(text: str, points: Sequence[str]) -> str:
    """The text without lines that are for other extension points."""
    both, alone = " and ".join(EXTENSION_POINTS), f"{points[0]} alone"
    wanted = {None, *points, both if len(points) > 1 else alone}
    first, *rest = _MARKER.split(text)
    return first + "".join(lines for marker, lines in zip(rest[::2], rest[1::2], strict=True) if marker in wanted)


def _words(name: str, points: Sequence[str]) -> Mapping[str, str]:
    """A text of a template, and its replacement."""
    project = project_name(name)
    return {
        "PLUGIN_SUMMARY": _SUMMARIES[tuple(points)],
        "LABEL_KEY": "example.com/closed" if "filter" in points else "example.com/score",
        "EXTENSION_POINTS": ", ".join(points),
        "PROFILE_PLUGINS": ", ".join(f"{point}: {{enabled: [{{name: {name}}}]}}" for point in points),
        "PLUGIN_NAME": name,
        "PROJECT_NAME": project,
        "MODULE_NAME": _module_name(name, "python"),
        "PACKAGE_NAME": _module_name(name, "java"),
        "SDK_VERSION": release.TRIREME,
    }


def _list_files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    return (path for path in sorted(folder.rglob(f"*{_SUFFIX}")) if path.is_file())


def _list_sources(language: str) -> Iterator[pathlib.Path]:
    """The files of the template that have code of the language."""
    return (path for path in _list_files(_TEMPLATES / language) if path.with_suffix("").suffix in _SOURCES)


def _replace(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
