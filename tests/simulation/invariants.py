"""What must hold after every write at the API server."""

from __future__ import annotations

import collections
from collections.abc import Callable

from tests.simulation.placed_pods import PlacedPods, excluded, used, volumes
from tests.simulation.pod_demands import (
    allocatable,
    device_claims_of,
    devices_of,
    exclusions_of,
    extended_devices_of,
    group_of,
    is_closed,
    is_terminating,
    made_claim_of,
    pod_of_made_claim,
    volume_claims_of,
)
from tests.simulation.simulated_workloads import DEVICE_CLAIMS, GROUPS, VOLUME_CLAIMS, VOLUMES_OF_A_NODE, ZONE
from tests.simulation.unplaced_pods import pods_that_fit, uids_that_keep_claims, zone_of_volume
from trireme_kube.embedded.api.resources import NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import ADDED, DELETED, Event, Store

_UNITS = "thousandths of CPUs, MiB of memory and of ephemeral storage, licenses, pods"


class Invariants:
    """Follows the writes. `violations` are in the order in which they happened."""

    def __init__(self, store: Store, knew_limits: Callable[[str, str], bool] = lambda uid, node: True) -> None:
        """`knew_limits`: whether leaders knew how many volumes the node attaches when they chose it for the pod."""
        self._store = store
        self._knew_limits = knew_limits
        self.violations: list[str] = []
        self.bound = 0
        #: The pods on each node.
        self.placed = PlacedPods()
        # Epochs of leaders by which binding was requested, by pod and node.
        self._epochs: dict[str, dict[str, set[int]]] = collections.defaultdict(lambda: collections.defaultdict(set))
        #: The highest epoch of a leader that has bound a pod.
        self.epoch_in_force = 0
        # The UID of the claim that has a device, and the devices of each claim.
        self._owners: dict[tuple[str, str, str], str] = {}
        self._devices: dict[str, list[tuple[str, str, str]]] = {}
        # Claims that were made for the extended resources of pods: their names, by the UIDs of pod and claim.
        self._made_for: dict[str, dict[str, str]] = collections.defaultdict(dict)

    def on_bind_request(self, uid: str, node: str, epoch: int) -> None:
        """A leader of that epoch has a pod bound to the node."""
        self._epochs[uid][node].add(epoch)

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        check = {PODS: self._on_pod, DEVICE_CLAIMS: self._on_device_claim}.get(resource)
        if check is not None:
            try:
                check(event)
            except Exception as error:  # to the API server it would be an error of its own, which its clients see
                self._violated(f"the check of {event.record.name} failed: {error!r}")

    def _on_pod(self, event: Event) -> None:
        pod, uid, name = event.record.object, event.record.uid, event.record.name
        before, after = self.placed.node_of.get(uid, ""), pod["spec"].get("nodeName", "")
        if event.type == DELETED:
            self._epochs.pop(uid, None)
        elif before and after != before:
            self._violated(f"pod {name} was bound to {before} and is bound to {after!r}")
        elif event.type == ADDED:
            pass  # it may be created on its node, which no scheduler has chosen then
        elif after and not before:
            self.bound += 1
            if is_closed(after):
                self._violated(f"pod {name} is bound to {after}, off which the remote plugin keeps all pods")
            self._check_exclusions(after, pod)
            self.placed.on_pod(event)
            self._check_room(after, name)
            self._check_volumes(after, pod)
            self._check_devices(after, pod)
            self._check_zone(after, pod)
            self._check_epoch(uid, name, after)
        self.placed.on_pod(event)

    def _check_room(self, name: str, pod: str) -> None:
        """No node is given more than it has."""
        node = self._store.get(NODES, "", name)
        if node is None:
            return  # it was removed after the decision, as it may be with any scheduler
        room = allocatable(node.object)
        taken = used(self.placed.on(name))
        if any(amount > limit for amount, limit in zip(taken, room, strict=True)):
            self._violated(f"pod {pod} overcommits {name}: {taken} of {room} ({_UNITS})")

    def _check_exclusions(self, name: str, pod: Object) -> None:
        """No two pods on a node have the same host port, or labels that keep them apart."""
        both = excluded(self.placed.on(name)) & exclusions_of(pod)
        if both:
            self._violated(f"pod {pod['metadata']['name']} shares {sorted(both)} with another pod on {name}")

    def _check_volumes(self, name: str, pod: Object) -> None:
        """No node has more volumes than it can attach, and no pod is where its volume is not."""
        claims = volume_claims_of(pod)
        if not claims:
            return
        attached = volumes(self.placed.on(name))
        if len(attached) > VOLUMES_OF_A_NODE and self._knew_limits(pod["metadata"]["uid"], name):
            self._violated(f"pod {pod['metadata']['name']} makes {len(attached)} volumes on {name}")
        node = self._store.get(NODES, "", name)
        for claim in claims:
            record = self._store.get(VOLUME_CLAIMS, "default", claim)
            if record is None or not record.object["spec"].get("volumeName"):
                self._violated(f"pod {pod['metadata']['name']} is bound to {name}, its claim {claim} has no volume")
                continue
            zone = zone_of_volume(self._store, record.object)
            if node is not None and zone not in (None, node.object["metadata"]["labels"][ZONE]):
                self._violated(f"pod {pod['metadata']['name']} is bound to {name}, its volume is in {zone}")

    def _check_devices(self, name: str, pod: Object) -> None:
        """A pod is bound where its devices are, and they are reserved for it."""
        extended = extended_devices_of(pod)
        made = [made_claim_of(pod)] if extended else []
        for claim in [*device_claims_of(pod), *made]:
            record = self._store.get(DEVICE_CLAIMS, "default", claim)
            status = {} if record is None else record.object.get("status") or {}
            pools = set() if record is None else {pool for _, pool, _ in devices_of(record.object)}
            users = {each["uid"] for each in status.get("reservedFor") or ()}
            if pools != {name} or pod["metadata"]["uid"] not in users:
                text = f"its claim {claim} has devices of {sorted(pools)}"
                self._violated(f"pod {pod['metadata']['name']} is bound to {name}, {text} and users {sorted(users)}")
            elif claim in made and record is not None and len(devices_of(record.object)) != extended:
                self._violated(f"pod {pod['metadata']['name']} does not get {extended} devices by its claim {claim}")

    def _check_zone(self, name: str, pod: Object) -> None:
        """A group that has to be in one zone is."""
        record = self._store.get(GROUPS, "default", group_of(pod)) if group_of(pod) else None
        if record is None or "schedulingConstraints" not in record.object["spec"]:
            return
        members = (each.object for each in self._store.scan(PODS, "default"))
        names = {each["spec"].get("nodeName") for each in members if group_of(each) == record.name} - {None}
        nodes = (self._store.get(NODES, "", each) for each in sorted({name, *names}))
        zones = {node.object["metadata"]["labels"][ZONE] for node in nodes if node is not None}
        if len(zones) > 1:
            self._violated(f"{record.name}, with {pod['metadata']['name']} bound to {name}, is in {sorted(zones)}")

    def _on_device_claim(self, event: Event) -> None:
        """No device is given to two claims, and no two claims are made for a pod."""
        self._check_made_claims(event)
        uid = event.record.uid
        now = [] if event.type == DELETED else devices_of(event.record.object)
        for device in self._devices.pop(uid, []):
            del self._owners[device]
        for device in now:
            owner = self._owners.setdefault(device, uid)
            if owner != uid:
                self._violated(f"claim {event.record.name} got {device}, which another claim has")
        if now:
            self._devices[uid] = [device for device in now if self._owners[device] == uid]

    def _check_made_claims(self, event: Event) -> None:
        """No pod has more than one claim that was made for its extended resources."""
        claim = event.record.object
        pod = pod_of_made_claim(claim)
        if not pod:
            return
        if event.type == DELETED or is_terminating(claim):
            self._made_for[pod].pop(event.record.uid, None)
            if not self._made_for[pod]:
                del self._made_for[pod]
        else:
            self._made_for[pod][event.record.uid] = event.record.name
            if len(self._made_for[pod]) > 1:
                names = " and ".join(sorted(self._made_for[pod].values()))
                self._violated(f"{names} were made for one pod")

    def _check_epoch(self, uid: str, pod: str, node: str) -> None:
        """Once a leader has bound a pod, none before it does."""
        epochs = self._epochs[uid][node]
        if not epochs:
            self._violated(f"pod {pod} was bound to {node} without a leader's request")
            return
        if max(epochs) < self.epoch_in_force:
            self._violated(
                f"pod {pod} was bound for epoch {max(epochs)} after epoch {self.epoch_in_force} had bound one"
            )
        if len(epochs) == 1:
            self.epoch_in_force = max(self.epoch_in_force, *epochs)

    def _violated(self, text: str) -> None:
        self.violations.append(text)

    def useless_claims(self) -> list[str]:
        """Claims that were made for pods that have no node, or are gone; long after the last fault there are none.

        But for pods whose claims kube-scheduler does not release either.
        """
        with_claims = self.placed.node_of.keys() | uids_that_keep_claims(self._store)
        made = (names for pod, names in self._made_for.items() if pod not in with_claims)
        return [f"{name} is of no bound pod" for names in made for name in names.values()]

    def pods_that_fit(self) -> list[str]:
        """The pending pods that some node has room for; long after the last fault there are none."""
        free = {pool: 0 for _, pool, _ in self._owners}
        for _, pool, _ in self._owners:
            free[pool] += 1
        return pods_that_fit(self._store, self.placed, free)
