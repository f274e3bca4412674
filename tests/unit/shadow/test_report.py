"""The report: its page, its lines and its file."""

import dataclasses
import errno
import json
import os
import pathlib
import re
from html.parser import HTMLParser

import jsonschema
import pytest

from tests.helpers import schemas_document
from trireme.shadow import (
    decision_comparison,
    judgement,
    measures,
    report,
    report_file,
    report_lines,
    report_page,
    svg_plots,
    time_series,
)
from trireme.shadow.judgement import Judgement, Outcome
from trireme.shadow.migration.finding import Finding, FindingKind

_VOID = frozenset({"meta", "br", "line", "polyline"})
# Tags that HTML lets end by themselves.
_OPTIONAL = frozenset({"tr", "td", "th", "p", "html", "body", "head"})


def _world(pods: int, pending: int) -> time_series.WorldSample:
    measured = measures.Measures(50_000, pods, 41_234, 0.6123, 0.4321, 0.0812, 0.987, 1.0)
    return time_series.WorldSample(measured, pending, 12, 0.0123, 14.2)


def _report(**changes: object) -> report.Report:
    found = Judgement(
        Outcome.DIFFERENT,
        "node-<a>",
        "node-b",
        400,
        412,
        (judgement.PluginComparison("NodeResourcesFit", 1, 40, 52),),
        900,
        "node-b scores 412, node-<a> 400",
    )
    pod = decision_comparison.ComparedPod(
        "default/<script>alert(1)</script>", "default-scheduler", 1.0, 2.0, 3.0, found
    )
    samples = [
        time_series.Sample(float(at), _world(at * 10, 3), _world(at * 10, 1), at * 10, at * 9) for at in range(1, 20)
    ]
    made = report.Report(
        server="https://cluster.example:6443",
        configuration="",
        profiles=("default-scheduler",),
        began=1_767_225_600.0,
        written=1_767_229_200.0,
        first_report=1.3,
        is_final=False,
        notices=("csinodes may not be read, and count as if there were none: <forbidden>",),
        counts={Outcome.SAME: 1_204_321, Outcome.TIED: 8_404_567, Outcome.DIFFERENT: 12_345, Outcome.ORDER: 6_789},
        compared=9_628_022,
        agreement=0.998,
        waiting_for_order=3,
        unexamined=2,
        born_bound=1,
        examples=[pod],
        samples=samples,
        followed=4,
        node_losses=1_234_567,
        missing=17,
        findings=[Finding(FindingKind.DIFFERS, "NativeHistograms=true", "has no effect in Trireme")],
    )
    return dataclasses.replace(made, **changes)


class _Tags(HTMLParser):
    """The tags of a page, and whether they are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID | _OPTIONAL:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _OPTIONAL:
            assert self.open.pop() == tag


def test_the_page_needs_no_other_host_and_no_script() -> None:
    """A report is sent around, and opened where there is no network."""
    tags = _Tags()
    content = report_page.page(_report())
    tags.feed(content)
    assert not tags.open
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags.seen}
    loading = {"src", "href", "srcset", "data", "action"}
    assert not [attributes for _, attributes in tags.seen if loading & attributes.keys()]
    assert not re.search(r"@import|url\(", content)
    (policy,) = (each for tag, each in tags.seen if tag == "meta" and each.get("http-equiv"))
    assert str(policy["content"]).startswith("default-src 'none'")


def test_names_of_objects_are_text_in_the_page() -> None:
    """A name would run as script in the browser of the user who opens the report."""
    content = report_page.page(_report())
    assert "<script>" not in content
    assert "&lt;script&gt;" in content
    assert "node-&lt;a&gt;" in content
    assert "&lt;forbidden&gt;" in content


def test_the_page_has_all_that_was_found() -> None:
    """What the terminal shows and more: plots, the scores of both nodes, notices, findings."""
    content = report_page.page(_report())
    for text in (
        "1,204,321",
        "NodeResourcesFit",
        "+12",
        "NativeHistograms=true",
        "csinodes may not be read",
        "99.80%",
        "1,234,567",
        "17 pods of the",
    ):
        assert text in content, text
    assert content.count("<svg") == 11
    assert "prefers-color-scheme:dark" in content


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"samples": [], "counts": {}, "compared": 0, "examples": [], "findings": []}, id="nothing-yet"),
        pytest.param({"is_final": True, "notices": ()}, id="final"),
    ],
)
def test_a_report_can_be_made_at_any_time(changes: dict[str, object]) -> None:
    """The first report comes before the first binding."""
    made = _report(**changes)
    assert "<h1>" in report_page.page(made)
    assert report_lines.lines(made)
    json.dumps(report.to_json(made))


@pytest.mark.parametrize("samples", [True, False], ids=["with-samples", "before-the-first-sample"])
def test_the_json_is_as_its_schema_has_it(samples: bool) -> None:
    made = report.to_json(_report() if samples else _report(samples=[]))
    schema = json.loads((schemas_document.FOLDER / "shadow.schema.json").read_text())
    jsonschema.Draft202012Validator(schemas_document.strict(schema)).validate(json.loads(json.dumps(made)))
    assert made["worlds"].keys() == ({"other", "trireme"} if samples else set())


def test_the_json_has_the_scores_of_each_example() -> None:
    (example,) = report.to_json(_report())["comparison"]["examples"]
    assert (example["node"], example["total"]) == ("node-<a>", 400)
    assert (example["preferred"], example["preferredTotal"]) == ("node-b", 412)
    assert example["plugins"] == [{"plugin": "NodeResourcesFit", "weight": 1, "node": 40, "preferred": 52}]


def test_the_json_counts_the_pods_that_only_one_cluster_has() -> None:
    world = report.to_json(_report())["worlds"]["trireme"]
    assert (world["followed"], world["nodeLosses"], world["missing"]) == (4, 1_234_567, 17)


def test_bindings_that_could_not_be_compared_do_not_agree() -> None:
    """A watch that was interrupted all along would be reported as an agreement of 100 %."""
    made = _report(counts={Outcome.UNKNOWN: 4_000, Outcome.ERROR: 1_000}, compared=0, agreement=1.0, examples=[])
    content = report_page.page(made)
    assert "None of these bindings could be compared" in content
    assert "100.00%</b>" not in content
    assert report.to_json(made)["comparison"]["agreement"] is None
    assert "no binding was compared yet" in "\n".join(report_lines.lines(made))


def test_lines_fit_a_terminal_and_lose_nothing() -> None:
    """Beyond 80 columns lines wrap, and the table cannot be read."""
    found = report_lines.lines(_report())
    assert all(len(line) <= 80 for line in found)
    text = "\n".join(found)
    for expected in (
        "same 1,204,321",
        "tied 8,404,567",
        "different 12,345",
        "order 6,789",
        "12 ms / 14.2 s",
        "8.1%",
        "1,234,567",
    ):
        assert expected in text, text


def test_the_file_is_replaced_as_a_whole(tmp_path: pathlib.Path) -> None:
    """Who reloads the page while it is written would see half of it."""
    path = tmp_path / "report.html"
    report_file.write(path, "first")
    inode = path.stat().st_ino
    report_file.write(path, "second")
    assert path.read_text() == "second"
    assert path.stat().st_ino != inode
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_report(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last good report would be gone, and a temporary file would take the little room that is left."""
    path = tmp_path / "report.html"
    report_file.write(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(report_file.ReportError, match=f"the report {path} cannot be written: No space left on device"):
        report_file.write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_history_stays_small_and_keeps_its_ends() -> None:
    """A run of weeks would make a page of gigabytes."""
    history, at = time_series.History(1.0), 0.0
    while at < 20_000:
        if history.is_due(at):
            history.add(time_series.Sample(at, _world(1, 0), None, 0, 0))
        at += 1.0
    assert len(history.samples) < 600
    assert history.samples[0].at == 0.0
    assert history.samples[-1].at > 19_900
    gaps = {round(after.at - before.at) for before, after in zip(history.samples, history.samples[1:], strict=False)}
    assert len(gaps) == 1


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0, 0.0], id="all-zero"),
        pytest.param([5.0, 5.0], id="all-equal"),
        pytest.param([1e-9, 1e9], id="wide"),
        pytest.param([-3.0, 2.0], id="negative"),
    ],
)
def test_a_plot_can_show_any_values(values: list[float]) -> None:
    """A flat line has no scale of its own."""
    content = svg_plots.plot("title", [0.0, 10.0], [svg_plots.Series("here", "x", values)], str)
    (points,) = re.findall(r'points="([^"]+)"', content)
    for pair in points.split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 460
        assert 0 <= y <= 190
