"""The small parts: work queue, faults, node shapes, kubeconfig, generated names."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
import yaml

from tests.helpers.embedded_harness import FakeTime
from trireme_kube.embedded.api.api_errors import invalid_object
from trireme_kube.embedded.api.field_errors import Cause, invalid
from trireme_kube.embedded.api.resources import RESOURCES, stored_as
from trireme_kube.embedded.api.timestamps import micro_timestamp, parse_timestamp, timestamp
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.cluster import EmbeddedCluster
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction, Faults
from trireme_kube.embedded.kubelet import simulated_nodes


def make_queue(time: FakeTime, worked: list[str], fail: set[str] | None = None) -> WorkQueue[str]:
    def work(key: str) -> None:
        worked.append(key)
        if fail and key in fail:
            fail.discard(key)
            raise RuntimeError(key)

    return WorkQueue("test", work, time.monotonic)


def test_a_key_waits_once() -> None:
    """A burst of events about one object is one piece of work."""
    worked: list[str] = []
    queue = make_queue(FakeTime(), worked)
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert queue.process_due_keys() is None
    assert worked == ["a", "b"]


def test_the_earlier_time_counts() -> None:
    """A pod that is deleted before it would have ended must not wait for that end."""
    time, worked = FakeTime(), []
    queue = make_queue(time, worked)
    queue.add("a", 10)
    queue.add("a", 2)
    queue.add("a", 5)
    assert queue.process_due_keys() == 2
    time.now = 3
    assert queue.due
    assert queue.process_due_keys() is None
    time.now = 20
    queue.process_due_keys()
    assert worked == ["a"]


def test_a_failed_key_is_retried_without_delaying_others(caplog: pytest.LogCaptureFixture) -> None:
    """One odd object must not stop a controller."""
    time, worked = FakeTime(), []
    queue = make_queue(time, worked, fail={"a"})
    queue.add("a")
    queue.add("b")
    assert queue.process_due_keys() == 1
    assert worked == ["a", "b"]
    assert caplog.messages[0].startswith("test: a: RuntimeError: a (")
    assert caplog.messages[0].endswith("; again in 1 s")
    time.now = 2
    queue.process_due_keys()
    assert worked == ["a", "b", "a"]


async def test_the_queue_wakes_for_new_work() -> None:
    """Without it a controller would sleep through everything after its first pause."""
    done = asyncio.Event()
    queue: WorkQueue[str] = WorkQueue("test", lambda key: done.set(), asyncio.get_running_loop().time)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    queue.add("a")
    async with asyncio.timeout(5):
        await done.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("fault", "methods", "path", "strikes"),
    [
        (Fault(FaultAction.STATUS), ("GET",), "/any", True),
        (Fault(FaultAction.STATUS, method="POST"), ("GET",), "/any", False),
        (Fault(FaultAction.STATUS, method="WATCH"), ("GET", "WATCH"), "/any", True),
        (Fault(FaultAction.STATUS, method="WATCH"), ("GET", "LIST"), "/any", False),
        (Fault(FaultAction.STATUS, path="/binding$"), ("POST",), "/pods/p/binding", True),
        (Fault(FaultAction.STATUS, path="/binding$"), ("POST",), "/pods/p", False),
        (Fault(FaultAction.STATUS, times=0), ("GET",), "/any", False),
    ],
)
def test_faults_match_their_requests(fault: Fault, methods: tuple[str, ...], path: str, strikes: bool) -> None:
    """A fault that strikes the wrong request makes a test prove nothing."""
    faults = Faults()
    faults.add(fault)
    assert (faults.strike(methods, path) is fault) is strikes


def test_a_fault_is_spent() -> None:
    """The next request must get through; what struck can be counted."""
    faults = Faults()
    twice = faults.add(Fault(FaultAction.DROP_AFTER, times=2))
    always = faults.add(Fault(FaultAction.DELAY, times=-1))
    struck = [faults.strike(("POST",), "/x") for _ in range(4)]
    assert struck == [twice, twice, always, always]
    assert [one["struck"] for one in faults.describe()] == [2, 2]
    faults.clear()
    assert not faults


@pytest.mark.parametrize(
    "description",
    [{"action": "explode"}, {"path": "x"}, {"action": "status", "nope": 1}, {"action": "status", "path": "("}],
)
def test_a_fault_that_is_none(description: dict[str, object]) -> None:
    """A mistyped fault must be refused, not silently never strike."""
    with pytest.raises((TypeError, ValueError)):
        Faults().add_from(dict(description))


def test_nodes_are_dealt_out_to_zones() -> None:
    """Topology spread needs them even; hostnames must be the names."""
    shape = simulated_nodes.NodeShape(zones=3, labels={"disk": "ssd"}, extended={"example.com/gpu": "2"})
    made = [simulated_nodes.node(shape, index) for index in range(6)]
    zones = [one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in made]
    assert zones == ["zone-1", "zone-2", "zone-3"] * 2
    assert {one["metadata"]["labels"]["kubernetes.io/hostname"] == one["metadata"]["name"] for one in made} == {True}
    assert made[0]["metadata"]["labels"]["disk"] == "ssd"
    assert made[0]["status"]["allocatable"]["example.com/gpu"] == "2"


def test_the_kubeconfig_is_private_and_valid(tmp_path: Path) -> None:
    """`kubectl` and the frontend read it; half a file would be an error at start."""
    path = EmbeddedCluster(port=1234).write_kubeconfig(tmp_path / "deep" / "kubeconfig")
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config == json.loads(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:1234"
    assert config["current-context"] == config["contexts"][0]["name"]
    assert [one.name for one in path.parent.iterdir()] == ["kubeconfig"]


def test_generated_suffixes() -> None:
    """Five characters without vowels, different each time."""
    clock_and_ids = ClockAndIds(random=random.Random(1))
    made = {clock_and_ids.suffix() for _ in range(100)}
    assert len(made) == 100
    assert all(len(one) == 5 and not set(one) & set("aeiou013") for one in made)


def test_times() -> None:
    """Whole seconds for Time, microseconds for MicroTime, both read back."""
    assert timestamp(1_767_225_600.9) == "2026-01-01T00:00:00Z"
    assert micro_timestamp(1_767_225_600.5) == "2026-01-01T00:00:00.500000Z"
    assert parse_timestamp("2026-01-01T00:00:00Z") == 1_767_225_600


def test_the_table_names_every_resource_once() -> None:
    """Two rows of one path would hide one of them."""
    assert len({(one.group, one.version, one.plural) for one in RESOURCES}) == len(RESOURCES)
    assert len({one.key for one in RESOURCES}) == len(RESOURCES)
    assert [stored_as(one).key for one in RESOURCES if one.view_of] == ["events"]


@pytest.mark.parametrize(
    ("causes", "message"),
    [
        ([invalid("spec.a", "x", "bad")], 'Pod "p" is invalid: spec.a: Invalid value: "x": bad'),
        (
            [invalid("spec.a", -1, "bad"), Cause("FieldValueRequired", "spec.b", "Required value")],
            'Pod "p" is invalid: [spec.a: Invalid value: -1: bad, spec.b: Required value]',
        ),
        ([invalid("spec.a", True, "bad")], 'Pod "p" is invalid: spec.a: Invalid value: true: bad'),
    ],
)
def test_refusals_read_like_kubernetes(causes: list[Cause], message: str) -> None:
    """Clients print the message and take the causes apart."""
    status = invalid_object("", "Pod", "p", causes).status()
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", message)
    assert [one["field"] for one in status["details"]["causes"]] == [cause.field for cause in causes]
