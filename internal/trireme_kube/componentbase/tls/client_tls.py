"""The TLS settings of a client, as kubeconfigs and extenders have them.

Source: k8s.io/client-go/rest (TLSClientConfig).
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClientTLS:
    """TLS of a client: data takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    ca_file: str = ""
    ca_data: bytes = b""
    cert_file: str = ""
    cert_data: bytes = b""
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
