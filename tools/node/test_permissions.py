"""What the trial concludes about the rules of the chart's roles."""

import dataclasses
from pathlib import Path

import yaml

from tools.controlplane.access_log import Grant, Request, grants
from tools.node import permissions

_BIND = "system:serviceaccount:trireme-system:trireme-bind"
_FRONTEND = "system:serviceaccount:trireme-system:trireme-frontend"
_DELETE = Grant(_BIND, "trireme-bind", "delete", "", "pods", "", ())
_FALLBACK = dataclasses.replace(_DELETE, user=_FRONTEND)
_WATCH = Grant(_FRONTEND, "trireme-frontend", "watch", "", "nodes", "", ())
_LIST = dataclasses.replace(_WATCH, verb="list")
_SELDOM = Grant(_BIND, "trireme-bind", "get", "storage.k8s.io", "csinodes", "", ())


def request(grant: Grant) -> Request:
    return Request(grant.user, grant.verb, grant.group, grant.resource, "default", "one", True, "", 200)


def test_what_nobody_asked_for_is_named() -> None:
    assert permissions.unused([_DELETE, _WATCH], [request(_WATCH)]) == ["trireme-bind (trireme-bind): delete pods"]
    assert permissions.unused([_DELETE, _WATCH], [request(_WATCH), request(_DELETE)]) == []


def test_a_request_of_another_account_does_not_count() -> None:
    assert permissions.unused([_DELETE], [request(_FALLBACK)]) == ["trireme-bind (trireme-bind): delete pods"]


def test_a_frontend_may_do_what_bind_does() -> None:
    assert permissions.unused([_DELETE, _FALLBACK], [request(_DELETE)]) == []
    assert len(permissions.unused([_DELETE, _FALLBACK], [])) == 2


def test_lists_are_needed_where_watches_are() -> None:
    assert permissions.unused([_LIST, _WATCH], [request(_WATCH)]) == []
    assert len(permissions.unused([_LIST, _WATCH], [])) == 2


def test_what_has_a_reason_is_not_named() -> None:
    assert permissions.unused([_SELDOM], []) == []


def test_each_reason_is_about_a_rule_of_the_chart() -> None:
    roles = []
    for name in ("everything", "default-scheduler"):
        rendered = Path("tests/contract/data/chart", f"{name}.objects.yaml")
        roles += grants(list(filter(None, yaml.safe_load_all(rendered.read_text()))))
    assert permissions.unlike(roles) == []
