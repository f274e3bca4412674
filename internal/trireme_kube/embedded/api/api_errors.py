"""Refusals of the API, as the `Status` objects that clients of Kubernetes parse.

Clients decide by `reason` and `code` and print `message`, so all three follow the API server's own (Source:
k8s.io/apimachinery, pkg/api/errors). A refusal is raised as `ApiError` and becomes a response in one place, the HTTP
handler; the controllers inside the process catch the same exception.

Tests: tests/unit/embedded/registry/test_registry.py, tests/unit/embedded/test_parts.py.
"""

from collections.abc import Sequence
from typing import Any

from trireme_kube.componentbase import documents
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Resource

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    """A refusal: HTTP status code, machine-readable reason, message, and optional details."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        """The response body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _details_of(resource: Resource, name: str) -> dict[str, Any]:
    """Return the details of a Status about an object."""
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    """404: the object does not exist."""
    return ApiError(404, "NotFound", f'{resource.key} "{name}" not found', _details_of(resource, name))


def no_such_path() -> ApiError:
    """404: no resource is served at the path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    """409: an object of that name exists."""
    return ApiError(409, "AlreadyExists", f'{resource.key} "{name}" already exists', _details_of(resource, name))


def conflict(resource: Resource, name: str, why: str, subresource: str = "") -> ApiError:
    """409: the write lost a race or contradicts the current object."""
    group = f".{resource.group}" if resource.group else ""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    details = _details_of(resource, name)
    details["kind"] = plural
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {plural}{group} "{name}": {why}', details)


def invalid_object(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: the object, of that group and kind, is invalid."""
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details |= {
        "kind": kind,
        "causes": [{"reason": cause.kind, "message": cause.body, "field": cause.field} for cause in causes],
    }
    full = f"{kind}.{group}" if group else kind
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {summary}', details)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """403: admission refused the write."""
    message = f'{resource.key} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details_of(resource, name))


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def expired(message: str, continuation: str = "") -> ApiError:
    """410: the requested version has expired; list again."""
    return ApiError(410, "Expired", message, metadata={"continue": continuation} if continuation else None)


def method_not_allowed() -> ApiError:
    """405: the path has no such verb."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_implemented(message: str) -> ApiError:
    """501: a real cluster supports this, and the embedded one does not."""
    return ApiError(501, "NotImplemented", message, {})


def subresource_not_found(resource: Resource, subresource: str) -> ApiError:
    """501: a subresource that the embedded cluster does not have."""
    what = f"{resource.plural}/{subresource}"
    return not_implemented(f"the embedded cluster has no {what}; {documents.EMBEDDED_CLUSTER} says what it leaves out")


def invalid_options(kind: str, cause: Cause) -> ApiError:
    """422: a query parameter, or the options object in the body, is invalid."""
    causes = [{"reason": cause.kind, "message": cause.body, "field": cause.field}]
    details = {"group": "meta.k8s.io", "kind": kind, "causes": causes}
    return ApiError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {cause}', details)


def precondition_failed(
    resource: Resource, record_key: tuple[str, str], label: str, expected: str, actual: str
) -> ApiError:
    """409: the write's precondition names another object, or another version of it."""
    namespace, name = record_key
    path = "/".join(part for part in ("/registry", resource.plural, namespace, name) if part)
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {label} in precondition: {expected}, {label} in object meta: {actual}",
    )


def unsupported_media_type(supported: Sequence[str]) -> ApiError:
    """415: the body has an encoding that this server does not support."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type; accepted media types include: " + ", ".join(supported),
        {},
    )


def too_large_version(requested: int, current: int) -> ApiError:
    """504: the client has seen a version that this server has not reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return ApiError(504, "Timeout", message, details)


def too_many_requests(message: str, details: dict[str, Any] | None = None) -> ApiError:
    """429: try again later."""
    return ApiError(429, "TooManyRequests", message, details)
