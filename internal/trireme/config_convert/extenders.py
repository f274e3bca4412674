"""Extenders, as a Policy or an older version of the configuration had them, as `v1` has them.

Also change: internal/trireme/config/loading.py (extenders' fields).
Also change: docs/extenders.md.
Also change: docs/moving-to-plugins.md.

Tests: tests/unit/config_convert/test_policies.py.
"""

from typing import Any

from trireme.config_convert.reading import ConversionError, Note, Reader
from trireme_kube.apimachinery.golang import Duration

_FIELDS = (
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "enableHTTPS",
    "nodeCacheCapable",
    "managedResources",
    "ignorable",
)
_TLS_FIELDS = ("insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData")


def convert(configuration: Reader, notes: list[Note]) -> list[dict[str, Any]]:
    """Convert the extenders of an old object to those of today; unread fields become notes."""
    converted: list[dict[str, Any]] = []
    for extender in configuration.readers("extenders") or []:
        written: dict[str, Any] = {}
        extender.copy(_FIELDS, written)
        tls = extender.reader("tlsConfig")
        if tls is not None:
            written["tlsConfig"] = {}
            tls.copy(_TLS_FIELDS, written["tlsConfig"])
            notes.extend(tls.unknown())
        timeout = extender.take("httpTimeout")
        if timeout:
            written["httpTimeout"] = _timeout_text(extender, timeout)
        notes.extend(extender.unknown())
        converted.append(written)
    return converted


def _timeout_text(extender: Reader, timeout: Any) -> str:
    """The extender's timeout as text such as `5s`; Policies gave it as a number of nanoseconds."""
    if isinstance(timeout, str):
        return timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        raise ConversionError(f"{extender.at('httpTimeout')}: must be a duration")
    return str(Duration(timeout))
