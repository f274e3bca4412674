"""The frontend's metrics: as kube-scheduler declares them, and moving when something happens."""

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.alerts import alert_rules
from tests.contract import metrics_document
from tests.contract import serving_frontend as support
from tests.helpers.pod_group_builders import pod_group
from tests.helpers.pod_group_cluster import Cluster
from tools.controlplane import ports
from trireme.config import commandline, inspection, trireme_configuration
from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.frontend.phase_clients import bind_link, replica_link
from trireme.frontend.serving import certificates_to_watch, metrics_resources, serving_site
from trireme.v1 import filter_pb2, filter_phase_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer
from trireme.wire.post_filter_result import PostFilterResult
from trireme_kube.client.informers import resources
from trireme_kube.componentbase.metrics import exposition
from trireme_kube.componentbase.metrics.instruments import Instrument, Registry
from trireme_kube.componentbase.server import http_site
from trireme_kube.componentbase.tls import self_signed


@pytest.fixture
def site(tmp_path: Path) -> serving_site.FrontendSite:
    """A site that is not served."""
    return metrics_document.site(tmp_path, support.FakeFrontend())


def _instruments(site: serving_site.FrontendSite) -> dict[str, Instrument]:
    return {instrument.name: instrument for registry in site.registries() for instrument in registry}


def test_the_remarks_are_about_metrics_of_kube_scheduler() -> None:
    """A misspelt remark would be about nothing, and the metric's row would say the wrong thing."""
    assert {name for each in metrics_document.REMARKS.values() for name in each} <= metrics_document.recorded().keys()


def test_the_document_lists_the_served_metrics(site: serving_site.FrontendSite) -> None:
    """The document would promise metrics that nobody serves, or deny some that are."""
    served = _instruments(site).keys() | set(metrics_document.OF_PODS)
    assert set(metrics_document.named("same")) == served & metrics_document.recorded().keys()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in (*metrics_document.named("same"), *metrics_document.named("gated"))
        if not name.startswith("kube_pod")
    ],
)
def test_a_metric_is_declared_as_by_kube_scheduler(tmp_path: Path, name: str) -> None:
    """A dashboard's query would find other labels or buckets."""
    frontend = support.FakeFrontend()
    if name in metrics_document.named("gated"):
        frontend.metrics = scheduler_metrics.SchedulerMetrics(groups=True, placements=True)
    instrument, recorded = (
        _instruments(metrics_document.site(tmp_path, frontend))[name],
        metrics_document.recorded()[name],
    )
    assert instrument.kind == recorded["type"]
    assert sorted(instrument.labels) == sorted(recorded["labels"])
    if name != "process_start_time_seconds":
        assert instrument.stability == (recorded["stability"] or "")
    buckets = list(getattr(instrument, "bound_texts", ()))
    assert buckets == recorded.get("buckets", [])


def test_a_text_that_other_parsers_read(site: serving_site.FrontendSite) -> None:
    """A scraper could not read the page at all."""
    families = list(text_string_to_metric_families(exposition.text(site.registries()[0].families())))
    assert {"scheduler_pending_pods", "process_open_fds"} <= {family.name for family in families}


def test_the_metrics_to_alert_on_exist() -> None:
    section, _, rest = metrics_document.DOCUMENT.read_text().partition("## Dashboards and alerts")[2].partition("\n## ")
    named = set(re.findall(r"\b((?:trireme|scheduler|leader)_[a-z_]+)", section))
    rules = [rule["expr"] for group in alert_rules.groups() for rule in group["rules"]]
    named |= {re.sub("_(bucket|sum|count)$", "", name) for rule in rules for name in alert_rules.metrics_in(rule)}
    assert len(named) > 20
    assert [name for name in sorted(named) if f"| `{name}` |" not in rest] == []


def test_a_fallback_phase_is_in_the_metrics(site: serving_site.FrontendSite) -> None:
    """Nothing would page anybody while a cluster's phases are gone and the frontend's own do their work."""
    samples = _instruments(site)["trireme_phase_fallback"].family().samples
    assert {sample.labels["phase"]: sample.value for sample in samples} == {"filter": 1, "score": 0, "bind": 0}


def test_an_informers_version_has_the_digits_of_kube_schedulers(tmp_path: Path) -> None:
    """A comparison during a migration would show one informer far ahead of the other."""
    frontend = support.FakeFrontend()
    statistics = SimpleNamespace(version=7_000_000_000_000_012)
    frontend.informers.append(SimpleNamespace(resource=resources.DEVICE_CLASSES, statistics=lambda: statistics))
    samples = (
        _instruments(metrics_document.site(tmp_path, frontend))["informer_store_resource_version"].family().samples
    )
    assert [(one.labels["group"], one.labels["version"], one.labels["resource"], one.value) for one in samples] == [
        ("resource.k8s.io", "v1", "deviceclasses", 12),
    ]


def test_the_certificates_of_a_frontend_are_in_the_metrics(tmp_path: Path) -> None:
    """One of them would run out, and no alert could be written for it."""
    files = {name: tmp_path / f"{name}.crt" for name in ("serving", "sni", "phases", "plugin", "client", "reviews")}
    keys = {}
    for name, path in files.items():
        certificate, key = self_signed.make_certificate(name, [])
        path.write_bytes(certificate)
        keys[name] = path.with_suffix(".key")
        keys[name].write_bytes(key)
    reviews = tmp_path / "reviews.kubeconfig"
    for path, name in ((tmp_path / "kubeconfig", "client"), (reviews, "reviews")):
        document = yaml.safe_load(support.kubeconfig_for("https://127.0.0.1:1"))
        user = {"client-certificate": str(files[name]), "client-key": str(keys[name])}
        document["users"] = [{"name": "u", "user": user}]
        document["contexts"][0]["context"]["user"] = "u"
        path.write_text(yaml.safe_dump(document))
    own = tmp_path / "trireme.yaml"
    tls = {
        name: {"certFile": str(files[name]), "keyFile": str(keys[name]), "caFile": str(files[name])} for name in files
    }
    plugin = {"name": "Far", "address": "dns:///far:1", "extensionPoints": ["filter"], "tls": tls["plugin"]}
    header = {"apiVersion": "trireme.dev/v1alpha1", "kind": "TriremeConfiguration"}
    own.write_text(yaml.safe_dump({**header, "tls": tls["phases"], "remotePlugins": [plugin]}))
    arguments = [
        f"--kubeconfig={tmp_path / 'kubeconfig'}",
        f"--authentication-kubeconfig={reviews}",
        f"--trireme-config={own}",
        f"--tls-cert-file={files['serving']}",
        f"--client-ca-file={files['serving']}",
        f"--tls-private-key-file={keys['serving']}",
        f"--tls-sni-cert-key={files['sni']},{keys['sni']}",
        "--authentication-skip-lookup",
    ]
    start = commandline.Start(
        [*arguments, f"--secure-port={ports.free_ports(1)[0]}"], {}, io.StringIO(), io.StringIO(), print
    )
    completed = start.run().completed
    assert completed is not None
    assert completed.serving is not None
    completed.serving.listener.close()
    found = list(certificates_to_watch.certificates_of(completed, {}))
    shown = [(each.use, each.name) for each in found if each.use != "authority"]
    assert shown == [("serving" if name in ("serving", "sni") else "client", str(path)) for name, path in files.items()]
    authorities = [str(files[name]) for name in ("serving", "phases", "plugin")]
    assert [each.name for each in found if each.use == "authority"][:3] == authorities


def test_a_replica_that_is_gone_leaves_no_series(tmp_path: Path) -> None:
    """Each rollout would add five series for each replica, and show replicas that nobody has any more."""
    frontend = support.FakeFrontend()
    frontend.filters.links = [replica_link.LinkStatistics("10.0.0.1:1", True, 1, 0, 10, 1, "", 0)]
    frontend.binders.links = [bind_link.BindLinkStatistics("10.0.0.2:1", True, 0, "")]
    registry, _ = metrics_document.site(tmp_path, frontend).registries()

    def addresses() -> set[str]:
        samples = [sample for family in registry.families() for sample in family.samples]
        return {sample.labels["address"] for sample in samples if "address" in sample.labels}

    assert addresses() == {"10.0.0.1:1", "10.0.0.2:1"}
    frontend.filters.links.clear()
    frontend.binders.links.clear()
    assert addresses() == set()


def test_attempts_move_their_metrics(tmp_path: Path) -> None:
    """Alerts on attempts, latency or the queue would never fire."""
    frontend = support.FakeFrontend()
    values = _values(metrics_document.site(tmp_path, frontend).registries()[0])
    frontend.wait(support.pod("a"))
    batch = frontend.queue.pop(100.0, 10)
    assert batch is not None
    metrics, pod = frontend.metrics, batch.pods[0]
    metrics.on_batch_popped("default-scheduler", [pod])
    timing = filter_phase_pb2.Timing(plugin="Fit", extension_point="Filter", code=status.Code.SUCCESS, duration_us=30)
    filtered = _filtered(timing)
    metrics.on_pods_placed("default-scheduler", 1, 0.003, filtered, PlaceAnswer(slots=(0,), evaluated=("Fit",)))
    metrics.on_pod_bound(pod, pod.popped_at + 0.2)
    metrics.on_attempt_failed(pod, "unschedulable", "", pod.popped_at + 0.4)
    after = _values(metrics_document.site(tmp_path, frontend).registries()[0])
    moved = {name for name in after if after[name] != values.get(name)}
    assert {
        "scheduler_schedule_attempts_total{result=scheduled,profile=default-scheduler}",
        "scheduler_schedule_attempts_total{result=unschedulable,profile=default-scheduler}",
        "scheduler_scheduling_attempt_duration_seconds_sum{result=scheduled,profile=default-scheduler}",
        "scheduler_scheduling_algorithm_duration_seconds_count{}",
        "scheduler_pod_scheduling_attempts_count{}",
        "scheduler_plugin_evaluation_total{plugin=Fit,extension_point=Score,profile=default-scheduler}",
        "scheduler_plugin_execution_duration_seconds_count{plugin=Fit,extension_point=Filter,status=Success}",
        "trireme_batch_size_pods_count{profile=default-scheduler}",
        "scheduler_queue_incoming_pods_total{queue=active,event=UnscheduledPodAdd}",
        "scheduler_inflight_events{event=PodPopped}",
    } <= moved
    assert after["scheduler_scheduling_attempt_duration_seconds_sum{result=scheduled,profile=default-scheduler}"] == (
        pytest.approx(0.2)
    )


def test_preemptions_move_their_metrics(tmp_path: Path) -> None:
    """Nobody would see that budgets are broken, or whose groups are torn apart."""
    frontend = support.FakeFrontend()
    profiles = inspection.inspect(None, trireme_configuration.load(""), inspection.feature_gates(())).profiles
    metrics = frontend.metrics = scheduler_metrics.SchedulerMetrics(profiles, groups=True)
    cost = filter_pb2.Disruption(victims=3, violations=2)
    way = PostFilterResult("", (), "node", status.Code.SUCCESS, cost)
    metrics.on_post_filter_run("default-scheduler", way, 1, 0.5)
    cost = filter_pb2.Disruption(victims=9, violations=1, of_groups=2, of_composite_groups=1, single_pods=3)
    metrics.on_group_disruption("compositepodgroup", cost)
    metrics.on_group_preemption_attempted("compositepodgroup", status.Code.SUCCESS)
    metrics.on_group_disruption("podgroup", filter_pb2.Disruption())
    metrics.on_background_evictions_ended("podgroup", False, 0.25)
    values = _values(metrics_document.site(tmp_path, frontend).registries()[0])
    moved = {name: value for name, value in values.items() if "preemption" in name and "bucket" not in name and value}
    assert {name.removeprefix("scheduler_"): value for name, value in moved.items()} == {
        "preemption_attempts_total{}": 1,
        "preemption_victims_count{}": 1,
        "preemption_victims_sum{}": 3,
        "preemption_pdb_violations_total{preemptor=pod}": 2,
        "preemption_pdb_violations_total{preemptor=compositepodgroup}": 1,
        "preemption_workload_disruptions_count{preemptor=compositepodgroup,victim=pod}": 1,
        "preemption_workload_disruptions_sum{preemptor=compositepodgroup,victim=pod}": 3,
        "preemption_workload_disruptions_count{preemptor=compositepodgroup,victim=podgroup}": 1,
        "preemption_workload_disruptions_sum{preemptor=compositepodgroup,victim=podgroup}": 2,
        "preemption_workload_disruptions_count{preemptor=compositepodgroup,victim=compositepodgroup}": 1,
        "preemption_workload_disruptions_sum{preemptor=compositepodgroup,victim=compositepodgroup}": 1,
        "workload_preemption_attempts_total{preemptor=compositepodgroup,result=Success}": 1,
        "workload_preemption_victims_count{preemptor=compositepodgroup}": 1,
        "workload_preemption_victims_sum{preemptor=compositepodgroup}": 9,
        "workload_preemption_victims_count{preemptor=podgroup}": 1,
        "preemption_evaluation_duration_seconds_count{preemptor=pod,result=Success}": 1,
        "preemption_evaluation_duration_seconds_sum{preemptor=pod,result=Success}": 0.5,
        "preemption_execution_duration_seconds_count{preemptor=podgroup,result=error}": 1,
        "preemption_execution_duration_seconds_sum{preemptor=podgroup,result=error}": 0.25,
        "preemption_goroutines_execution_total{result=error}": 1,
    }


async def test_extension_points_of_groups_have_their_durations(tmp_path: Path) -> None:
    """Nobody would see which step of a pod group takes long; kube-scheduler v1.38 has all of these labels."""
    cluster = Cluster([1, 1, 1], post_filters=("DefaultPreemption",), racks=["a", "a", "b"], topology=True)
    group = pod_group("g", 1)
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    cluster.add("p0", "g")
    cluster.totals = [10, 20]
    await cluster.run()
    frontend = support.FakeFrontend()
    frontend.metrics = cluster.metrics
    values = _values(metrics_document.site(tmp_path, frontend).registries()[0])
    profile = "profile=default-scheduler"
    shown = {
        name.partition("{")[2]: value
        for name, value in values.items()
        if name.startswith("scheduler_framework_extension_point_duration_seconds_count{") and value
    }
    assert shown == {
        f"extension_point=PlacementGenerate,status=Success,{profile}}}": 1,
        f"extension_point=PlacementFeasible,status=Wait,{profile}}}": 2,
        f"extension_point=PlacementFeasible,status=Success,{profile}}}": 2,
        f"extension_point=RankNodes,status=Success,{profile}}}": 2,
        f"extension_point=PlacementScore,status=Success,{profile}}}": 1,
    }
    seconds = "scheduler_plugin_execution_duration_seconds_count"
    of_plugin = "plugin=TopologyPlacementGenerator,extension_point=PlacementGenerate,status=Success"
    assert values[f"{seconds}{{{of_plugin}}}"] == 1


async def test_a_lease_that_ran_out_long_ago_is_unhealthy(tmp_path: Path) -> None:
    """A leader whose election hangs would live on, and nobody would schedule."""
    now = [100.0]
    frontend = support.FakeFrontend(lease_seconds=0.0)
    site = metrics_document.site(tmp_path, frontend, clock=lambda: now[0]).site
    answers = []
    for now[0] in (100.0, 119.0, 121.0):
        answers.append((await site.answer(http_site.Request("GET", "/healthz", {}, {}))).status)
    frontend.lease_seconds = 10.0
    answers.append((await site.answer(http_site.Request("GET", "/healthz", {}, {}))).status)
    assert answers == [200, 200, 500, 200]


def test_disabled_metrics_are_not_served(tmp_path: Path) -> None:
    """An operator could not get rid of a metric that is too large."""
    site = metrics_document.site(tmp_path, support.FakeFrontend(), "--disabled-metrics=scheduler_cache_size")
    values = _values(site.registries()[0])
    assert not [name for name in values if name.startswith("scheduler_cache_size")]
    assert values["disabled_metrics_total{}"] == 1


def test_labels_that_are_not_allowed_become_unexpected(tmp_path: Path) -> None:
    """A label could grow without bound although its values were limited."""
    site = metrics_document.site(
        tmp_path, support.FakeFrontend(), "--allow-metric-labels=scheduler_pending_pods,queue=active,unschedulable"
    )
    names = {name for name in _values(site.registries()[0]) if name.startswith("scheduler_pending_pods")}
    assert names == {
        "scheduler_pending_pods{queue=active}",
        "scheduler_pending_pods{queue=unschedulable}",
        "scheduler_pending_pods{queue=unexpected}",
    }


def test_resources_are_those_of_the_specification() -> None:
    """Capacity planning would count init containers, sidecars or overhead wrongly."""
    frontend = support.FakeFrontend()
    frontend.place(
        support.pod(
            "a",
            "node-1",
            initContainers=[
                {"name": "once", "resources": {"requests": {"cpu": "2"}}},
                {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            ],
            overhead={"cpu": "250m"},
        )
    )
    frontend.wait(support.pod("b"))
    found = {
        (sample.labels["pod"], sample.labels["resource"]): sample
        for family in metrics_resources.families(frontend.cache, frontend.queue)
        for sample in family.samples
        if sample.name == "kube_pod_resource_request"
    }
    assert {key: sample.value for key, sample in found.items()} == {
        ("a", "cpu"): 2.25,
        ("a", "memory"): 2**30,
        ("b", "cpu"): 0.1,
        ("b", "memory"): 2**30,
    }
    assert found["a", "cpu"].labels == {
        "namespace": "default",
        "pod": "a",
        "node": "node-1",
        "scheduler": "default-scheduler",
        "priority": "0",
        "resource": "cpu",
        "unit": "cores",
    }
    assert found["b", "cpu"].labels["node"] == ""


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ({"cpu": "1", "memory": "1"}, {"cpu": "1", "memory": "1"}, {"cpu": 2, "memory": 2}),
        ({"cpu": "1", "memory": "1"}, {"cpu": "1"}, {"cpu": 2}),
        ({"cpu": "1", "ephemeral-storage": "1"}, {"cpu": "0"}, {"ephemeral-storage": 1}),
    ],
)
def test_a_limit_that_some_containers_lack_is_none_of_the_pod(
    first: dict[str, str], second: dict[str, str], left: dict[str, float]
) -> None:
    """kubernetes/kubernetes#141014: the kubelet limits such a pod by nothing."""
    frontend = support.FakeFrontend()
    containers = [{"name": name, "resources": {"limits": of}} for name, of in (("a", first), ("b", second))]
    frontend.place(support.pod("a", "node-1", containers=containers))
    found = {
        sample.labels["resource"]: sample.value
        for family in metrics_resources.families(frontend.cache, frontend.queue)
        for sample in family.samples
        if sample.name == "kube_pod_resource_limit"
    }
    assert found == left


def _filtered(timing: filter_phase_pb2.Timing) -> FilterAnswer:
    return FilterAnswer(evaluated=("Fit",), timings=(timing,))


def _values(registry: Registry) -> dict[str, float]:
    """All samples by name and labels."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sample.labels.items())}}}": sample.value
        for family in registry.families()
        for sample in family.samples
    }


@pytest.mark.parametrize(("flags", "hidden"), [((), 1), (("--show-hidden-metrics-for-version=1.37",), 0)])
def test_metrics_hidden_by_kube_scheduler_are_hidden(tmp_path: Path, flags: tuple[str, ...], hidden: int) -> None:
    """A metric would be relied on here that is gone there, or the flag that brings it back be without effect."""
    frontend = support.FakeFrontend()
    frontend.metrics.on_background_evictions_ended("pod", True, 0.1)
    values = _values(metrics_document.site(tmp_path, frontend, *flags).registries()[0])
    assert values["hidden_metrics_total{}"] == hidden
    shown = [name for name in values if name.startswith("scheduler_preemption_goroutines_duration_seconds_count")]
    assert len(shown) == 1 - hidden


def test_errors_of_volumes_are_counted_by_stage(tmp_path: Path) -> None:
    """An operator could not tell that volumes are what holds pods up; refusals and other plugins' errors are none."""
    frontend = support.FakeFrontend()
    for said in (
        status.error("VolumeBinding", "broken"),
        status.error("Other", "broken"),
        status.Status(status.Code.UNSCHEDULABLE, plugin="VolumeBinding"),
    ):
        frontend.metrics.on_volume_stage_ended("bind", said)
    values = _values(metrics_document.site(tmp_path, frontend).registries()[0])
    assert values["scheduler_volume_scheduling_stage_error_total{operation=bind}"] == 1
