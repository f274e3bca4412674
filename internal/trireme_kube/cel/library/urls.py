"""URLs in expressions, parsed as Go parses request URLs.

Source: net/url of Go, k8s.io/apiserver/pkg/cel/library (urls).

Also change: internal/trireme_kube/client/kubeconfig/server_url.py (Go's net/url).

Tests: tests/conformance/test_selectors.py.
"""

import re
import string
from dataclasses import dataclass
from typing import Final
from urllib import parse

from trireme_kube.cel import values
from trireme_kube.cel.library import networks, quantities_and_versions
from trireme_kube.cel.values import EvaluationError, Map

_UNRESERVED: Final = string.ascii_letters + string.digits + "-_.~"
_PATH: Final = _UNRESERVED + "$&+,/:;=@"
_PATH_AS_WRITTEN: Final = _PATH + "!'()*[]%"
_HOST: Final = frozenset(_UNRESERVED + "!$&'()*+,;=:[]<>\"")
_USER: Final = frozenset(_UNRESERVED + ":!$&'()*+,;=%@")
_USER_WRITTEN: Final = _UNRESERVED + "$&+,;="
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)?:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_HOST_ESCAPE = re.compile(r"%(?!25)[0-7][0-9a-fA-F]")


@dataclass(frozen=True, slots=True)
class Url:
    """One URL in its parts; `text` is its spelling, by which URLs are compared."""

    scheme: str
    host: str
    path: str
    query: str
    text: str


values.register(Url, "kubernetes.URL", lambda value: value.text)


def url(text: str) -> Url:
    """CEL's url(string): parse a URL. Raises: EvaluationError."""
    prefix = "URL parse error during conversion from string: "
    try:
        parse_request_url(text)
    except ValueError as error:
        raise EvaluationError(f"{prefix}{error}") from None
    try:
        return _parse_url(*text.partition("#")[::2], request=False)
    except ValueError as error:
        raise EvaluationError(f"{prefix}parse {values.quoted(text)}: {error}") from None


def parse_request_url(text: str) -> Url:
    """Parse a request URL. Raises: ValueError with Go's message."""
    try:
        return _parse_url(text, "", request=True)
    except ValueError as error:
        raise ValueError(f"parse {values.quoted(text)}: {error}") from None


def is_url(text: str) -> bool:
    """CEL's isURL(string): whether the text is a URL."""
    return quantities_and_versions.succeeds(parse_request_url, text)


def scheme(value: Url) -> str:
    """CEL's url.getScheme(): the scheme; empty without one."""
    return value.scheme


def host(value: Url) -> str:
    """CEL's url.getHost(): the host with its port."""
    return value.host


def host_name(value: Url) -> str:
    """CEL's url.getHostname(): the host without its port."""
    return _host_and_port(value.host)[0]


def port(value: Url) -> str:
    """CEL's url.getPort(): the port as text; empty without one."""
    return _host_and_port(value.host)[1]


def escaped_path(value: Url) -> str:
    """CEL's url.getEscapedPath(): the path with its escapes."""
    return value.path


def query(value: Url) -> Map:
    """CEL's url.getQuery(): lists of values by name; invalid parts are left out."""
    out: dict[str, list[str]] = {}
    for part in value.query.split("&"):
        key, _, value_ = part.partition("=")
        if part and ";" not in part and not _BAD_ESCAPE.search(part):
            out.setdefault(parse.unquote_plus(key), []).append(parse.unquote_plus(value_))
    return Map(out)


def _host_and_port(text: str) -> tuple[str, str]:
    """Split a host into name and port, which is empty if there is none; an IPv6 address loses its brackets."""
    name, colon, number = text.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{number}"):
        name, number = text, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), number


def _parse_url(text: str, fragment: str, *, request: bool) -> Url:
    """Parse as Go's `url.parse` does. `request`: only an absolute URI or path. Raises: ValueError with Go's message."""
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and request:
        raise ValueError("empty url")
    if text == "*":
        return Url("", "", "*", "", "*")
    url_scheme, rest = _without_scheme(text)
    has_bare_question_mark = rest.endswith("?") and rest.count("?") == 1
    rest, _, query_text = rest.partition("?")
    tail = (f"?{query_text}" if has_bare_question_mark or query_text else "") + (f"#{fragment}" if fragment else "")
    if not rest.startswith("/"):
        if url_scheme:
            return Url(url_scheme, "", "", query_text, f"{url_scheme}:{rest}{tail}")
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    user, authority, prefix = "", "", f"{url_scheme}:" if url_scheme else ""
    if rest.startswith("//") and (url_scheme or (not request and not rest.startswith("///"))):
        written, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        user, authority = _parse_authority(url_scheme, written)
        if authority or rest or user:
            prefix += "//"
    path = _escape_path(rest)
    return Url(url_scheme, authority, path, query_text, f"{prefix}{user}{_escape_host(authority)}{path}{tail}")


def _without_scheme(text: str) -> tuple[str, str]:
    """Split off the scheme, in lower case; empty if there is none. Raises: ValueError if it is empty before a colon."""
    match = _SCHEME.match(text)
    if match is None:
        return "", text
    if not match.group(1):
        raise ValueError("missing protocol scheme")
    return match.group(1).lower(), text[match.end() :]


def _parse_authority(url_scheme: str, text: str) -> tuple[str, str]:
    """Split user information from host and port, and check both. Raises: ValueError with Go's message."""
    user, at, authority = text.rpartition("@")
    authority = _parse_host(url_scheme, authority)
    if not at:
        return "", authority
    if not set(user) <= _USER:
        raise ValueError("net/url: invalid userinfo")
    _check_escapes(user)
    parts = [parse.quote(parse.unquote(part), safe=_USER_WRITTEN) for part in user.split(":", 1)]
    return ":".join(parts) + "@", authority


def _parse_host(url_scheme: str, text: str) -> str:
    """Check host and port as Go does, and return them unescaped; an IPv6 address stays in its brackets.

    Raises: ValueError with Go's message.
    """
    at = text.rfind("[")
    if at > 0:
        raise ValueError("invalid IP-literal")
    if at < 0:
        # Only where hosts have never been lists of hosts may there be no more than one colon.
        colon = text.find(":") if url_scheme in ("http", "https") else text.rfind(":")
        if colon >= 0 and not _PORT.fullmatch(text[colon:]):
            raise ValueError(f"invalid port {values.quoted(text[colon:])} after host")
        return _unescape_host(text)
    closing = text.rfind("]")
    if closing < 0:
        raise ValueError("missing ']' in host")
    if not _PORT.fullmatch(text[closing + 1 :]):
        raise ValueError(f"invalid port {values.quoted(text[closing + 1 :])} after host")
    name, zone, rest = text[1:closing].partition("%25")
    literal = _unescape_host(name) + (parse.unquote(zone + rest) if zone else "")
    try:
        address = networks.netip_address(literal)
    except ValueError as error:
        raise ValueError(f"invalid host: {error}") from None
    if address.version == 4:
        raise ValueError("invalid IP-literal")
    return f"[{literal}]{text[closing + 1 :]}"


def _unescape_host(text: str) -> str:
    """Unescape a host. Raises: ValueError with Go's message for letters that it must not have."""
    _check_escapes(text)
    forbidden = _HOST_ESCAPE.search(text)
    if forbidden is not None:
        raise ValueError(f"invalid URL escape {values.quoted(forbidden.group())}")
    for letter in text:
        if letter.isascii() and letter not in _HOST and letter != "%":
            raise ValueError(f"invalid character {values.quoted(letter)} in host name")
    return parse.unquote(text)


def _escape_host(text: str) -> str:
    return parse.quote(text, safe="".join(_HOST))


def _escape_path(text: str) -> str:
    """Return the path escaped: as written if that is a valid escaping."""
    _check_escapes(text)
    if all(letter in _PATH_AS_WRITTEN for letter in text):
        return text
    return parse.quote(parse.unquote_to_bytes(text), safe=_PATH)


def _check_escapes(text: str) -> None:
    """Raise ValueError for a `%` without two hexadecimal digits."""
    wrong = _BAD_ESCAPE.search(text)
    if wrong is not None:
        raise ValueError(f"invalid URL escape {values.quoted(wrong.group())}")
