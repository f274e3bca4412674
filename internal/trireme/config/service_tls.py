"""TLS between the services, and towards remote plugins: its settings and their rules.

Also change: internal/trireme/config/trireme_configuration.py, deploy/chart/templates/_helpers.tpl,
deploy/chart/templates/_plugins.tpl,
internal/trireme/config/remote_plugin_settings.py (fields of TriremeConfiguration).
Also change: internal/trireme/frontend/phase_configuration.py, internal/trireme/frontend/phase_clients/phase_links.py,
internal/trireme/rpc/dialing.py, internal/trireme/cli/named_files.py (who reads the fields).

Tests: tests/unit/config/test_trireme_configuration.py.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from trireme_kube.apimachinery.field_errors import Problem, child, index, invalid, required

_IDENTITY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-fA-F:.]+")


def are_identities(path: str, identities: Sequence[str]) -> list[Problem]:
    """GRPC looks for identities in a server certificate's DNS names and IP addresses alone."""
    return [
        invalid(index(path, position), identity, "must be a DNS name or an IP address")
        for position, identity in enumerate(identities)
        if not _IDENTITY.fullmatch(identity)
    ]


@dataclass(frozen=True, slots=True)
class TLS:
    """TLS towards other services, and of our own towards them. The files are read again when they change."""

    cert_file: Annotated[str, "File of the certificate that this side presents, in PEM."] = ""
    key_file: Annotated[str, "File of its private key, in PEM."] = ""
    ca_file: Annotated[str, "File of the authorities that the other side's certificate must come from, in PEM."] = ""
    allowed_identities: Annotated[
        tuple[str, ...],
        "DNS names or IP addresses, one of which the server's certificate must have; empty: the address called.",
        are_identities,
    ] = ()

    @property
    def enabled(self) -> bool:
        """Whether any of it is set."""
        return bool(self.cert_file or self.key_file or self.ca_file)

    @property
    def mutual(self) -> bool:
        """Whether both sides show a certificate."""
        return bool(self.cert_file and self.key_file and self.ca_file)

    def problems(self, path: str) -> Iterable[Problem]:
        """Which TLS settings lack another one that they need."""
        if self.cert_file and not self.key_file:
            yield required(child(path, "keyFile"), "must be given with certFile")
        if self.key_file and not self.cert_file:
            yield required(child(path, "certFile"), "must be given with keyFile")
        if self.cert_file and not self.ca_file:
            yield required(child(path, "caFile"), "TLS between the services is mutual")
        if self.allowed_identities and not self.ca_file:
            yield required(child(path, "caFile"), "identities are those of certificates")
