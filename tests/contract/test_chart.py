"""The chart as Helm renders it: sets of values and their objects, wrong values, notes.

`make chart-snapshots` writes the recorded objects anew.
"""

import functools
import os
import pathlib
import re
from typing import Any

import pytest
import yaml

from deploy import make_dashboards, make_manifests
from tests.alerts import alert_rules
from tools.programs import programs_fixture
from trireme.config import gates, loading, trireme_configuration

SETS = pathlib.Path(__file__).parent / "data/chart"
NAMES = sorted(path.name.removesuffix(".values.yaml") for path in SETS.glob("*.values.yaml"))
CHART = make_manifests.CHART
_NOT_DEFAULT = (
    "{}: one is named default-scheduler, or has no name, though scheduler.default is false: name it otherwise"
)


@pytest.fixture(autouse=True)
def _programs() -> None:
    programs_fixture.require_programs()


def _rendered(name: str) -> str:
    """The objects of a set of values, without the chart's version, which each release changes."""
    values = yaml.safe_load((SETS / f"{name}.values.yaml").read_text())
    version = re.escape(yaml.safe_load((CHART / "Chart.yaml").read_text())["version"])
    text = make_manifests.template(values, "trireme-system")
    return re.sub(rf'(?<=trireme[-:]){version}\b|(?<="){version}(?=")', "VERSION", text)


@pytest.mark.parametrize("name", NAMES)
def test_values_render_as_recorded(name: str) -> None:
    """A change of a template shows in the review as a change of objects, of all installations that it is about."""
    recorded = SETS / f"{name}.objects.yaml"
    rendered = _rendered(name)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        recorded.write_text(rendered)
    assert rendered == recorded.read_text(), "`make chart-snapshots` records what is rendered now"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "shadow"])
def test_processes_take_the_configuration(name: str) -> None:
    """A field that the frontend does not know would keep it from starting."""
    (config,) = (
        entry["data"]
        for entry in yaml.safe_load_all(_rendered(name))
        if entry and entry["kind"] == "ConfigMap" and "trireme.yaml" in entry["data"]
    )
    own = trireme_configuration.parse(config["trireme.yaml"].encode())
    scheduler = loading.load(config["scheduler.yaml"].encode(), gates.FeatureGates(), lambda line: None)
    enabled = {entry["name"] for group in _plugins(config["scheduler.yaml"]).values() for entry in group["enabled"]}
    assert {plugin.name for plugin in own.remote_plugins} == enabled
    assert len(scheduler.profiles) == 1


def _plugins(document: str) -> dict[str, dict[str, list[dict[str, str]]]]:
    (profile,) = yaml.safe_load(document)["profiles"]
    plugins: dict[str, dict[str, list[dict[str, str]]]] = profile.get("plugins", {})
    return plugins


def test_dashboards_are_published_unchanged_with_the_label_of_grafanas_sidecar() -> None:
    """Helm would take the braces of a legend for its own."""
    rendered = make_manifests.template({"monitoring": {"dashboards": {"enabled": True}}}, "trireme-system")
    maps = [entry for entry in yaml.safe_load_all(rendered) if entry and entry["kind"] == "ConfigMap"]
    (found,) = (entry for entry in maps if entry["metadata"]["labels"].get("grafana_dashboard") == "1")
    files = {f"trireme-{path.name}": text.strip() for path, text in make_dashboards.generated().items()}
    assert found["data"] == files


def _alerts(settings: dict[str, Any]) -> list[dict[str, Any]]:
    rendered = make_manifests.template({"monitoring": {"alerts": {"enabled": True} | settings}}, "trireme-system")
    (rule,) = (entry for entry in yaml.safe_load_all(rendered) if entry and entry["kind"] == "PrometheusRule")
    return [each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each]


def test_alerts_are_those_of_the_file() -> None:
    """The default of `runbookURL` is the address that the file has, and no alert is lost on the way."""
    assert _alerts({}) == alert_rules.alerts()


@pytest.mark.parametrize("index", range(len(alert_rules.alerts())), ids=lambda at: alert_rules.alerts()[at]["alert"])
def test_an_alert_points_to_the_runbooks_that_a_site_serves_itself(index: int) -> None:
    """Without it an air-gapped site has links that nobody can follow; `$1` would be a group of the expression."""
    base = "http://wiki.internal/$1/runbooks.html"
    ours, theirs = alert_rules.alerts()[index], _alerts_elsewhere(base)[index]
    assert theirs["annotations"].pop("runbook_url") == f"{base}#{ours['alert'].lower()}"
    assert ours["annotations"].pop("runbook_url")
    assert theirs == ours


@functools.cache
def _alerts_elsewhere(base: str) -> list[dict[str, Any]]:
    return _alerts({"runbookURL": base})


def test_lint_has_nothing_to_say(tmp_path: pathlib.Path) -> None:
    printed = programs_fixture.helm("lint", "--strict", CHART, home=tmp_path)
    assert "WARNING" not in printed
    assert "ERROR" not in printed


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["mode=both"], "at '/mode': value must be one of 'split', 'standalone', 'shadow'"),
        (["scheduler.nmae=x"], "at '/scheduler': additional properties 'nmae' not allowed"),
        (["filter.autoscaling.minReplicas=0"], "at '/filter/autoscaling/minReplicas': minimum: got 0, want 1"),
        (["frontend.replicas=two"], "at '/frontend/replicas': got string, want integer"),
        (["image.tag=latest"], "at '/image/tag': 'not' failed"),
        (["image.digest=sha256:short"], "at '/image/digest': 'sha256:short' does not match pattern"),
        (["certificates.source=vault"], "at '/certificates/source': value must be one of 'certManager', 'secrets'"),
        (["certificates.duration=1 day"], "at '/certificates/duration': '1 day' does not match pattern"),
        (["bind.resources.limits.memory=lots"], "at '/bind/resources/limits/memory': 'lots' does not match pattern"),
        (["plugins[0].name=A,plugins[0].run=sidecar"], "at '/plugins/0': missing property 'extensionPoints'"),
        (
            ["plugins[0].name=A,plugins[0].run=sidecar,plugins[0].extensionPoints={filter}"],
            "at '/plugins/0': missing property 'image'",
        ),
        (
            ["plugins[0].name=A,plugins[0].run=external,plugins[0].address=a:1,plugins[0].extensionPoints={filters}"],
            "at '/plugins/0/extensionPoints/0': value must be one of",
        ),
        (["scheduler.featureGates.GenericWorkload=yes"], "at '/scheduler/featureGates/GenericWorkload': got string"),
        (
            ["scheduler.featureGates.CoordinatedLeaderElection=true"],
            "scheduler.featureGates.CoordinatedLeaderElection: needs scheduler.default, because the API server chooses "
            "only the holder of kube-scheduler's Lease (deploy/chart/README.md#values)",
        ),
        (
            ["scheduler.default=true,scheduler.configuration.profiles[0].schedulerName=trireme"],
            "scheduler.configuration.profiles: none is named default-scheduler, though scheduler.default is true: name "
            "one so, or set it to false",
        ),
        *(
            ([f"scheduler.configuration.profiles{profiles}"], _NOT_DEFAULT.format("scheduler.configuration.profiles"))
            for profiles in ("[0].schedulerName=default-scheduler", "[0].percentageOfNodesToScore=50")
        ),
        (["scheduler.name=default-scheduler"], _NOT_DEFAULT.format("scheduler.name")),
        (
            [
                "scheduler.configuration.profiles[0].schedulerName=a,plugins[0].name=Lunch,plugins[0].run=external",
                "plugins[0].address=a:1,plugins[0].extensionPoints={filter}",
            ],
            "plugins[0]: Lunch is enabled in no profile of scheduler.configuration: enable it in one",
        ),
        (["monitoring.alerts.runbookURL=wiki"], "at '/monitoring/alerts/runbookURL': 'wiki' does not match pattern"),
        (["extraObjects[0].kind=ConfigMap"], "at '/extraObjects/0': missing property 'apiVersion'"),
    ],
    ids=lambda value: value[0].partition("=")[0] if isinstance(value, list) else "",
)
def test_a_wrong_value_is_an_error_that_names_it(flags: list[str], message: str, tmp_path: pathlib.Path) -> None:
    done = programs_fixture.run_helm(
        "template", "trireme", CHART, *(word for flag in flags for word in ("--set", flag)), home=tmp_path
    )
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize(
    ("flags", "terms", "constraints"),
    [
        ([], ["kubernetes.io/hostname", "topology.kubernetes.io/zone"], []),
        (["pods.topologySpread.keys={rack}"], ["rack"], []),
        (["pods.topologySpread.keys=null"], [], []),
        (
            ["pods.topologySpread.whenUnsatisfiable=DoNotSchedule"],
            [],
            ["kubernetes.io/hostname", "topology.kubernetes.io/zone"],
        ),
        (["pods.affinity.podAntiAffinity.own=yes"], ["own"], []),
        (["pods.affinity.nodeAffinity.own=yes"], ["kubernetes.io/hostname", "topology.kubernetes.io/zone"], []),
    ],
    ids=["preferred", "keys", "none", "required", "own-anti-affinity", "own-node-affinity"],
)
def test_pods_are_spread_over_nodes_whether_or_not_these_have_zones(
    flags: list[str], terms: list[str], constraints: list[str], tmp_path: pathlib.Path
) -> None:
    arguments = [word for flag in flags for word in ("--set", flag)]
    printed = programs_fixture.helm("template", "trireme", CHART, *arguments, home=tmp_path)
    documents = [each for each in yaml.safe_load_all(printed) if (each or {}).get("kind") == "Deployment"]
    for pod in (each["spec"]["template"]["spec"] for each in documents):
        anti = pod.get("affinity", {}).get("podAntiAffinity", {})
        preferred = anti.get("preferredDuringSchedulingIgnoredDuringExecution", [])
        found = [each["podAffinityTerm"]["topologyKey"] for each in preferred] or list(anti)
        assert (found, [each["topologyKey"] for each in pod.get("topologySpreadConstraints", [])]) == (
            terms,
            constraints,
        )
    assert len(documents) == 4


@pytest.mark.parametrize("point", ["filter", "multiPoint"])
def test_a_profile_of_ones_own_enables_a_plugin(point: str, tmp_path: pathlib.Path) -> None:
    plugin = "plugins[0].name=Lunch,plugins[0].run=external,plugins[0].address=a:1,plugins[0].extensionPoints={filter}"
    first = "scheduler.configuration.profiles[0]"
    profile = f"{first}.schedulerName=trireme,{first}.plugins.{point}.enabled[0].name=Lunch"
    printed = programs_fixture.helm("template", "trireme", CHART, "--set", plugin, "--set", profile, home=tmp_path)
    (config,) = (each for each in yaml.safe_load_all(printed) if "scheduler.yaml" in (each or {}).get("data", {}))
    assert _plugins(config["data"]["scheduler.yaml"])[point] == {"enabled": [{"name": "Lunch"}]}


@pytest.mark.parametrize(
    ("flags", "commands"),
    [
        (
            [],
            [
                "kubectl -n here rollout status deployment/trireme-frontend",
                "helm -n here test trireme",
                "https://trireme.dev/docs/troubleshooting.html#the-installation-is-wrong",
            ],
        ),
        (["certificates.source=secrets"], ["trireme-frontend-tls", "trireme-bind-tls"]),
        (["scheduler.default=true"], ["a kube-scheduler that still runs leads until it ends"]),
        (["insight.enabled=true,insight.http.enabled=true"], ["port-forward deployment/trireme-insight 7005"]),
        (["mode=shadow"], ["kubectl -n here port-forward deployment/trireme-shadow 8080"]),
    ],
    ids=["split", "secrets", "default", "console", "shadow"],
)
def test_notes_have_the_next_command(flags: list[str], commands: list[str], tmp_path: pathlib.Path) -> None:
    arguments = [word for flag in flags for word in ("--set", flag)]
    printed = programs_fixture.helm(
        "install", "trireme", CHART, "--namespace", "here", "--dry-run=client", *arguments, home=tmp_path
    )
    notes = printed.partition("NOTES:")[2]
    assert [command for command in commands if command not in notes] == []
