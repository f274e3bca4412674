"""`trireme plugin init` and `run`: the file of a project, new repositories, changes of sources, and what is shown."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import virtual_time
from trireme.cli import main, processes
from trireme.cli.plugin_development import init, project_file, run, sample_pods, source_changes, taken_names
from trireme.framework import release
from trireme.v1 import insight_pb2, plugin_pb2, status_pb2
from trireme.v1.scheduler_explanation_pb2 import PendingPod, PodWait, SchedulerExplanation
from trireme_kube.client.rest.errors import ApiUnreachable

_ROOT = Path(__file__).resolve().parents[3]
_MINIMAL = {"name": "MyPlugin", "run": ["./serve", "--listen", "{address}"]}


def load(folder: Path, document: Any) -> project_file.Project:
    (folder / project_file.FILE_NAME).write_text(yaml.safe_dump(document))
    return project_file.load(folder)


def test_a_project_needs_a_name_and_a_command(tmp_path: Path) -> None:
    """If this fails, the least file that the documentation shows is refused."""
    project = load(tmp_path, _MINIMAL)
    assert (project.name, project.build, project.watch, project.args, project.pods) == ("MyPlugin", (), (".",), {}, 3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": ""}, "name: must be"),
        ({"run": "./serve {address}"}, "run: must be a list of texts"),
        ({"run": ["./serve"]}, 'run: must have "{address}"'),
        ({"build": [1]}, "build: must be a list of texts"),
        ({"builds": ["make"]}, "builds: unknown field; there are name, build"),
        ({"samples": {"pods": -1}}, "samples.pods: must be a number from 0 to 100"),
        ({"samples": {"pod": 1}}, "samples.pod: unknown field; there are nodeLabels, podLabels, pods"),
        (
            {"samples": {"nodeLabels": {"node-1": {"a": 1}}}},
            'samples.nodeLabels.node-1.a: must be a text; write a: "1"',
        ),
        ({"samples": {"podLabels": {"a": 1}}}, 'samples.podLabels.a: must be a text; write a: "1"'),
        ({"args": []}, "args: must be a mapping"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_a_wrong_field_is_named(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    """If this fails, the author does not know which line to change."""
    with pytest.raises(project_file.ProjectError, match=re.escape(text)):
        load(tmp_path, {**_MINIMAL, **change})


@pytest.mark.parametrize("content", ["[1]", "a: b: c", None], ids=["a list", "no YAML", "no file"])
def test_a_file_that_is_no_project_is_refused(tmp_path: Path, content: str | None) -> None:
    """If this fails, the command ends with a traceback."""
    if content is not None:
        (tmp_path / project_file.FILE_NAME).write_text(content)
    with pytest.raises(project_file.ProjectError, match=re.escape(str(tmp_path))):
        project_file.load(tmp_path)


def test_run_without_a_project_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, somebody in the wrong folder gets no advice."""
    assert main.main(["plugin", "run", str(tmp_path)]) == 2
    assert "trireme plugin init" in capsys.readouterr().err


def _files_in_readme(folder: Path) -> list[Any]:
    """The configuration files that the README shows."""
    found = re.search(r"^```yaml\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return list(yaml.safe_load_all(found[1]))


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with a package for each language."""
    for language in init.list_languages():
        (tmp_path / "sdk" / language).mkdir(parents=True)
        (tmp_path / "sdk" / language / "package").write_text("")
    return tmp_path / "sdk"


@pytest.mark.parametrize("points", [["filter"], ["score"], ["filter", "score"]], ids="-".join)
@pytest.mark.parametrize("language", init.list_languages())
def test_a_new_repository_is_complete(tmp_path: Path, packages: Path, language: str, points: list[str]) -> None:
    """If this fails, a word of the template is left, or a file is missing that every repository needs."""
    folder = tmp_path / "new"
    init.write("GPUPacking", language, folder, packages, points)
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(folder)) for path in files}
    needed = {"README.md", "Makefile", "Dockerfile", ".github/workflows/ci.yaml", ".gitignore"}
    # The template in Rust runs as a sidecar.
    needed |= {"kustomization.yaml"} if language == "rust" else {"deployment.yaml"}
    assert needed | {project_file.FILE_NAME, "packages/package"} <= names
    for path in files:
        text = path.read_text() + str(path.relative_to(folder))
        words = (
            r"PLUGIN_|PROJECT_NAME|MODULE_NAME|PACKAGE_NAME|SDK_VERSION|LABEL_KEY|EXTENSION_P|PROFILE_P|%%|\.template"
        )
        assert not re.search(words, text), path
    project = project_file.load(folder)
    assert project.name == "GPUPacking"
    labels = {"filter": {"node-1": {"example.com/closed": ""}}, "score": {"node-3": {"example.com/score": "70"}}}
    assert project.node_labels == {name: each for point in points for name, each in labels[point].items()}
    trireme, scheduler = _files_in_readme(folder)
    assert trireme["remotePlugins"][0]["extensionPoints"] == points
    assert scheduler["profiles"][0]["plugins"] == {point: {"enabled": [{"name": "GPUPacking"}]} for point in points}
    manifest = folder / ("kustomization.yaml" if language == "rust" else "deployment.yaml")
    kinds = [each["kind"] for each in yaml.safe_load_all(manifest.read_text())]
    assert kinds == (["Component"] if language == "rust" else ["Deployment", "Service"])


@pytest.mark.parametrize("language", sorted(set(init.list_languages()) - {"rust"}))
def test_every_process_of_the_scheduler_may_call_a_new_plugin(tmp_path: Path, packages: Path, language: str) -> None:
    """The tutorial's own Score would be refused in a cluster, with PERMISSION_DENIED."""
    init.write("GPUPacking", language, tmp_path / "new", packages)
    deployment, _ = yaml.safe_load_all((tmp_path / "new/deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (allowed,) = (each.partition("=")[2] for each in container["args"] if each.startswith("--allowed-identities="))
    certificates = yaml.safe_load_all((_ROOT / "deploy/components/cert-manager/certificates.yaml").read_text())
    names = {each["spec"].get("commonName") for each in certificates}
    assert set(allowed.split(",")) == {f"trireme-{each}" for each in ("frontend", "filter", "score", "bind", "insight")}
    assert set(allowed.split(",")) <= names


@pytest.mark.parametrize("name", ["gpu", "My-Plugin", "", "1st", "A" * 64, "None"])
def test_a_name_that_no_plugin_can_have_is_refused(tmp_path: Path, packages: Path, name: str) -> None:
    """If this fails, the repository's code does not compile."""
    with pytest.raises(init.InitError, match="NAME"):
        init.write(name, "python", tmp_path / "new", packages)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("language", "name"),
    [
        *(("java", name) for name in ("Filter", "Score", "Reserve", "Node", "Map", "String", "Test", "Int", "New")),
        *(("rust", name) for name in ("Arguments", "Verdict", "Ok", "Self", "Match", "Test")),
        *(("typescript", name) for name in ("Verdict", "Number")),
        *(("python", name) for name in ("SystemExit", "Class", "Json", "Trireme")),
    ],
)
def test_a_name_that_the_code_of_the_repository_gives_another_meaning_is_refused(
    tmp_path: Path, packages: Path, language: str, name: str
) -> None:
    """If this fails, the repository does not compile, and the compiler says nothing of the name."""
    with pytest.raises(init.InitError, match=f"NAME: '{name}': .*{language}; choose another name, such as My{name}"):
        init.write(name, language, tmp_path / "new", packages)
    assert not (tmp_path / "new").exists()
    init.write(f"My{name}", language, tmp_path / "new", packages)


@pytest.mark.parametrize("language", init.list_languages())
def test_a_name_that_comments_and_texts_of_the_repository_use_is_allowed(
    tmp_path: Path, packages: Path, language: str
) -> None:
    for name in ("Refuses", "Scores", "License"):
        init.write(name, language, tmp_path / name, packages)


def test_the_types_that_a_plugin_in_java_inherits_are_known() -> None:
    """If this fails, a plugin with the name of one of them does not compile."""
    source = (_ROOT / "sdk/java/src/main/java/dev/trireme/sdk/Plugin.java").read_text()
    assert set(re.findall(r"^  (?:interface|record) (\w+)", source, re.MULTILINE)) == set(
        taken_names.INHERITED_IN_JAVA.split()
    )


@pytest.mark.parametrize(
    ("text", "points"),
    [("filter", ["filter"]), ("score", ["score"]), ("score,filter", ["filter", "score"])],
)
def test_extension_points_are_read_in_the_order_of_the_templates(text: str, points: list[str]) -> None:
    assert init.parse_extension_points(text) == points


@pytest.mark.parametrize("text", ["bind", "filter,bind", "", "filter score"])
def test_an_extension_point_without_a_template_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """If this fails, somebody gets a plugin that filters in place of one that binds."""
    command = ["plugin", "init", "MyPlugin", "--language", "go", "--directory", str(tmp_path / "new")]
    with pytest.raises(SystemExit) as ended:
        main.main([*command, "--extension-points", text])
    assert ended.value.code == 2
    assert "name filter or score, or both" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_with_files_is_left_alone(tmp_path: Path, packages: Path) -> None:
    """If this fails, somebody's work is overwritten."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes").write_text("mine")
    with pytest.raises(init.InitError, match="has files already"):
        init.write("MyPlugin", "python", tmp_path / "work", packages)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["notes"]


def test_missing_packages_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a repository is written that cannot be built."""
    command = ["plugin", "init", "MyPlugin", "--language", "python", "--sdk", str(tmp_path)]
    assert main.main([*command, "--directory", str(tmp_path / "new")]) == 2
    assert "make sdk-packages" in capsys.readouterr().err


def test_a_new_repository_has_the_sdk_of_the_present_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a plugin is built with an SDK from before a change: it lacks what the documentation shows."""
    for path in ("sdk/build_packages.py", "LICENSE", "internal/trireme/framework/release.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / path, tmp_path / path)
    source, script = tmp_path / "sdk" / "go" / "plugin.go", tmp_path / "sdk" / "go" / "package.sh"
    source.parent.mkdir()
    (tmp_path / "protos" / "trireme").mkdir(parents=True)
    script.write_text('#!/bin/sh\nset -e\ncp sdk/go/plugin.go "$1/package"\necho built >> builds\n')
    script.chmod(0o755)
    monkeypatch.setattr(init, "_BUILDER", tmp_path / "sdk" / "build_packages.py")
    monkeypatch.setattr(init, "_PACKAGES", tmp_path / "build" / "sdk")
    package = tmp_path / "build" / "sdk" / "go" / "package"
    for number, (text, change, builds) in enumerate(
        [("one", "", 1), ("one", "", 1), ("two", "", 2), ("two", "foreign", 3)]
    ):
        source.write_text(text)
        if change:
            package.write_text(change)
        folder = tmp_path / f"new-{number}"
        assert main.main(["plugin", "init", "MyPlugin", "--language", "go", "--directory", str(folder)]) == 0
        assert (folder / "packages" / "package").read_text() == text
        assert (tmp_path / "builds").read_text().count("built") == builds
        assert "packages/ has the SDK, built 2" in capsys.readouterr().out
    script.write_text("#!/bin/sh\necho no compiler >&2\nexit 77\n")
    assert main.main(["plugin", "init", "MyPlugin", "--language", "go", "--directory", str(tmp_path / "new")]) == 2
    assert re.search("no compiler(.|\n)*--sdk", capsys.readouterr().err)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "project"), [("MyPlugin", "my-plugin"), ("GPUPacking", "gpu-packing"), ("X", "x"), ("A1B", "a1-b")]
)
def test_the_repository_has_the_plugins_name_in_small_letters(name: str, project: str) -> None:
    """If this fails, images and packages get names that registries refuse."""
    assert init.project_name(name) == project


def test_a_change_of_a_source_is_noticed_and_one_of_a_build_is_not(tmp_path: Path) -> None:
    """If this fails, the plugin is not started again, or is started again by its own build."""
    for path in ("src/a.rs", "target/debug/x", ".git/index", "gone"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1")
    before = source_changes.take(tmp_path, ["."])
    (tmp_path / "src/a.rs").write_text("22")
    (tmp_path / "target/debug/x").write_text("22")
    (tmp_path / "gone").unlink()
    (tmp_path / "src/new.rs").write_text("")
    after = source_changes.take(tmp_path, ["."])
    names = [os.path.relpath(path, tmp_path) for path in source_changes.changed(before, after)]
    assert names == ["gone", "src/a.rs", "src/new.rs"]
    assert source_changes.changed(after, source_changes.take(tmp_path, ["."])) == []
    assert [path.name for path in source_changes.take(tmp_path, ["src/*.rs", "none"])] == ["a.rs", "new.rs"]


def test_a_plugin_that_binds_comes_before_the_default_one(tmp_path: Path) -> None:
    """If this fails, a plugin that binds is never called, because the default one binds each pod."""
    points = [plugin_pb2.EXTENSION_POINT_BIND, plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE]
    info = plugin_pb2.PluginInfo(name="Mine", extension_points=points)
    flags = run._write_configuration(tmp_path / "1", info, {"a": 1}, "127.0.0.1:1")
    (profile,) = yaml.safe_load(Path(flags[1]).read_text())["profiles"]
    enabled = [{"name": "Mine"}, {"name": "DefaultBinder"}]
    assert profile["plugins"] == {"bind": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    assert profile["pluginConfig"] == [{"name": "Mine", "args": {"a": 1}}]
    (remote,) = yaml.safe_load(Path(flags[3]).read_text())["remotePlugins"]
    assert remote == {"name": "Mine", "address": "127.0.0.1:1", "extensionPoints": ["bind"]}


def test_a_plugin_that_orders_the_queue_takes_the_place_of_the_priorities(tmp_path: Path) -> None:
    """If this fails, `trireme plugin run` refuses to start with such a plugin: a profile has one QueueSort plugin."""
    info = plugin_pb2.PluginInfo(name="Mine", extension_points=[plugin_pb2.EXTENSION_POINT_QUEUE_SORT])
    flags = run._write_configuration(tmp_path / "1", info, {}, "127.0.0.1:1")
    (profile,) = yaml.safe_load(Path(flags[1]).read_text())["profiles"]
    assert profile["plugins"] == {"queueSort": {"enabled": [{"name": "Mine"}], "disabled": [{"name": "*"}]}}
    assert yaml.safe_load(Path(flags[3]).read_text())["remotePlugins"][0]["extensionPoints"] == ["queueSort"]


def test_the_plugins_refusals_and_scores_are_shown() -> None:
    """If this fails, the author does not see what the plugin does."""
    found = insight_pb2.ExplainResponse(node_count=9, feasible_count=2)
    found.queued_pod.pod_class = 1
    for plugin, message, names in (
        ("Mine", "closed", [f"n{number}" for number in range(6)]),
        ("NodeName", "other", ["n7"]),
    ):
        refusal = found.refusals.add(nodes=names, node_count=len(names))
        refusal.status.plugin, refusal.status.messages[:] = plugin, [message]
    for plugin in ("Mine", "ImageLocality"):
        found.score_plugins.add(name=plugin, weight=1)
    found.feasible_nodes.add(name="n8", scores=[70, 0], total=70)
    found.feasible_nodes.add(name="n6", scores=[10, 5], total=15)
    assert sample_pods.evaluation_lines("Mine", found) == [
        "  refuses 6 of 9 nodes: closed (n0, n1, n2, n3, n4 …)",
        "  scores 2 nodes: n8 70, n6 10",
        "  the next pod would go to n8, without these scores to n6",
    ]
    assert sample_pods.evaluation_lines("Other", found) == ["  refuses none of 9 nodes"]
    del found.feasible_nodes[1]
    assert sample_pods.evaluation_lines("Mine", found)[1:] == [
        "  scores 1 node: n8 70",
        "  the next pod would go to n8, as without these scores",
    ]
    failed = insight_pb2.ExplainResponse(insight_error="no class")
    assert sample_pods.evaluation_lines("Mine", failed) == ["  no evaluation: no class"]


@pytest.mark.parametrize(("field", "said"), [("pre_filter", "filters"), ("score_failure", "scores")])
def test_calls_that_fail_are_no_answers(field: str, said: str) -> None:
    """If this fails, a plugin that fails in each call seems to let all nodes pass, and a CI job passes."""
    status = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin="Mine", messages=["broken"])
    found = insight_pb2.ExplainResponse(queued_pod={}, node_count=5, **{field: status})
    assert sample_pods.evaluation_lines("Mine", found) == [f"  {said} no node: broken"]
    assert sample_pods.failure_lines("Other", found) == []


def test_sample_pods_have_the_labels_of_the_file(tmp_path: Path) -> None:
    """If this fails, a plugin that reads labels of pods cannot be tried."""
    project = load(tmp_path, {**_MINIMAL, "samples": {"podLabels": {"example.com/licence": "cad"}}})
    pod = sample_pods.sample_pod("sample-1", project.pod_labels, gated=False)
    assert pod["metadata"]["labels"] == {"example.com/licence": "cad"}


@pytest.mark.parametrize(
    ("fields", "unread"),
    [
        (["metadata.namespace"], ["a", "b"]),
        (["metadata.labels['a']"], ["b"]),
        (["metadata.labels"], []),
        ([], []),
    ],
    ids=["none", "one", "all", "everything"],
)
def test_sample_labels_of_pods_that_the_plugin_does_not_get_are_named(
    tmp_path: Path, fields: list[str], unread: list[str]
) -> None:
    """If this fails, a filter that reads a label refuses nothing, and its author does not learn why."""
    project = load(tmp_path, {**_MINIMAL, "samples": {"podLabels": {"b": "1", "a": "2"}}})
    info = plugin_pb2.PluginInfo(pod_fields=fields)
    wanted = ", ".join(f"metadata.labels['{key}']" for key in unread)
    text = f"  samples.podLabels: not sent to the plugin, because pod_fields of its description lack {wanted}"
    assert sample_pods.unread_label_lines(project, info) == ([text] if unread else [])


@pytest.mark.parametrize(
    ("node_data", "has_labels"),
    [("UNSPECIFIED", False), ("NAMES", False), ("MESSAGES", True), ("JSON", True), ("SNAPSHOT", True)],
)
def test_nodes_of_which_the_plugin_gets_no_labels_are_named(tmp_path: Path, node_data: str, has_labels: bool) -> None:
    project = load(tmp_path, {**_MINIMAL, "samples": {"nodeLabels": {"node-0": {"c": "3"}}}})
    info = plugin_pb2.PluginInfo(node_data=plugin_pb2.NodeData.Value(f"NODE_DATA_{node_data}"))
    text = "  samples.nodeLabels: not sent to the plugin, because node_data of its description is NAMES"
    assert sample_pods.unread_label_lines(project, info) == ([] if has_labels else [text])
    assert sample_pods.unread_label_lines(load(tmp_path, _MINIMAL), info) == []


async def test_a_change_of_the_projects_file_counts(tmp_path: Path) -> None:
    """If this fails, `trireme plugin run` restarts after a change of arguments or samples with the old ones."""
    before = load(tmp_path, _MINIMAL)
    load(tmp_path, {**_MINIMAL, "build": ["sh", "-c", "echo new > built; exit 1"]})
    assert await run.PluginRun(before, 1, tmp_path / "run").run(once=True) == 1
    assert (tmp_path / "built").exists()


@pytest.mark.parametrize(
    ("build", "said"), [(["false"], "build ended with exit code 1\n"), (["./none"], "build: ./none: No such file")]
)
async def test_a_first_build_that_fails_does_not_say_that_another_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], build: list[str], said: str
) -> None:
    """If this fails, the author looks for a plugin that does not run."""
    project = load(tmp_path, {**_MINIMAL, "build": build})
    assert await run.PluginRun(project, 1, tmp_path / "run").run(once=True) == 1
    output = capsys.readouterr().out
    assert said in output
    assert "goes on" not in output


async def test_a_mistake_in_the_projects_file_is_said_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a mistake ends `trireme plugin run` by a traceback."""
    before = load(tmp_path, _MINIMAL)
    (tmp_path / project_file.FILE_NAME).write_text("name: ''")
    assert await run.PluginRun(before, 1, tmp_path / "run").run(once=True) == 1
    assert "name: must be the name" in capsys.readouterr().out


async def test_a_build_that_fails_after_a_start_that_failed_does_not_say_that_another_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the author looks for a plugin that has ended."""
    project = load(tmp_path, {**_MINIMAL, "run": ["false", "{address}"]})
    started = run.PluginRun(project, 1, tmp_path / "run")
    assert not await started._build_and_show()
    load(tmp_path, {**_MINIMAL, "build": ["false"]})
    assert not await started._build_and_show()
    output = capsys.readouterr().out
    assert "exit code 1 before it served" in output
    assert "build ended with exit code 1" in output
    assert "goes on" not in output


async def test_arguments_that_the_plugin_refuses_are_named_before_a_scheduler_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the author waits for a scheduler that has ended, and finds the reason in its log alone."""
    command = [sys.executable, str(_ROOT / "examples/plugin-python/maintenance.py"), "--listen", "{address}"]
    document = {"name": "Maintenance", "run": command, "args": {"lable": "example.com/down"}}
    started = run.PluginRun(load(tmp_path, document), 1, tmp_path / "run")
    assert not await started._build_and_show()
    said = "args.lable: unknown field (from the plugin; args: in trireme-plugin.yaml). The scheduler was not started.\n"
    assert said in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("cluster_ends_first", [True, False])
async def test_a_scheduler_that_ends_ends_the_wait_for_samples_with_its_log(
    tmp_path: Path, cluster_ends_first: bool
) -> None:
    """If this fails, the author waits half a minute, and reads that nothing answers."""
    log = run._LogFile(tmp_path / "scheduler.log")
    command = ["sh", "-c", "echo ready; echo frontend: the reason; sleep 0.2; exit 3"]
    up = processes.Process("scheduler", command, log, ready="ready")
    await up.start()

    async def show() -> None:
        if cluster_ends_first:
            raise ApiUnreachable("Cannot connect", sent=False)
        await asyncio.sleep(60)

    with pytest.raises(run._StartError) as raised:
        await asyncio.wait_for(run._unless_ended(up, show(), tmp_path), 30)
    first, *log_lines = str(raised.value).splitlines()
    assert first == "the scheduler ended with exit code 3; the end of its log:"
    assert log_lines == ["scheduler | ready", "scheduler | frontend: the reason"]


@pytest.mark.parametrize("known", ["another", "the same", "none"])
def test_a_plugin_in_java_is_built_with_its_own_package_of_the_sdk(tmp_path: Path, packages: Path, known: str) -> None:
    """If this fails, Maven builds it with a package that another project of this version left behind."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    jar = Path("dev/trireme/trireme-plugin-sdk") / release.TRIREME / f"trireme-plugin-sdk-{release.TRIREME}.jar"
    local = tmp_path / "m2" / jar
    texts = {packages / "java" / jar: "mine"} | (
        {} if known == "none" else {local: "mine" if known == "the same" else "other"}
    )
    for path, text in texts.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
    init.write("MyPlugin", "java", tmp_path / "new", packages)
    subprocess.run(["make", "sdk", f"MAVEN_LOCAL={tmp_path}/m2"], cwd=tmp_path / "new", check=True, timeout=60)
    assert local.exists() is (known == "the same")


@pytest.mark.parametrize("held", [True, False])
def test_a_sample_pod_that_is_not_decided_says_what_it_waits_for(held: bool) -> None:
    """If this fails, the author of a Permit plugin reads `undecided`, after a quarter of a minute."""
    summary = "waits for Mine to permit node node-0"

    async def main(clock: Callable[[], float]) -> None:
        async def list_pods() -> list[dict[str, Any]]:
            pods: list[dict[str, Any]] = [{"metadata": {"name": name}, "spec": {}} for name in ("probe", "a", "b")]
            pods[1]["spec"]["nodeName"] = "node-1"
            return pods

        async def explain(name: str) -> SchedulerExplanation:
            assert name == "b"
            waits = PodWait(kind="permit" if held else "attempt")
            return SchedulerExplanation(pending=PendingPod(waits_for=waits), summary=summary)

        started = clock()
        lines = await sample_pods.wait_for_placements(list_pods, ["a", "b"], explain)
        assert lines == ["  a: on node-1", f"  b: {summary}"]
        assert (clock() - started < 4) is held

    virtual_time.run(main)


@pytest.mark.parametrize(
    ("action", "given", "expected"),
    [("run", {}, "ERROR"), ("run", {"GRPC_VERBOSITY": "DEBUG"}, "DEBUG"), ("init", {}, "")],
)
def test_remarks_of_grpc_on_forks_are_not_among_the_output(action: str, given: dict[str, str], expected: str) -> None:
    """If this fails, an author reads lines of gRPC's core between those about the plugin."""
    program = 'import trireme.cli, os; print(os.environ.get("GRPC_VERBOSITY", ""))'
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"} | given
    command = [sys.executable, "-c", program, "plugin", action]
    assert (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip() == expected
    )
