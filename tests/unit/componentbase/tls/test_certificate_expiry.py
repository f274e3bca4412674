"""Certificates that run out are in a metric, and in the log in time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trireme_kube.componentbase.tls import certificate_expiry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)

Lines = Callable[[], list[str]]


def _pem(start: datetime, lifetime: timedelta) -> bytes:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, start, start + lifetime)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _expiries(now: list[datetime], *certificates: certificate_expiry.Certificate) -> certificate_expiry.Expiries:
    return certificate_expiry.Expiries(certificates, lambda: now[0])


def _file(folder: Path, content: bytes) -> certificate_expiry.Certificate:
    path = folder / "tls.crt"
    path.write_bytes(content)
    (certificate,) = certificate_expiry.of_file("serving", str(path))
    return certificate


def test_the_metric_is_the_end_of_what_is_in_the_file_now(tmp_path: Path) -> None:
    """If this fails, an alert fires for a certificate that was renewed, or never."""
    first = _file(tmp_path, _pem(NOW, 90 * DAY))
    client = certificate_expiry.Certificate("client", "/etc/kubeconfig", content=_pem(NOW, 365 * DAY))
    lost = certificate_expiry.Certificate("client", "lost", file=str(tmp_path / "lost"))
    expiries = _expiries([NOW], first, client, lost, client)

    assert _values(expiries, certificate_expiry.METRIC) == {
        ("serving", first.name): (NOW + 90 * DAY).timestamp(),
        ("client", "/etc/kubeconfig"): (NOW + 365 * DAY).timestamp(),
    }
    _file(tmp_path, _pem(NOW + DAY, 90 * DAY))
    assert _values(expiries, certificate_expiry.METRIC)["serving", first.name] == (NOW + 91 * DAY).timestamp()


def test_a_metric_is_how_long_each_lives(tmp_path: Path) -> None:
    """If this fails, the alert fires for each short-lived certificate, or for none."""
    day, authorities = _file(tmp_path, _pem(NOW, DAY)), tmp_path / "ca.crt"
    authorities.write_bytes(_pem(NOW - 300 * DAY, 301 * DAY) + _pem(NOW, 365 * DAY))
    expiries = _expiries([NOW], day, *certificate_expiry.of_file(certificate_expiry.AUTHORITY, str(authorities)))
    assert _values(expiries, certificate_expiry.LIFETIME_METRIC) == {
        ("serving", day.name): DAY.total_seconds(),
        ("authority", str(authorities)): 365 * DAY.total_seconds(),
    }


def _values(expiries: certificate_expiry.Expiries, metric: str) -> dict[tuple[str, ...], float]:
    (instrument,) = (each for each in expiries.instruments if each.name == metric)
    return {tuple(sample.labels.values()): sample.value for sample in instrument.family().samples}


def test_a_warning_comes_seven_days_before_and_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, the first that anybody hears of it is that nothing can connect; or the log is full of it."""
    certificate, now = _file(tmp_path, _pem(NOW, 365 * DAY)), [NOW]
    expiries = _expiries(now, certificate)
    warned = []
    for hours in range(355 * 24, 367 * 24):
        now[0] = NOW + timedelta(hours=hours)
        caplog.clear()
        expiries.warn()
        warned += [(hours / 24, record.getMessage()) for record in caplog.records]
    assert [day for day, _ in warned] == [358, 359, 360, 361, 362, 363, 364, 365, 366]
    end = "2027-01-01 00:00:00 UTC (https://trireme.dev/docs/runbooks#triremecertificateexpires)"
    assert warned[0][1] == f"the serving certificate {certificate.name} expires in 7 days: {end}"
    assert warned[-1][1] == f"the serving certificate {certificate.name} expired 24 hours ago: {end}"


@pytest.mark.parametrize(("left", "lines"), [(3 * HOUR, 0), (2 * HOUR, 1)], ids=["renewed-in-time", "not-renewed"])
def test_short_lived_certificates_warn_in_their_last_tenth(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: timedelta, lines: int
) -> None:
    """If this fails, certificates of a day, as cert-manager renews them, warn every day that they are all right."""
    _expiries([NOW], _file(tmp_path, _pem(NOW + left - DAY, DAY))).warn()
    assert len(caplog.records) == lines


def test_one_that_was_renewed_warns_again_when_it_runs_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, the second certificate runs out in silence."""
    certificate, now = _file(tmp_path, _pem(NOW, 10 * HOUR)), [NOW + 9.5 * HOUR]
    expiries = _expiries(now, certificate)
    expiries.warn()
    _file(tmp_path, _pem(now[0], 10 * HOUR))
    expiries.warn()
    now[0] += 9.5 * HOUR
    expiries.warn()
    assert len(caplog.records) == 2


def test_authorities_expire_with_the_last_of_their_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When none is valid any more all connections fail at once, and nothing came before."""
    path = tmp_path / "ca.crt"
    path.write_bytes(_pem(NOW - 300 * DAY, 301 * DAY) + _pem(NOW, 365 * DAY))
    (authority,) = certificate_expiry.of_file(certificate_expiry.AUTHORITY, str(path))
    now = [NOW]
    expiries = _expiries(now, authority)
    expiries.warn()
    assert list(_values(expiries, certificate_expiry.METRIC).values()) == [(NOW + 365 * DAY).timestamp()]
    assert caplog.records == []
    now[0] = NOW + 365 * DAY + timedelta(seconds=61)
    expiries.warn()
    assert caplog.records[0].getMessage().startswith(f"the authority {path} expired 1 minute ago: ")
