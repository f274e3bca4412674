"""Every input that fuzzing found interesting is still read, or refused as documented, in bounded time.

So are inputs that are made to be slow: their time grows with their length, not with its square.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator

import orjson
import pytest

from tools.fuzz import fuzz_run, fuzz_targets

_SLOWEST_SECONDS = 2.0
_KILOBYTE = 1024


@pytest.fixture(autouse=True)
def _recursion_limit() -> Iterator[None]:
    """Python's own limit: compiling a deep expression raises it for the whole process."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(max(before, sys.getrecursionlimit()))


@pytest.mark.parametrize("name", fuzz_targets.TARGETS)
def test_the_saved_inputs_do_no_harm(name: str) -> None:
    """A bug that fuzzing found once would come back unnoticed."""
    run = fuzz_targets.TARGETS[name]()
    inputs = fuzz_run.corpus(name)
    assert inputs
    for content in inputs:
        began = time.process_time()
        run(content)
        assert time.process_time() - began < _SLOWEST_SECONDS, content


def _pod(**spec: object) -> bytes:
    metadata = {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "1"}
    return orjson.dumps({"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}})


def _affinity(size: int) -> bytes:
    selector = {"matchLabels": {"app": "x"}}
    terms = [{"topologyKey": f"k{number}", "labelSelector": selector} for number in range(size // 64)]
    return _pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def _selector(size: int) -> bytes:
    values = [f"value-{number}" for number in range(size // 16)]
    expression = {"key": "zone", "operator": "In", "values": values}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return _pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}})


SLOW: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "a selector of many values": ("pod_json", _selector),
    "many affinity terms": ("pod_json", _affinity),
    "many tolerations": ("pod_json", lambda size: _pod(tolerations=[{"key": f"k{n}"} for n in range(size // 16)])),
    "many labels": ("pod_json", lambda size: _pod(nodeSelector={f"k{n}": "v" for n in range(size // 16)})),
    "long digits": ("quantity", lambda size: b"1" * size),
    "long digits after the point": ("quantity", lambda size: b"0." + b"1" * size + b"Gi"),
    "deep JSON": ("json_document", lambda size: b"[" * size),
    "deep YAML": ("yaml_document", lambda size: b"[" * size),
    "YAML of aliases": ("yaml_document", lambda size: b"a: &a [x]\nb: [" + b"*a," * (size // 3) + b"]"),
    "YAML of nested aliases": (
        "yaml_document",
        lambda size: (
            b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d,*a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, size // 32))
        ),
    ),
    "deep pods": ("pod_json", lambda size: b'{"a":' * (size // 5)),
    "a watch of one long line": ("watch_json", lambda size: b'{"type":"ADDED","object":{"a":"' + b"x" * size),
    "deep parentheses of CEL": ("cel", lambda size: b"(" * size + b"true" + b")" * size),
    "long sums of CEL": ("cel", lambda size: b"+".join([b"1"] * (size // 2)) + b" == 1"),
    "long lists of CEL": ("cel", lambda size: b"1 in [" + b",".join([b"1"] * (size // 2)) + b"]"),
    "nested loops of CEL": (
        "cel",
        lambda size: (
            b"".join(b"[1,2,3,4,5,6,7,8,9].all(x%d," % n for n in range(size // 1024)) + b"true" + b")" * (size // 1024)
        ),
    ),
    "a deep configuration": ("scheduler_configuration", lambda size: b"{a: " * (size // 4)),
    "many profiles": (
        "scheduler_configuration",
        lambda size: (
            b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
            + b"".join(b"- schedulerName: s%d\n" % n for n in range(size // 64))
        ),
    ),
    "a deep kubeconfig": ("kubeconfig", lambda size: b"{a: " * (size // 4)),
}


@pytest.mark.parametrize("case", SLOW)
def test_time_grows_with_the_length_alone(case: str) -> None:
    """One large object (the API server stores up to 1.5 MiB) would otherwise stop the scheduler."""
    name, make = SLOW[case]
    run = fuzz_targets.TARGETS[name]()

    def seconds(size: int) -> float:
        content = make(size)
        times = []
        for _ in range(2):
            gc.collect()
            began = time.process_time()
            run(content)
            times.append(time.process_time() - began)
        return min(times)

    seconds(_KILOBYTE)
    smaller, larger = seconds(32 * _KILOBYTE), seconds(512 * _KILOBYTE)
    # Sixteen times the length: sixteen times the time, and caches that no longer suffice; a square would be 256 times.
    assert larger < max(64 * smaller, 0.5), f"{smaller:.3f} s, then {larger:.3f} s"
    assert larger < _SLOWEST_SECONDS * 10
