"""The frontend in `trireme status -o json`, beside its pending pods."""

import copy
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import console_states
from tests.helpers.frontend_world import World
from trireme.cli import display, status_command
from trireme.config.scheduler_configuration import Plugin
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend.phase_clients import endpoints, local_phases, replica_link
from trireme.frontend.serving import scheduler_explanation, scheduler_status, unknown_pod
from trireme.wire import json_documents
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.informers.watch import EventKind
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.client.rest.errors import ApiError

FORBIDDEN = 'leases.coordination.k8s.io "l" is forbidden (403 Forbidden)'


def test_why_the_lease_cannot_be_read_is_reported(world: World) -> None:
    """A permission that is missing would be in the log alone."""
    state = dataclasses.replace(world.frontend_state(), lease_error=lambda: FORBIDDEN)
    assert scheduler_status.status(state).leadership.last_error == FORBIDDEN
    state.context.leader.term = None
    assert scheduler_status.status(state).leadership.last_error == FORBIDDEN


def test_why_objects_cannot_be_listed_is_reported(world: World) -> None:
    """Eight failures, and nobody knows of what."""
    api: Any = None  # no request is made
    listing = informer.Informer(api, resources.STORAGE_CLASSES, dict, [])
    listing._protocol._note_failure("storageclasses is forbidden")
    (entry,) = scheduler_status.status(dataclasses.replace(world.frontend_state(), informers=[listing])).informers
    assert (entry.name, entry.synced) == ("storageclasses", False)
    assert (entry.failures, entry.last_error) == (1, "storageclasses is forbidden")
    stream: Any = object()
    listing._stream = stream  # the watch is open again
    assert listing.statistics().last_error == ""


def test_apis_that_are_not_served_are_reported(world: World) -> None:
    """Only the log of the start would say that devices have no taints here."""
    api: Any = None  # no request is made
    listing = informer.Informer(api, resources.DEVICE_TAINT_RULES, dict, [])
    listing._protocol.failed(ApiError(404, "", "404 page not found"))
    state = dataclasses.replace(
        world.frontend_state(), informers=[listing], absent_elsewhere=lambda: [lease_candidate.CANDIDATES]
    )
    found = {each.api: each.purpose for each in scheduler_status.status(state).absent_apis}
    assert found == {
        "resource.k8s.io/v1/devicetaintrules": "taints of devices by DeviceTaintRules",
        "coordination.k8s.io/v1beta1/leasecandidates": "coordinated leader election",
    }


def test_profiles_are_reported_without_those_that_a_reload_removed(world: World) -> None:
    """A removed profile stays until its last pod is bound, and takes no other pod."""
    state = world.frontend_state()
    (profile,) = state.completed.profiles
    plugins = {**profile.plugins, ExtensionPoint.FILTER: (*profile.plugins[ExtensionPoint.FILTER], Plugin("Remote", 0))}
    batch = dataclasses.replace(profile, scheduler_name="batch", plugins=plugins)
    old = dataclasses.replace(profile, scheduler_name="old")
    completed = dataclasses.replace(
        state.completed, profiles=(profile, batch, old), retired_profiles=frozenset({"old"})
    )
    configuration: Any = SimpleNamespace(current=completed)
    found = scheduler_status.status(dataclasses.replace(state, configuration=configuration)).profiles
    assert [(each.scheduler_name, list(each.added_plugins)) for each in found] == [
        ("default-scheduler", ["Guard"]),
        ("batch", ["Guard", "Remote"]),
    ]


def test_a_leader_without_insight_says_that_wake_ups_are_not_checked(world: World) -> None:
    """If this fails, a status without missed wake-ups looks as if there were none."""
    state = world.frontend_state()
    check = scheduler_status.status(state).wake_up_check
    assert check.problem == "requires insight: set insight.endpoints"
    state.context.leader.term = None
    assert not scheduler_status.status(state).HasField("wake_up_check")


def test_the_explanation_of_a_pod_has_its_missed_wake_up(world: World) -> None:
    world.create("p", 4)
    world.answer_all()
    uid = world.frontend_state().scheduling.queue.contents.pods()[0].uid
    missed = [console_states.missed_wake_up(number) for number in (1, 2, 3)]
    missed[0].pod.uid = missed[1].pod.uid = uid
    check: Any = SimpleNamespace(history=missed)
    explained = scheduler_explanation.explain(dataclasses.replace(world.frontend_state(), wake_ups=check), "ns/p")
    assert explained is not None
    assert explained.missed_wake_up == missed[1]


class StandsIn:
    """A fallback that is active."""

    active = True

    def addresses(self) -> list[str]:
        """Where its phase listens."""
        return ["unix:/own"]

    def statistics(self) -> list[local_phases.LocalPhaseStatistics]:
        """Its process."""
        return [local_phases.LocalPhaseStatistics("filter-0", "unix:/own", 7, 3, 1_000_000.5, -9)]


def test_endpoints_that_cannot_be_looked_up_and_what_stands_in_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One frontend's own processes do the work of scaled phases for weeks, and the status says that all is well."""
    state = world.frontend_state()
    links = [
        replica_link.LinkStatistics(address, in_step, 0, 0, 0, 0, "", 0)
        for address, in_step in (("far:1", False), ("unix:/own", True))
    ]
    monkeypatch.setattr(state.phases.links.filters, "statistics", lambda: links)
    state.phases.lookups["filter"] = {
        "dns:///nowhere:1": endpoints.EndpointLookup("dns:///nowhere:1", error=lambda: "Name or service not known")
    }
    standing_in: Any = StandsIn()
    state.phases.fallbacks["filter"] = standing_in
    report = scheduler_status.status(state)
    (lookup,) = report.endpoints
    assert (lookup.phase, lookup.endpoint) == ("filter", "dns:///nowhere:1")
    assert (list(lookup.addresses), lookup.listed, lookup.last_error) == ([], False, "Name or service not known")
    (process,) = report.local_phases
    assert (process.name, process.pid, process.starts, process.address) == ("filter-0", 7, 3, "unix:/own")
    assert (process.ended_at_ms, process.exit_code) == (1_000_000_500, -9)
    marks = {each.address: each.stands_in for each in report.replicas if each.phase == "filter"}
    assert marks == {"far:1": False, "unix:/own": True}
    shown = [
        line.split() for line in display.as_text(status_command.render(json_documents.document(report))).splitlines()
    ]
    unknown = ["cannot", "be", "looked", "up:", "Name", "or", "service", "not", "known"]
    assert ["filter", "dns:///nowhere:1", "-", *unknown] in shown
    assert any(row[:3] == ["filter", "unix:/own", "2"] and row[-4:] == ["stands", "in,", "in", "step"] for row in shown)
    assert ["filter-0", "was", "ended", "by", "SIGKILL"] in shown


def test_the_explanation_of_a_standby_is_not_its_own_queue(world: World) -> None:
    """The leader refused the pod minutes ago; the standby holds it as one that was just created."""
    world.create("p", 4)
    world.answer_all()
    state = world.frontend_state()
    explained = scheduler_explanation.explain(state, "ns/p")
    assert explained is not None
    own = explained.scheduler
    assert (own.pending.waits_for.kind, own.leadership.leading, own.synced) == ("event", True, True)
    assert own.history
    state.context.leader.term = None
    state.context.leader.observe_holder("host-1")
    explained = scheduler_explanation.explain(state, "ns/p")
    assert explained is not None
    assert explained.scheduler.leadership.holder == "host-1"
    assert not explained.scheduler.history


def test_a_node_that_does_not_exist_is_named_as_such(world: World) -> None:
    """A pod with a wrong spec.nodeName looks like one that runs."""
    world.create("p", 1)
    placed = copy.deepcopy(world.api.stored("pods")["p"])
    placed["metadata"] |= {"name": "placed", "uid": "uid-placed"}
    placed["spec"]["nodeName"] = "node-777"
    world.api.record("pods", EventKind.ADDED, placed)
    world.deliver("pods", 1)
    explained = scheduler_explanation.explain(world.frontend_state(), "ns/placed")
    assert explained is not None
    assert explained.scheduler.summary == "is bound to node node-777, and there is no node of this name"
    assert not explained.scheduler.bound.node_known


def test_of_a_pod_that_is_not_known_the_rest_is_said(world: World) -> None:
    """A pod that ended, or one that is newer than what could be read, was said not to exist."""
    state = world.frontend_state()
    ended = "that have ended (Succeeded or Failed): `kubectl get pod --namespace ns done` shows those"
    assert ended in unknown_pod.text(state, "ns/done")
    api: Any = None  # no request is made
    listing = informer.Informer(api, resources.PODS, dict, [])
    listing._protocol._note_failure("connection refused")
    unreadable = dataclasses.replace(state, informers=[listing])
    assert "it waits for pods); pods: connection refused. Ask again" in unknown_pod.text(unreadable, "ns/new")
    kinds = (resources.NODES, resources.STORAGE_CLASSES, resources.NAMESPACES, resources.SERVICES)
    many = dataclasses.replace(state, informers=[listing, *(informer.Informer(api, kind, dict, []) for kind in kinds)])
    assert "(it waits for pods, nodes, storageclasses and 2 more)" in unknown_pod.text(many, "ns/new")
    listing._synced = True
    assert "Pods cannot be read at the moment, so that a new one is not known: connection refused" in unknown_pod.text(
        unreadable, "ns/new"
    )


def test_a_refusal_that_names_a_path_of_other_bytes_can_be_read(world: World) -> None:
    """The path is in its text as the file system has it, which no message can hold."""
    state = world.frontend_state()
    refused = dataclasses.replace(state.reloads(), last_refusal="open /etc/\udcff.yaml: invalid", is_refused=True)
    status = scheduler_status.status(dataclasses.replace(state, reloads=lambda: refused))
    assert status.configuration.last_refusal.error == "open /etc/?.yaml: invalid"
