"""What a cluster needs beside Kubernetes for some values of the chart: cert-manager and metrics-server.

Both run beside the control plane, as they would on its nodes.

Tests: tools/node/test_node_cluster.py.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from deploy import make_certificates
from tools.controlplane import launcher
from tools.node import networks
from tools.programs.build_addons import CERT_MANAGER, CERT_MANAGER_PACKAGE, METRICS_SERVER

_METRICS_PORT = 4443
_METRICS = ("metrics-server", "kube-system")


@contextlib.contextmanager
def cert_manager(plane: launcher.ControlPlane) -> Iterator[None]:
    """Have certificates made and renewed. Raises: ControlPlaneError."""
    CERT_MANAGER.build()
    for file in sorted((CERT_MANAGER.sources_of(CERT_MANAGER_PACKAGE) / "deploy" / "crds").glob("crd-*.yaml")):
        # Its chart fills in labels.
        kind = "\n".join(line for line in file.read_text().splitlines() if "{{" not in line)
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=kind)
    plane.kubectl("wait", "--for=condition=Established", "crd/certificates.cert-manager.io", "--timeout=30s")
    plane.start_program(
        "cert-manager",
        f"--kubeconfig={plane.kubeconfig}",
        "--leader-elect=false",
        "--metrics-listen-address=127.0.0.1:0",
        binary=CERT_MANAGER.program("controller"),
    )
    yield
    plane.stop_program("cert-manager")


@contextlib.contextmanager
def metrics_server(plane: launcher.ControlPlane) -> Iterator[None]:
    """Have pods measured, every ten seconds. Raises: ControlPlaneError."""
    METRICS_SERVER.build()
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(_metrics_objects()))
    plane.start_program(
        "metrics-server",
        *(f"--{kind}kubeconfig={plane.kubeconfig}" for kind in ("", "authentication-", "authorization-")),
        f"--bind-address={networks.GATEWAY}",
        f"--secure-port={_METRICS_PORT}",
        f"--cert-dir={plane.directory / 'metrics-server'}",
        "--kubelet-insecure-tls",
        "--kubelet-preferred-address-types=InternalIP",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
        binary=METRICS_SERVER.program("metrics-server"),
    )
    plane.kubectl("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=50s")
    yield
    plane.stop_program("metrics-server")
    plane.kubectl("delete", "apiservice/v1beta1.metrics.k8s.io")


def make_aggregation_certificates(folder: Path) -> None:
    """Make what the API server presents to servers that it forwards requests to."""
    make_certificates.make(folder, _METRICS[1], 1, services=("aggregator",))


def aggregation_flags(folder: Path) -> tuple[str, ...]:
    """Flags of kube-apiserver that have it forward requests to such servers, with these certificates."""
    return (
        "--enable-aggregator-routing=true",  # no kube-proxy is in its namespace
        f"--requestheader-client-ca-file={folder / 'ca.crt'}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folder / 'aggregator' / 'tls.crt'}",
        f"--proxy-client-key-file={folder / 'aggregator' / 'tls.key'}",
    )


def _metrics_objects() -> dict[str, object]:
    name, namespace = _METRICS
    metadata = {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": _METRICS_PORT}]},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": _METRICS_PORT}],
        "endpoints": [{"addresses": [networks.GATEWAY], "conditions": {"ready": True}}],
    }
    registration = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": name, "namespace": namespace, "port": 443},
        },
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, endpoints, registration]}
