"""The expiry of a process's certificates and authorities: metrics, and a warning before one expires.

Certificates are renewed long before they expire, so a warning means that the renewal does not work. It is logged once a
day, from seven days before the expiry on; if the certificate lives less than ten weeks, in the last tenth of its life.

Also change: deploy/chart/files/rules.yaml (alerts).
Also change: docs/runbooks/README.md (the metrics).
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trireme_kube.componentbase import clocks, documents, supervision
from trireme_kube.componentbase.metrics.instruments import Gauge

log = logging.getLogger(__name__)

METRIC = "trireme_certificate_expiration_timestamp_seconds"
LIFETIME_METRIC = "trireme_certificate_lifetime_seconds"

SERVING, CLIENT, AUTHORITY = "serving", "client", "authority"

WARN_BEFORE = timedelta(days=7)
WARN_AGAIN = timedelta(days=1)
# The share of the time that a certificate is valid for.
_LAST_PART = 10
_CHECK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of this process, in a file that may be replaced, or in memory.

    `use` is `serving`, `client` or `authority`; `name` is shown: the file, or the configuration that contains it. A
    file of authorities expires with the last of them: one that is replaced stays in it until nobody uses it any more.
    """

    use: str
    name: str
    file: str = ""
    content: bytes = b""


def of_file(use: str, file: str) -> Sequence[Certificate]:
    """Return the certificate in a file, in a list; an empty list for no file."""
    return (Certificate(use, file, file),) if file else ()


class Expiries:
    """When each certificate expires."""

    def __init__(self, certificates: Sequence[Certificate], now: Callable[[], datetime] = clocks.utc_now) -> None:
        """Watch these certificates; `now` is the time with its zone."""
        self._certificates = tuple(dict.fromkeys(certificates))
        self._now = now
        self._warned: dict[Certificate, datetime] = {}
        self.instruments = (
            Gauge(
                METRIC,
                "When a certificate of this process expires, or all authorities of a file have, in seconds since 1970.",
                functools.partial(self._read, lambda _, end: end.timestamp()),
                ("use", "certificate"),
                transient=True,
            ),
            Gauge(
                LIFETIME_METRIC,
                "How long such a certificate is valid in all, from its first second to its expiry.",
                functools.partial(self._read, lambda start, end: (end - start).total_seconds()),
                ("use", "certificate"),
                transient=True,
            ),
        )

    @contextlib.asynccontextmanager
    async def watched(self, supervisor: supervision.Supervisor) -> AsyncIterator[None]:
        """Warn, while the block runs, of certificates that expire soon or have expired."""
        if not self._certificates:
            yield
            return
        watching = supervisor.keep("expiry of certificates", self._warn_now_and_then)
        try:
            yield
        finally:
            await supervisor.stop(watching)

    def warn(self) -> None:
        """Log which certificates expire soon, or have expired, each once a day."""
        now = self._now()
        for certificate in self._certificates:
            validity = _read_validity(certificate)
            if validity is None:
                continue
            start, end = validity
            left, last = end - now, self._warned.get(certificate)
            if left > min(WARN_BEFORE, (end - start) / _LAST_PART):
                self._warned.pop(certificate, None)
            elif last is None or now - last >= WARN_AGAIN:
                self._warned[certificate] = now
                when = f"in {_duration_text(left)}" if left > timedelta() else f"{_duration_text(-left)} ago"
                verb = "expires" if left > timedelta() else "expired"
                moment = f"{end.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
                what = "authority" if certificate.use == AUTHORITY else f"{certificate.use} certificate"
                page = documents.CERTIFICATE_EXPIRES
                log.warning("the %s %s %s %s: %s (%s)", what, certificate.name, verb, when, moment, page)

    async def _warn_now_and_then(self) -> None:
        """Warn now and then until cancelled."""
        while True:
            self.warn()
            await asyncio.sleep(_CHECK_SECONDS)

    def _read(self, value: Callable[[datetime, datetime], float]) -> Mapping[tuple[str, ...], float]:
        """Return a value of each certificate's start and end, by use and name; one that cannot be read is left out."""
        found: dict[tuple[str, ...], float] = {}
        for certificate in self._certificates:
            validity = _read_validity(certificate)
            if validity is not None:
                found[certificate.use, certificate.name] = value(*validity)
        return found


def _read_validity(certificate: Certificate) -> tuple[datetime, datetime] | None:
    """The start and end of its validity; None if it cannot be read now, which its users report."""
    try:
        content = Path(certificate.file).read_bytes() if certificate.file else certificate.content
        return _validity_of_pem(content, certificate.use == AUTHORITY)
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=64)
def _validity_of_pem(content: bytes, is_authority: bool) -> tuple[datetime, datetime]:
    """Return start and end of validity: of the first certificate, or of the authority that expires last."""
    # The library is imported only if there is a certificate.
    from cryptography import x509

    first, *others = x509.load_pem_x509_certificates(content)
    last = max((first, *others), key=lambda each: each.not_valid_after_utc) if is_authority else first
    return last.not_valid_before_utc, last.not_valid_after_utc


def _duration_text(span: timedelta) -> str:
    """Format a time left in one unit, for people."""
    if span >= timedelta(days=2):
        return f"{span.days} days"
    hours, minutes = int(span.total_seconds() // 3600), int(span.total_seconds() // 60)
    if hours >= 2:
        return f"{hours} hours"
    return "1 minute" if minutes == 1 else f"{minutes} minutes"
