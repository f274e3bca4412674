"""Who reaches whom in an installation, and whether that is what the chart's NetworkPolicies allow.

Tests: tools/node/test_node_cluster.py.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tools.node.installation import NAMESPACE, PHASES, SERVICES, Installation, TrialFailedError, until
from tools.node.node_cluster import IMAGE
from tools.release import versions

Json = dict[str, Any]

_API_SERVER = "10.0.0.1:443"
_MONITORING = "monitoring"
_SLEEP = "import time; time.sleep(86400)"
# Prints the addresses that are reached. What a policy forbids runs into the time-out; other errors are faults.
_CONNECT = """
import concurrent.futures, socket, sys
def reaches(address):
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 3).close()
    except TimeoutError:
        return False
    return True
addresses = sys.argv[1:]
with concurrent.futures.ThreadPoolExecutor(len(addresses)) as pool:
    print(*(address for address, reached in zip(addresses, pool.map(reaches, addresses)) if reached))
"""


def check(here: Installation) -> int:
    """Compare every connection with the policies; how many were tried. Raises: TrialFailedError: one differs."""
    with _prober(here, "default") as stranger, _prober(here, _MONITORING) as monitor:
        callers = {"stranger": stranger, _MONITORING: monitor, **{each: here.pods(each)[0] for each in SERVICES}}
        places = dict(_places(here))
        for name, caller in callers.items():
            reached = _reached(here, caller, places)
            if reached != (wanted := _allowed(name, places)):
                raise TrialFailedError(f"{name} reaches {sorted(reached)} and may reach {sorted(wanted)}")
        _check_that_policies_refuse(here, stranger, places)
    return len(callers) * len(places)


def _places(here: Installation) -> Iterator[tuple[str, str]]:
    """The ports of a pod of each service by service and name, and their addresses; and the API server."""
    yield "api-server", _API_SERVER
    for service in SERVICES:
        pod = here.pods(service)[-1]
        for port in pod["spec"]["containers"][0]["ports"]:
            yield f"{service}-{port['name']}", f"{pod['status']['podIP']}:{port['containerPort']}"


def _allowed(caller: str, places: Mapping[str, str]) -> set[str]:
    """What docs/deployment.md promises."""
    if caller == "stranger":
        return {"api-server"}
    if caller == _MONITORING:
        return {"api-server", *(place for place in places if place.endswith(("-metrics", "-https")))}
    if caller == "frontend":
        return {"api-server", *(place for place in places if place.startswith(PHASES) and place.endswith("-grpc"))}
    return {"api-server"} if caller == "bind" else set()


def _reached(here: Installation, caller: Json, places: Mapping[str, str]) -> set[str]:
    metadata = caller["metadata"]
    command = ("exec", metadata["name"], f"--namespace={metadata['namespace']}", "--", "python", "-c", _CONNECT)
    reached = here.cluster.plane.kubectl(*command, *places.values()).split()
    return {place for place, address in places.items() if address in reached}


def _check_that_policies_refuse(here: Installation, stranger: Json, places: Mapping[str, str]) -> None:
    """Without its policy a phase is reached, so nothing else refused that."""
    phase = {"filter-grpc": places["filter-grpc"]}
    here.kubectl("delete", "networkpolicy", "trireme-filter")
    until(lambda: bool(_reached(here, stranger, phase)), "a phase without a policy is reached", 20)
    here.upgrade()  # Helm makes what is missing
    until(lambda: not _reached(here, stranger, phase), "a phase with its policy is not reached", 20)


@contextlib.contextmanager
def _prober(here: Installation, namespace: str) -> Iterator[Json]:
    """A running pod of the namespace, which is made."""
    plane, name = here.cluster.plane, "prober"
    if namespace not in ("default", NAMESPACE):
        plane.kubectl("create", "namespace", namespace)
    container = {"name": "prober", "image": f"{IMAGE}:{versions.current()}", "command": ["python", "-c", _SLEEP]}
    spec = {"schedulerName": "trireme", "terminationGracePeriodSeconds": 0, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    named = (f"pod/{name}", f"--namespace={namespace}")
    plane.kubectl("wait", "--for=condition=Ready", *named, "--timeout=60s", timeout=70)
    yield json.loads(plane.kubectl("get", *named, "--output=json"))
    plane.kubectl("delete", *named)
