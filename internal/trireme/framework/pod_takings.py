"""What a pod takes of its node beside resources: host ports, and objects that are there once.

Tests: tests/unit/plugins/test_node_ports.py, tests/unit/scheduling/test_batches_in_turn.py.
"""

from trireme.v1 import core_pb2

Port = tuple[str, str, int]
"""A host port: address, protocol, number."""


def has_claims(spec: core_pb2.PodSpec) -> bool:
    """Whether the pod uses objects that pods take: claims for devices, or volumes."""
    return bool(spec.resource_claims) or any(volume.HasField("volume_source") for volume in spec.volumes)


def host_ports(spec: core_pb2.PodSpec) -> tuple[Port, ...]:
    """The host ports that containers and sidecars name."""
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    return tuple(
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )
