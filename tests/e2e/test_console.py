"""The console in a real Chromium: each view, and the story of a pod that waits."""

import json
import re

import pytest
from playwright import sync_api

from tests.e2e import consoles
from tests.helpers import chromium

_ZONES = "topology.kubernetes.io/zone"

# What an attacker would try who can add to the page.
_INLINE_SCRIPT = """() => {
    try {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.head.append(script);
    } catch {}
    return window.ran ? "ran" : "refused";
}"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING),
]


def test_the_overview_shows_what_the_scheduler_does(world: consoles.World) -> None:
    """The page that is left open would show nothing, or numbers of nothing."""
    with world.browser.page() as page:
        page.goto(world.console)
        consoles.expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        consoles.expect(page.locator(".figures")).to_contain_text(re.compile(r"[1-9]\d+ bound by this leader"))
        bound = int(re.findall(r"(\d+) bound by this leader", page.locator(".figures").inner_text())[0])
        consoles.expect(page.locator(".figures")).to_contain_text("12 nodes")
        consoles.expect(page.locator(".figures")).to_contain_text("4 of 4")
        consoles.expect(page.locator(".reasons")).to_contain_text("Refused by NodeResourcesFit")
        before = page.evaluate("() => document.querySelectorAll('path.line')[0].getAttribute('d')")
        world.create_pod("one-more", "10m")
        consoles.expect(page.locator(".figures")).to_contain_text(f"{bound + 1} bound by this leader")
        page.wait_for_function(
            "before => document.querySelectorAll('path.line')[0].getAttribute('d') !== before", arg=before
        )


def test_pending_pods_are_grouped_and_lead_to_a_pod(world: consoles.World) -> None:
    """From how many wait to which, and the nodes' verdicts."""
    with world.pods("nowhere-0", "nowhere-1", "nowhere-2", cpu="10m", **consoles.NOWHERE), world.browser.page() as page:
        page.goto(f"{world.console}/#/pending")
        consoles.reason(page, "Refused by NodeAffinity").click()
        consoles.expect(page.get_by_role("heading", name="Refused by NodeAffinity", exact=True)).to_be_visible()
        consoles.expect(page.locator(".example")).to_contain_text("0 of 12 nodes")
        consoles.expect(page.locator(".example")).to_contain_text("didn't match Pod's node affinity/selector")
        rows = page.get_by_role("region", name="Pods: Refused by NodeAffinity").locator("tbody tr")
        consoles.expect(rows).to_have_count(3)
        rows.first.get_by_role("link").click()
        consoles.expect(page.get_by_role("heading", level=1)).to_contain_text("default/nowhere-")
        consoles.expect(page.get_by_role("region", name="Timeline")).to_contain_text("it came into the queue")


def test_taints_of_one_key_are_one_row_that_opens(world: consoles.World) -> None:
    """A node pool for each of fifty teams would be fifty rows; amounts have units."""
    pooled = [f"node-{number}" for number in (3, 4, 5)]
    for name in pooled:
        taint = {"key": "example.com/pool", "value": f"of-{name}", "effect": "NoSchedule"}
        world.patch_node(name, {"spec": {"taints": [taint]}})
    try:
        with world.pods("too-large", cpu="1k"), world.browser.page() as page:
            page.goto(f"{world.console}/#/pods/default/too-large")
            says = page.get_by_role("region", name="What nodes say")
            consoles.expect(says).to_contain_text("1,000 CPUs requested")
            values = says.locator("details.values")
            consoles.expect(values).to_have_count(1)
            consoles.expect(values.locator("summary")).to_have_text("example.com/pool=*:NoSchedule, 3 values")
            consoles.expect(values.locator("li").first).not_to_be_visible()
            values.locator("summary").click()
            consoles.expect(values.locator("li")).to_have_count(3)
            consoles.expect(values.locator("li").first).to_contain_text("example.com/pool=of-node-")
            with world.pods("small", cpu="10m"):
                page.goto(f"{world.console}/#/pods/default/small")
                decision = page.get_by_role("region", name="Decision", exact=True)
                consoles.expect(decision.locator("details.values summary")).to_have_text(
                    "example.com/pool=*:NoSchedule, 3 values"
                )
    finally:
        for name in pooled:
            world.patch_node(name, {"spec": {"taints": []}})


def test_a_pod_waits_the_page_says_why_and_the_proposal_helps(world: consoles.World) -> None:
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
        consoles.expect(says).to_contain_text("0 of 12 nodes")
        consoles.expect(says).to_contain_text("TaintToleration")
        consoles.expect(says).to_contain_text("NodeAffinity")
        helps = page.get_by_role("region", name="What would help")
        helps.get_by_text("Tolerate gpu=true:NoSchedule").click()
        snippet = helps.locator("details[open] pre").inner_text()
        assert snippet.splitlines()[:2] == ["tolerations:", "- key: gpu"]
        page.get_by_role("link", name="Show on the map").click()
        legend = page.get_by_role("list", name="Legend")
        consoles.expect(legend).to_contain_text("NodeAffinity")
        consoles.expect(legend).to_contain_text("TaintToleration")
        page.get_by_role("link", name="default/trainer").click()
        # The change as the page words it.
        toleration = {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
        assert [f"{key}: {json.dumps(value) if key == 'value' else value}" for key, value in toleration.items()] == [
            line.removeprefix("- ").strip() for line in snippet.splitlines()[1:]
        ]
        path = "/api/v1/namespaces/default/pods/trainer"
        existing = world.call("GET", path)["spec"].get("tolerations") or []
        world.call("PATCH", path, {"spec": {"tolerations": [*existing, toleration]}}, "application/merge-patch+json")
        consoles.expect(page.locator(".facts").first).to_contain_text("on a node")
        consoles.expect(page.locator(".facts").first).to_contain_text("node-0")
        timeline = page.get_by_role("region", name="Timeline")
        consoles.expect(timeline).to_contain_text("bound")
        consoles.expect(timeline.locator("li").first).to_contain_text("active")
        decision = page.get_by_role("region", name="Decision", exact=True)
        consoles.expect(decision).to_contain_text("1 of 12 nodes")
        consoles.expect(decision).to_contain_text("the only feasible node")


def test_a_waiting_pod_says_whom_it_would_preempt_or_why_nobody(world: consoles.World) -> None:
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
        consoles.expect(panel).to_contain_text("its preemptionPolicy is Never")
        page.goto(f"{world.console}/#/pods/default/ordinary-and-large")
        consoles.expect(panel).to_contain_text("no node where evictions might help has a pod of lower priority")


def test_a_pod_that_is_held_back_says_by_what(world: consoles.World) -> None:
    """Its nodes are feasible, so a reader would look for a defect of the scheduler."""
    gates = [{"name": "example.com/quota"}]
    with world.pods("gated", cpu="10m", schedulingGates=gates), world.browser.page() as page:
        page.goto(f"{world.console}/#/pods/default/gated")
        answer = "Held back by SchedulingGates: no node is chosen until that ends."
        consoles.expect(page.locator(".answer")).to_have_text(answer)
        timeline = page.get_by_role("region", name="Timeline")
        consoles.expect(timeline).to_contain_text("it came into the queue, gated by SchedulingGates")
        consoles.expect(timeline.locator(".pill")).to_have_text("gated")


def test_a_pod_whose_claim_is_missing_says_so(world: consoles.World) -> None:
    """PostFilter's answer to it, "not found", would be taken for the victims'."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    with world.pods("no-claim", cpu="10m", volumes=volumes), world.browser.page() as page:
        page.goto(f"{world.console}/#/pods/default/no-claim")
        answer = 'Waits for a node: persistentvolumeclaim "missing" not found.'
        consoles.expect(page.locator(".answer")).to_have_text(answer)
        panel = page.locator("section", has=page.get_by_role("heading", name="Preemption", exact=True))
        consoles.expect(panel).to_contain_text("nobody evicting pods would not help")


def test_a_long_reason_has_room_on_a_telephone(world: consoles.World) -> None:
    """A column three letters wide is no text."""
    with world.pods("narrow", cpu="10m", **consoles.NOWHERE), world.browser.page(width=390) as page:
        page.goto(f"{world.console}/#/pending")
        consoles.reason(page, "Refused by NodeAffinity").wait_for()
        assert min(page.locator(".reasons .what").evaluate_all("all => all.map((each) => each.clientWidth)")) > 200


def test_nodes_are_a_map_and_a_table(world: consoles.World) -> None:
    """By use, taints and label, by mouse and by keyboard; and each node has its page."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/nodes")
        rows = page.get_by_role("region", name="Nodes").locator("tbody tr")
        consoles.expect(rows).to_have_count(12)
        colour = page.get_by_label("Colour by")
        legend = page.get_by_role("list", name="Legend")
        consoles.expect(legend).to_contain_text("under 20 %")
        colour.select_option("label")
        consoles.expect(legend).to_contain_text("zone-1")
        legend.get_by_role("button", name=re.compile("zone-1")).click()
        consoles.expect(rows).to_have_count(4)
        colour.select_option("taints")
        consoles.expect(legend).to_contain_text("no taints")
        grid = page.get_by_role("application")
        grid.focus()
        page.keyboard.press("End")
        consoles.expect(page.locator(".pointed")).to_contain_text("node-11")
        page.keyboard.press("Enter")
        consoles.expect(page.get_by_role("heading", level=1)).to_have_text("node-11")
        consoles.expect(page.get_by_role("region", name="Labels and taints")).to_contain_text(_ZONES)
        consoles.expect(page.get_by_role("region", name="Pods on node-11").locator("tbody tr").first).to_contain_text(
            "default/"
        )


def test_a_preemption_is_shown_with_its_victims(world: consoles.World) -> None:
    """Who had to go for whom would be in events alone."""
    world.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    there = {"kubernetes.io/hostname": "node-1"}
    world.create_pod("ordinary", "6", nodeSelector=there)
    path = "/api/v1/namespaces/default/pods/{}"
    consoles.wait(lambda: world.call("GET", path.format("ordinary"))["spec"].get("nodeName"), lambda: "it is not bound")
    world.create_pod("urgent", "6", nodeSelector=there, priorityClassName="urgent")
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/preemptions")
        row = page.get_by_role("region", name="Preemptions").locator("tbody tr").first
        consoles.expect(row).to_contain_text("default/urgent")
        consoles.expect(row).to_contain_text("node-1")
        consoles.expect(row).to_contain_text("default/ordinary")
        page.get_by_role("link", name="default/urgent").click()
        consoles.expect(page.locator(".facts").first).to_contain_text("node-1")
        # It is recorded as well.
        page.goto(f"{world.console}/?at={world.moment_from_now_on()}#/preemptions")
        consoles.expect(page.get_by_text("Past", exact=True)).to_be_visible()
        consoles.expect(row).to_contain_text("default/urgent")
        consoles.expect(row).to_contain_text("default/ordinary")


def test_a_gang_is_shown_with_what_it_lacks(world: consoles.World) -> None:
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
        consoles.expect(row).to_contain_text("default/trainers")
        consoles.expect(row).to_contain_text("waits")
        consoles.expect(row).to_contain_text("0 of 3")
        world.create_pod("trainers-2", "10m", schedulingGroup={"podGroupName": "trainers"})
        consoles.expect(row).to_contain_text("placed")
        consoles.expect(row).to_contain_text("3 of 3")
        consoles.expect(row.locator(".full")).to_have_count(0)


def test_the_scheduler_shows_its_replicas(world: consoles.World) -> None:
    """A phase that is not in step would be found in logs alone."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/scheduler")
        replicas = page.get_by_role("region", name="Replicas of the phases").locator("tbody tr")
        consoles.expect(replicas).to_have_count(4)
        for phase in ("filter", "score", "insight", "bind"):
            consoles.expect(replicas.filter(has_text=phase).first).to_contain_text("in step")
        consoles.expect(page.get_by_text("No remote plugins")).to_be_visible()


def test_a_drain_is_simulated_and_not_carried_out(world: consoles.World) -> None:
    """Whether a node can be drained would be tried on the cluster."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/simulation")
        page.get_by_label("Nodes", exact=True).fill("node-3")
        page.get_by_role("button", name="Simulate").click()
        consoles.expect(page.get_by_role("region", name="What would happen")).to_contain_text("evicted")
        consoles.expect(page.get_by_role("region", name="Simulated pods").locator("tbody tr").first).to_contain_text(
            "default/"
        )
        pending = page.get_by_role("region", name="Pods that would stay pending").locator("tbody tr")
        consoles.expect(pending.filter(has_text="default/giant-")).to_have_count(1)
        consoles.expect(pending.filter(has_text="default/giant-").locator("td").first).to_have_text("3")
        page.get_by_label("Nodes", exact=True).fill("no-such-node")
        page.get_by_role("button", name="Simulate").click()
        consoles.expect(page.get_by_text("no-such-node").last).to_be_visible()
    assert not world.call("GET", "/api/v1/nodes/node-3")["spec"].get("unschedulable")


def test_a_pod_is_found_by_a_part_of_its_name(world: consoles.World) -> None:
    """By keyboard alone, from any page."""
    with world.browser.page() as page:
        page.goto(world.console)
        consoles.expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("cache-")
        consoles.expect(page.get_by_role("option").first).to_contain_text("default/cache-")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        consoles.expect(page.get_by_role("heading", level=1)).to_contain_text("default/cache-")
        consoles.expect(page.locator(".facts").first).to_contain_text("on a node")


def test_a_lost_connection_is_shown_and_what_is_known_stays(world: consoles.World) -> None:
    """Old numbers would be taken for those of now."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/nodes")
        rows = page.get_by_role("region", name="Nodes").locator("tbody tr")
        consoles.expect(rows).to_have_count(12)
        page.context.set_offline(True)
        consoles.expect(page.get_by_role("alert")).to_contain_text("No connection to insight")
        consoles.expect(rows).to_have_count(12)
        page.context.set_offline(False)
        consoles.expect(page.get_by_role("alert")).to_have_count(0)


def test_a_plot_breaks_off_where_nothing_came(world: consoles.World) -> None:
    """A line through an outage says that all went on, in the very minutes that one looks for."""

    def with_outage(route: sync_api.Route) -> None:
        answer = route.fetch()
        overview = answer.json()
        series = overview["series"]
        if series["atMs"]:  # the first answer: later ones have what is new
            outage, end = 30_000, series["atMs"][-1]
            series["atMs"] = [end - outage - 2000, end - outage - 1000, end - 1000, end]
            series |= {name: [1, 2, 3, 4] for name in series if name != "atMs"}
        route.fulfill(response=answer, json=overview)

    with world.browser.page() as page:
        page.route(re.compile("/v1/overview.after=0$"), with_outage)
        page.goto(world.console)
        page.wait_for_function("() => document.querySelector('path.line')?.getAttribute('d')?.split('M').length === 3")


def test_a_pod_that_does_not_exist_is_said_so(world: consoles.World) -> None:
    """A misspelt name would load forever."""
    with world.browser.page() as page:
        page.goto(f"{world.console}/#/pods/default/no-such-pod")
        consoles.expect(page.get_by_text("neither in the queue nor on a node").first).to_be_visible()


def _views(world: consoles.World) -> dict[str, str]:
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
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_axe_finds_nothing_and_nothing_overflows(world: consoles.World, width: int, dark: bool) -> None:
    """Somebody could not read the page, or not use it with a keyboard, a screen reader or a telephone."""
    problems = {}
    with world.browser.page(width=width, dark=dark) as page:
        for path, shown in _views(world).items():
            page.goto(f"{world.console}/#/{path}")
            page.locator(shown).first.wait_for()
            found = chromium.accessibility_problems(page)
            overflow = page.evaluate(consoles.OVERFLOW)
            found += page.evaluate(consoles.CUT_OFF)[:3]
            if found or overflow > 0:
                problems[path] = [*found, *([f"{overflow} pixels too wide"] if overflow > 0 else [])]
    assert problems == {}


def test_a_page_begins_with_the_answer_to_its_question(world: consoles.World) -> None:
    """A reader would have to look for it in the panels."""
    found = {}
    with world.browser.page() as page:
        for path, shown in _views(world).items():
            page.goto(f"{world.console}/#/{path}")
            page.locator(shown).first.wait_for()
            found["pod" if path.startswith("pods/") else path] = page.locator("main h1 + *").first.inner_text()
    assert re.search(r"^\d+ pods? in the queue, beside \d+ on nodes\.$", found[""])
    assert re.search(r"^\d+ pods? in the queue, for \d+ reasons?\.$", found["pending"])
    assert found["pod"] == "Waits for a node: none is feasible, most often because of “Insufficient cpu”."
    assert found["nodes"].startswith("12 nodes: ")
    assert re.search(r"^\d+ of 110 pods on it\.$", found["nodes/node-1"])
    assert "nominated to a node" in found["preemptions"]
    assert found["scheduler"] == "A leader schedules, and all replicas and plugins answer."
    assert found["simulation"] == "What would happen after a change: nothing is carried out."


# What a keyboard should reach, in the page as it is shown now; those that it has reached are marked.
_REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
    .filter((each) => each.checkVisibility() && !each.disabled && each.tabIndex >= 0)"""
_MISSED = (
    f"""() => ({_REACHABLE})().filter((each) => !each.dataset.reached).map((each) => each.outerHTML.slice(0, 100))"""
)
_MARK = "() => { document.activeElement.dataset.reached = 'yes'; }"
# The element that has the focus, where that is not to be seen. The page's main part is no control.
_UNSEEN = """() => [document.activeElement]
    .filter((each) => !each.matches("body, main") && getComputedStyle(each).outlineStyle === "none")
    .map((each) => each.outerHTML.slice(0, 100))"""


def test_all_that_can_be_used_is_reached_by_the_tab_key(world: consoles.World) -> None:
    """Somebody without a mouse could not use it, or not see where they are."""
    missed, unseen = {}, []
    with world.browser.page() as page:
        for path, shown in _views(world).items():
            page.goto(f"{world.console}/#/{path}")
            page.locator(shown).first.wait_for()
            # The browser stops at a few places more, such as what can be scrolled.
            for _ in range(page.evaluate(f"() => ({_REACHABLE})().length") + 20):
                page.keyboard.press("Tab")
                page.evaluate(_MARK)
                unseen += page.evaluate(_UNSEEN)
            if found := page.evaluate(_MISSED):
                missed[path] = found
    assert (missed, unseen) == ({}, [])


def test_pages_load_from_their_server_alone_and_violate_no_policy(world: consoles.World) -> None:
    """Somebody else would learn that a cluster is looked at, or the policy would forbid what the page does."""
    with world.browser.page() as page:
        for path, shown in _views(world).items():
            page.goto(f"{world.console}/#/{path}")
            page.locator(shown).first.wait_for()
        assert page.evaluate(_INLINE_SCRIPT) == "refused"
    assert [url for url in world.browser.loaded if not url.startswith(f"{world.console}/")] == []
    refused = re.compile("inline script|TrustedScript", re.IGNORECASE)
    assert [text for text in world.browser.complaints if not refused.search(text)] == []
