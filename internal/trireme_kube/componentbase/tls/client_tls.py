"""The TLS settings of a client, as kubeconfigs and extenders have them.

Source: k8s.io/client-go/rest (TLSClientConfig), and ExtenderTLSConfig of KubeSchedulerConfiguration.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar


@dataclass(frozen=True, slots=True)
class ClientTLS:
    """TLS of a client: data takes precedence over files."""

    #: The type in KubeSchedulerConfiguration, which error messages name.
    GO_TYPE: ClassVar = "v1.ExtenderTLSConfig"

    insecure: Annotated[bool, "Whether the server's certificate is not checked."] = False
    server_name: Annotated[str, "The name in the server's certificate; empty: that of the URL."] = ""
    cert_file: Annotated[str, "File of the client certificate, in PEM."] = ""
    key_file: Annotated[str, "File of its private key, in PEM."] = ""
    ca_file: Annotated[str, "File of the authorities of the server's certificate, in PEM."] = ""
    cert_data: Annotated[bytes, "The client certificate, in PEM."] = b""
    key_data: Annotated[bytes, "Its private key, in PEM."] = field(default=b"", repr=False)
    ca_data: Annotated[bytes, "The authorities of the server's certificate, in PEM."] = b""
