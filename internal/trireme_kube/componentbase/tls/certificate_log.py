"""Log lines about certificates: those served and trusted from now on, and their validity.

Operators search for them after a rotation. Source: k8s.io/apiserver/pkg/server/dynamiccertificates.
"""

import logging
from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trireme_kube.componentbase import clocks
from trireme_kube.componentbase.logs import klog

_USAGES = {ExtendedKeyUsageOID.CLIENT_AUTH: "client", ExtendedKeyUsageOID.SERVER_AUTH: "serving"}


def log_loaded(log: logging.Logger, message: str, name: str, pem: bytes, **values: object) -> None:
    """Log that the first certificate of these is in use."""
    if klog.enabled(log, 2):
        certificate = x509.load_pem_x509_certificates(pem)[0]
        klog.info(log, 2, message, **values, certName=name, certDetail=detail(certificate, clocks.utc_now()))


def log_loaded_authorities(log: logging.Logger, name: str, pem: bytes) -> None:
    """Log the authorities of trusted clients."""
    if klog.enabled(log, 2) and pem.strip():
        now = clocks.utc_now()
        for index, certificate in enumerate(x509.load_pem_x509_certificates(pem)):
            klog.info(log, 2, "Loaded client CA", index=index, certName=name, certDetail=detail(certificate, now))


def detail(certificate: x509.Certificate, now: datetime) -> str:
    """A certificate in one line."""
    subject, issuer = _common_name(certificate.subject), _common_name(certificate.issuer)
    if subject == issuer:
        issuer = "<self>"
    served = _names_served(certificate)
    serving = f" validServingFor=[{','.join(served)}]" if served else ""
    organisations = [
        str(entry.value) for entry in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    ]
    groups = f" groups=[{','.join(organisations)}]" if organisations else ""
    valid = f"{_go_time_text(certificate.not_valid_before_utc)} to {_go_time_text(certificate.not_valid_after_utc)}"
    usages = ",".join(_extended_key_usages(certificate))
    return f'"{subject}" [{usages}]{groups}{serving} issuer="{issuer}" ({valid} (now={_go_time_text(now)}))'


def _common_name(name: x509.Name) -> str:
    """Return the common name, empty if there is none."""
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _extended_key_usages(certificate: x509.Certificate) -> list[str]:
    """Return the extended key usages, in Go's words."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return []
    return [_USAGES.get(usage, usage.dotted_string) for usage in found]


def _names_served(certificate: x509.Certificate) -> list[str]:
    """Addresses, then names."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*map(str, found.get_values_for_type(x509.IPAddress)), *found.get_values_for_type(x509.DNSName)]


def _go_time_text(moment: datetime) -> str:
    """A time in Go's format."""
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"
