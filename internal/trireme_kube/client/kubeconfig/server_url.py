"""Parses the address of an API server: a URL, or a host with or without a port.

Checked before anything connects, with the messages of Go's `net/url`.

Source: k8s.io/client-go/rest.

Also change: internal/trireme_kube/cel/library/urls.py (Go's net/url).

Tests: tests/unit/client/kubeconfig/test_connection.py.
"""

import re
from dataclasses import dataclass

from trireme_kube.apimachinery.golang import quote
from trireme_kube.componentbase.tls.client_tls import ClientTLS

_HOST_CHARACTER = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%]|[^\x00-\x7f]")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_PORT = re.compile(r"(:[0-9]*)?\Z")


@dataclass(frozen=True, slots=True)
class URL:
    """The relevant parts of a URL."""

    scheme: str = ""
    host: str = ""
    path: str = ""


def parse(text: str) -> URL:
    """Parse a URL. Raises: ValueError: with Go's message."""
    without_fragment = text.partition("#")[0]
    try:
        return _parse_url(without_fragment)
    except ValueError as error:
        raise ValueError(f"parse {quote(without_fragment)}: {error}") from error


def _split_scheme(text: str) -> tuple[str, str]:
    """The scheme, empty if there is none, and the rest. Raises: ValueError with Go's message."""
    for position, char in enumerate(text):
        if char.isascii() and char.isalpha():
            continue
        if char in "0123456789+-.":
            if position == 0:
                return "", text
            continue
        if char == ":":
            if position == 0:
                raise ValueError("missing protocol scheme")
            return text[:position].lower(), text[position + 1 :]
        return "", text
    return "", text


def _parse_url(text: str) -> URL:
    """The parts of a URL, split as Go's net/url does it. Raises: ValueError: with Go's message, without the URL."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise ValueError("net/url: invalid control character in URL")
    if text == "*":
        return URL(path="*")
    scheme, rest = _split_scheme(text)
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        if scheme:
            return URL(scheme)
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _checked_host_and_port(authority), slash + path
    bad = _ESCAPE.search(rest)
    if bad:
        raise ValueError(f"invalid URL escape {quote(rest[bad.start() : bad.start() + 3])}")
    return URL(scheme, host, rest)


def _checked_host_and_port(authority: str) -> str:
    """The host and port of an authority, without user information. Raises: ValueError: Go would not parse them."""
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        closing = host.rfind("]")
        if closing < 0:
            raise ValueError("missing ']' in host")
        port = host[closing + 1 :]
    else:
        colon = host.find(":")
        port = host[colon:] if colon >= 0 else ""
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quote(port)} after host")
    for char in host:
        if not _HOST_CHARACTER.fullmatch(char):
            raise ValueError(f"invalid character {quote(char)} in host name")
    bad = _ESCAPE.search(host)
    if bad:
        raise ValueError(f"invalid URL escape {quote(host[bad.start() : bad.start() + 3])}")
    return host


def parse_server(host: str, *, tls: bool) -> URL:
    """Parse the URL of a server given as URL or as host and port; empty means localhost, and `tls` chooses the scheme.

    Raises:
        ValueError: it is neither.
    """
    host = host or "localhost"
    try:
        url = parse(host)
    except ValueError:
        url = URL()
    if not url.scheme or not url.host:
        url = parse(("https://" if tls else "http://") + host)
        if url.path not in ("", "/"):
            raise ValueError(f"host must be a URL or a host:port pair: {quote(host)}")
    return url


def means_tls(tls: ClientTLS) -> bool:
    """Whether anything of TLS is set, so that a host without a scheme means https."""
    return bool(tls.ca_file or tls.ca_data or tls.cert_file or tls.cert_data or tls.insecure)
