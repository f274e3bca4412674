"""docs/metrics.md, written from what the processes declare: `make docs` runs this, and a test compares.

What the code cannot say (how a metric of kube-scheduler differs, why one is not served) is in
docs/metrics_remarks.yaml; everything else is name, type, labels and help text of the metrics themselves.
"""

import gzip
import io
import json
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml

from tests.contract import serving_frontend
from trireme.bind import metrics as bind_metrics
from trireme.config import commandline
from trireme.filter.service import FilterPhase
from trireme.frontend.serving import serving_site
from trireme.insight.service import InsightService
from trireme.phases import phase_metrics
from trireme.registry import remote_makers
from trireme.score.service import ScorePhase
from trireme.snapshot.snapshot import Snapshot
from trireme_kube.componentbase import event_loop
from trireme_kube.componentbase.metrics.instruments import Instrument
from trireme_kube.componentbase.tls import certificate_expiry

FOLDER = pathlib.Path(__file__).parents[2] / "docs"
DOCUMENT = FOLDER / "metrics.md"
DATA = json.loads(gzip.decompress((pathlib.Path(__file__).parent / "data/surface_metrics.json.gz").read_bytes()))
REMARKS: dict[str, dict[str, str]] = yaml.safe_load((FOLDER / "metrics_remarks.yaml").read_text())

# Declared by VolumeBinding's own package; the recording has no sample of them.
_OF_VOLUMES = [
    {"name": f"scheduler_volume_{name}", "type": "counter", "stability": "ALPHA", "labels": ["operation"]}
    for name in ("binder_cache_requests_total", "scheduling_stage_error_total")
]
# Made anew for each answer, so they are no instruments.
OF_PODS = ("kube_pod_resource_request", "kube_pod_resource_limit")

# The generator writes what follows it, people what precedes it.
_MARK = "<!-- From here on written by `make docs`, from help texts in the code and docs/metrics_remarks.yaml. -->\n"
_KUBERNETES_HEAD = "| metric | here | type | labels | remarks |\n| --- | --- | --- | --- | --- |\n"
_STATES = ("same", "gated", "absent")
_OWN_HEAD = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"


def recorded() -> dict[str, dict[str, Any]]:
    """kube-scheduler's metrics by name; those of one name on several pages are alike but for their stability."""
    out: dict[str, dict[str, Any]] = {str(metric["name"]): metric for metric in _OF_VOLUMES}
    for page in ("declared", "/metrics/resources", "/metrics/slis", "/metrics"):
        for metric in DATA[page]:
            out[metric["name"]] = metric
    return out


def state(name: str) -> str:
    """What becomes of a metric of kube-scheduler here: `same`, `gated` or `absent`."""
    return next((word for word in _STATES[1:] if name in REMARKS[word]), "same")


def named(word: str) -> list[str]:
    """The metrics of kube-scheduler in that state."""
    return [name for name in recorded() if state(name) == word]


def site(
    folder: pathlib.Path,
    frontend: serving_frontend.FakeFrontend,
    *flags: str,
    clock: Callable[[], float] = time.monotonic,
) -> serving_site.FrontendSite:
    """A frontend's site that is not served."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(serving_frontend.kubeconfig_for("http://127.0.0.1:1"))
    arguments = [f"--kubeconfig={kubeconfig}", "--secure-port=0", *flags]
    start = commandline.Start(arguments, {}, io.StringIO(), io.StringIO(), lambda line: None)
    completed = start.run().completed
    assert completed is not None
    return serving_site.FrontendSite(completed, frontend.parts(), serving_frontend.unchecked_server(), clock)


def of_frontend(folder: pathlib.Path) -> dict[str, Instrument]:
    """All that a frontend declares, by name."""
    registries = site(folder, serving_frontend.FakeFrontend()).registries()
    return {instrument.name: instrument for registry in registries for instrument in registry}


def of_phases() -> dict[str, dict[str, Instrument]]:
    """All that each phase declares of its own, by name."""
    everywhere = *event_loop.EventLoopMetrics().instruments(), *certificate_expiry.Expiries(()).instruments
    unread: Any = None  # only what is declared is looked at, never a value

    no_remotes: Any = _NoRemotes
    filters, scores = (
        FilterPhase(Snapshot(), remote_makers.no_remote_plugin),
        ScorePhase(Snapshot(), remote_makers.no_remote_plugin),
    )
    insights = InsightService(Snapshot())
    declared = {
        "filter": (
            *phase_metrics.follower_instruments("filter", filters.follow, dict, filters.statistics),
            *filters.instruments(),
        ),
        "score": phase_metrics.follower_instruments("score", scores.follow, dict, scores.statistics),
        "insight": (
            *phase_metrics.follower_instruments("insight", insights.follow, dict, insights.statistics),
            *insights.instruments(),
        ),
        "bind": bind_metrics.instruments(unread, unread, no_remotes),
    }
    return {
        phase: {instrument.name: instrument for instrument in (*instruments, *everywhere)}
        for phase, instruments in declared.items()
    }


class _NoRemotes:
    """Remote plugins of a bind that has none."""

    @staticmethod
    def statistics() -> dict[str, Any]:
        """Of none."""
        return {}


def write(folder: pathlib.Path) -> str:
    """The document's text."""
    phases = of_phases()
    frontend = {name: entry for name, entry in of_frontend(folder).items() if name.startswith("trireme_")}
    shared = set.intersection(*(set(each) for each in phases.values()))
    everywhere = shared & set(frontend)
    follower = set(phases["filter"]) & set(phases["score"]) - shared
    sections = [
        ("Trireme's own, on the frontend", _pick(frontend, set(frontend) - everywhere)),
        ("On the frontend, filter, score, insight and bind", _pick(phases["bind"], everywhere)),
        ("On filter, score, insight and bind", _pick(phases["bind"], shared - everywhere)),
        ("On filter, score and insight", _pick(phases["filter"], follower)),
        *((f"On {phase}", _pick(each, set(each) - shared - follower)) for phase, each in phases.items()),
    ]
    kubernetes = f"{_MARK}\n{_KUBERNETES_HEAD}{''.join(_kubernetes_rows())}"
    return (
        DOCUMENT.read_text().partition(_MARK)[0]
        + kubernetes
        + "".join(f"\n## {title}\n\n{_OWN_HEAD}{_rows(each)}" for title, each in sections if each)
    )


def _pick(declared: dict[str, Instrument], names: set[str]) -> list[Instrument]:
    return [declared[name] for name in sorted(names)]


def _rows(instruments: Iterable[Instrument]) -> str:
    return "".join(
        f"| `{entry.name}` | {entry.kind} | {_labels(entry.labels)} | {entry.help} |\n" for entry in instruments
    )


def _kubernetes_rows() -> Iterator[str]:
    for name, metric in sorted(recorded().items(), key=lambda entry: (_STATES.index(state(entry[0])), entry[0])):
        word = state(name)
        remark = REMARKS[word].get(name, "")
        yield f"| `{name}` | {word} | {metric['type']} | {_labels(metric['labels'])} | {remark} |\n"


def _labels(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        text = write(pathlib.Path(temporary))
    DOCUMENT.write_text(text)
