"""The frontend's HTTPS server against what kube-scheduler answered, request by request."""

import copy
import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.contract import serving_frontend as support
from trireme_kube.componentbase.cli import versions

GOLDEN = json.loads(gzip.decompress((Path(__file__).parent / "data/surface_http.json.gz").read_bytes()))
# What was sent with each PUT, in order, which the recording leaves to its answers.
_PUT_BODIES = ("3", "abc", "2")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \w+ \d{4}")


def _lines(text: str) -> dict[str, str]:
    """The lines of /flagz or /statusz by name, whatever separates name and value."""
    lines = text.splitlines()
    assert lines[0] == ""
    out = {"": "\n".join(line for line in lines[1:3])}
    for line in lines[3:]:
        known = re.match(r"(Started|Up|Go version|Binary version|Emulation version|Paths|[a-z0-9-]+)[:= ]*(.*)", line)
        if known:
            out[known[1]] = known[2]
    return out


def _recorded(process: str) -> list[dict[str, Any]]:
    """The requests to a process of v1.37.0 and its answers, with what v1.38 has besides in its configuration."""
    rows: list[dict[str, Any]] = copy.deepcopy(GOLDEN[process]["requests"])
    for row in rows:
        if "componentconfig" in row.get("json", {}):
            plugins = row["json"]["componentconfig"]["profiles"][0]["plugins"]
            plugins["placementFeasible"] = {}
            plugins["reserve"]["disabled"] = [{"name": "DefaultPreemption", "weight": 0}]
    return rows


def _normal(text: str, served: support.Served) -> str:
    major, minor = versions.BINARY.minor
    text = text.replace(versions.KUBERNETES.removeprefix("v"), "1.37.0").replace(f"{major}.{minor}", "1.37")
    text = text.replace(str(served.kubeconfig), "{KUBECONFIG}").replace(str(served.folder), "{DIR}")
    text = _TIME.sub("{TIME}", text).replace(str(served.port), "{PORT}")
    text = re.sub(r"\d+ hr \d\d min \d\d sec", "{UPTIME}", text)
    return re.sub(r"python3[.0-9]+", "{GO_VERSION}", text)


def _json(value: Any) -> Any:
    """A document, with what differs in every run replaced."""
    if isinstance(value, dict) and "uptimeSeconds" in value:
        return {**value, "uptimeSeconds": "{N}"}
    return value


def _header_problems(row: Mapping[str, Any], headers: Mapping[str, str]) -> list[str]:
    problems = []
    for name, value in row.get("headers", {}).items():
        found = headers.get(name, "")
        if name == "Transfer-Encoding" and row["path"] == "/debug/pprof/":
            continue  # a matter of the page's length, which lists other profiles here
        if found != value and not (value == "{UNIX_TIME}" and found.isdigit()):
            problems.append(f"{name}: {found!r} instead of {value!r}")
    return problems


async def _ask(session: aiohttp.ClientSession, served: support.Served, row: Mapping[str, Any], body: str) -> list[str]:
    """What is different from the recorded answer."""
    headers = {"Accept-Encoding": "identity", **row.get("requestHeaders", {})}
    if row["as"] in support.TOKENS:
        headers["Authorization"] = f"Bearer {support.TOKENS[row['as']]}"
    plain = row.get("contentType") is None and row["status"] == 400
    url = f"{'http' if plain else 'https'}://127.0.0.1:{served.port}{row['path']}"
    async with session.request(
        row["method"], url, headers=headers, data=body, ssl=False, allow_redirects=False
    ) as response:
        text = (await response.read()).decode("utf-8", "replace")
    problems = []
    if response.status != row["status"]:
        problems.append(f"status {response.status} instead of {row['status']}: {text[:200]}")
    if row.get("contentType") and response.headers.get("Content-Type") != row["contentType"]:
        problems.append(f"type {response.headers.get('Content-Type')} instead of {row['contentType']}")
    problems += _header_problems(row, response.headers)
    if "Server" in response.headers:
        problems.append("it says what serves")
    normal = _normal(text, served)
    if "json" in row and _json(json.loads(normal)) != row["json"]:
        problems.append(f"body {normal[:600]} instead of {json.dumps(row['json'])[:600]}")
    if "body" in row:
        problems += _body_problems(row, normal)
    if row.get("bodyLines") == "some" and not text and not headers.get("Accept", "").startswith("application/vnd"):
        problems.append("the body is empty")
    return problems


def _body_problems(row: Mapping[str, Any], normal: str) -> list[str]:
    wanted = row["body"]
    if row["path"] in ("/flagz", "/statusz") and (row["contentType"] or "").startswith("text/plain"):
        normal_lines, wanted_lines = _lines(normal), _lines(wanted)
        return [] if normal_lines == wanted_lines else [f"body {normal_lines} instead of {wanted_lines}"]
    if "yaml" in (row["contentType"] or ""):
        quoted = str.maketrans({"'": '"'})
        normal = re.sub(r"uptimeSeconds: \d+", "uptimeSeconds: {N}", normal)
        return [] if normal.translate(quoted) == wanted.translate(quoted) else [f"body {normal} instead of {wanted}"]
    return [] if normal == wanted else [f"body {normal!r} instead of {wanted!r}"]


async def _differences(served: support.Served, rows: list[dict[str, Any]]) -> list[str]:
    out = []
    bodies = iter(_PUT_BODIES)
    async with aiohttp.ClientSession(auto_decompress=True) as session:
        for row in rows:
            body = next(bodies) if row["method"] == "PUT" else ""
            out += [f"{row['method']} {row['path']} as {row['as']} ({row.get('requestHeaders', '')}): {problem}"
                    for problem in await _ask(session, served, row, body)]  # fmt: skip
    return out


def _with_pods() -> support.FakeFrontend:
    """So many that their list is sent in chunks."""
    frontend = support.FakeFrontend()
    for number in range(20):
        frontend.place(support.pod(f"pod-{number}", "node-1"))
    return frontend


async def test_the_leader_answers_as_kube_scheduler_does(tmp_path: Path) -> None:
    """A probe, scraper or script made for kube-scheduler would be answered differently."""
    async with support.served(tmp_path, _with_pods()) as served:
        assert await _differences(served, _recorded("leader")) == []


async def test_a_standby_without_reviews_believes_no_token(tmp_path: Path) -> None:
    """Without kubeconfigs for reviews a token would be believed, or refused where anonymous callers are served."""
    frontend = support.FakeFrontend(leading=False)
    async with support.served(tmp_path, frontend, reviews=False) as served:
        assert await _differences(served, _recorded("standby")) == []


async def test_without_election_and_profiling(tmp_path: Path) -> None:
    """Health would name a check for an election that there is none of, or profiles be open though switched off."""
    document = {"leaderElection": {"leaderElect": False}, "enableProfiling": False}
    async with support.served(tmp_path, _with_pods(), document=document) as served:
        assert await _differences(served, _recorded("noElection")) == []


_UNAUTHORIZED = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized",'
    '"reason":"Unauthorized","code":401}\n'
)
_FLAGS_INDEX = (
    "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n"
    "<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n"
)


@pytest.mark.parametrize(
    ("path", "user", "agent", "begins"),
    [
        pytest.param("/configz", "admin", "curl/8", '{"componentconfig":{"kind":"KubeScheduler', id="no-blanks"),
        pytest.param("/debug/flags/", "admin", "curl/8", _FLAGS_INDEX, id="flags-index"),
        pytest.param("/metrics", "", "scraper", _UNAUTHORIZED, id="program"),
        pytest.param("/metrics", "", "curl/8", '{\n  "kind": "Status",\n  "apiVersion": "v1",\n', id="person"),
        pytest.param("/metrics?pretty=true", "", "scraper", '{\n  "kind": "Status",\n', id="asked-for"),
        pytest.param("/metrics?pretty=0", "", "curl/8", _UNAUTHORIZED, id="not-wanted"),
    ],
)
async def test_bytes_of_bodies(tmp_path: Path, path: str, user: str, agent: str, begins: str) -> None:
    """A script that searches the text of an answer made for kube-scheduler would find nothing."""
    headers = {"User-Agent": agent, "Authorization": f"Bearer {support.TOKENS.get(user, 'nonsense')}"}
    async with (
        support.served(tmp_path, _with_pods()) as served,
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{served.port}{path}", ssl=False) as response,
    ):
        assert (await response.text())[: len(begins)] == begins
