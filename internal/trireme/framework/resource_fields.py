"""The fields of pods from which `amounts` computes what they request.

Specs of plugins name them, and are read where neither protobuf nor the arithmetic is loaded.
"""

#: As paths of the API.
RESOURCE_FIELDS = (
    "spec.containers.name",
    "spec.containers.resources",
    "spec.initContainers.name",
    "spec.initContainers.resources",
    "spec.initContainers.restartPolicy",
    "spec.overhead",
    "spec.resources",
    "status.allocatedResources",
    "status.conditions",
    "status.containerStatuses",
    "status.initContainerStatuses",
    "status.nodeAllocatableResourceClaimStatuses",
    "status.resources",
)
