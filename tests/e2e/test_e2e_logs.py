"""What the processes log, as an operator's tools read it."""

import json
import re

import pytest

from tests.e2e import clusters
from tests.e2e.installation import pod

pytestmark = [pytest.mark.timeout(180), pytest.mark.parametrize("cluster", ["embedded"], indirect=True)]

_TEXT = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ (\w+)\.py:\d+\] (.*)")

# kube-scheduler's lines about one pod and its node, in the order in which they come, with the names of their values.
_STORY = (
    ("Added node to NodeTree", {"node", "zone"}, 2),
    ("Attempting to schedule pod", {"pod"}, 3),
    ("Attempting to bind pod to node", {"pod", "node"}, 3),
    ("Successfully bound pod to node", {"pod", "node", "evaluatedNodes", "feasibleNodes"}, 2),
    ("Scheduling queue is closed", set(), 2),
    ("Stopped listening on 127.0.0.1:{port}", set(), 0),
    ("Requested to terminate, exiting", set(), 0),
)


@pytest.mark.parametrize("local", ["InProcess", "Children"])
async def test_json_logs_of_the_frontend_and_its_phases(cluster: clusters.OpenCluster, local: str) -> None:
    """A collector of JSON logs could not read a line, or would miss kube-scheduler's names for what is in it."""
    async with cluster(nodes=2, cpu="4") as here:
        here.local = local
        here.frontend_flags += ["--logging-format=json", "-v=3"]
        frontend = here.add_frontend()
        frontend.start()
        await here.leads(frontend)
        await here.create_pods([pod("fits"), pod("big", cpu="6")])
        await here.bound(1)
        await here.logged(frontend, "Unable to schedule pod; no fit; waiting")
        port = here.port(frontend)
        assert frontend.stop() == 0
        lines = [json.loads(line) for line in frontend.said.splitlines()]
    for line in lines:
        assert isinstance(line["ts"], float | int), line
        assert re.fullmatch(r"\w+/\w+\.py:\d+", line["caller"]), line
        assert isinstance(line["msg"], str), line
        assert isinstance(line.get("v", 0), int), line
    # The phases that it starts write to the same place; those in its own process serve nothing.
    callers = {line["caller"].partition(":")[0] for line in lines}
    assert "default_binder/bind.py" in callers
    assert ("rpc/grpc_server.py" in callers) is (local == "Children")
    about = {json.dumps({"name": "fits", "namespace": "default"}), "null"}
    told = [line for line in lines if json.dumps(line.get("pod")) in about]
    for message, names, verbosity in _STORY:
        found = next((line for line in told if line["msg"] == message.format(port=port)), None)
        assert found is not None, message
        assert (set(found) - {"ts", "caller", "msg", "v"}, found["v"]) == (names, verbosity), message
    (refused,) = (line for line in lines if line["msg"] == "Unable to schedule pod; no fit; waiting")
    assert refused["pod"] == {"name": "big", "namespace": "default"}
    assert refused["err"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    bound = next(line for line in lines if line["msg"] == "Successfully bound pod to node")
    assert (bound["evaluatedNodes"], bound["feasibleNodes"]) == (2, 2)


async def test_vmodule_raises_the_verbosity_of_one_module(cluster: clusters.OpenCluster) -> None:
    """--vmodule would show nothing, or everything, of the frontend or of the phases that it starts."""
    async with cluster(nodes=1) as here:
        here.frontend_flags += ["--vmodule=attempt_reporter=2,bind*=3"]
        frontend = here.add_frontend()
        frontend.start()
        await here.leads(frontend)
        await here.create_pods([pod("fits")])
        await here.bound(1)
        await here.logged(frontend, "Successfully bound pod to node")
        assert frontend.stop() == 0
        lines = [found.groups() for found in map(_TEXT.fullmatch, frontend.said.splitlines()) if found]
    assert ("I", "attempt_reporter") in {line[:2] for line in lines}
    assert any(module == "bind" and text.startswith('"Attempting to bind') for _, module, text in lines)
    assert not [line for line in lines if "Attempting to schedule pod" in line[2] or "NodeTree" in line[2]]
