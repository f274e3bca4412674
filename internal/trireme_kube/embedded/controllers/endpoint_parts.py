"""What a pod contributes to the endpoints of a Service: its address and the numbers of its ports.

Source: k8s.io/endpointslice (utils.go, util/controller_utils.go).

Tests: tests/unit/embedded/controllers/test_endpoints.py.
"""

from trireme_kube.embedded.api.resources import Object

Port = tuple[str, str, int, str]
"""Name, protocol, number and application protocol."""
Ports = tuple[Port, ...]


def pod_ip(pod: Object) -> str:
    """The pod's address; empty before it has one."""
    return str((pod.get("status") or {}).get("podIP") or "")


def publishes_not_ready(service: Object) -> bool:
    """Whether pods of the Service count as ready whatever they say, even while they terminate."""
    return bool(service["spec"].get("publishNotReadyAddresses"))


def endpoint_ports(service: Object, pod: Object) -> Ports:
    """The Service's ports by the pod's numbers; ports that the pod does not name are left out."""
    ports = []
    for port in service["spec"].get("ports") or ():
        target, protocol = port.get("targetPort") or port["port"], port.get("protocol", "TCP")
        number = target if isinstance(target, int) else _container_port(pod, target, protocol)
        if number is not None:
            ports.append((port.get("name", ""), protocol, number, port.get("appProtocol", "")))
    return tuple(ports)


def _container_port(pod: Object, name: str, protocol: str) -> int | None:
    """Return the number of the pod's port of that name and protocol; None if it has none."""
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def port_objects(ports: Ports, *, name_always: bool) -> list[Object]:
    """Return the ports as the API has them; `name_always`: an empty name too."""
    result = []
    for name, protocol, number, application in ports:
        port: Object = {"name": name} if name or name_always else {}
        port |= {"port": number, "protocol": protocol}
        result.append({**port, "appProtocol": application} if application else port)
    return result
