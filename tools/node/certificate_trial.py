"""Mutual TLS with certificates that cert-manager makes and renews while pods are scheduled.

Tests: tools/node/test_node_cluster.py.
"""

from tools.node import addons
from tools.node.installation import PHASES, SERVICES, Installation, TrialFailedError, until
from tools.node.load import Load

# An hour is cert-manager's shortest life of a certificate: it is renewed after a minute.
_SETTINGS = ("certificates.source=certManager", "certificates.duration=1h", "certificates.renewBefore=59m")
# The kubelet needs up to a minute and a half to update the files of a pod.
_RENEWED_SECONDS = 400.0
# Prints a digest of the certificate that each address presents.
_PRESENTED = """
import hashlib, socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
for address in sys.argv[1:]:
    host, port = address.rsplit(":", 1)
    with context.wrap_socket(socket.create_connection((host, int(port)), 10)) as secure:
        print(hashlib.sha256(secure.getpeercert(True)).hexdigest())
"""


def rotate(here: Installation) -> None:
    """Install with cert-manager, and wait under load until every phase presents a new certificate.

    Then filter is replaced: frontends connect to it with certificates of theirs. Raises: TrialFailedError: a phase does
    not take its certificate, or a process is restarted for it.
    """
    with addons.cert_manager(here.cluster.plane):
        here.kubectl("delete", "secrets", *(f"trireme-{service}-tls" for service in SERVICES), "--ignore-not-found")
        here.install(*_SETTINGS)
        here.await_ready()
        processes = _processes(here)
        with Load(here, "trireme"):
            before = _presented(here)
            until(lambda: not before & _presented(here), "all phases present renewed certificates", _RENEWED_SECONDS)
            if processes != (now := _processes(here)):
                raise TrialFailedError(f"replaced or restarted: {sorted(processes ^ now)}")
            here.kubectl("rollout", "restart", "deployment/trireme-filter")
            here.await_ready("filter")


def _processes(here: Installation) -> set[tuple[str, int]]:
    """Each pod, and how often it was restarted."""
    pods = (pod for service in SERVICES for pod in here.pods(service))
    return {(pod["metadata"]["name"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods}


def _presented(here: Installation) -> set[str]:
    """What the phases' pods present to a frontend."""
    addresses = [
        f"{pod['status']['podIP']}:{pod['spec']['containers'][0]['ports'][0]['containerPort']}"
        for phase in PHASES
        for pod in here.pods(phase)
    ]
    frontend = here.pods("frontend")[0]["metadata"]["name"]
    return set(here.kubectl("exec", frontend, "--", "python", "-c", _PRESENTED, *addresses).split())
