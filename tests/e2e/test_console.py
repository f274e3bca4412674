"""The console in a real Chromium, on `trireme up` with its demo: each view, and the story of a pod that waits."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chromium
import installation
import pytest
import recorded_decisions
import recordings
import waiting_gang
from playwright import sync_api

from trireme.v1 import recording_pb2
from trireme_kube.componentbase import clocks

REPOSITORY = Path(__file__).resolve().parents[2]
TRIREME = (sys.executable, "-u", str(REPOSITORY / "cmd/trireme"))
_LIMIT = 3 * installation.START_SECONDS
_ZONES = "topology.kubernetes.io/zone"

# Pods that this selects nothing for wait for a reason of their own, also where another test has tainted a node: tests
# run in any order.
_NOWHERE: Mapping[str, Any] = {"nodeSelector": {"nowhere": "true"}, "tolerations": [{"operator": "Exists"}]}

# What an attacker would try who can add to the page.
_INLINE_SCRIPT = """() => {
    try {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.head.append(script);
    } catch {}
    return window.ran ? "ran" : "refused";
}"""

# By how many pixels a page is too wide.
_OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING),
]


@dataclass
class World:
    """A running scheduler, the API of its cluster, its console, and the browser."""

    console: str
    api: str
    browser: chromium.Browser
    #: Where insight records.
    recordings: Path

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """A request to the cluster's API; the answer's object."""
        request = urllib.request.Request(
            self.api + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def moment_from_now_on(self) -> int:
        """A moment that is recorded, and behind what has happened so far: milliseconds since 1970."""
        known = round(clocks.wall() * 1000)
        newest = [0]

        def is_recorded() -> bool:
            with urllib.request.urlopen(f"{self.console}/v1/recording", timeout=60) as answer:
                newest[0] = json.load(answer)["toMs"]
            return newest[0] > known

        _wait(is_recorded, lambda: f"recorded until {newest[0]}, wanted {known}")
        return newest[0]

    def create_pod(self, name: str, cpu: str, **spec: Any) -> None:
        """A pod of one container."""
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        self.call("POST", "/api/v1/namespaces/default/pods", body)

    @contextlib.contextmanager
    def pods(self, *names: str, cpu: str, **spec: Any) -> Iterator[None]:
        """Pods within the block: those of one test are not counted by the next one."""
        try:
            for name in names:
                self.create_pod(name, cpu, **spec)
            yield
        finally:
            for name in names:
                with contextlib.suppress(urllib.error.HTTPError):
                    self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")

    def patch_node(self, name: str, patch: Any) -> None:
        """A merge patch of a node."""
        self.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")


def _wait(true: Callable[[], Any], story: Callable[[], str]) -> None:
    """Return once `true` says so."""
    deadline = time.monotonic() + _LIMIT
    while not true():
        assert time.monotonic() < deadline, story()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A scheduler with 12 nodes whose demo is done, some pods of which wait; and a browser."""
    folder = tmp_path_factory.mktemp("console")
    command = [*TRIREME, "up", "--nodes", "12", "--demo", "--record-dir", str(folder / "recordings")]
    up = installation.Process("up", [*command, "--feature-gates=GenericWorkload=true"], folder / "up.log")
    environment = {**os.environ, "TRIREME_SOCKET": str(folder / "admin.sock"), "XDG_STATE_HOME": str(folder / "state")}
    up.start(environment)
    try:
        _wait(lambda: "demo: giant-" in up.said, lambda: up.said)
        (console,) = re.findall(r"the console: (http://\S+)/", up.said)
        (api,) = re.findall(r"embedded cluster with 12 nodes at (http://\S+)", up.said)
        with chromium.browser(folder / "browser") as browser:
            yield World(console, api, browser, folder / "recordings" / "insight")
    finally:
        up.signal(signal.SIGINT)
        up.stop()


@pytest.fixture(scope="module")
def axe() -> None:
    """The accessibility checker, from npm."""
    if chromium.AXE.exists():
        return
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: axe cannot be")
    install = ["npm", "ci", "--silent", "--ignore-scripts"]
    done = subprocess.run(install, cwd=REPOSITORY / "console", capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install axe: {done.stderr[-300:]}")


def _expect(locator: sync_api.Locator) -> sync_api.LocatorAssertions:
    return sync_api.expect(locator)


def _reason(page: sync_api.Page, title: str) -> sync_api.Locator:
    """The row of the pods that wait for this reason: the title is all of its name, not a part of another one."""
    name = page.locator(".name", has_text=re.compile(f"^{re.escape(title)}$"))
    return page.locator(".reasons").get_by_role("link").filter(has=name)


def test_the_overview_shows_what_the_scheduler_does(world: World) -> None:
    """The page that is left open would show nothing, or numbers of nothing."""
    with world.browser.page() as page:
        page.goto(world.console)
        _expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        _expect(page.locator(".figures")).to_contain_text(re.compile(r"[1-9]\d+ bound since start"))
        bound = int(re.findall(r"(\d+) bound since start", page.locator(".figures").inner_text())[0])
        _expect(page.locator(".figures")).to_contain_text("12 nodes")
        _expect(page.locator(".figures")).to_contain_text("4 of 4")
        _expect(page.locator(".reasons")).to_contain_text("Refused by NodeResourcesFit")
        before = page.evaluate("() => document.querySelectorAll('path.line')[0].getAttribute('d')")
        world.create_pod("one-more", "10m")
        _expect(page.locator(".figures")).to_contain_text(f"{bound + 1} bound since start")
        page.wait_for_function(
            "before => document.querySelectorAll('path.line')[0].getAttribute('d') !== before", arg=before
        )


def test_pending_pods_are_grouped_and_lead_to_a_pod(world: World) -> None:
    """From how many wait to which, and what nodes say of them."""
    with world.pods("nowhere-0", "nowhere-1", "nowhere-2", cpu="10m", **_NOWHERE), world.browser.page() as page:
        page.goto(f"{world.console}/#/pending")
        _reason(page, "Refused by NodeAffinity").click()
        _expect(page.get_by_role("heading", name="Refused by NodeAffinity", exact=True)).to_be_visible()
        _expect(page.locator(".example")).to_contain_text("0 of 12 nodes")
        _expect(page.locator(".example")).to_contain_text("didn't match Pod's node affinity/selector")
        rows = page.get_by_role("region", name="Pods: Refused by NodeAffinity").locator("tbody tr")
        _expect(rows).to_have_count(3)
        rows.first.get_by_role("link").click()
        _expect(page.get_by_role("heading", level=1)).to_contain_text("default/nowhere-")
        _expect(page.get_by_role("region", name="Timeline")).to_contain_text("UnscheduledPodAdd")


def test_a_pod_waits_the_page_says_why_and_the_proposal_helps(world: World) -> None:
    """The story that the console is for: a pod waits, a change is proposed and made, and the pod is bound."""
    world.patch_node(
        "node-0",
        {
            "metadata": {"labels": {"pool": "gpu"}},
            "spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]},
        },
    )
    world.create_pod("trainer", "100m", nodeSelector={"pool": "gpu"})
    with world.browser.page(permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"{world.console}/#/pods/default/trainer")
        says = page.get_by_role("region", name="What nodes say")
        _expect(says).to_contain_text("0 of 12 nodes")
        _expect(says).to_contain_text("TaintToleration")
        _expect(says).to_contain_text("NodeAffinity")
        helps = page.get_by_role("region", name="What would help")
        helps.get_by_text("Tolerate gpu=true:NoSchedule").click()
        snippet = helps.locator("details[open] pre").inner_text()
        assert snippet.splitlines()[:2] == ["tolerations:", "- key: gpu"]
        page.get_by_role("link", name="Show on the map").click()
        legend = page.get_by_role("list", name="Legend")
        _expect(legend).to_contain_text("NodeAffinity")
        _expect(legend).to_contain_text("TaintToleration")
        page.get_by_role("link", name="default/trainer").click()
        # The change as the page words it.
        toleration = {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
        assert [f"{key}: {json.dumps(value) if key == 'value' else value}" for key, value in toleration.items()] == [
            line.removeprefix("- ").strip() for line in snippet.splitlines()[1:]
        ]
        path = "/api/v1/namespaces/default/pods/trainer"
        existing = world.call("GET", path)["spec"].get("tolerations") or []
        world.call("PATCH", path, {"spec": {"tolerations": [*existing, toleration]}}, "application/merge-patch+json")
        _expect(page.locator(".facts").first).to_contain_text("on a node")
        _expect(page.locator(".facts").first).to_contain_text("node-0")
        timeline = page.get_by_role("region", name="Timeline")
        _expect(timeline).to_contain_text("bound")
        _expect(timeline.locator("li").first).to_contain_text("active")
        decision = page.get_by_role("region", name="Decision", exact=True)
        _expect(decision).to_contain_text("1 of 12 nodes")
        _expect(decision).to_contain_text("the only feasible node")


def test_a_waiting_pod_says_whom_it_would_preempt_or_why_nobody(world: World) -> None:
    """It waits beside pods of lower priority, and nothing says why they may stay."""
    never = {"metadata": {"name": "polite"}, "value": 500, "preemptionPolicy": "Never"}
    world.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", never)
    with (
        world.pods("polite", cpu="7800m", priorityClassName="polite"),
        world.pods("ordinary-and-large", cpu="7800m"),
        world.browser.page() as page,
    ):
        panel = page.locator("section", has=page.get_by_role("heading", name="Preemption", exact=True))
        page.goto(f"{world.console}/#/pods/default/polite")
        _expect(panel).to_contain_text("its preemptionPolicy is Never")
        page.goto(f"{world.console}/#/pods/default/ordinary-and-large")
        _expect(panel).to_contain_text("no pod of lower priority")


def test_nodes_are_a_map_and_a_table(world: World) -> None:
    """By use, taints and label, by mouse and by keyboard; and each node has its page."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/nodes")
        rows = page.get_by_role("region", name="Nodes").locator("tbody tr")
        _expect(rows).to_have_count(12)
        colour = page.get_by_label("Colour by")
        legend = page.get_by_role("list", name="Legend")
        _expect(legend).to_contain_text("under 20 %")
        colour.select_option("label")
        _expect(legend).to_contain_text("zone-1")
        legend.get_by_role("button", name=re.compile("zone-1")).click()
        _expect(rows).to_have_count(4)
        colour.select_option("taints")
        _expect(legend).to_contain_text("no taints")
        grid = page.get_by_role("application")
        grid.focus()
        page.keyboard.press("End")
        _expect(page.locator(".pointed")).to_contain_text("node-11")
        page.keyboard.press("Enter")
        _expect(page.get_by_role("heading", level=1)).to_have_text("node-11")
        _expect(page.get_by_role("region", name="Labels and taints")).to_contain_text(_ZONES)
        _expect(page.get_by_role("region", name="Pods on node-11").locator("tbody tr").first).to_contain_text(
            "default/"
        )


def test_a_preemption_is_shown_with_its_victims(world: World) -> None:
    """Who had to go for whom would be in events alone."""
    world.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    there = {"kubernetes.io/hostname": "node-1"}
    world.create_pod("ordinary", "6", nodeSelector=there)
    path = "/api/v1/namespaces/default/pods/{}"
    _wait(lambda: world.call("GET", path.format("ordinary"))["spec"].get("nodeName"), lambda: "it is not bound")
    world.create_pod("urgent", "6", nodeSelector=there, priorityClassName="urgent")
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/preemptions")
        row = page.get_by_role("region", name="Preemptions").locator("tbody tr").first
        _expect(row).to_contain_text("default/urgent")
        _expect(row).to_contain_text("node-1")
        _expect(row).to_contain_text("default/ordinary")
        page.get_by_role("link", name="default/urgent").click()
        _expect(page.locator(".facts").first).to_contain_text("node-1")
        # It is recorded as well.
        page.goto(f"{world.console}/?at={world.moment_from_now_on()}#/preemptions")
        _expect(page.get_by_text("Past", exact=True)).to_be_visible()
        _expect(row).to_contain_text("default/urgent")
        _expect(row).to_contain_text("default/ordinary")


def test_a_gang_is_shown_with_what_it_lacks(world: World) -> None:
    """A gang that waits for its members looks like pods that nobody schedules."""
    group = {"metadata": {"name": "trainers"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    versions = world.call("GET", "/apis/scheduling.k8s.io")["versions"]
    newest = next(
        each["groupVersion"] for each in versions if "alpha" in each["groupVersion"] or "beta" in each["groupVersion"]
    )
    world.call("POST", f"/apis/{newest}/namespaces/default/podgroups", group)
    for number in range(2):
        world.create_pod(f"trainers-{number}", "10m", schedulingGroup={"podGroupName": "trainers"})
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/groups")
        row = page.get_by_role("region", name="Groups of pods").locator("tbody tr").first
        _expect(row).to_contain_text("default/trainers")
        _expect(row).to_contain_text("waits")
        world.create_pod("trainers-2", "10m", schedulingGroup={"podGroupName": "trainers"})
        _expect(row).to_contain_text("placed")


def test_the_scheduler_shows_its_replicas(world: World) -> None:
    """A phase that is not in step would be found in logs alone."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/scheduler")
        replicas = page.get_by_role("region", name="Replicas of the phases").locator("tbody tr")
        _expect(replicas).to_have_count(4)
        for phase in ("filter", "score", "insight", "bind"):
            _expect(replicas.filter(has_text=phase).first).to_contain_text("in step")
        _expect(page.get_by_text("No remote plugins")).to_be_visible()


def test_a_drain_is_simulated_and_not_carried_out(world: World) -> None:
    """Whether a node can be drained would be tried on the cluster."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/simulation")
        page.get_by_label("Nodes", exact=True).fill("node-3")
        page.get_by_role("button", name="Simulate").click()
        _expect(page.get_by_role("region", name="What would happen")).to_contain_text("evicted")
        _expect(page.get_by_role("region", name="Simulated pods").locator("tbody tr").first).to_contain_text("default/")
        page.get_by_label("Nodes", exact=True).fill("no-such-node")
        page.get_by_role("button", name="Simulate").click()
        _expect(page.get_by_text("no-such-node").last).to_be_visible()
    assert not world.call("GET", "/api/v1/nodes/node-3")["spec"].get("unschedulable")
    world.browser.complaints = [text for text in world.browser.complaints if "status of 4" not in text]


@contextlib.contextmanager
def _served_recording(world: World, file: Path, folder: Path) -> Iterator[str]:
    """The console of a recording; its address. What pages load from there does not count as of another server."""
    served = installation.Process("replay", [*TRIREME, "replay", str(file), "--serve"], folder / "replay.log")
    served.start()
    try:
        _wait(lambda: "Ctrl-C ends it" in served.said, lambda: served.said)
        (address,) = re.findall(r"http://\S+:\d+", served.said)
        yield address
        world.browser.loaded = [url for url in world.browser.loaded if not url.startswith(f"{address}/")]
    finally:
        served.signal(signal.SIGINT)
        assert served.stop() == 0


@pytest.mark.usefixtures("axe")
def test_a_recording_is_shown_as_of_the_moment_that_a_slider_sets(world: World, tmp_path: Path) -> None:
    """What an incident looked like would have to be put together from `trireme replay --at`, pod by pod."""
    file = tmp_path / "incident.trireme"
    path = "/api/v1/namespaces/default/pods/recorded-early"
    with world.pods("recorded-early", cpu="10m"), world.pods("recorded-waits", cpu="10m", **_NOWHERE):
        _wait(lambda: world.call("GET", path)["spec"].get("nodeName"), lambda: "it is not bound")
        with world.browser.page() as page:
            page.goto(f"{world.console}/#/pods/default/recorded-waits")
            _expect(page.locator(".facts").first).to_contain_text("unschedulable")
            page.goto(f"{world.console}/#/pods/default/recorded-early")
            _expect(page.locator(".facts").first).to_contain_text("on a node")
            _expect(page.get_by_role("slider")).to_have_count(0)
        export = [*TRIREME, "record", "export", "--dir", str(world.recordings), str(file)]
        subprocess.run(export, check=True, capture_output=True)
    with _served_recording(world, file, tmp_path) as address:
        for dark in (False, True):
            with world.browser.page(dark=dark) as page:
                page.goto(f"{address}/#/pods/default/recorded-early")
                slider = page.get_by_role("slider", name="Moment")
                facts = page.locator(".facts").first
                _expect(facts).to_contain_text("on a node")
                _expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("of 12 nodes")
                assert chromium.accessibility_problems(page) == []
                slider.focus()
                page.keyboard.press("Home")
                _expect(page.locator(".failure").first).to_contain_text("recorded-early")
                _expect(slider).to_be_focused()
                page.keyboard.press("End")
                _expect(slider).to_have_value(slider.get_attribute("max") or "")
                _expect(facts).to_contain_text("on a node")
                page.goto(f"{address}/#/pending")
                _reason(page, "Refused by NodeAffinity").click()
                rows = page.get_by_role("region", name="Pods: Refused by NodeAffinity").locator("tbody tr")
                _expect(rows.filter(has_text="recorded-waits")).to_have_count(1)
                slider.focus()
                page.keyboard.press("Home")
                _expect(rows.filter(has_text="recorded-waits")).to_have_count(0)
                page.goto(f"{address}/#/nodes")
                _expect(page.get_by_role("region", name="Nodes").locator("tbody tr")).to_have_count(12)
                assert chromium.accessibility_problems(page) == []
                page.get_by_role("button", name="+1 min").click()
                page.keyboard.press("Tab")
                _expect(slider).to_be_focused()
                page.keyboard.press("End")
                # The moment is in the address: a link of it, and a reload, show the same.
                _expect(page).to_have_url(re.compile(rf"[?]at={slider.get_attribute('max')}#/nodes$"))
                page.reload()
                _expect(page.locator(".moment")).not_to_contain_text(re.compile(r"\b0s of"))
                page.evaluate("() => { location.hash = '#/pods/default/recorded-early' }")
                _expect(facts).to_contain_text("on a node")
                # There is nothing but the recording.
                _expect(page.get_by_role("button", name="Back to now")).to_have_count(0)
    world.browser.complaints = [text for text in world.browser.complaints if "status of 404" not in text]


@pytest.mark.usefixtures("axe")
def test_a_moment_at_which_nothing_was_recorded_is_said_to_be_so(world: World, tmp_path: Path) -> None:
    """An incident in which insight failed would look as if nothing had happened in it."""
    file = tmp_path / "gap.trireme"
    # Not in this thread, in which Playwright has a loop.
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, _record_with_gap(file)).result()
    with _served_recording(world, file, tmp_path) as address:
        for width, dark in ((1280, False), (390, True)):
            with world.browser.page(width=width, dark=dark) as page:
                page.goto(f"{address}/?at={recordings.BEGIN // 1_000_000 + 50_000}#/")
                band = page.get_by_role("region", name="Time of the recording")
                _expect(band.get_by_role("alert")).to_have_text(
                    re.compile("^Nothing was recorded from .+ to .+\\. What is shown is from before\\.$")
                )
                _expect(page.get_by_role("slider", name="Moment")).to_have_attribute(
                    "aria-valuetext", re.compile("Nothing was recorded")
                )
                _expect(band.locator(".gaps span")).to_have_count(1)
                assert chromium.accessibility_problems(page) == []
                page.get_by_role("slider", name="Moment").press("End")
                _expect(page.get_by_role("alert")).to_have_count(0)


async def _record_with_gap(file: Path) -> None:
    """A pod is placed after a second, and nothing is recorded from then until 100 seconds after the beginning."""
    cluster = await recorded_decisions.RecordedCluster(2).open()
    await cluster.schedule(recorded_decisions.SMALL, 1)
    state, *placements = cluster.frames()
    end = recordings.BEGIN + 100 * recordings.SECOND
    gap = recording_pb2.RecordedFrame(unix_time_ns=end, gap=recording_pb2.RecordingGap())
    again = recording_pb2.RecordedFrame()
    again.CopyFrom(state)
    again.unix_time_ns = end
    frames = [state, *placements, gap, again, recordings.end_frame(end)]
    file.write_bytes(b"".join(recordings.encoded(cluster.header, frames)))


@pytest.mark.usefixtures("axe")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_console_looks_back_at_what_was_and_returns_to_now(world: World, width: int, dark: bool) -> None:
    """Why a pod had to wait is asked once it has a node: then nodes refuse it no more, and nothing says why."""
    name, node = f"looked-back-at-{width}", f"node-{width % 7}"
    path = f"/api/v1/namespaces/default/pods/{name}"
    wanted = {"nodeSelector": {"looked-back-at": str(width)}, "tolerations": [{"operator": "Exists"}]}
    with world.pods(name, cpu="10m", **wanted), world.browser.page(width=width, dark=dark) as page:
        page.goto(f"{world.console}/#/pods/default/{name}")
        facts, failure = page.locator(".facts").first, page.locator(".failure").first
        slider = page.get_by_role("slider", name="Moment")
        _expect(facts).to_contain_text("unschedulable")
        world.patch_node(node, {"metadata": {"labels": wanted["nodeSelector"]}})
        _wait(lambda: world.call("GET", path)["spec"].get("nodeName"), lambda: "it is not bound")
        _expect(facts).to_contain_text("on a node")
        _expect(slider).to_have_count(0)

        world.moment_from_now_on()
        page.get_by_role("link", name="Recording").click()
        _expect(page.get_by_text("Past", exact=True)).to_be_visible()
        page.evaluate(f"() => {{ location.hash = '#/pods/default/{name}' }}")
        _expect(facts).to_contain_text("on a node")
        assert chromium.accessibility_problems(page) == []
        slider.focus()
        page.keyboard.press("Home")
        _expect(failure).to_contain_text("neither in the queue nor on a node")
        # In steps back to when it waited: the moment is before the one that it was seen on a node at.
        page.keyboard.press("End")
        _expect(facts).to_contain_text("on a node")
        timeline = page.get_by_role("region", name="Timeline")
        _expect(timeline).to_contain_text("bound")
        waited_at = _moment_in_which_it_waited(page, name)
        page.goto(f"{world.console}/?at={waited_at}#/pods/default/{name}")
        _expect(facts).to_contain_text("unschedulable")
        _expect(page.get_by_role("region", name="What nodes say")).to_contain_text("0 of 12 nodes")
        _expect(page.get_by_role("region", name="What nodes say")).to_contain_text("NodeAffinity")
        assert chromium.accessibility_problems(page) == []
        _check_other_views_of_the_past(page, name, node)
        page.evaluate(f"() => {{ location.hash = '#/pods/default/{name}' }}")
        _expect(facts).to_contain_text("unschedulable")

        page.get_by_role("button", name="Back to now").click()
        _expect(slider).to_have_count(0)
        _expect(facts).to_contain_text("on a node")
        page.go_back()
        _expect(slider).to_be_visible()
        _expect(facts).to_contain_text("unschedulable")
        world.patch_node(node, {"metadata": {"labels": {"looked-back-at": None}}})
    # Insight goes on recording into the same file.
    checked = subprocess.run([*TRIREME, "record", "check", str(world.recordings)], check=True, capture_output=True)
    assert b"Gaps        0" in checked.stdout
    world.browser.complaints = [text for text in world.browser.complaints if "status of 4" not in text]


def _check_other_views_of_the_past(page: sync_api.Page, name: str, node: str) -> None:
    """The pod is among those that wait; and nobody is kept from a view, by its width or otherwise."""
    page.get_by_role("link", name="Pending").click()
    _reason(page, "Refused by NodeAffinity").click()
    rows = page.get_by_role("region", name="Pods: Refused by NodeAffinity").locator("tbody tr")
    _expect(rows.filter(has_text=name)).to_have_count(1)
    for view, shown in (("nodes", "canvas"), (f"nodes/{node}", ".labels div"), ("groups", "main .rows, main .empty")):
        page.evaluate(f"() => {{ location.hash = '#/{view}' }}")
        page.locator(shown).first.wait_for()
        assert chromium.accessibility_problems(page) == []
        assert page.evaluate(_OVERFLOW) <= 0


def _moment_in_which_it_waited(page: sync_api.Page, name: str) -> int:
    """A moment between the pod's last refusal and its binding, by its timeline."""
    timeline = page.evaluate(
        """async name => {
            const at = new URLSearchParams(location.search).get("at");
            const answer = await fetch(`v1/recorded/${at}/namespaces/default/pods/${name}/timeline`);
            return await answer.json();
        }""",
        name,
    )
    refused = next(entry for entry in timeline["entries"] if entry["state"] == "unschedulable")
    # Insight heard of it a moment later.
    return int(refused["atMs"] + timeline["leftQueueAtMs"]) // 2


@pytest.mark.usefixtures("axe")
def test_the_victims_of_a_group_are_listed_with_their_nodes(world: World, tmp_path: Path) -> None:
    """A live scheduler evicts them at once; before that, members would seem to preempt each for itself, or nobody."""
    file = tmp_path / "gang.trireme"
    # In a thread: Playwright has a loop in this one.
    with futures.ThreadPoolExecutor(1) as thread:
        gang = thread.submit(asyncio.run, waiting_gang.waiting_gang(2)).result()
    file.write_bytes(waiting_gang.recorded(gang))
    with _served_recording(world, file, tmp_path) as address, world.browser.page() as page:
        page.goto(f"{address}/#/pods/default/m0")
        panel = page.locator("section", has=page.get_by_role("heading", name="Preemption", exact=True))
        _expect(panel).to_contain_text("Its group gang would preempt 4 pods; 2 members would fit then.")
        rows = panel.locator("tbody tr")
        _expect(rows).to_have_count(4)
        found = sorted(tuple(row.locator("td").all_inner_texts()) for row in rows.all())
        assert found == [
            ("default/pod-0", "1", "n0"),
            ("default/pod-1", "1", "n0"),
            ("default/pod-2", "1", "n1"),
            ("default/pod-3", "1", "n1"),
        ]
        assert chromium.accessibility_problems(page) == []
        rows.first.get_by_role("link", name="default/pod-").click()
        _expect(page.locator(".facts").first).to_contain_text("on a node")
    world.browser.complaints = [text for text in world.browser.complaints if "status of 404" not in text]


def test_a_pod_is_found_by_a_part_of_its_name(world: World) -> None:
    """By keyboard alone, from any page."""
    with world.browser.page() as page:
        page.goto(world.console)
        _expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("cache-")
        _expect(page.get_by_role("option").first).to_contain_text("default/cache-")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        _expect(page.get_by_role("heading", level=1)).to_contain_text("default/cache-")
        _expect(page.locator(".facts").first).to_contain_text("on a node")


def test_a_lost_connection_is_shown_and_what_is_known_stays(world: World) -> None:
    """Old numbers would be taken for those of now."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/nodes")
        rows = page.get_by_role("region", name="Nodes").locator("tbody tr")
        _expect(rows).to_have_count(12)
        page.context.set_offline(True)
        _expect(page.get_by_role("alert")).to_contain_text("No connection to insight")
        _expect(rows).to_have_count(12)
        page.context.set_offline(False)
        _expect(page.get_by_role("alert")).to_have_count(0)
    # The browser itself reports each failed request.
    world.browser.complaints = [text for text in world.browser.complaints if "ERR_INTERNET_DISCONNECTED" not in text]


def test_a_pod_that_does_not_exist_is_said_so(world: World) -> None:
    """A misspelt name would load for ever."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/pods/default/no-such-pod")
        _expect(page.get_by_text("neither in the queue nor on a node").first).to_be_visible()
    world.browser.complaints = [text for text in world.browser.complaints if "404" not in text]


def _views(world: World) -> dict[str, str]:
    giant = world.call("GET", "/api/v1/namespaces/default/pods?labelSelector=app%3Dgiant")["items"][0]["metadata"][
        "name"
    ]
    return {
        "": ".reasons",
        "pending": ".reasons",
        f"pods/default/{giant}": ".proposals li",
        "nodes": "canvas",
        "nodes/node-1": ".labels div",
        "groups": "main .rows, main .empty",
        "preemptions": "main .rows, main .empty",
        "scheduler": "main table",
        "simulation": "main form",
        "no/such/page": "main .empty",
    }


@pytest.mark.usefixtures("axe")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False)])
def test_axe_finds_nothing_and_nothing_overflows(world: World, width: int, dark: bool) -> None:
    """Somebody could not read the page, or not use it with a keyboard, a screen reader or a telephone."""
    problems = {}
    with world.browser.page(width=width, dark=dark) as page:
        for path, shown in _views(world).items():
            page.goto(f"{world.console}/#/{path}")
            page.locator(shown).first.wait_for()
            found = chromium.accessibility_problems(page)
            overflow = page.evaluate(_OVERFLOW)
            if found or overflow > 0:
                problems[path] = [*found, *([f"{overflow} pixels too wide"] if overflow > 0 else [])]
    assert problems == {}


def test_pages_load_from_their_server_alone_and_violate_no_policy(world: World) -> None:
    """Somebody else would learn that a cluster is looked at, or the policy would forbid what the page does."""
    with world.browser.page() as page:
        for path, shown in _views(world).items():
            page.goto(f"{world.console}/#/{path}")
            page.locator(shown).first.wait_for()
        assert page.evaluate(_INLINE_SCRIPT) == "refused"
    assert [url for url in world.browser.loaded if not url.startswith(f"{world.console}/")] == []
    refused = re.compile("inline script|TrustedScript", re.IGNORECASE)
    assert [text for text in world.browser.complaints if not refused.search(text)] == []
