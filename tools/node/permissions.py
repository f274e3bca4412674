"""Which rules of the chart's roles nobody used in a whole trial: each is used by a step, or has its reason here.

Tests: tools/node/test_permissions.py.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator

from tools.controlplane.access_log import Grant, Request

_ACCESS = "tests/e2e/controlplane/test_controlplane_access.py"
_CLAIMS = f"claims for devices, which need a driver on the nodes: {_ACCESS} has one"

REASONS = {
    "get csinodes": f"volumes of a kind that CSI drivers took over: {_ACCESS} has one",
    "get resourceclaims": _CLAIMS,
    "create resourceclaims": _CLAIMS,
    "update resourceclaims": _CLAIMS,
    "patch resourceclaims": _CLAIMS,
    "delete resourceclaims": _CLAIMS,
    "update resourceclaims/status": _CLAIMS,
    "patch resourceclaims/status": _CLAIMS,
    "update resourceclaims/binding": _CLAIMS,
    "patch resourceclaims/binding": _CLAIMS,
    "create leases in kube-system": "kube-scheduler's Lease is there, unless somebody deletes it",
}
"""Of what no step can use here: what does, and which test has it."""


def unused(grants: Collection[Grant], requests: Iterable[Request]) -> list[str]:
    """What the roles allow that no request took, and that has no reason; a line each."""
    asked = set(requests)
    used = {grant for grant in grants if any(grant.allows(request) for request in asked)}
    return sorted({_named(grant) for grant in set(grants) - used - set(_spare(grants, used))})


def unlike(grants: Collection[Grant]) -> list[str]:
    """Those of the reasons that are about no rule."""
    return sorted(REASONS.keys() - {_request(grant) for grant in grants})


def _spare(grants: Iterable[Grant], used: Collection[Grant]) -> Iterator[Grant]:
    """What has a reason."""
    roles = {dataclasses.replace(grant, user="") for grant in used}
    for grant in grants:
        # Lists are streamed by watches; an API server that does not do that is asked for them.
        streamed = grant.verb == "list" and dataclasses.replace(grant, verb="watch") in used
        # A frontend does all that bind does while no bind answers, and has bind's role for it.
        fallback = dataclasses.replace(grant, user="") in roles
        if streamed or fallback or _request(grant) in REASONS:
            yield grant


def _request(grant: Grant) -> str:
    return f"{grant.verb} {grant.resource}" + (f" in {grant.namespace}" if grant.namespace else "")


def _named(grant: Grant) -> str:
    return f"{grant.user.rpartition(':')[2]} ({grant.role}): {_request(grant)}"
