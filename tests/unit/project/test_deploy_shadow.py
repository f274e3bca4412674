"""deploy/overlays/shadow: it can read what the scheduler reads, and nothing else, and its process takes its flags."""

import argparse
import pathlib
from typing import Any

import yaml

from trireme.shadow import flags, settings
from trireme_kube.client.informers import resources
from trireme_kube.componentbase.cli import arguments, log_flags

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
OVERLAY = DEPLOY / "overlays/shadow"
READS = {"get", "list", "watch"}

Json = dict[str, Any]


def _objects(path: pathlib.Path) -> list[Json]:
    return list(yaml.safe_load_all(path.read_text()))


def _all_objects() -> list[Json]:
    """Every object of the overlay."""
    named = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())["resources"]
    return [entry for name in named for entry in _objects(OVERLAY / name)]


def _pod(objects: list[Json]) -> Json:
    (deployment,) = (entry for entry in objects if entry["kind"] == "Deployment")
    spec: Json = deployment["spec"]["template"]["spec"]
    return spec


def test_its_roles_allow_reads_alone() -> None:
    """An administrator who runs it beside a production scheduler relies on that."""
    roles = [entry for entry in _all_objects() if entry["kind"] in ("Role", "ClusterRole")]
    assert len(roles) == 2
    for role in roles:
        for rule in role["rules"]:
            assert set(rule["verbs"]) <= READS, role["metadata"]["name"]
            assert "*" not in (*rule["resources"], *rule["apiGroups"])
            assert not rule.get("nonResourceURLs")
            assert "secrets" not in rule["resources"]
    cluster_wide = [role for role in roles if role["kind"] == "ClusterRole"]
    assert all("configmaps" not in rule["resources"] for role in cluster_wide for rule in role["rules"])


def test_its_account_has_these_roles_and_no_others() -> None:
    """A binding to a built-in role would add what the test above does not see."""
    objects = _all_objects()
    own = {(entry["kind"], entry["metadata"]["name"]) for entry in objects if entry["kind"].endswith("Role")}
    bindings = [entry for entry in objects if entry["kind"].endswith("Binding")]
    assert {(entry["roleRef"]["kind"], entry["roleRef"]["name"]) for entry in bindings} == own
    subjects = [subject for entry in bindings for subject in entry["subjects"]]
    expected = {"kind": "ServiceAccount", "name": "trireme-shadow", "namespace": "trireme-shadow"}
    assert all(subject == expected for subject in subjects)
    assert not [entry for entry in objects if entry["kind"] in ("Secret", "ValidatingWebhookConfiguration")]


def test_it_may_read_what_the_scheduler_watches() -> None:
    """A kind without permission counts as empty, and decisions are made without it."""
    (role,) = (entry for entry in _all_objects() if entry["kind"] == "ClusterRole")
    granted = {resource for rule in role["rules"] for resource in rule["resources"] if "watch" in rule["verbs"]}
    assert granted == {each.name for each in resources.DEFAULT}


def test_its_process_takes_its_flags_and_runs_as_the_others_do() -> None:
    """A flag that it does not know keeps the pod from starting."""
    pod, score = _pod(_all_objects()), _pod(_objects(DEPLOY / "base/score.yaml"))
    command = pod["containers"][0]["command"]
    assert command[0] == "trireme-shadow"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for declared in (flags.ConnectionFlags, flags.Flags, log_flags.LogFlags):
        arguments.add(parser, declared)
    options = parser.parse_args(command[1:])
    assert (options.output, options.logging_format) == ("json", "json"), "text among lines of JSON breaks records"
    assert pod["securityContext"] == score["securityContext"]
    assert pod["containers"][0]["securityContext"] == score["containers"][0]["securityContext"]
    assert settings.load(str(OVERLAY / "scheduler.yaml"), [], "https://x").notices == ()


def test_it_is_evicted_before_what_it_watches() -> None:
    """An observer of critical priority would take room from the pods that it observes."""
    assert "priorityClassName" not in _pod(_all_objects())
