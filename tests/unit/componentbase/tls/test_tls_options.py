"""TLS options of Kubernetes' flags as OpenSSL understands them."""

import ssl

import pytest

from trireme_kube.componentbase.tls import tls_names, tls_options


@pytest.mark.parametrize(
    ("name", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_AES_128_GCM_SHA256", ""),
    ],
)
def test_a_suite_has_its_name(name: str, openssl: str) -> None:
    """A suite that is asked for would not be offered."""
    assert tls_options.openssl_ciphers([name]) == openssl


@pytest.mark.parametrize("name", [n for n in tls_names.PREFERRED_CIPHERS if "WITH" in n])
def test_openssl_takes_every_preferred_suite(name: str) -> None:
    """The server would not start with a suite that the flag's help recommends."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(tls_options.openssl_ciphers([name]))


@pytest.mark.parametrize("name", tls_names.VERSIONS)
def test_every_version_that_the_flag_takes_is_known(name: str) -> None:
    """The server would end with a stack trace."""
    assert tls_options.minimum_version(name).name == name.replace("VersionTLS1", "TLSv1_").replace("_0", "")


@pytest.mark.parametrize("number", [23, 24, 25, 29])
def test_openssl_takes_a_single_curve(number: int) -> None:
    """A curve that is asked for would be refused when the server starts."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(tls_options.openssl_curve([number]))
