"""ImageLocality: prefer nodes that have the pod's images already, the more so the more nodes have them."""

from typing import Any, Literal

import numpy as np

from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.image_locality.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot

_MIB = 1024 * 1024
_MIN_THRESHOLD = 23 * _MIB
_MAX_CONTAINER_THRESHOLD = 1000 * _MIB


class ImageLocality:
    """The score of ImageLocality: prefers nodes that have the pod's images already."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    reads_node_terms_only: Literal[True] = True
    normalization = scorers.Normalization.NONE
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ("images", "node_count")

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return the class's images, each with a tag; it is never skipped."""
        return pod_class.memo(self.name, _tagged_image_names)

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Bytes of the pod's images on the node, each scaled by the share of nodes that have it, between thresholds."""
        images: tuple[str, ...] = state
        found = [image for image in map(snap.nodes.images.find, images) if image is not None]
        total = np.zeros(slots.shape[0], dtype=np.int64)
        if not found and images:
            return total
        for image in found:
            scaled = int(image.size * (image.count / snap.nodes.count))
            total += np.where(image.has(slots), scaled, 0)
        most = _MAX_CONTAINER_THRESHOLD * len(images)
        # In this order: without containers the upper threshold is below the lower one, which then holds.
        clamped = np.maximum(np.minimum(total, most), _MIN_THRESHOLD)
        return 100 * (clamped - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD)


def normalized_name(image: str) -> str:
    """The name with a tag: `latest` where it has none."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"


def _tagged_image_names(pod_class: classes.PodClass) -> tuple[str, ...]:
    """Compute the state of `pre_score`, once for a class."""
    spec = pod_class.pod.spec
    named = [container.image for container in (*spec.init_containers, *spec.containers)]
    named += [volume.volume_source.image.reference for volume in spec.volumes if volume.volume_source.HasField("image")]
    return tuple(normalized_name(image) for image in named)


def make(context: plugin_context.PluginContext) -> ImageLocality:
    """Make the plugin, which depends on nothing in its profile."""
    return ImageLocality()
