"""The alerts: each fires and clears, reads metrics that our processes declare, and has a section of the runbook."""

import pathlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.alerts import alert_rules
from tests.contract import metrics_document

PROMTOOL = alert_rules.program("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")

A, B = 'job="f",instance="a"', 'job="f",instance="b"'
# What every frontend that leads shows.
LEADER = {f"trireme_config_info{{{A}}}": "1x600", f'leader_election_master_status{{name="l",{A}}}': "1x600"}
EXPIRY = "trireme_certificate_expiration_timestamp_seconds"
SLI = "scheduler_pod_scheduling_sli_duration_seconds"
ATTEMPTS = f"scheduler_schedule_attempts_total{{{A},result="


@dataclass(frozen=True, slots=True)
class Case:
    """A fault that ends: the series, one value a minute, and when the alert fires, and does not any more."""

    series: Mapping[str, str]
    fires: int
    clears: int


def burns(bad_from: int, bad_until: int) -> Mapping[str, str]:
    """Half of the pods that fit are slow in these minutes."""
    good, slow, after = f"0+600x{bad_from}", f"{600 * bad_from}+300x{bad_until - bad_from}", 900 - bad_until
    bucket_end = 600 * bad_from + 300 * (bad_until - bad_from)
    return LEADER | {
        f'{SLI}_bucket{{{A},attempts="1",le="5.12"}}': f"{good} {slow} {bucket_end}+600x{after}",
        f'{SLI}_count{{{A},attempts="1"}}': "0+600x900",
    }


def fails(bad_from: int, bad_until: int) -> Mapping[str, str]:
    """Half as many attempts fail as succeed, in these minutes."""
    end = 300 * (bad_until - bad_from)
    return LEADER | {
        f'{ATTEMPTS}"scheduled"}}': "0+600x900",
        f'{ATTEMPTS}"error"}}': f"0x{bad_from} 0+300x{bad_until - bad_from} {end}x{900 - bad_until}",
    }


def gauge(name: str, labels: str = "", *, bad: str = "1", good: str = "0", long: int = 30) -> Case:
    """The metric has a bad value for so many minutes, then a good one."""
    return Case(LEADER | {f"{name}{{{A}{labels}}}": f"{bad}x{long} {good}x60"}, long - 1, long + 15)


def counter(name: str, labels: str = "", step: int = 10) -> Case:
    """The metric grows for half an hour, then stays."""
    return Case(LEADER | {f"{name}{{{A}{labels}}}": f"0+{step}x30 {step * 30}x200"}, 25, 110)


def certificate(lifetime: int, renewed_at: int) -> Mapping[str, str]:
    """A certificate that lives so many minutes from minute 0 on, and another one of the same life from then on."""
    labels = f'{{{A},use="serving",certificate="c"}}'
    first, second = lifetime * 60, (renewed_at + lifetime) * 60
    return {
        f"{EXPIRY}{labels}": f"{first}x{renewed_at} {second}x{lifetime}",
        f"trireme_certificate_lifetime_seconds{labels}": f"{first}x{renewed_at + lifetime}",
    }


# By the names of the alerts, and the severity of those that have two.
CASES: Mapping[str, Case] = {
    "TriremeBindingBudgetBurns critical": Case(burns(60, 100), 95, 110),
    "TriremeBindingBudgetBurns warning": Case(burns(120, 240), 230, 290),
    "TriremeDecisionBudgetBurns critical": Case(fails(60, 100), 95, 110),
    "TriremeDecisionBudgetBurns warning": Case(fails(120, 240), 230, 290),
    "TriremeNoLeader": Case(
        {f"trireme_config_info{{{A}}}": "1x90", f"leader_election_master_status{{{A}}}": "1x10 0x20 1x60"}, 20, 40
    ),
    "TriremeTwoLeaders": Case(
        LEADER
        | {f"trireme_config_info{{{B}}}": "1x600", f'leader_election_master_status{{name="l",{B}}}': "0x10 1x20 0x60"},
        20,
        40,
    ),
    "TriremePhaseMissing": gauge("trireme_phase_available", ',phase="filter"', bad="0", good="1"),
    "TriremePhaseFallback": gauge("trireme_phase_fallback", ',phase="filter"'),
    "TriremeReplicaBehind": gauge("trireme_replica_in_step", ',phase="filter",address="f0"', bad="0", good="1"),
    "TriremeChildRestarts": counter("trireme_child_starts_total", ',child="filter"', 1),
    "TriremeNothingTried": Case(
        LEADER
        | {
            f'scheduler_pending_pods{{{A},queue="active"}}': "5x60",
            f'{ATTEMPTS}"scheduled"}}': "0+5x10 50x20 50+5x60",
        },
        29,
        45,
    ),
    "TriremePodsWaitForNodes": gauge("scheduler_pending_pods", ',queue="unschedulable"', bad="5", long=90),
    # A single one, which begins its series.
    "TriremeMissedWakeUps": Case(
        {f'trireme_missed_wake_ups_total{{{A},plugin="NodeResourcesFit",found_by="insight"}}': "_x10 1x200"}, 25, 110
    ),
    "TriremeDecisionsDiffer": Case(
        {
            f'trireme_insight_self_check_differences_total{{{A},call="Place"}}': "_x10 1x200",
            f"trireme_insight_self_checked_decisions_total{{{A}}}": "0+50x210",
        },
        25,
        110,
    ),
    "TriremePreemptionStorm": Case(
        LEADER
        | {
            f"scheduler_preemption_victims_sum{{{A}}}": "0+600x40 24000x100",
            f'{ATTEMPTS}"scheduled"}}': "0+60x140",
        },
        35,
        70,
    ),
    "TriremePluginFails": Case(
        {
            f'trireme_plugin_calls_total{{{A},plugin="p",result="failed"}}': "0+10x40 400x100",
            f'trireme_plugin_calls_total{{{A},plugin="p",result="answered"}}': "0+90x140",
        },
        35,
        60,
    ),
    "TriremePluginBreakerOpen": gauge("trireme_plugin_breaker_open", ',plugin="p",rpc="Filter"'),
    "TriremePluginBypassed": counter("trireme_plugin_bypassed_calls_total", ',plugin="p"'),
    "TriremePluginHoldsPods": gauge("trireme_plugin_held_pods", ',plugin="p"', bad="7"),
    "TriremeApiWritesThrottled": counter("trireme_bind_api_throttled_seconds_total", step=120),
    "TriremeApiWritesFail": Case(
        {
            f"trireme_bind_api_failures_total{{{A}}}": "0+60x40 2400x100",
            f"trireme_bind_api_requests_total{{{A}}}": "0+600x140",
        },
        35,
        60,
    ),
    "TriremeEventsGivenUp": counter("trireme_unrecorded_events_total", ',reason="refused"'),
    "TriremeRecordingFails": counter("trireme_insight_recording_failures_total"),
    # The clock of these tests begins at 0.
    "TriremeCertificateExpires": Case(certificate(24 * 60, renewed_at=23 * 60), 22 * 60, 23 * 60 + 30),
    "TriremeConfigurationRefused": gauge("trireme_config_refused"),
}


def test_every_alert_has_a_case() -> None:
    names = [rule["alert"] for rule in alert_rules.alerts()]
    several = {name for name in names if names.count(name) > 1}
    of_rules = [
        f"{rule['alert']} {rule['labels']['severity']}" if rule["alert"] in several else rule["alert"]
        for rule in alert_rules.alerts()
    ]
    assert list(CASES) == of_rules


def test_there_are_enough_alerts_and_few_enough_to_be_read() -> None:
    assert 15 <= len({rule["alert"] for rule in alert_rules.alerts()}) <= 23


@needs_promtool
def test_promtool_accepts_the_rules(tmp_path: pathlib.Path) -> None:
    rules = alert_rules.write(tmp_path)
    outcome = subprocess.run([str(PROMTOOL), "check", "rules", rules], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@needs_promtool
def test_each_alert_fires_and_clears(tmp_path: pathlib.Path) -> None:
    """One run for all: promtool takes a while to start."""
    rules = alert_rules.write(tmp_path)
    tests = []
    for name, case in CASES.items():
        alert, _, severity = name.partition(" ")
        selected = f'alertname="{alert}",severity=~"{severity or ".+"}",alertstate="firing"'
        query = f"count(ALERTS{{{selected}}}) or vector(0)"
        expected = [(case.fires, 1), (case.clears, 0)]
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
                "promql_expr_test": [
                    {"expr": query, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": value}]}
                    for minute, value in expected
                ],
            }
        )
    document = {"rule_files": [rules.name], "evaluation_interval": "1m", "tests": tests}
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump(document))
    outcome = subprocess.run([str(PROMTOOL), "test", "rules", path], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@needs_promtool
@pytest.mark.parametrize(
    ("lifetime", "first"),
    [(60, 54), (24 * 60, 24 * 54), (7 * 24 * 60, 7 * 24 * 54), (90 * 24 * 60, 87 * 24 * 60)],
    ids=["hour", "day", "week", "quarter"],
)
def test_a_certificate_of_any_life_fires_only_when_its_renewal_is_late(
    tmp_path: pathlib.Path, lifetime: int, first: int
) -> None:
    """Certificates that are renewed after two thirds of their life would always fire, or short ones after the end.

    `lifetime`: in minutes; `first`: the minute from which on the renewal is late.
    """
    step = max(lifetime // 60, 1)
    rules = alert_rules.write(tmp_path)
    labels = f'{{{A},use="serving",certificate="c"}}'
    tests = [
        {
            "interval": f"{step}m",
            "input_series": [
                {"series": f"{EXPIRY}{labels}", "values": f"{lifetime * 60}x80"},
                {"series": f"trireme_certificate_lifetime_seconds{labels}", "values": f"{lifetime * 60}x80"},
            ],
            "promql_expr_test": [
                {
                    "expr": 'count(ALERTS{alertname="TriremeCertificateExpires",alertstate="firing"}) or vector(0)',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": "{}", "value": fires}],
                }
                for minute, fires in ((first - 2 * step, 0), (first + 3 * step, 1))
            ],
        }
    ]
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [rules.name], "evaluation_interval": f"{step}m", "tests": tests}))
    outcome = subprocess.run([str(PROMTOOL), "test", "rules", path], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@needs_promtool
def test_a_cluster_in_order_fires_nothing(tmp_path: pathlib.Path) -> None:
    """Two frontends, one of which waits, and kube-scheduler beside them, which has metrics of the same names."""
    rules = alert_rules.write(tmp_path)
    other = 'job="kube-scheduler",instance="k"'
    series = LEADER | {
        f"trireme_config_info{{{B}}}": "1x600",
        f'leader_election_master_status{{name="l",{B}}}': "0x600",
        f'leader_election_master_status{{name="kube-scheduler",{other}}}': "1x600",
        f'trireme_replica_in_step{{{A},phase="filter",address="f0"}}': "1x600",
        f'trireme_replica_in_step{{{B},phase="filter",address="f0"}}': "0x600",
        f'trireme_phase_available{{{A},phase="filter"}}': "1x600",
        f'trireme_phase_available{{{B},phase="filter"}}': "0x600",
        f'scheduler_pending_pods{{{A},queue="active"}}': "3x600",
        f'scheduler_pending_pods{{{other},queue="unschedulable"}}': "3x600",
        f'{ATTEMPTS}"scheduled"}}': "0+600x600",
        f'scheduler_schedule_attempts_total{{{other},result="error"}}': "0+600x600",
        f"scheduler_preemption_victims_sum{{{other}}}": "0+6000x600",
        f'{SLI}_bucket{{{A},attempts="1",le="5.12"}}': "0+600x600",
        f'{SLI}_count{{{A},attempts="1"}}': "0+600x600",
        f'{SLI}_count{{{other},attempts="1"}}': "0+600x600",
    }
    expected: list[Any] = [
        {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m", "exp_samples": []}
        for minute in (30, 300, 590)
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": expected}
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": [test]}))
    outcome = subprocess.run([str(PROMTOOL), "test", "rules", path], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_every_metric_is_one_that_a_process_declares(tmp_path: pathlib.Path) -> None:
    """A misspelt metric is an alert that never fires."""
    phases = metrics_document.of_phases().values()
    declared = {**metrics_document.of_frontend(tmp_path)}
    for phase in phases:
        declared |= phase
    known = set()
    for name, instrument in declared.items():
        known |= {name, f"{name}_bucket", f"{name}_sum", f"{name}_count"} if instrument.kind == "histogram" else {name}
    read = {
        name
        for group in alert_rules.groups()
        for rule in group["rules"]
        for name in alert_rules.metrics_in(rule["expr"])
    }
    assert len(read) > 20
    assert read - known == set()


def test_recorded_levels_are_those_that_alerts_read() -> None:
    rules = [rule for group in alert_rules.groups() for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    read = {name for rule in rules if "alert" in rule for name in re.findall(r"trireme:[a-z0-9_:]+", rule["expr"])}
    assert recorded == read


_PARTS = ("**What it means.**", "**How to confirm.**", "**What to do.**", "**When to wait.**")


@pytest.mark.parametrize("rule", alert_rules.alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happens_how_bad_it_is_and_where_to_read_on(rule: Any) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (page, anchor) == ("https://trireme.dev/docs/runbooks", rule["alert"].lower())


@pytest.mark.parametrize("name", sorted({rule["alert"] for rule in alert_rules.alerts()}))
def test_the_runbook_of_an_alert_has_its_four_parts_in_order(name: str) -> None:
    section = alert_rules.RUNBOOKS.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    _, *found = re.split(r"^(\*\*[^*]+\*\*)", section, flags=re.MULTILINE)
    assert tuple(found[::2]) == _PARTS
    assert [part for part, text in zip(_PARTS, found[1::2], strict=True) if not text.strip()] == []


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    sections = re.findall(r"^## (.+)$", alert_rules.RUNBOOKS.read_text(), flags=re.MULTILINE)
    assert sections == list(dict.fromkeys(rule["alert"] for rule in alert_rules.alerts()))
