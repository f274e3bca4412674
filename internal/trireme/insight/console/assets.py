"""The files of the web page: three of them, built from `console/` in development and shipped with the package.

A path is looked up among the names of these files, and never in the file system: there is nothing to traverse. The page
may load scripts and styles from this server alone, and runs neither inline ones nor text as code.

Also change: console/build.mjs (the files of the page).

Tests: tests/security/test_console_http.py.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "console.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    body: bytes
    content_type: str
    etag: str


def find(path: str) -> Asset | None:
    """The file at the path, `/` being the page itself; None: there is none."""
    return _read_assets().get(path)


@functools.cache
def _read_assets() -> Mapping[str, Asset]:
    """Read all files, once, by path."""
    folder = resources.files("trireme.insight.console") / "static"
    out = {}
    for name, content_type in _TYPES.items():
        body = (folder / name).read_bytes()
        etag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
        out["/" if name == "index.html" else f"/{name}"] = Asset(body, content_type, etag)
    return out
