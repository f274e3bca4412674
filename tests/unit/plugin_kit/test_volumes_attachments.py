"""What an index of attached volumes remembers of classes and claims that are gone."""

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.plugin_kit import volumes_attachments
from trireme.v1 import core_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode


def test_classes_that_are_gone_are_forgotten_with_their_claims() -> None:
    """A pod with claims of its own is a class of its own, so that the index would grow with each of them."""
    builder = SnapshotBuilder()
    for number in range(1, 400):
        claim = {"metadata": {"namespace": "default", "name": f"claim-{number}"}, "spec": {}}
        entry = snapshot_pb2.ClusterObject(persistent_volume_claim=decode.decode(claim, core_pb2.PersistentVolumeClaim))
        builder.apply(objects=[entry])
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}
        builder.add_class(number, pod_of({"volumes": [volume]}))
        index = builder.snap.derived("attached_volumes", volumes_attachments.AttachmentIndex)
        # As a claim goes while its pod's class is still known, which stays for a while without pods.
        key = snapshot_pb2.ObjectKey(kind="persistent_volume_claim", namespace="default", name=f"claim-{number}")
        builder.apply(removed_objects=[key])
        builder.apply(removed_classes=[number])
    assert len(index._classes) <= 2 * volumes_attachments.SLACK
    assert len(index._classes_of_claim) <= 2 * volumes_attachments.SLACK
