"""What an API server with RBAC was asked and what it answered, from its audit log.

And which rules of the roles that took.

A rule is taken apart into its grants: one verb on one resource (for one name, where it says names). So a rule that has
a verb too many is found too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_POLICY = Path(__file__).with_name("audit-policy.yaml")
_FILE = "audit.log"


@dataclass(frozen=True)
class Request:
    """One request that was authorised or refused."""

    user: str
    verb: str
    group: str
    resource: str  # with its subresource
    namespace: str
    name: str
    allowed: bool
    reason: str
    code: int


@dataclass(frozen=True)
class Grant:
    """What one user may do because of a role; namespace "": everywhere. `names` empty: whatever its name."""

    user: str
    role: str
    verb: str
    group: str
    resource: str
    namespace: str
    names: tuple[str, ...]

    def allows(self, request: Request) -> bool:
        """Whether it is enough for the request."""
        return (
            (self.user, self.verb, self.group, self.resource)
            == (request.user, request.verb, request.group, request.resource)
            and self.namespace in ("", request.namespace)
            and (not self.names or request.name in self.names)
        )


def flags(folder: Path) -> tuple[str, ...]:
    """Flags of kube-apiserver that have it write the log in this folder."""
    return (f"--audit-policy-file={_POLICY}", f"--audit-log-path={folder / _FILE}", "--audit-log-maxsize=10000")


def requests(folder: Path, users: Iterable[str]) -> list[Request]:
    """The requests of these users about resources."""
    wanted = frozenset(users)
    found = []
    for line in (folder / "audit.log").read_text().splitlines():
        event = json.loads(line)
        what = event.get("objectRef")
        # A request without a valid token has no user.
        if event["user"].get("username") not in wanted or not what:
            continue
        annotations = event.get("annotations") or {}
        resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
        request = Request(
            event["user"]["username"],
            event["verb"],
            what.get("apiGroup", ""),
            resource,
            what.get("namespace", ""),
            what.get("name", ""),
            annotations.get("authorization.k8s.io/decision") == "allow",
            annotations.get("authorization.k8s.io/reason", ""),
            event["responseStatus"]["code"],
        )
        found.append(request)
        if resource == "resourceclaims/status":
            # Asked by the API server of itself, and not logged: writing an allocation takes two permissions.
            allowed = request.allowed and request.code < 400
            found.append(dataclasses.replace(request, resource="resourceclaims/binding", allowed=allowed))
    return found


def grants(objects: Sequence[Json]) -> list[Grant]:
    """What the ServiceAccounts may do that these roles are bound to."""
    rules = {
        (entry["kind"], entry["metadata"].get("namespace", ""), entry["metadata"]["name"]): entry["rules"]
        for entry in objects
        if entry["kind"] in ("Role", "ClusterRole")
    }
    found = []
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        role, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
        for rule in rules[role["kind"], namespace if role["kind"] == "Role" else "", role["name"]]:
            for subject in binding["subjects"]:
                user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
                found.extend(
                    Grant(user, role["name"], verb, group, resource, namespace, tuple(rule.get("resourceNames") or ()))
                    for verb in rule["verbs"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                )
    return found
