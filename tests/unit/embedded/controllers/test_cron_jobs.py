"""CronJobs: when a schedule is due, and what becomes of the Jobs."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import pytest

from tests.helpers.embedded_harness import Cluster, Object
from trireme_kube.embedded.api import cron
from trireme_kube.embedded.api.api_errors import ApiError


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:45:00", "2026-01-01T01:00:00"),
        ("5/20 8-10 * * *", "2026-01-01T10:45:00", "2026-01-02T08:05:00"),
        ("0 0 29 2 ?", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("30 4 1,15 * 5", "2026-01-01T05:00:00", "2026-01-02T04:30:00"),  # a Friday: one kind of day is enough
        ("0 12 * * MON-fri", "2026-01-02T12:00:00", "2026-01-05T12:00:00"),
        ("0 0 13 * 5/2", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 */2 * 1", "2026-01-01T00:00:00", "2026-01-03T00:00:00"),  # a stepped star is no star
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@every 1h30m", "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
    ],
)
def test_when_a_schedule_is_due(schedule: str, after: str, expected: str) -> None:
    """As the parser that Kubernetes uses has it."""
    assert cron.parse(schedule).next(moment(after)) == moment(expected)


def test_a_time_that_never_comes() -> None:
    """February has no 30th day."""
    assert cron.parse("0 0 30 2 *").next(moment("2026-01-01T00:00:00")) is None


def test_time_zones_and_their_changes() -> None:
    """At seven in Berlin, in winter and in summer; an hour that is left out is not made up for."""
    schedule = cron.parse("0 7 * * *", cron.zone_of("Europe/Berlin"))
    assert schedule.next(moment("2026-01-01T00:00:00")) == moment("2026-01-01T06:00:00")
    assert schedule.next(moment("2026-07-01T00:00:00")) == moment("2026-07-01T05:00:00")
    skipped = cron.parse("30 2 * * *", cron.zone_of("Europe/Berlin"))
    assert skipped.next(moment("2026-03-29T00:00:00")) == moment("2026-03-30T02:30:00", "Europe/Berlin")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", "failed to parse int from x"),
        ("@often", "unrecognized descriptor: @often"),
    ],
)
def test_mistakes_in_a_schedule(schedule: str, message: str) -> None:
    """In the words of kubectl create cronjob against a real cluster."""
    with pytest.raises(cron.ScheduleError) as caught:
        cron.parse(schedule)
    assert str(caught.value) == message


def cron_job(**spec: Any) -> Object:
    pods = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    job = {"spec": {"template": {"spec": pods}}}
    return {"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec}}


def reasons(cluster: Cluster) -> list[str]:
    """The reasons of the CronJob's events."""
    return [one["reason"] for one in cluster.objects("events") if one["involvedObject"]["kind"] == "CronJob"]


def test_a_job_every_minute_and_three_remain() -> None:
    """What `kubectl create cronjob` makes."""
    cluster = Cluster(1)
    uid = cluster.create("cronjobs.batch", cron_job())["metadata"]["uid"]
    cluster.run(59)
    assert cluster.objects("jobs.batch") == []
    cluster.run(3)
    (job,) = cluster.objects("jobs.batch")
    assert job["metadata"]["ownerReferences"][0]["uid"] == uid
    status = cluster.get("cronjobs.batch", "tick")["status"]
    assert [one["name"] for one in status["active"]] == [job["metadata"]["name"]]
    assert status["lastScheduleTime"] == "2026-01-01T00:01:00Z"
    cluster.run(300)
    assert len(cluster.objects("jobs.batch")) in (3, 4)
    assert cluster.get("cronjobs.batch", "tick")["status"]["lastSuccessfulTime"] >= "2026-01-01T00:04"
    assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= set(reasons(cluster))


def test_suspended_it_rests() -> None:
    """And what was missed is done once when it goes on."""
    cluster = Cluster(1)
    cluster.create("cronjobs.batch", cron_job(suspend=True))
    cluster.run(200)
    assert cluster.objects("jobs.batch") == []
    cluster.edit("cronjobs.batch", "tick", {"spec": {"suspend": False}})
    cluster.run(1)
    assert len(cluster.objects("jobs.batch")) == 1


@pytest.mark.parametrize(("policy", "jobs"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_concurrency_policies_of_long_jobs(policy: str, jobs: int) -> None:
    """Each run takes five minutes, and one is due every minute."""
    cluster = Cluster(1)
    body = cron_job(concurrencyPolicy=policy)
    body["spec"]["jobTemplate"]["spec"]["template"]["metadata"] = {"annotations": {"trireme.dev/run-seconds": "300"}}
    cluster.create("cronjobs.batch", body)
    cluster.run(185)
    assert len(cluster.objects("jobs.batch")) == jobs
    assert ("JobAlreadyActive" in reasons(cluster)) == (policy == "Forbid")


def test_all_errors_are_reported_at_once() -> None:
    """Not one mistake after the other."""
    body = cron_job(schedule="x", timeZone="Mars/Olympus", concurrencyPolicy="Maybe")
    body["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] = []
    with pytest.raises(ApiError) as caught:
        Cluster(0).create("cronjobs.batch", body)
    fields = [one["field"] for one in (caught.value.details or {})["causes"]]
    template = "spec.jobTemplate.spec.template.spec.containers"
    assert fields == ["spec.schedule", "spec.timeZone", "spec.concurrencyPolicy", template]
