"""From the release before to this one and back while pods are scheduled, as docs/upgrade.md has it.

Tests: tools/node/test_node_cluster.py.
"""

from collections.abc import Callable, Sequence

from tools.node import previous_release
from tools.node.installation import SERVICES, Installation, TrialFailedError
from tools.node.load import Load
from tools.release import versions

# Either has the frontends between two phases, so that they meet newer phases and earlier ones.
_FORWARD = ("bind", "frontend", "score", "filter")
_BACK = ("filter", "score", "frontend", "bind")


def upgrade_and_roll_back(here: Installation) -> None:
    """All Deployments at once, and then one after the other, forward and back.

    Raises: TrialFailedError: a pod is of another release than it should be.
    """
    previous = previous_release.build()
    here.cluster.load_image(previous.archive)
    here.install(chart=previous.chart)
    here.await_ready()
    _check(here, previous.version)
    for forward, back in (((), ()), (_FORWARD, _BACK)):
        for change, order, version in (
            (here.upgrade, forward, versions.current()),
            (here.roll_back, back, previous.version),
        ):
            with Load(here, "trireme"):
                _change(here, change, order)
            _check(here, version)


def _change(here: Installation, change: Callable[[], None], order: Sequence[str]) -> None:
    """Go to another release; with an order each Deployment begins when the one before is ready."""
    if order:
        here.kubectl("rollout", "pause", *_deployments(order))
    change()
    for service in order:
        here.kubectl("rollout", "resume", *_deployments([service]))
        here.await_ready(service)
    here.await_ready()


def _deployments(services: Sequence[str]) -> list[str]:
    return [f"deployment/trireme-{service}" for service in services]


def _check(here: Installation, version: str) -> None:
    pods = [pod for service in SERVICES for pod in here.pods(service)]
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    if {image.rpartition(":")[2] for image in images} != {version}:
        raise TrialFailedError(f"not all pods are of {version}: {sorted(images)}")
