"""The migration check of flags, gates, versions and configurations."""

import asyncio
import pathlib
import types
from typing import Any, cast

import pytest

from trireme.cli import main
from trireme.shadow.migration import check, findings, scheduler_reading
from trireme.shadow.migration.finding import Finding, FindingKind
from trireme.shadow.migration.scheduler_reading import VisibleScheduler
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError

CARRIES, DIFFERS, UNKNOWN = FindingKind.CARRIES_OVER, FindingKind.DIFFERS, FindingKind.UNKNOWN

_PLUGINS = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
  - schedulerName: default-scheduler
    plugins: {score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeResourcesFit, weight: 5}]}}
extenders: [{urlPrefix: "http://extender.example.com", filterVerb: filter}]
"""


def _of(**fields: Any) -> dict[str, Finding]:
    """The findings by subject."""
    return {each.subject: each for each in findings.of_scheduler(VisibleScheduler("pod kube-system/s", **fields))}


@pytest.mark.parametrize(
    ("image", "kind", "text"),
    [
        pytest.param("registry.k8s.io/kube-scheduler:v1.38.0", CARRIES, "decides as kube-scheduler v1.38", id="same"),
        pytest.param("kube-scheduler:v1.38.4", CARRIES, "decides as kube-scheduler v1.38", id="patch"),
        pytest.param("kube-scheduler:v1.37.1", DIFFERS, "--emulated-version=1.37", id="older"),
        pytest.param("kube-scheduler:v1.20.0", DIFFERS, "this is v1.20", id="too-old"),
        pytest.param("kube-scheduler:v1.39.0", DIFFERS, "this is v1.39", id="newer"),
        pytest.param("kube-scheduler@sha256:1234", UNKNOWN, "no version", id="digest"),
    ],
)
def test_the_version_of_the_image_is_compared(image: str, kind: FindingKind, text: str) -> None:
    """Another version decides by other rules."""
    found = _of(image=image)[image]
    assert found.kind is kind
    assert text in found.text


def test_flags_are_those_that_the_frontend_starts_with() -> None:
    """A flag that the frontend refuses shows when the scheduler is down, if it does not show here."""
    found = _of(arguments=("--leader-elect=true", "--policy-config-file=/p", "--unheard-of=1", "--secure-port=x"))
    assert found["--leader-elect=true"].kind is CARRIES
    assert found["--policy-config-file"].kind is DIFFERS
    assert "trireme config convert" in found["--policy-config-file"].text
    assert "unknown flag" in found["--unheard-of"].text
    assert found["--secure-port"].kind is DIFFERS


def test_files_of_the_control_planes_node_are_pointed_out() -> None:
    """A Deployment elsewhere has no such file."""
    found = _of(arguments=("--kubeconfig=/etc/kubernetes/scheduler.conf",))
    assert "control plane's node" in found["--kubeconfig=/etc/kubernetes/scheduler.conf"].text


def test_gates_are_judged_by_the_table_of_their_effects() -> None:
    """A gate without effect in Trireme is what a migration must not lose silently."""
    gates = "NativeHistograms=true,WatchListClient=false,GracefulNodeShutdown=true,NoSuchGate=true,AllAlpha=false"
    found = _of(arguments=(f"--feature-gates={gates}",))
    kinds = {subject: each.kind for subject, each in found.items() if "=" in subject}
    assert kinds == {
        "NativeHistograms=true": DIFFERS,
        "WatchListClient=false": CARRIES,
        "GracefulNodeShutdown=true": CARRIES,
        "NoSuchGate=true": DIFFERS,
        "AllAlpha=false": CARRIES,
    }
    assert "of other components" in found["GracefulNodeShutdown=true"].text
    assert _of(arguments=("--feature-gates=nonsense",))["--feature-gates"].kind is DIFFERS


def test_a_configuration_is_judged_as_the_frontend_would() -> None:
    """Weights, profiles and extenders are what people have tuned."""
    found = _of(configuration=_PLUGINS, configuration_place="scheduler.yaml")
    assert "profiles: default-scheduler" in found["scheduler.yaml"].text
    assert "NodeResourcesFit 5" in found["default-scheduler"].text
    assert "ImageLocality" not in found["default-scheduler"].text
    assert "shadow does not call it" in found["extender http://extender.example.com"].text
    assert not [each for each in found.values() if each.kind is not CARRIES]


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://user:hunter2@ext.example.com:8080/sched?token=hunter2", id="valid"),
        pytest.param("ftp://user:hunter2@ext.example.com/%zz?token=hunter2#hunter2", id="invalid"),
    ],
)
def test_secrets_in_the_url_of_an_extender_are_not_shown(url: str) -> None:
    """The report is served without authentication, and sent around as a file."""
    document = _PLUGINS.replace(b"http://extender.example.com", url.encode())
    for found in (
        findings.of_scheduler(VisibleScheduler("pod", configuration=document, configuration_place="f")),
        findings.of_scheduler(VisibleScheduler("pod", arguments=(f"--master={url}", f"--unheard-of={url}"))),
    ):
        text = "\n".join(check.lines(found))
        assert "hunter2" not in text
        assert "ext.example.com" in text or "unknown flag" in text
        assert "user" not in text


def test_a_sample_of_nodes_is_a_difference() -> None:
    """In large clusters it is the commonest reason for another node."""
    document = b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    found = _of(configuration=document, configuration_place="f")
    assert found["default-scheduler, percentageOfNodesToScore"].kind is DIFFERS


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param(
            b"apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n",
            "trireme config convert",
            id="old",
        ),
        pytest.param(
            b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
            b"  - plugins: {score: {enabled: [{name: MyPlugin}]}}\n",
            "becomes a service",
            id="own-plugin",
        ),
    ],
)
def test_a_configuration_that_the_frontend_refuses_is_a_difference(document: bytes, text: str) -> None:
    """What to do about it belongs to it."""
    found = _of(configuration=document, configuration_place="f")["f"]
    assert found.kind is DIFFERS
    assert text in found.text
    assert found.refused
    (difference, last) = findings.next_steps([found])
    assert difference.text.startswith("decide about each difference")
    assert last.text == "change what the frontend does not start with (f), and run this check again"


_UNREADABLE = [
    pytest.param(b"{", "unexpected end of JSON input", id="json"),
    pytest.param(b"a: [", "yaml", id="yaml"),
    pytest.param(b"", "no apiVersion and kind", id="empty"),
    pytest.param(b"- a\n", "cannot unmarshal array", id="list"),
    pytest.param(b"\xff\xfe\x00", "", id="binary"),
    pytest.param(b"apiVersion: v1\nkind: Pod\n", "it is a Pod of v1", id="another kind"),
]


@pytest.mark.parametrize(("document", "text"), _UNREADABLE)
def test_a_file_that_cannot_be_read_ends_the_check(
    document: bytes, text: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Differs, next: put Trireme in its place`, and exit code 0, about a file that was not judged."""
    path = tmp_path / "s.yaml"
    path.write_bytes(document)
    assert main.main(["shadow", "check", "--kube-scheduler-config", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"Error: {path}: ")
    assert text in printed.err
    assert printed.err.endswith(". Nothing was checked\n")


@pytest.mark.parametrize(("document", "text"), _UNREADABLE)
def test_a_config_map_that_cannot_be_read_is_not_visible(document: bytes, text: str) -> None:
    """In the report of `trireme shadow` it would be a difference like others."""
    found = _of(configuration=document, configuration_place="f")["f"]
    assert (found.kind, found.refused) == (UNKNOWN, True)
    assert text in found.text
    assert "put Trireme" not in " ".join(each.text for each in findings.next_steps([found]))


def test_the_check_fails_where_the_frontend_does_not_start(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check && deploy` deploys a scheduler that does not start."""
    path = tmp_path / "s.yaml"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    check_file = ["shadow", "check", "--kube-scheduler-config", str(path)]
    assert main.main(check_file) == 0
    assert "put Trireme in kube-scheduler's place" in " ".join(capsys.readouterr().out.split())
    assert main.main([*check_file, "--kube-scheduler-flags=--unheard-of=1"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "Error: the frontend does not start with --unheard-of\n"
    assert "put Trireme" not in " ".join(printed.out.split())


def test_a_file_on_the_control_planes_node_is_not_visible_and_can_be_given() -> None:
    """Silence about it would read as if there were nothing in it."""
    visible = VisibleScheduler("pod", "kube-scheduler:v1.37.0", ("--config=/etc/s.yaml",), None, "/etc/s.yaml")
    found = findings.of_scheduler(visible)
    assert any((each.kind, each.subject) == (UNKNOWN, "/etc/s.yaml") and "on the node" in each.text for each in found)
    assert "--kube-scheduler-config" in findings.next_steps(found)[0].text


def test_lines_fit_a_terminal_and_leave_words_whole() -> None:
    """A URL, or the name of an image, that is broken cannot be copied."""
    image, file = "registry.example.com/" + "x" * 90 + ":v1.36.0", "/" + "y" * 120
    found = findings.of_scheduler(VisibleScheduler("pod", image, (f"--config={file}",), None, file))
    lines = check.lines([*found, *findings.next_steps(found)])
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines)
    assert all(any(word in line for line in lines) for word in (image, file))
    assert lines[0] == "Carries over:"


class _Server:
    """Answers reads from a table; an int is the status of a refusal."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    async def read(self, path: str, params: object = None, deadline: float = 0.0) -> client.ApiResponse:
        answer = self._answers.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(answer, "Forbidden" if answer == 403 else "NotFound", "no")
        return client.ApiResponse(200, {}, client.orjson.dumps(answer))


class _Odd:
    """A kube-scheduler whose configuration is this content of a ConfigMap, which need not be valid Unicode."""

    def __init__(self, content: str) -> None:
        self._content = content

    async def read(self, path: str, params: object = None, deadline: float = 0.0) -> Any:
        pod = {
            "metadata": {"name": "s", "namespace": "kube-system"},
            "spec": {
                "containers": [
                    {
                        "image": "kube-scheduler:v1.37.0",
                        "command": ["kube-scheduler", "--config=/c/file"],
                        "volumeMounts": [{"name": "c", "mountPath": "/c"}],
                    }
                ],
                "volumes": [{"name": "c", "configMap": {"name": "c"}}],
            },
        }
        answer = {"data": {"file": self._content}} if "configmaps" in path else {"items": [pod]}
        return types.SimpleNamespace(json=lambda: answer)


def _read(answers: dict[str, Any]) -> tuple[list[VisibleScheduler], str]:
    api = cast("client.ApiClient", _Server(answers))
    return asyncio.run(scheduler_reading.read(api))


_PODS = "/api/v1/namespaces/kube-system/pods"


def _pod(command: list[str], **spec: Any) -> dict[str, Any]:
    container = {"image": "kube-scheduler:v1.37.0", "command": command, **spec.pop("container", {})}
    return {"metadata": {"name": "s", "namespace": "kube-system"}, "spec": {"containers": [container], **spec}}


def test_the_mirror_of_a_static_pod_shows_its_flags() -> None:
    """That of kubeadm is one."""
    command = ["kube-scheduler", "--leader-elect=true", "--feature-gates", "A=true", "--v=2"]
    (found,), reason = _read({_PODS: {"items": [_pod(command)]}})
    assert found.arguments == ("--leader-elect=true", "--feature-gates=A=true", "--v=2")
    assert (found.image, found.configuration, reason) == ("kube-scheduler:v1.37.0", None, "")


@pytest.mark.parametrize(
    ("mount", "items", "file", "expected"),
    [
        pytest.param({"mountPath": "/etc/s"}, None, "/etc/s/config.yaml", b"found", id="folder"),
        pytest.param({"mountPath": "/etc/s"}, [{"key": "config.yaml", "path": "x"}], "/etc/s/x", b"found", id="items"),
        pytest.param({"mountPath": "/etc/s/c", "subPath": "config.yaml"}, None, "/etc/s/c", b"found", id="sub-path"),
        pytest.param({"mountPath": "/elsewhere"}, None, "/etc/s/config.yaml", None, id="elsewhere"),
    ],
)
def test_a_configuration_in_a_config_map_is_read(
    mount: dict[str, Any], items: Any, file: str, expected: bytes | None
) -> None:
    """A second scheduler has its file in one."""
    source = {"name": "map", **({"items": items} if items else {})}
    pod = _pod(
        ["kube-scheduler", f"--config={file}"],
        container={"volumeMounts": [{"name": "v", **mount}]},
        volumes=[{"name": "v", "configMap": source}],
    )
    config_map = {"data": {"config.yaml": "found"}}
    (found,), _ = _read({_PODS: {"items": [pod]}, "/api/v1/namespaces/kube-system/configmaps/map": config_map})
    assert (found.configuration, found.configuration_place) == (expected, file)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param({"items": []}, "as in managed clusters", id="none"),
        pytest.param(403, "may not be read", id="forbidden"),
    ],
)
def test_what_is_not_visible_is_said(answer: Any, text: str) -> None:
    """Managed clusters show no scheduler; that is no error."""
    found, reason = _read({_PODS: answer})
    assert not found
    assert text in reason


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("parallelism: " + "9" * 5_000, id="a-number-that-python-refuses-to-read"),
        pytest.param("parallelism: \ud800", id="a-surrogate"),
    ],
)
def test_an_odd_config_map_is_judged(text: str) -> None:
    """Who may write it would end shadow, which runs beside the scheduler for days."""
    content = f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{text}\n"
    api = cast("client.ApiClient", _Odd(content))
    found = asyncio.run(check.of_cluster(api))
    assert any(each.refused for each in found), found
    assert "cannot be judged" not in str(found)


def test_a_failure_to_judge_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is a part of a run that goes on without it."""

    def fail(found: VisibleScheduler) -> list[Finding]:
        raise RecursionError("deep")

    monkeypatch.setattr(findings, "of_scheduler", fail)
    found = asyncio.run(check.of_cluster(cast("client.ApiClient", _Odd(""))))
    assert "pod kube-system/s cannot be judged: RecursionError: deep" in found[0].text
    assert found[0].kind is UNKNOWN


_SIDECAR = {"name": "proxy", "image": "istio:1", "args": ["--config=/proxy.yaml"]}
_OWN = {"image": "registry.example.com/kube-scheduler:v1.37.0"}


@pytest.mark.parametrize(
    ("containers", "arguments"),
    [
        pytest.param([{"command": ["/usr/local/bin/kube-scheduler", "--v=2"]}], ("--v=2",), id="path"),
        pytest.param([_SIDECAR, {"command": ["kube-scheduler"], "args": ["--v=2"]}], ("--v=2",), id="sidecar"),
        pytest.param(
            [{"command": ["/go-runner", "--also-stdout", "/usr/local/bin/kube-scheduler", "--v=2"]}],
            ("--v=2",),
            id="wrapper",
        ),
        pytest.param([_SIDECAR, {**_OWN, "args": ["--v", "2"]}], ("--v=2",), id="the-image-runs-it"),
    ],
)
def test_the_flags_are_those_of_the_scheduler(containers: list[dict[str, Any]], arguments: tuple[str, ...]) -> None:
    """Those of a sidecar or a wrapper would be judged in their place."""
    pod = {"metadata": {"name": "s", "namespace": "kube-system"}, "spec": {"containers": containers}}
    (found,), _ = _read({_PODS: {"items": [pod]}})
    assert (found.arguments, found.problem) == (arguments, "")
    assert found.image != "istio:1"


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({**_OWN, "command": ["/bin/sh", "-c", "exec kube-scheduler --config=/c/f"]}, id="shell"),
        pytest.param({"image": "own:v1", "command": ["/own-scheduler", "--config=/c/f"]}, id="another-program"),
        pytest.param(
            {"command": ["/own", "--leader-elect-resource-name", "kube-scheduler"]}, id="the-name-is-a-value-of-a-flag"
        ),
        pytest.param({}, id="nothing"),
    ],
)
def test_flags_that_are_not_visible_are_not_taken_for_none(container: dict[str, Any]) -> None:
    """`None is given: both have the same defaults` would be printed for a configuration that nobody has seen."""
    pod = {"metadata": {"name": "s", "namespace": "kube-system"}, "spec": {"containers": [container]}}
    (found,), _ = _read({_PODS: {"items": [pod]}})
    judged = {each.subject: each for each in findings.of_scheduler(found)}
    assert judged["pod kube-system/s"].kind is UNKNOWN
    assert "its flags are not visible" in judged["pod kube-system/s"].text
    assert "configuration" not in judged
    assert not [subject for subject in judged if subject.startswith("--")]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param({"data": {"other": "x"}}, "ConfigMap kube-system/map, which has no key config.yaml", id="no-key"),
        pytest.param(403, "ConfigMap kube-system/map, which cannot be read: no", id="forbidden"),
        pytest.param(404, "ConfigMap kube-system/map, which cannot be read: no", id="missing"),
    ],
)
def test_why_a_config_map_shows_no_configuration_is_said(answer: Any, text: str) -> None:
    """An administrator does not find the file on the control plane's node."""
    pod = _pod(
        ["kube-scheduler", "--config=/c/config.yaml"],
        container={"volumeMounts": [{"name": "v", "mountPath": "/c"}]},
        volumes=[{"name": "v", "configMap": {"name": "map"}}],
    )
    (found,), _ = _read({_PODS: {"items": [pod]}, "/api/v1/namespaces/kube-system/configmaps/map": answer})
    (about_file,) = [each for each in findings.of_scheduler(found) if each.subject == "/c/config.yaml"]
    assert about_file.kind is UNKNOWN
    assert text in about_file.text


_DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(f'"parallelism": {_DIGITS}', id="integer"),
        pytest.param(f'"parallelism": -{_DIGITS}', id="negative"),
        pytest.param(f'"podMaxBackoffSeconds": 1e{_DIGITS}', id="exponent"),
        pytest.param(f'"clientConnection": {{"qps": {_DIGITS}}}', id="float"),
        pytest.param(f'"leaderElection": {{"leaseDuration": "{_DIGITS}s"}}', id="duration"),
    ],
)
@pytest.mark.parametrize("command", [["shadow", "check", "--kube-scheduler-config"], ["config", "validate"]])
def test_a_number_of_any_length_in_json_is_an_error_of_one_line(
    command: list[str], document: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python refuses to read more than 4,300 digits, by an exception that names neither file nor field."""
    path = tmp_path / "s.yaml"
    path.write_text(f'{{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration",{document}}}')
    assert main.main([*command, str(path)]) == 1
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert "4300" not in printed.out + printed.err
    assert "s.yaml" in printed.err
