"""How far we agree with kube-scheduler's recorded answers about configuration files and command lines.

`measure(path)` runs every case of a file of them in this process (a case is a few milliseconds, a process is half a
second) and answers counts and the first differences, by kind and field; `answers(path)` yields our own answers in the
same form. As a program, in the folder above this one, it prints either:

    python -m config.agreement data/config.jsonl.gz [--answers] [--differences 10]

A start in this process ends before it connects. Where a recorded program ran until it was told to end, ours is run as
a program too (`live.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.config import live
from trireme.config import command_flags, commandline
from trireme.config.commandline import Start, StartOutcome
from trireme.config.scheduler_configuration import CompletedProfile
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig import server_url
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.cli.flags import FlagSet
from trireme_kube.componentbase.tls.self_signed import make_certificate

Case = dict[str, Any]
#: What is compared, per kind of file.
CASE_FIELDS = ("exit", "phase", "errors", "reported", "logs", "stdout", "written", "plugins")
#: Of a program that ran until it was told to end: what it logged meanwhile is another matter.
SIGNALLED_FIELDS = ("signalled", "exit", "phase", "errors", "reported")
#: Lines that every run has.
_EVERY_RUN = (
    'I "Wrote configuration"',
    'E "command failed"',
    "E The manifest file is empty, ignoring.",
    commandline.ADVICE,
)
#: How much of an error is about the platform's certificate library and not about us.
_DETAIL = re.compile(r"\{CERT_DETAIL\}")
#: Names a server; nothing here gets as far as asking it.
_KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
"""


def read_cases(path: str | Path) -> Iterator[Case]:
    """The cases of a file, gzipped or not."""
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


@cache
def _pair() -> tuple[str, str]:
    certificate, key = make_certificate("localhost", ["127.0.0.1"])
    return certificate.decode(), key.decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _lookup(connection: Connection) -> Mapping[str, str]:
    """The cluster's authentication settings, from a server that is not there: a client's error about it."""
    url = server_url.parse_server(connection.host, tls=False)
    host, _, port = url.host.partition(":")
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    try:
        socket.create_connection((host, int(port or 80)), timeout=1).close()
    except OSError:
        where = f"{url.scheme}://{url.host}{url.path}{path}"
        raise ConfigurationError(f'Get "{where}": dial tcp {url.host}: connect: connection refused') from None
    return {}


@dataclass(frozen=True)
class Places:
    """The values of a case's placeholders."""

    directory: str
    port: int

    def fill(self, text: str) -> str:
        """A text with the values put in."""
        certificate, key = _pair()
        for name, value in self._values().items():
            text = text.replace("{" + name + "}", value)
        return text.replace("{CERT}", certificate).replace("{KEY}", key)

    def _values(self) -> dict[str, str]:
        directory = self.directory
        return {
            "FILE": f"{directory}/config.yaml",
            "OUT": f"{directory}/out.yaml",
            "DIR": directory,
            "PORT": str(self.port),
            "KUBECONFIG": f"{directory}/live.kubeconfig",
        }

    def write_files(self, case: Case) -> None:
        """Writes the files of a case."""
        for name, text in case["files"].items():
            Path(self.directory, name).write_bytes(self.fill(text).encode("utf-8", "surrogateescape"))
        Path(self.directory, "live.kubeconfig").write_text(_KUBECONFIG, encoding="utf-8")

    def restore(self, value: Any) -> Any:
        """A value with the placeholders put back."""
        if isinstance(value, str):
            for name, text in self._values().items():
                if name != "PORT":
                    value = value.replace(text, "{" + name + "}")
            return value.replace(f":{self.port}", ":{PORT}").replace(f'"{self.port}"', '"{PORT}"')
        if isinstance(value, list):
            return [self.restore(item) for item in value]
        if isinstance(value, dict):
            return {self.restore(key): self.restore(item) for key, item in value.items()}
        return value


def plugins_of(profile: CompletedProfile) -> dict[str, list[Any]]:
    """The plugins of a profile as the recordings have them."""
    shown: dict[str, list[Any]] = {"MultiPoint": []}
    for point in ExtensionPoint:
        shown[point.label] = [
            [plugin.name, plugin.weight] if point.weighted else plugin.name for plugin in profile.plugins[point]
        ]
    return shown


def answer(case: Case) -> Case:
    """Our answer to a case, in the form of the recording."""
    with tempfile.TemporaryDirectory(prefix="trireme-config-") as directory:
        places = Places(directory, free_port())
        places.write_files(case)
        logs: list[str] = []
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.chdir(directory):
            start = Start(
                arguments=[places.fill(flag) for flag in case["flags"]],
                environment={"PATH": "/usr/bin:/bin", "HOME": directory},
                stdout=stdout,
                stderr=stderr,
                log=logs.append,
                lookup=_lookup,
            )
            outcome = start.run()
        if outcome.completed and outcome.completed.serving:
            outcome.completed.serving.listener.close()
        return places.restore(_shaped(case, outcome, logs, stdout.getvalue(), Path(directory, "out.yaml")))


def _shaped(case: Case, outcome: StartOutcome, logs: list[str], stdout: str, out: Path) -> Case:
    shaped: Case = {key: case[key] for key in ("name", "kind", "files", "flags") if key in case}
    shaped["exit"] = outcome.code
    if "phase" in case:
        shaped["phase"] = outcome.stage or None
    shaped["errors"] = outcome.error.split("\n") if outcome.error else []
    shaped["reported"] = outcome.reported or None
    shaped["logs"] = [line for line in logs if not line.startswith(_EVERY_RUN)]
    if "stdout" in case:
        shaped["stdout"] = _stdout(stdout)
    shaped["written"] = written(out)
    if "plugins" in case:
        profiles = outcome.completed.profiles if outcome.completed else ()
        shaped["plugins"] = [plugins_of(profile) for profile in profiles] if outcome.code == 0 else None
    return shaped


class _Loader(yaml.SafeLoader):
    """Takes `=` for the text that it is."""


_Loader.add_constructor("tag:yaml.org,2002:value", _Loader.construct_yaml_str)


def written(path: Path) -> Any:
    """What a file holds that a configuration was written to; None for no file."""
    return yaml.load(path.read_bytes(), Loader=_Loader) if path.is_file() else None


def _stdout(text: str) -> str:
    if "\nUsage:\n" in text:
        return "{HELP}"
    return "{BUILD}" if text.startswith("version.Info") else text


def flag_answer(case: Case, flag_set: FlagSet | None = None) -> Case:
    """Our answer about a flag, in the form of the recording."""
    for section in (flag_set or command_flags.flag_set()).sections:
        for flag in section.flags:
            if flag.name != case["name"]:
                continue
            bare = f"[={flag.type.bare}]" if flag.type.bare and flag.type.name != "bool" else ""
            shaped: Case = {
                "kind": "flag",
                "name": flag.name,
                "shorthand": flag.letter or None,
                "section": section.title,
                "type": flag.type.name + bare,
                "deprecated": flag.help.startswith("DEPRECATED"),
                "default": flag.default_text,
            }
            shaped.update(_listed(flag.name, flag.help))
            return shaped
    return {"kind": "flag", "name": case["name"]}


def _listed(name: str, help_text: str) -> Case:
    """What a flag's help lists."""
    if name == "tls-cipher-suites":
        preferred = re.search(r"Preferred values: (.*)\. ", help_text)
        insecure = re.search(r"Insecure values: (.*)\.", help_text)
        assert preferred
        assert insecure
        return {"preferred": preferred.group(1).split(", "), "insecure": insecure.group(1).split(", ")}
    if name == "emulated-version":
        return {"range": f"kube={versions.emulation_range()}"}
    if name == "min-compatibility-version":
        return {"range": f"kube={versions.oldest_peer_range()}"}
    if name == "feature-gates":
        found = re.findall(r"^kube:(\w+)=true\|false \((\w+) - default=(\w+)\)", help_text, re.MULTILINE)
        return {"gates": [{"name": gate, "stage": stage, "default": on == "true"} for gate, stage, on in found]}
    return {}


def signalled_answer(case: Case) -> Case:
    """Our answer to a case whose program runs until it is told to end."""
    with tempfile.TemporaryDirectory(prefix="trireme-config-") as directory:
        places = Places(directory, free_port())
        places.write_files(case)
        Path(directory, "live.kubeconfig").write_bytes(live.kubeconfig().read_bytes())
        ended = live.run([places.fill(flag) for flag in case["flags"]], Path(directory))
        shaped: Case = {"exit": ended.code, "signalled": ended.signalled}
        shaped["phase"] = "run" if ended.code else None
        shaped["errors"] = ended.error.split("\n") if ended.error else []
        shaped["reported"] = "log" if ended.error else None
        return places.restore(shaped)


def our_answer(case: Case) -> Case:
    """Our answer to any line of a file."""
    if case.get("kind") == "flag":
        return flag_answer(case)
    return signalled_answer(case) if case.get("signalled") else answer(case)


def answers(path: str | Path) -> Iterator[Case]:
    """Our answers to all cases of a file."""
    for case in read_cases(path):
        yield our_answer(case)


def compared_fields(case: Case) -> Iterable[str]:
    """The fields in which a case is compared."""
    if case.get("kind") == "flag":
        return [name for name in case if name not in ("kind", "name")]
    if case.get("signalled"):
        return SIGNALLED_FIELDS
    return [name for name in CASE_FIELDS if name in case]


def _same(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(_same(*pair) for pair in zip(wanted, got, strict=True))
    if isinstance(wanted, str) and isinstance(got, str) and _DETAIL.search(wanted):
        # The certificate library's own words are not ours to repeat.
        return (
            re.fullmatch(_DETAIL.sub(".*", re.escape(wanted).replace(r"\{CERT_DETAIL\}", "{CERT_DETAIL}")), got)
            is not None
        )
    return bool(wanted == got)


def differences(case: Case, got: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where our answer differs: field → (recorded, ours)."""
    return {name: (case[name], got.get(name)) for name in compared_fields(case) if not _same(case[name], got.get(name))}


@dataclass
class Agreement:
    """Counts by kind, counts by field, and the first differences."""

    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    fields: dict[str, tuple[int, int]] = field(default_factory=dict)
    first: list[tuple[str, dict[str, tuple[Any, Any]]]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether everything that was compared agrees."""
        return all(agree == total for agree, total in self.kinds.values())

    def lines(self) -> Iterator[str]:
        """The counts as text."""
        for kind, (agree, total) in sorted(self.kinds.items()):
            yield f"{kind:<24} {agree:>5} of {total:>5}"
        for name, (agree, total) in sorted(self.fields.items()):
            yield f"  field {name:<16} {agree:>5} of {total:>5}"
        for name, found in self.first:
            yield f"- {name}"
            for part, (wanted, got) in found.items():
                yield f"    {part}: recorded {json.dumps(wanted, ensure_ascii=False)}"
                yield f"    {' ' * len(part)}  ours     {json.dumps(got, ensure_ascii=False)}"


def _add(counts: dict[str, tuple[int, int]], key: str, agrees: bool) -> None:
    agree, total = counts.get(key, (0, 0))
    counts[key] = (agree + agrees, total + 1)


def kind_of(case: Case) -> str:
    """What a case is counted under."""
    if case.get("kind") == "flag":
        return "flag"
    parts: list[str] = case["name"].partition("#")[0].split("/")
    return "/".join(parts[:2]) if parts[0] == "case" else parts[0]


def measure(path: str | Path, *, most_differences: int = 10) -> Agreement:
    """Runs all cases of a file and counts where we agree."""
    result = Agreement()
    for case in read_cases(path):
        found = differences(case, our_answer(case))
        _add(result.kinds, kind_of(case), not found)
        for name in compared_fields(case):
            _add(result.fields, name, name not in found)
        if found and len(result.first) < most_differences:
            result.first.append((case["name"], found))
    return result


def main() -> int:
    """Prints the agreement with a file, or our answers to it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", help="a .jsonl or .jsonl.gz of recorded cases")
    parser.add_argument("--answers", action="store_true", help="print our own answers as JSON lines instead")
    parser.add_argument("--differences", type=int, default=10, help="how many differences to show")
    arguments = parser.parse_args()
    if arguments.answers:
        for shaped in answers(arguments.path):
            print(json.dumps(shaped, ensure_ascii=False))
        return 0
    result = measure(arguments.path, most_differences=arguments.differences)
    for line in result.lines():
        print(line)
    return 0 if result.complete else 1


if __name__ == "__main__":
    raise SystemExit(main())
