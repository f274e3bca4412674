"""What kube-scheduler itself answers to a case, in the form of the recordings.

The program is `build/oracle kube-scheduler`. It gets the environment of the recordings and one flag more, `-v=2`,
because its plugins are named in the log only there; the lines that come of that are left out again.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.config.agreement import Case, Places, free_port, written
from trireme_kube.componentbase.logs import start_log

BINARY = Path(__file__).parents[3] / "build" / "oracle"
ENDS_SECONDS = 20.0
_LINE = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^:\]]+:\d+\] (.*)", re.DOTALL)
_FAILED = re.compile(r'"command failed" err=(?:("(?:[^"\\]|\\.)*")|<\n(.*)\n >)', re.DOTALL)
_PLUGINS = '"the scheduler starts to work with those plugins" Plugins='
#: The lines that are only there for -v=2, and those that every run has.
_VERBOSE = re.compile(
    r'FLAG: |"(Creating extender|Using component config)"|"GenericWorkload is enabled, but default preemption '
)
_EVERY_RUN = re.compile(r'"Wrote configuration"|The manifest file is empty, ignoring\.')
_WEIGHTED = frozenset({"Score", "PlacementScore", "MultiPoint"})


def available() -> bool:
    """Whether the program has been built."""
    return BINARY.exists()


def answer(case: Case) -> Case:
    """Kube-scheduler's answer to a case."""
    with tempfile.TemporaryDirectory(prefix="trireme-config-") as directory:
        places = Places(directory, free_port())
        places.write_files(case)
        verbose = [] if "stdout" in case else ["-v=2"]
        done = subprocess.run(
            [str(BINARY), "kube-scheduler", *map(places.fill, case["flags"]), *verbose],
            cwd=directory,
            env={"PATH": "/usr/bin:/bin", "HOME": directory},
            capture_output=True,
            timeout=ENDS_SECONDS,
            check=False,
        )
        shaped = {
            **{key: case[key] for key in ("name", "kind", "files", "flags") if key in case},
            "exit": done.returncode,
            **_said(done.stderr.decode(errors="replace"), bool(verbose)),
            "written": written(Path(directory, "out.yaml")),
        }
        if "stdout" in case:
            del shaped["plugins"]
            shaped["stdout"] = _stdout(done.stdout.decode(errors="replace"))
        elif done.returncode:
            shaped["plugins"] = None
        return places.restore(shaped)


def _stdout(text: str) -> str:
    if "\nUsage:\n" in text:
        return "{HELP}"
    return "{BUILD}" if text.startswith("version.Info") else text


def _said(stderr: str, verbose: bool) -> dict[str, Any]:
    """The error, how it was reported, the other log lines and the plugins."""
    said: dict[str, Any] = {"errors": [], "reported": None, "logs": [], "plugins": []}
    _, usage, error = f"\n{stderr}".rpartition("\nError: ")
    if usage:
        said["errors"], said["reported"] = error.removesuffix("\n").split("\n"), "usage"
        return said
    for record in _records(stderr) if stderr else ():
        found = _LINE.fullmatch(record)
        if found is None:
            said["errors"].append(record)
            said["reported"] = "plain"
            continue
        severity, text = found.groups()
        failed = _FAILED.fullmatch(text)
        if failed:
            said["errors"], said["reported"] = _error(*failed.groups()), "log"
        elif verbose and text.startswith(_PLUGINS):
            said["plugins"].append(_plugins(json.loads(text.removeprefix(_PLUGINS))))
        elif not _EVERY_RUN.match(text) and not (verbose and _VERBOSE.match(text)):
            said["logs"].append(f"{severity} {text}")
    return said


def _error(quoted: str | None, indented: str | None) -> list[str]:
    """The lines of an error: the log quotes one line, and indents several."""
    if quoted is not None:
        return str(start_log.unquote(quoted)).split("\n")
    return [line.removeprefix("\t") for line in (indented or "").split("\n")]


def _records(stderr: str) -> Iterator[str]:
    """The log's records: a value of several lines belongs to the line it starts in."""
    record = ""
    inside = False
    for line in stderr.removesuffix("\n").split("\n"):
        if inside:
            record += "\n" + line
            inside = line != " >"
        else:
            record, inside = line, line.endswith("=<")
        if not inside:
            yield record


def _plugins(logged: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        point: [
            [plugin["Name"], plugin["Weight"]] if point in _WEIGHTED and plugin["Weight"] else plugin["Name"]
            for plugin in set_["Enabled"] or ()
        ]
        for point, set_ in logged.items()
    }
