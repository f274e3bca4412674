"""Documents of Kubernetes' components: Status objects, and the /statusz and /flagz pages.

The text of the latter two is for people: kube-scheduler chooses the separator at random so that nobody parses it.
Programs request a version of the document by name, as JSON or YAML.

Tests: tests/contract/test_serving_http.py.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_NOT_ACCEPTABLE = "only the following media types are accepted: application/json, application/yaml, text/plain"
_GROUP = "config.k8s.io"
_VERSIONS = {"v1beta1": False, "v1alpha1": True}  # version → deprecated
_SEPARATOR = ": "


@dataclass(frozen=True, slots=True)
class Document:
    """A response: status code, type, body; `warning` is a header."""

    status: int
    content_type: str
    body: str
    warning: str = ""


def failure(code: int, reason: str, message: str, *, details: bool = False, pretty: bool = False) -> Document:
    """A Status object; `pretty`: indented for people."""
    out: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    out |= {"message": message, "reason": reason}
    if details:
        out["details"] = {}
    out["code"] = code
    return Document(
        code, "application/json", json.dumps(out, indent=2, ensure_ascii=False) if pretty else _json_text(out)
    )


def is_for_people(user_agent: str, pretty: str | None) -> bool:
    """Whether a person reads the JSON: by the query, or by the user agent."""
    if pretty:
        return pretty in ("1", "t", "T", "TRUE", "true", "True")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


@dataclass(frozen=True, slots=True)
class Page:
    """/statusz or /flagz: `kind` is the name of the object, `lines` of the text, `fields` of the object."""

    program: str
    title: str
    kind: str
    lines: Callable[[], Mapping[str, str]]
    fields: Callable[[], Mapping[str, Any]]
    #: Before the lines.
    gap: str = ""
    #: Between separator and value.
    space: str = ""

    def answer(self, accept: str, write_yaml: Callable[[Mapping[str, Any]], str]) -> Document:
        """The page in the first supported format of those accepted."""
        for entry in (accept or "*/*").split(","):
            media, *rest = (part.strip() for part in entry.split(";"))
            parameters = dict(part.split("=", 1) for part in rest if "=" in part)
            if media in ("*/*", "text/plain", "text/*"):
                return Document(200, "text/plain; charset=utf-8", self._as_text())
            version = parameters.get("v", "")
            if (parameters.get("g"), parameters.get("as")) != (_GROUP, self.kind) or version not in _VERSIONS:
                continue
            if media in ("application/json", "application/yaml"):
                return self._as_api_object(media, version, write_yaml)
        return failure(406, "NotAcceptable", _NOT_ACCEPTABLE, pretty=True)

    def _as_text(self) -> str:
        lines = "".join(f"{name}{_SEPARATOR}{self.space}{value}\n" for name, value in self.lines().items())
        return f"\n{self.program} {self.title}\n{_WARNING}\n{self.gap}{lines}"

    def _as_api_object(self, media: str, version: str, write_yaml: Callable[[Mapping[str, Any]], str]) -> Document:
        """Return the page as an object of the API, in JSON or YAML; an old version gets a warning."""
        value = {
            "kind": self.kind,
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {"name": self.program},
            **self.fields(),
        }
        body = _json_text(value) if media == "application/json" else write_yaml(value)
        warning = ""
        if _VERSIONS[version]:
            warning = f'299 - "This version of the {self.title} endpoint is deprecated. Please use a newer version."'
        return Document(200, f"{media};g={_GROUP};v={version};as={self.kind}", body, warning)


def uptime(seconds: float) -> str:
    """A duration as /statusz shows it."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} hr {minutes:02d} min {rest:02d} sec"


def _json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"
