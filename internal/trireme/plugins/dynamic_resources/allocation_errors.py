"""Why no devices were allocated: the errors of the allocator and of what it consists of."""

from trireme.v1 import resource_pb2


class AllocationError(Exception):
    """The claims, or what they refer to, are wrong: no node can do."""


class UnusablePoolsError(Exception):
    """A pool that the node sees is broken, so there is no allocation: other nodes may do."""


class TimedOutError(Exception):
    """The search took too long."""


def claim_name(claim: resource_pb2.ResourceClaim) -> str:
    """Return `namespace/name`, as messages of errors name the claim."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}" if claim.metadata.namespace else claim.metadata.name
