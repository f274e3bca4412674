"""docs/reference/http.md, written from the pages that the processes serve: `make docs` runs this, and a test compares.

A page's meaning stands here, by its path; a page without one, and a meaning without a page, is an error.
"""

import pathlib
import tempfile
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.contract import metrics_document, serving_frontend
from trireme.insight.console import views
from trireme.insight.http_api import api, recorded_paths, simulation_page
from trireme_kube.componentbase.metrics.instruments import Registry
from trireme_kube.componentbase.server import plain_server

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/reference/http.md"

_HEAD = """# HTTP

<!-- Written by `make docs` from the pages that the processes serve. -->

Errors of insight are `Status` objects, as the API server's; [explain](../explain.md#explanations-over-http) lists
their codes. A path with `/*` stands for all below it.
"""
_FRONTEND = """
## The frontend

HTTPS on `--secure-port`, and without authentication on the socket `admin.socket`. The API server reviews callers; the
non-resource URL is the path. `/flagz` and `/statusz` need their feature gates, `/debug` needs `enableProfiling`.

"""
_PHASES = """
## Filter, score, bind and insight

Plain HTTP on `--metrics-listen`.

"""
_INSIGHT = """
## Insight's API

HTTPS on `--http-listen`, for callers with a bearer token or a client certificate that the API server accepts. `pretty`
is a parameter of every page.

"""
_BOTH = "list nodes and pods"
_MEANINGS: Mapping[str, str] = {
    "/configz": "the KubeSchedulerConfiguration in force",
    "/debug/flags": "flags that can be set",
    "/debug/flags/v": "PUT sets the verbosity of the log",
    "/debug/pprof": "profiles, as kube-scheduler's",
    "/flagz": "the flags with their values",
    "/healthz": "whether the process works; a check's name below it asks for that check alone, `?verbose` lists all",
    "/livez": "whether to restart it",
    "/readyz": "whether it is ready",
    "/metrics": "[metrics](../metrics.md); the frontend resets them on DELETE",
    "/metrics/resources": "requests and limits of pods, served by the leader",
    "/metrics/slis": "metrics of health checks",
    "/statusz": "versions and uptime",
    "/trireme/v1/explain": "why a pod is where it is: `pod=NAMESPACE/NAME`, and the parameters of insight's page",
    "/trireme/v1/simulate": "POST of a SimulateRequest as JSON, which insight answers",
    "/trireme/v1/status": "leader, replicas, queue and pending pods; `pods` limits the pods",
    "/v1/components": "the replicas of the phases, and plugins",
    "/v1/groups": "pod groups",
    "/v1/namespaces/{namespace}/pods/{name}/decision": "why a bound pod is on its node",
    "/v1/namespaces/{namespace}/pods/{name}/explanation": "why a pod waits, node by node",
    "/v1/namespaces/{namespace}/pods/{name}/timeline": "what happened to a pod in the queue",
    "/v1/nodes": "all nodes, or those that changed after a generation",
    "/v1/nodes/{name}": "a node and its pods",
    "/v1/overview": "throughput, queue and leader",
    "/v1/pending": "pending pods by reason",
    "/v1/pending/pods": "the pods of a reason",
    "/v1/pods": "pods by a part of their name",
    "/v1/preemptions": "the last preemptions",
    "/v1/recorded/MILLISECONDS/*": "any of these pages as of a time, milliseconds since 1970",
    "/v1/recording": "from when to when there are recordings",
    "/v1/simulation": "POST of a SimulateRequest as JSON",
    "/v1/simulation/manifests": "POST of manifests as YAML or JSON",
}


def write() -> str:
    """The document's text."""
    with tempfile.TemporaryDirectory() as folder:
        gates = "--feature-gates=ComponentFlagz=true,ComponentStatusz=true"
        site = metrics_document.site(pathlib.Path(folder), serving_frontend.FakeFrontend(), gates)
        frontend = _paths(site.site._pages)
    phases = _paths(plain_server._plain_site(Registry(), lambda: "", lambda: 0.0)._pages)
    insight = list(_insight())
    unused = set(_MEANINGS) - {*frontend, *phases, *(path for path, _, _ in insight)}
    assert not unused, f"no process serves {unused}: remove what {__file__} has of it"
    return "".join(
        (
            _HEAD,
            _FRONTEND,
            _table(frontend),
            _PHASES,
            _table(phases),
            _INSIGHT,
            "| path | parameters | for users who may | answer |\n| --- | --- | --- | --- |\n",
            *(f"| `{path}` | {query} | {who} | {_MEANINGS[path]} |\n" for path, query, who in insight),
        )
    )


def _paths(pages: Iterable[str]) -> list[str]:
    """The paths of pages, each once."""
    return sorted({path.removesuffix("/*") for path in pages})


def _table(paths: Iterable[str]) -> str:
    return "| path | answer |\n| --- | --- |\n" + "".join(f"| `{path}` | {_MEANINGS[path]} |\n" for path in paths)


def _insight() -> Iterator[tuple[str, str, str]]:
    """Path, parameters and needed rights of insight's pages."""
    for page in api._pages(_uncalled_service()):
        fields = page.request().DESCRIPTOR.fields
        yield str(page.path), _names(field.json_name for field in fields if field.message_type is None), "get the pod"
    yield simulation_page.PATH, "", _BOTH
    yield simulation_page.MANIFESTS_PATH, "`namespace`", _BOTH
    yield recorded_paths.RECORDING, "", _BOTH
    yield f"{recorded_paths.MOMENTS}MILLISECONDS/*", "those of the page", _BOTH
    for view in views.VIEWS:
        kinds = [kind for kind, needed in (("nodes", view.nodes), ("pods", view.pods)) if needed]
        rights = ["get the pod"] if view.of_pod else [f"list {' and '.join(kinds)}"] if kinds else ["log in"]
        yield view.path, _names(view.parameters), " and ".join(rights)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _uncalled_service() -> Any:
    """A service whose RPCs are named and never called."""
    return types.SimpleNamespace(explain=None, explain_decision=None)


if __name__ == "__main__":
    DOCUMENT.write_text(write())
