"""Random pods in a row that ask for devices, placed and not bound: each gets what Kubernetes' framework would give it.

The framework decides one pod on a cluster that stands still, so it is asked again after each pod, with the ones before
it bound and their claims as it has allocated them itself.
"""

import copy
import itertools
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import decision_profiles, oracle_fixture, real_framework, situation_devices
from tests.conformance.decision_phases import Phases
from tests.conformance.unbound_pods import Sequence

Json = dict[str, Any]

_SEED = 23
_PODS = 3
# Most situations have nothing for the first pod: they are drawn until so many pods were placed.
_PLACED = 8
# Sequences that end with a pod that no node takes, at least.
_REFUSED = 3


def sequences(seed: int) -> Iterator[tuple[Json, list[Json]]]:
    """Random clusters, each with pods that ask for the same; all of their claims are there from the beginning."""
    draw = random.Random(seed)
    for number in itertools.count():
        case = situation_devices.situation(draw, str(number))["case"]
        stated = case["pod"]["spec"].get("resourceClaims", [])
        asked = [each for one in _containers(case["pod"]) for each in one.get("resources", {}).get("requests", ())]
        if not stated or any("/" in each for each in asked) or "podGroups" in case:
            continue
        known = len(case["resourceClaims"])
        pods = [_copy(case, which) for which in range(_PODS)]
        if len(case["resourceClaims"]) == known:
            # It waits for claims, or does without any.
            continue
        yield case, pods


def _containers(pod: Json) -> list[Json]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]


def _copy(case: Json, number: int) -> Json:
    """One more pod like the case's, with claims like those that have no devices yet."""
    pod: Json = copy.deepcopy(case["pod"])
    name = f"incoming-{number}"
    pod["metadata"] |= {"name": name, "uid": name}
    entries = [*pod["spec"]["resourceClaims"], *pod.get("status", {}).get("resourceClaimStatuses", ())]
    for claim in [one for one in case["resourceClaims"] if one["metadata"]["namespace"] == "default"]:
        metadata = claim["metadata"]
        users = [entry for entry in entries if entry.get("resourceClaimName") == metadata["name"]]
        if not users or claim.get("status", {}).get("allocation"):
            continue
        own: Json = copy.deepcopy(claim)
        own["metadata"] |= {"name": f"{metadata['name']}-{number}", "uid": f"{metadata['uid']}-{number}"}
        for owner in own["metadata"].get("ownerReferences", ()):
            owner |= {"name": name, "uid": name} if owner.get("uid") == "incoming" else {}
        case["resourceClaims"].append(own)
        for entry in users:
            entry["resourceClaimName"] = own["metadata"]["name"]
    return pod


def bound(case: Json, pod: Json, node: str, allocations: Json) -> Json:
    """The case with the pod on the node, and the claims allocated to it."""
    out: Json = copy.deepcopy(case)
    there = copy.deepcopy(pod)
    there["spec"]["nodeName"] = node
    out["pods"].append(there)
    for claim in out["resourceClaims"]:
        allocation = allocations.get(claim["metadata"]["name"])
        if allocation is None:
            continue
        for result in allocation.get("devices", {}).get("results", ()):
            if "consumedCapacity" in result:
                # What tells shares apart is drawn, and so left out of what the framework says.
                result["shareID"] = str(uuid.uuid4())
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        claim["status"] = {"allocation": allocation, "reservedFor": [user]}
    return out


@pytest.mark.timeout(300)
def test_each_of_random_pods_in_a_row_gets_what_the_framework_gives_it() -> None:
    oracle_fixture.require_oracle()
    placed = refused = 0
    with real_framework.Oracle(4) as oracle, Phases(decision_profiles.make().configuration, replicas=2) as phases:
        for case, pods in sequences(_SEED):
            if placed >= _PLACED and refused >= _REFUSED:
                break
            sequence = None
            for pod in pods:
                row = oracle.ask([{"name": case["name"], "case": {**case, "pod": pod}}])[0]
                if "error" in row or row.get("varies"):
                    break
                expect = row["expect"]
                total = expect.get("total", {})
                if expect.get("feasible") and not total:
                    # It fails by an error on one of the other nodes.
                    break
                if sequence is None and not total:
                    break
                sequence = sequence or Sequence(phases, case)
                node = sequence.place(pod)
                best = [name for name in total if total[name] == max(total.values())]
                if not best:
                    assert node not in sequence.cluster.cache.node_names(), (case, pod, expect)
                    refused += 1
                    break
                assert node in best, (case, pod, expect)
                allocations = expect.get("allocations", {}).get(node, {})
                given = sequence.given(pod["metadata"]["uid"])
                for name, allocation in allocations.items():
                    results = allocation.get("devices", {}).get("results", ())
                    assert given[name] == [result["device"] for result in results], (case, pod, expect)
                case = bound(case, pod, node, allocations)
                placed += 1
    assert refused >= _REFUSED
