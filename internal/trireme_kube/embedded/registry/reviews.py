"""Reviews of identity and permission, all of which the embedded cluster grants.

It authenticates nobody: a bearer token is tolerated and every caller may do everything. Reviews are not stored; the
response is the object sent with its status filled in.

Also change: internal/trireme/delegated_access/serving_trust.py, tests/helpers/insight_http.py (reviews of callers).
"""

from collections.abc import Callable
from dataclasses import dataclass

from trireme_kube.embedded.api.resources import Object

_USER = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}


def _grant_access(spec: Object) -> Object:
    """The status of an access review: everything is allowed."""
    return {"allowed": True}


def _authentication_status(spec: Object) -> Object:
    """The status of a TokenReview: any token is that of the one user."""
    return {"authenticated": True, "user": _USER, "audiences": spec.get("audiences") or []}


def _self_subject_status(spec: Object) -> Object:
    """The status of a SelfSubjectReview: the one user that there is."""
    return {"userInfo": _USER}


def _allow_all_rules(spec: Object) -> Object:
    """The status of a SelfSubjectRulesReview: rules that allow everything."""
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    anywhere = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    return {"resourceRules": [everything], "nonResourceRules": [anywhere], "incomplete": False}


@dataclass(frozen=True, slots=True)
class Review:
    """A kind of review."""

    group: str
    version: str
    plural: str
    kind: str
    status_of: Callable[[Object], Object]
    """Makes the status from the spec."""
    namespaced: bool = False


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
REVIEWS = (
    Review(_AUTHENTICATION, "v1", "tokenreviews", "TokenReview", _authentication_status),
    Review(_AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", _self_subject_status),
    Review(_AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", _grant_access),
    Review(_AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", _grant_access),
    Review(
        _AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", _grant_access, namespaced=True
    ),
    Review(_AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", _allow_all_rules),
)
_BY_NAME = {(one.group, one.version, one.plural): one for one in REVIEWS}


def review_at(path: str) -> Review | None:
    """The review that a path addresses."""
    parts = path.strip("/").split("/")
    if len(parts) not in (4, 6) or parts[0] != "apis":
        return None
    return _BY_NAME.get((parts[1], parts[2], parts[-1]))


def reply_to(review: Review, body: Object) -> Object:
    """The object sent, with its status filled in."""
    names = {"kind": review.kind, "apiVersion": f"{review.group}/{review.version}"}
    status = review.status_of(body.get("spec") or {})
    return {**names, "metadata": body.get("metadata") or {}, "spec": body.get("spec") or {}, "status": status}
