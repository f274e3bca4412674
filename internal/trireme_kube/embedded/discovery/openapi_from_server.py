r"""Makes `openapi.json.gz`, the schemas of the kinds served, from a real API server's OpenAPI documents.

Run by hand for a new release, with KUBECONFIG naming a cluster of that release:

    make controlplane
    python -m tools.controlplane.launcher --runtime-config scheduling.k8s.io/v1beta1=true \
        --runtime-config scheduling.k8s.io/v1alpha3=true --feature-gate GenericWorkload=true \
        --feature-gate TopologyAwareWorkloadScheduling=true --feature-gate CompositePodGroup=true \
        -- python -m trireme_kube.embedded.discovery.openapi_from_server

Tests: tests/e2e/test_embedded_kubectl.py.
"""

import gzip
import os
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import orjson
import yaml

from trireme_kube.embedded.api.resources import RESOURCES
from trireme_kube.embedded.discovery.openapi import SCHEMA_FILE, references
from trireme_kube.embedded.registry.reviews import REVIEWS

# Beside the resources: what subresources and every request take.
_OTHERS = {("autoscaling", "v1", "Scale"), ("policy", "v1", "Eviction"), ("", "v1", "Binding")}


def _get_json(path: str) -> Any:
    """Read a path of the API server that KUBECONFIG names."""
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    request = urllib.request.Request(cluster["server"] + path, headers={"Authorization": f"Bearer {user['token']}"})
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    with urllib.request.urlopen(request, context=context) as reply:
        return orjson.loads(reply.read())


def _is_needed(name: str, schema: Any) -> bool:
    """Whether the schema is of a kind that the embedded cluster serves."""
    kinds = {(one.group, one.version, one.kind) for one in RESOURCES} | _OTHERS
    kinds |= {(one.group, one.version, one.kind) for one in REVIEWS}
    named = {(one["group"], one["version"], one["kind"]) for one in schema.get("x-kubernetes-group-version-kind") or ()}
    return len(named) == 1 and bool(named & kinds)


def main() -> int:
    """Writes the schemas beside this module."""
    schemas: dict[str, Any] = {}
    for path, entry in _get_json("/openapi/v3")["paths"].items():
        if path == "api/v1" or (path.startswith("apis/") and path.count("/") == 2):
            schemas |= _get_json(entry["serverRelativeURL"])["components"]["schemas"]
    needed = {name for name, schema in schemas.items() if _is_needed(name, schema)}
    waiting = list(needed)
    while waiting:
        for name in references(schemas[waiting.pop()]):
            if name not in needed:
                needed.add(name)
                waiting.append(name)
    data = orjson.dumps({name: schemas[name] for name in sorted(needed)})
    SCHEMA_FILE.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{len(needed)} schemas, {SCHEMA_FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
