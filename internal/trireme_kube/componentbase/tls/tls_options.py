"""TLS options by the names of Kubernetes' flags, for OpenSSL.

The cipher suites of TLS 1.3 cannot be chosen, neither in Kubernetes nor here; suites that OpenSSL no longer has are
left out.
"""

import ssl
from collections.abc import Sequence

_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
# By their numbers in TLS; the hybrids with ML-KEM cannot be chosen alone in OpenSSL.
_CURVES = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}
_CIPHERS = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "RC4_128_SHA": "RC4-SHA",
}


def minimum_version(name: str) -> ssl.TLSVersion:
    """The oldest version that is accepted."""
    return _VERSIONS[name]


def openssl_ciphers(names: Sequence[str]) -> str:
    """The suites of TLS 1.2 and before, as OpenSSL lists them; empty for its own choice."""
    out = []
    for name in names:
        exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
        if cipher in _CIPHERS:
            prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
            out.append(prefix + _CIPHERS[cipher])
    return ":".join(out)


def openssl_curve(numbers: Sequence[int]) -> str:
    """The one curve to use; empty if OpenSSL chooses, as it does among several."""
    return _CURVES.get(numbers[0], "") if len(numbers) == 1 else ""
