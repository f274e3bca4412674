"""Log lines about writes that the API server refuses, one for each change and not one for each repetition.

A missing permission fails the same write of every pod, and a pod that an admission webhook refuses fails again with
each attempt. So a line is written for the first refusal of its kind since such a write succeeded, and for another
object only if it was not refused for that reason before.
"""

import logging
from collections import OrderedDict

from trireme_kube.client.rest.errors import ApiError
from trireme_kube.componentbase import documents
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

OBJECTS = 1000
"""So many refused objects are remembered, those that were refused last."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class WriteRefusals:
    """Which writes are being refused."""

    def __init__(self) -> None:
        #: By method and resource: the status that was logged, unless such a write succeeded since.
        self._current: dict[tuple[str, str], int] = {}
        #: By method and path: the status of the object's last refusal.
        self._objects: OrderedDict[tuple[str, str], int] = OrderedDict()

    def refused(self, method: str, path: str, error: ApiError) -> None:
        """Log that the API server refused the write for good. Conflicts and missing objects are no refusals."""
        if error.conflict or error.not_found:
            return
        resource, name = _resource_and_name(path)
        repeated = self._objects.pop((method, path), 0) == error.status
        self._objects[method, path] = error.status
        if len(self._objects) > OBJECTS:
            self._objects.popitem(last=False)
        if repeated or self._current.get((method, resource)) == error.status:
            return
        self._current[method, resource] = error.status
        what = {"verb": _VERBS[method], "resource": resource, "object": klog.Ref(name)}
        if error.denied:
            what["see"] = documents.MISSING_PERMISSIONS
        klog.error(
            log,
            "The API server refused a write; what needs it is tried again",
            **what,
            status=error.status,
            err=error.message,
        )

    def written(self, method: str, path: str) -> None:
        """Note that the write succeeded: its next refusal is logged anew."""
        if self._current or self._objects:
            self._current.pop((method, _resource_and_name(path)[0]), None)
            self._objects.pop((method, path), None)


def _resource_and_name(path: str) -> tuple[str, str]:
    """The resource with its subresource (`pods/binding`), and the object's name with its namespace.

    The path is the API's: `/api/v1/namespaces/NAMESPACE/pods/NAME/binding`.
    """
    parts = path.strip("/").split("/")
    parts = parts[2 if parts[0] == "api" else 3 :]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = f"{parts[1]}/", parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    return "/".join(filter(None, (resource, subresource))), f"{namespace}{name}"
