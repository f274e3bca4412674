"""The past in the console, in a real Chromium: a recording, and what insight records, with a time slider."""

import asyncio
import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest
from playwright import sync_api

from tests.e2e import consoles, installation
from tests.helpers import chromium, recorded_decisions, recordings, waiting_gang
from trireme.v1 import recording_pb2

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING),
]


@contextlib.contextmanager
def _served_recording(world: consoles.World, file: Path, folder: Path) -> Iterator[str]:
    """The console of a recording; its address."""
    served = installation.Process("replay", [*consoles.TRIREME, "replay", str(file), "--serve"], folder / "replay.log")
    served.start()
    try:
        consoles.wait(lambda: "Ctrl-C ends it" in served.said, lambda: served.said)
        (address,) = re.findall(r"http://\S+:\d+", served.said)
        yield address
    finally:
        served.signal(signal.SIGINT)
        assert served.stop() == 0


@pytest.mark.usefixtures("axe")
def test_a_recording_is_shown_as_of_the_moment_that_a_slider_sets(world: consoles.World, tmp_path: Path) -> None:
    """What an incident looked like would have to be put together from `trireme replay --at`, pod by pod."""
    file = tmp_path / "incident.trireme"
    path = "/api/v1/namespaces/default/pods/recorded-early"
    with world.pods("recorded-early", cpu="10m"), world.pods("recorded-waits", cpu="10m", **consoles.NOWHERE):
        consoles.wait(lambda: world.call("GET", path)["spec"].get("nodeName"), lambda: "it is not bound")
        with world.browser.page() as page:
            page.goto(f"{world.console}/#/pods/default/recorded-waits")
            consoles.expect(page.locator(".facts").first).to_contain_text("unschedulable")
            page.goto(f"{world.console}/#/pods/default/recorded-early")
            consoles.expect(page.locator(".facts").first).to_contain_text("on a node")
            consoles.expect(page.get_by_role("slider")).to_have_count(0)
        export = [*consoles.TRIREME, "record", "export", "--dir", str(world.recordings), str(file)]
        subprocess.run(export, check=True, capture_output=True)
    with _served_recording(world, file, tmp_path) as address:
        for dark in (False, True):
            with world.browser.page(dark=dark) as page:
                page.goto(f"{address}/#/pods/default/recorded-early")
                slider = page.get_by_role("slider", name="Moment")
                facts = page.locator(".facts").first
                consoles.expect(facts).to_contain_text("on a node")
                consoles.expect(page.get_by_role("region", name="Decision", exact=True)).to_contain_text("of 12 nodes")
                assert chromium.accessibility_problems(page) == []
                slider.focus()
                page.keyboard.press("Home")
                consoles.expect(page.locator(".failure").first).to_contain_text("recorded-early")
                consoles.expect(slider).to_be_focused()
                page.keyboard.press("End")
                consoles.expect(slider).to_have_value(slider.get_attribute("max") or "")
                consoles.expect(facts).to_contain_text("on a node")
                page.goto(f"{address}/#/pending")
                consoles.reason(page, "Refused by NodeAffinity").click()
                rows = page.get_by_role("region", name="Pods: Refused by NodeAffinity").locator("tbody tr")
                consoles.expect(rows.filter(has_text="recorded-waits")).to_have_count(1)
                slider.focus()
                page.keyboard.press("Home")
                consoles.expect(rows.filter(has_text="recorded-waits")).to_have_count(0)
                page.goto(f"{address}/#/nodes")
                consoles.expect(page.get_by_role("region", name="Nodes").locator("tbody tr")).to_have_count(12)
                assert chromium.accessibility_problems(page) == []
                page.get_by_role("button", name="+1 min").click()
                page.keyboard.press("Tab")
                consoles.expect(slider).to_be_focused()
                page.keyboard.press("End")
                # The moment is in the address: a link of it, and a reload, show the same.
                consoles.expect(page).to_have_url(re.compile(rf"[?]at={slider.get_attribute('max')}#/nodes$"))
                page.reload()
                consoles.expect(page.locator(".moment")).not_to_contain_text(re.compile(r"\b0s of"))
                page.evaluate("() => { location.hash = '#/pods/default/recorded-early' }")
                consoles.expect(facts).to_contain_text("on a node")
                # There is nothing but the recording.
                consoles.expect(page.get_by_role("button", name="Back to now")).to_have_count(0)


@pytest.mark.usefixtures("axe")
def test_a_moment_at_which_nothing_was_recorded_is_said_to_be_so(world: consoles.World, tmp_path: Path) -> None:
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
                consoles.expect(band.get_by_role("alert")).to_have_text(
                    re.compile("^Nothing was recorded from .+ to .+\\. What is shown is from before\\.$")
                )
                consoles.expect(page.get_by_role("slider", name="Moment")).to_have_attribute(
                    "aria-valuetext", re.compile("Nothing was recorded")
                )
                consoles.expect(band.locator(".gaps span")).to_have_count(1)
                assert chromium.accessibility_problems(page) == []
                page.get_by_role("slider", name="Moment").press("End")
                consoles.expect(page.get_by_role("alert")).to_have_count(0)


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
def test_the_console_looks_back_at_what_was_and_returns_to_now(world: consoles.World, width: int, dark: bool) -> None:
    """People want to know why a pod had to wait after it has a node: then no node refuses it, and nothing says why."""
    name, node = f"looked-back-at-{width}", f"node-{width % 7}"
    path = f"/api/v1/namespaces/default/pods/{name}"
    wanted = {"nodeSelector": {"looked-back-at": str(width)}, "tolerations": [{"operator": "Exists"}]}
    with world.pods(name, cpu="10m", **wanted), world.browser.page(width=width, dark=dark) as page:
        page.goto(f"{world.console}/#/pods/default/{name}")
        facts, failure = page.locator(".facts").first, page.locator(".failure").first
        slider = page.get_by_role("slider", name="Moment")
        consoles.expect(facts).to_contain_text("unschedulable")
        world.patch_node(node, {"metadata": {"labels": wanted["nodeSelector"]}})
        consoles.wait(lambda: world.call("GET", path)["spec"].get("nodeName"), lambda: "it is not bound")
        consoles.expect(facts).to_contain_text("on a node")
        consoles.expect(slider).to_have_count(0)

        world.moment_from_now_on()
        page.get_by_role("link", name="Recording").click()
        consoles.expect(page.get_by_text("Past", exact=True)).to_be_visible()
        page.evaluate(f"() => {{ location.hash = '#/pods/default/{name}' }}")
        consoles.expect(facts).to_contain_text("on a node")
        assert chromium.accessibility_problems(page) == []
        slider.focus()
        page.keyboard.press("Home")
        consoles.expect(failure).to_contain_text("neither in the queue nor on a node")
        # In steps back to when it waited: the moment is before the one that it was seen on a node at.
        page.keyboard.press("End")
        consoles.expect(facts).to_contain_text("on a node")
        timeline = page.get_by_role("region", name="Timeline")
        consoles.expect(timeline).to_contain_text("bound")
        waited_at = _moment_in_which_it_waited(page, name)
        page.goto(f"{world.console}/?at={waited_at}#/pods/default/{name}")
        consoles.expect(facts).to_contain_text("unschedulable")
        consoles.expect(page.get_by_role("region", name="What nodes say")).to_contain_text("0 of 12 nodes")
        consoles.expect(page.get_by_role("region", name="What nodes say")).to_contain_text("NodeAffinity")
        assert chromium.accessibility_problems(page) == []
        _check_other_views_of_the_past(page, name, node)
        page.evaluate(f"() => {{ location.hash = '#/pods/default/{name}' }}")
        consoles.expect(facts).to_contain_text("unschedulable")

        page.get_by_role("button", name="Back to now").click()
        consoles.expect(slider).to_have_count(0)
        consoles.expect(facts).to_contain_text("on a node")
        page.go_back()
        consoles.expect(slider).to_be_visible()
        consoles.expect(facts).to_contain_text("unschedulable")
        world.patch_node(node, {"metadata": {"labels": {"looked-back-at": None}}})
    # Insight goes on recording into the same file.
    checked = subprocess.run(
        [*consoles.TRIREME, "record", "check", str(world.recordings)], check=True, capture_output=True
    )
    assert b"Gaps        0" in checked.stdout


def _check_other_views_of_the_past(page: sync_api.Page, name: str, node: str) -> None:
    """The pod is among those that wait; and nobody is kept from a view, by its width or otherwise."""
    page.get_by_role("link", name="Pending").click()
    consoles.reason(page, "Refused by NodeAffinity").click()
    rows = page.get_by_role("region", name="Pods: Refused by NodeAffinity").locator("tbody tr")
    consoles.expect(rows.filter(has_text=name)).to_have_count(1)
    for view, shown in (("nodes", "canvas"), (f"nodes/{node}", ".labels div"), ("groups", "main .rows, main .empty")):
        page.evaluate(f"() => {{ location.hash = '#/{view}' }}")
        page.locator(shown).first.wait_for()
        assert chromium.accessibility_problems(page) == []
        assert page.evaluate(consoles.OVERFLOW) <= 0


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
def test_the_victims_of_a_group_are_listed_with_their_nodes(world: consoles.World, tmp_path: Path) -> None:
    """A live scheduler evicts them at once; before that, members would seem to preempt each for itself, or nobody."""
    file = tmp_path / "gang.trireme"
    # In a thread: Playwright has a loop in this one.
    with futures.ThreadPoolExecutor(1) as thread:
        gang = thread.submit(asyncio.run, waiting_gang.waiting_gang(2)).result()
    file.write_bytes(waiting_gang.recorded(gang))
    with _served_recording(world, file, tmp_path) as address, world.browser.page() as page:
        page.goto(f"{address}/#/pods/default/m0")
        panel = page.locator("section", has=page.get_by_role("heading", name="Preemption", exact=True))
        consoles.expect(panel).to_contain_text("Its group gang would preempt 4 pods; 2 members would fit then.")
        rows = panel.locator("tbody tr")
        consoles.expect(rows).to_have_count(4)
        found = sorted(tuple(row.locator("td").all_inner_texts()) for row in rows.all())
        assert found == [
            ("default/pod-0", "1", "n0"),
            ("default/pod-1", "1", "n0"),
            ("default/pod-2", "1", "n1"),
            ("default/pod-3", "1", "n1"),
        ]
        assert chromium.accessibility_problems(page) == []
        rows.first.get_by_role("link", name="default/pod-").click()
        consoles.expect(page.locator(".facts").first).to_contain_text("on a node")
