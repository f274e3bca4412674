"""The embedded API server beside the real one: the same requests, and every difference between the answers.

Where the two answer differently the embedded one is wrong. What is not compared is listed in `normal`, with reasons.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.apiserver_endpoints import ENDPOINTS
from tests.e2e.apiserver_mistakes import MISTAKES
from tests.e2e.apiserver_pods import PODS
from tests.e2e.apiserver_quotas import QUOTAS
from tests.e2e.apiserver_requests import JSON, TABLE, WAIT, WATCH, Step
from tests.e2e.apiserver_small_objects import SMALL_OBJECTS
from tests.e2e.apiserver_storage_and_devices import STORAGE_AND_DEVICES
from tests.e2e.apiserver_workloads import WORKLOADS
from tests.e2e.embedded_process import embedded_cluster
from tools.controlplane import launcher
from tools.controlplane.controlplane_fixture import require_built

pytestmark = [pytest.mark.controlplane]

# In order: a request builds on what those before it left, and the last of ENDPOINTS delete the namespace of them all.
STEPS = (*PODS, *SMALL_OBJECTS, *WORKLOADS, *STORAGE_AND_DEVICES, *ENDPOINTS, *MISTAKES, *QUOTAS)

# Replaced by a placeholder: they differ between any two runs of one server.
_VOLATILE = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "timeAdded", "lastPhaseTransitionTime", "deletionTimestamp"}
)
# Left out.
_IGNORED = frozenset(
    {
        "managedFields",  # the embedded server records owners of fields for server-side apply alone
        "storageVersionHash",  # of a storage that it does not have
        "description",  # the long texts of table columns
        "node.alpha.kubernetes.io/ttl",  # written by a controller that it does not have
        "deprecated.daemonset.template.generation",
    }
)
_TEXTS = (
    (re.compile(r"kube-api-access-\w{5}"), "kube-api-access-?"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}"), "<uid>"),
    (re.compile(r"\A\d{1,2}s\Z"), "<age>"),  # a column of tables; the servers are asked one after the other
    (re.compile(r"\b10\.\d+\.\d+\.\d+"), "<ip>"),
    (re.compile(r"current: \d+"), "current: ?"),
    (re.compile(r" in scheme \".*\""), ""),  # a path in the Go source
    (re.compile(r"\n@@.*", re.DOTALL), ""),  # the diff of Go structs that follows the reason
    (re.compile(r"(json parse error|continue key is not valid): .*"), r"\1"),  # the words of two JSON parsers
    (re.compile(r" \(must be of type \w+\)"), ""),
    (re.compile(r"found '.*', expected: identifier"), "found something, expected: identifier"),
    (re.compile(r"415: Unsupported Media Type.*"), "415: Unsupported Media Type"),
)


def normal(value: Any) -> Any:
    """The answer without what may differ."""
    if isinstance(value, dict):
        result = {}
        for key, below in value.items():
            if key in _IGNORED:
                continue
            if key == "annotations" and set(below) <= _IGNORED:
                continue
            if (key in _VOLATILE or key.endswith("Time")) and isinstance(below, str):
                below = f"<{key}>"
            elif key == "continue":
                below = "<token>"
            result[key] = normal(below)
        return result
    if isinstance(value, list | tuple):
        return [normal(one) for one in value]
    if isinstance(value, str):
        for pattern, replacement in _TEXTS:
            value = pattern.sub(replacement, value)
    return value


@dataclass(frozen=True)
class Api:
    """One of the two servers."""

    url: str
    token: str = ""
    authority: Path | None = None

    def call(self, step: Step) -> Any:
        """Status code and decoded body; of a watch, all its events."""
        if step.kind == WAIT:
            return self._wait(step)
        body = step.body
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self.token}"}
        if step.kind == TABLE:
            headers["Accept"] = "application/json;as=Table;v=v1;g=meta.k8s.io"
        elif data is not None:
            headers["Content-Type"] = step.kind if step.kind != WATCH else JSON
        request = urllib.request.Request(self.url + step.path, data=data, method=step.method, headers=headers)
        context = ssl.create_default_context(cafile=str(self.authority)) if self.authority else None
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as response:
                code, raw = response.status, response.read()
        except urllib.error.HTTPError as error:
            code, raw = error.code, error.read()
        if step.kind == WATCH:
            return code, [json.loads(line) for line in raw.splitlines()]
        try:
            return code, json.loads(raw)
        except ValueError:
            return code, raw.decode()

    def _wait(self, step: Step) -> Any:
        """Until the answer is what the step waits for: what controllers write comes a little later."""
        probe = Step(step.label, step.method, step.path, step.body)
        for _ in range(200):
            code, body = self.call(probe)
            found = code if isinstance(step.until, int) else body.get("status")
            if found == step.until:
                break
            time.sleep(0.05)
        return code, found


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    """The real server, with its controllers and default admission, and the embedded one."""
    require_built()
    launcher.require_comparable("an API server that answers as the embedded one")
    options = launcher.Options(controllers=True, disable_admission=())
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(launcher.ControlPlane(options))
        running = stack.enter_context(embedded_cluster(tmp_path_factory.mktemp("embedded"), "--nodes", "0"))
        running.kubectl("delete", "storageclass", "standard")  # which the real one does not have
        yield Api(plane.server, plane.token(), plane.authority), Api(running.url)


def test_both_servers_answer_alike(servers: tuple[Api, Api]) -> None:
    """A client that works against the embedded cluster must work against a real one, and the other way round."""
    real, embedded = servers
    differences: list[str] = []
    for step in STEPS:
        answers = [
            json.dumps(normal(api.call(step)), indent=1, sort_keys=True).splitlines() for api in (real, embedded)
        ]
        if answers[0] != answers[1]:
            lines = difflib.unified_diff(*answers, "real", "embedded", n=1, lineterm="")
            differences.append(f"== {step.label}\n" + "\n".join(list(lines)[:40]))
    assert not differences, f"{len(differences)} of {len(STEPS)} answers differ\n" + "\n".join(differences)
