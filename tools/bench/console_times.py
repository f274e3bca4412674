"""How fast the console is on a cluster of 5,000 nodes, 50,000 pods and 10,000 pending ones, in a real Chromium.

    python -m tools.bench.console_times [--nodes 5000] [--pods 50000] [--pending 10000] [--rounds 5] [--screenshots DIR]

The cluster is generated, and changes each second as under load. The page is served as insight serves it. Prints for
each document how long the server takes and its size; for each view the time from the navigation to its first content;
and for interactions the time to the next frame that shows their effect. All are medians and the worst of all rounds.
Beside the time on the clock there is the processor time of the page's main thread, which depends less on other load.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import aiohttp
import numpy as np
from playwright import async_api

from tests.helpers import chromium
from tools.bench import proposal_times
from trireme.insight import flags, service
from trireme.insight.http_api import http_server
from trireme.rpc import listen_flags
from trireme.v1 import cycle_pb2, plugin_pb2, scheduler_status_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks, supervision

_DOCUMENTS = (
    "overview", "pending", "nodes", "nodes/node-7", "groups", "preemptions", "components", "pods?text=pod-499"
)  # fmt: skip
# A view, and what of it is there last.
_VIEWS: Mapping[str, str] = {
    "": ".reasons li",
    "pending": ".reasons li",
    "nodes": ".rows tbody tr:nth-child(5)",
    "nodes/node-7": ".rows tbody tr",
    "pods/default/waiting-0": ".plain tbody tr",
    "scheduler": ".plain tbody tr",
}
# Waits for the frame after the one in which the effect is drawn.
_NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_SCROLL = "() => { const box = document.querySelector('.rows'); box.scrollTop = box.scrollTop ? 0 : 60000; }"
_POINT = """() => {
    const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
    const at = {bubbles: true, clientX: box.left + 300, clientY: box.top + 100 + Math.random() * 100};
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
}"""


def _choose(label: str, value: str) -> str:
    """Chooses an entry of the select with this label."""
    return f"""() => {{
        const select = [...document.querySelectorAll("label")].find(each => each.textContent.startsWith("{label}"))
            .querySelector("select");
        select.value = "{value}";
        select.dispatchEvent(new Event("change", {{bubbles: true}}));
    }}"""


# In this order, on the page of nodes: what is done, and what a document query counts as its effect.
_INTERACTIONS: Mapping[str, str] = {
    "colour by taints": _choose("Colour by", "taints"),
    "colour by use": _choose("Colour by", "use"),
    "show one entry of the legend": "() => document.querySelector('.map-legend button').click()",
    "show all again": "() => document.querySelector('.map-legend button').click()",
    "sort 5,000 rows by CPU": "() => document.querySelectorAll('.sorter')[1].click()",
    "scroll the table": _SCROLL,
    "point at a node": _POINT,
}


def _configuration() -> snapshot_pb2.Configuration:
    """A profile with the filters of the default one."""
    profile = snapshot_pb2.Profile(scheduler_name=proposal_times.PROFILE)
    at = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
    for name in proposal_times.FILTERS:
        at.plugins.add(name=name)
    return snapshot_pb2.Configuration(profiles=[profile])


def _queue(pending: int, first: int, count: int) -> snapshot_pb2.QueueDelta:
    """Pods in the queue, refused by a few combinations of plugins; from `first` on so many."""
    refusals = (
        ("NodeResourcesFit",),
        ("NodeAffinity", "TaintToleration"),
        ("InterPodAffinity",),
        ("PodTopologySpread",),
    )
    now = round(clocks.wall() * 1000)
    pods = []
    for number in range(first, first + count):
        pod = cycle_pb2.PodIdentity(
            namespace="default", name=f"waiting-{number % pending}", uid=f"w-{number % pending}"
        )
        pods.append(
            snapshot_pb2.QueuedPod(
                pod=pod,
                pod_class=proposal_times.CLASSES + 1 + number % 4,
                profile=proposal_times.PROFILE,
                state=snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE,
                attempts=3,
                plugins=refusals[number % 4],
                queued_since_ms=now - number * 10,
                transitions=[scheduler_status_pb2.QueueTransition(at_ms=now, to="unschedulable", cause="NodeAdd")],
            )
        )
    return snapshot_pb2.QueueDelta(reset=not first and count == pending, pods=pods)


def _status(second: int, pending: int) -> scheduler_status_pb2.SchedulerStatus:
    """What the frontend would send of itself, with a load that goes up and down."""
    bounds = [0.001 * 2**power for power in range(15)]
    bound = sum(round(600 + 350 * np.sin(each / 40) + 60 * np.sin(each)) for each in range(second))
    counts = [0, 0, bound // 10, bound // 3, bound // 2, bound // 20, bound // 90, *[0] * 9]
    histogram = scheduler_status_pb2.LatencyHistogram(bounds_s=bounds, counts=counts)
    out = scheduler_status_pb2.SchedulerStatus(
        at_ms=round(clocks.wall() * 1000) - 1000 * (900 - second),
        version="0.1.0",
        leader="frontend-7d4b9",
        lease="kube-system/trireme",
        bound_total=bound,
        unschedulable_total=second * 12,
        attempt_latency=histogram,
        pod_latency=histogram,
    )
    out.queue.active, out.queue.backoff = round(80 + 70 * np.sin(second / 25)), 120 + second % 50
    out.queue.unschedulable = pending - 200 + round(150 * np.sin(second / 90))
    for phase, port in (("filter", 7001), ("filter", 7011), ("score", 7002), ("bind", 7003), ("insight", 7004)):
        out.replicas.add(phase=phase, address=f"10.0.3.{port % 100}:{port}", in_step=True, full_syncs=1)
    out.plugins.add(
        name="quota", address="quota.default:9000", version="2.1", failure_policy="Ignore", breaker="open", calls=8123,
        failed_calls=61, p99_s=0.004, health="failing", problem="deadline exceeded after 50 ms",
    )  # fmt: skip
    return out


async def _replica(nodes: int, pods: int, pending: int) -> service.InsightService:
    """Insight with this cluster, and a quarter of an hour of history."""
    made = service.InsightService(proposal_times._snapshot(nodes, pods))
    made.configure(_configuration())
    made.take_queue(_queue(pending, 0, pending))
    for second in range(900):
        made.console.history.take(_status(second, pending))
    return made


async def _change(made: service.InsightService, nodes: int, pending: int) -> None:
    """Change a hundred pods, and as many in the queue, each second, until cancelled."""
    draw, second = np.random.default_rng(2), 900
    while True:
        await asyncio.sleep(1.0)
        snap = made.cluster.snap
        rows = draw.choice(snap.pods.size, 100, replace=False)
        columns = snapshot_pb2.PodColumns(
            row=rows.tolist(),
            pod_class=snap.pods.pod_class[rows].tolist(),
            slot=draw.integers(0, nodes, 100).tolist(),
            uid=[""] * 100,
            name=[""] * 100,
            start_time_s=[0] * 100,
            flags=[0] * 100,
        )
        delta = snapshot_pb2.Delta(from_generation=snap.generation, to_generation=snap.generation + 1, pods=columns)
        made.cluster.apply(delta)
        made.take_queue(_queue(pending, int(draw.integers(1, pending)), 100))
        made.console.history.take(_status(second, pending))
        second += 1


async def _measure_documents(url: str, rounds: int) -> None:
    """Print how long each document takes over HTTP, and its size."""
    async with aiohttp.ClientSession() as session:
        for path in _DOCUMENTS:
            took = []
            for _ in range(rounds):
                separator = "&" if "?" in path else "?"
                address = f"{url}/v1/{path}{separator}pretty=false"
                started = time.perf_counter()
                async with session.get(address) as response:
                    body = await response.read()
                    assert response.status == 200, body
                took.append(time.perf_counter() - started)
            print(f"document {path:22} {_milliseconds(took)}  {len(body) / 1000:8.1f} kB")


async def _measure_views(page: async_api.Page, url: str, rounds: int) -> None:
    """Print the time to the first content of each view, in a page that is loaded anew."""
    session = await _cpu_session(page)
    for path, shown in _VIEWS.items():
        took, used = [], []
        for _ in range(rounds):
            await page.goto("about:blank")
            before = await _cpu_seconds(session)
            started = time.perf_counter()
            await page.goto(f"{url}/#/{path}", wait_until="commit")
            await page.locator(shown).first.wait_for()
            took.append(time.perf_counter() - started)
            used.append(await _cpu_seconds(session) - before)
        print(f"view {path or 'overview':26} {_milliseconds(took)}; processor: {_milliseconds(used)}")


async def _measure_interactions(page: async_api.Page, url: str, rounds: int) -> None:
    """Print the time from an interaction to the frame that shows it, measured within the page."""
    await page.goto(f"{url}/#/nodes")
    await page.locator(_VIEWS["nodes"]).first.wait_for()
    session = await _cpu_session(page)
    took: dict[str, list[float]] = {name: [] for name in _INTERACTIONS}
    used: dict[str, list[float]] = {name: [] for name in _INTERACTIONS}
    for _ in range(rounds):
        for name, script in _INTERACTIONS.items():
            before = await _cpu_seconds(session)
            milliseconds = await page.evaluate(
                f"async () => {{ const start = performance.now(); ({script})(); await ({_NEXT_FRAME})(); "
                "return performance.now() - start; }"
            )
            took[name].append(milliseconds / 1000)
            used[name].append(await _cpu_seconds(session) - before)
            await page.wait_for_timeout(200)
    for name, values in took.items():
        print(f"interaction {name:30} {_milliseconds(values)}; processor: {_milliseconds(used[name])}")


async def _cpu_session(page: async_api.Page) -> async_api.CDPSession:
    """What measures the processor time of the page's main thread."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


async def _cpu_seconds(session: async_api.CDPSession) -> float:
    """The processor time of the page's main thread so far."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


async def _take_screenshots(browser: async_api.Browser, url: str, folder: Path) -> None:
    """Write a picture of each view, light and dark, wide and narrow."""
    folder.mkdir(parents=True, exist_ok=True)
    for dark in (False, True):
        for width in (1280, 400):
            scheme = "dark" if dark else "light"
            page = await browser.new_page(viewport={"width": width, "height": 860}, color_scheme=scheme)  # type: ignore[arg-type]
            for path, shown in _VIEWS.items():
                await page.goto(f"{url}/#/{path}")
                await page.locator(shown).first.wait_for()
                await page.wait_for_timeout(1500)
                name = path.replace("/", "-") or "overview"
                await page.screenshot(path=str(folder / f"{name}-{scheme}-{width}.png"))
            await page.close()


def _milliseconds(seconds: Sequence[float]) -> str:
    """Median and worst."""
    return f"median {statistics.median(seconds) * 1000:7.1f} ms, worst {max(seconds) * 1000:7.1f} ms"


async def _run(options: argparse.Namespace) -> None:
    made = await _replica(options.nodes, options.pods, options.pending)
    address = listen_flags.parse_address("127.0.0.1:0")
    supervisor = supervision.Supervisor()
    async with http_server.serve(flags.HttpFlags(address, "", "", "", "", ""), made, supervisor) as url:
        changing = asyncio.create_task(_change(made, options.nodes, options.pending))
        await _measure_documents(url, options.rounds)
        async with async_api.async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium.PATH, args=list(chromium.FLAGS))
            page = await browser.new_page(viewport={"width": 1280, "height": 860})
            measures: Sequence[Callable[..., Awaitable[None]]] = (_measure_views, _measure_interactions)
            for measure in measures:
                await measure(page, url, options.rounds)
            if options.screenshots:
                await _take_screenshots(browser, url, options.screenshots)
            await browser.close()
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
    await supervisor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("nodes", 5000), ("pods", 50_000), ("pending", 10_000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--screenshots", type=Path)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
