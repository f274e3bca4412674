"""Decodes a kubeconfig file strictly, with the messages of Kubernetes' serializers.

Source: k8s.io/client-go/tools/clientcmd.

Tests: tests/unit/client/kubeconfig/test_connection.py.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trireme_kube.apimachinery import yaml_document
from trireme_kube.apimachinery.configuration_files import (
    ConfigurationError,
    not_registered,
    os_error,
    read_file,
    read_kind,
)
from trireme_kube.apimachinery.json_document import Object
from trireme_kube.apimachinery.strict_decoding import DecodeError, decode
from trireme_kube.client.kubeconfig.schema import CONFIG

Value = Mapping[str, Any]


def load(path: str) -> dict[str, Any]:
    """Decode a kubeconfig, with absolute paths.

    Raises: ConfigurationError: it cannot be read or decoded.
    """
    try:
        Path(path).stat()
    except FileNotFoundError as error:
        raise ConfigurationError(f"stat {path}: {os_error(error)}") from error
    except (OSError, ValueError):
        pass  # reading reports it better
    try:
        return _with_absolute_paths(_decode_kubeconfig(read_file(path)), Path(path).absolute().parent)
    except ConfigurationError as error:
        raise ConfigurationError(f'error loading config file "{path}": {error}') from error


def _decode_kubeconfig(data: bytes) -> dict[str, Any]:
    """Decode a kubeconfig's text; empty text is an empty one.

    Raises: ConfigurationError, also for two entries of one name.
    """
    if not data:
        return {}
    try:
        node = yaml_document.parse(data).node
    except yaml_document.MalformedYAMLError as error:
        raise ConfigurationError(str(error)) from error
    kind = read_kind(node).with_missing_parts("", "v1", "Config")
    if (kind.group, kind.version, kind.kind) != ("", "v1", "Config"):
        raise ConfigurationError(not_registered(kind))
    try:
        value = decode(node if node is not None else Object(()), CONFIG).value
    except DecodeError as error:
        raise ConfigurationError(str(error)) from error
    for field_name, kind_name in (("clusters", "Cluster"), ("users", "AuthInfo"), ("contexts", "Context")):
        by_name(value.get(field_name) or [], kind_name)
    return value


def by_name(entries: list[Value], kind: str) -> dict[str, Value]:
    """Index the entries of a list by name; one without a name has the empty one.

    Raises:
        ConfigurationError: two have one name.
    """
    found: dict[str, Value] = {}
    for entry in entries:
        name = entry.get("name", "")
        if name in found:
            raise ConfigurationError(
                f"error converting *[]Named{kind} into *map[string]*api.{kind}: "
                f'duplicate name "{name}" in list{_format_entries(entries, kind)}'
            )
        found[name] = entry
    return found


def _format_entries(entries: list[Value], kind: str) -> str:
    """A list as Go prints it; users' secrets are masked."""
    rows: list[str] = []
    for entry in entries:
        if kind == "AuthInfo":
            inner = _format_user(entry.get("user") or {})
        elif kind == "Context":
            value = entry.get("context") or {}
            inner = [value.get("cluster", ""), value.get("user", ""), value.get("namespace", ""), "[]"]
        else:
            value = entry.get("cluster") or {}
            authorities = value.get("certificate-authority-data", b"")
            inner = [
                value.get("server", ""),
                value.get("tls-server-name", ""),
                str(value.get("insecure-skip-tls-verify", False)).lower(),
                value.get("certificate-authority", ""),
                f"[{' '.join(str(byte) for byte in authorities)}]",
                value.get("proxy-url", ""),
                str(value.get("disable-compression", False)).lower(),
                str(value.get("min-connection-pool-size", 0)),
                "[]",
            ]
        rows.append(f"{{{entry.get('name', '')} {{{' '.join(inner)}}}}}")
    return f": [{' '.join(rows)}]"


def _format_user(user: Value) -> list[str]:
    """The fields of a user in Go's order, as Go prints a struct, with secrets masked."""

    def format_bytes(name: str) -> str:
        """Bytes of the user, as Go prints them."""
        return f"[{' '.join(map(str, user.get(name) or b''))}]"

    def mask_if_set(name: str) -> str:
        """REDACTED in place of a value; empty if it is not set."""
        return "REDACTED" if user.get(name) else ""

    extra = user.get("as-user-extra") or {}
    extra_text = " ".join(f"{key}:[{' '.join(extra[key] or ())}]" for key in sorted(extra))
    return [
        user.get("client-certificate", ""),
        format_bytes("client-certificate-data"),
        user.get("client-key", ""),
        "[REDACTED]" if user.get("client-key-data") else "[]",
        mask_if_set("token"),
        user.get("tokenFile", ""),
        user.get("as", ""),
        user.get("as-uid", ""),
        f"[{' '.join(user.get('as-groups') or ())}]",
        f"map[{extra_text}]",
        user.get("username", ""),
        mask_if_set("password"),
        # Go prints the addresses of these.
        *("<nil>" if user.get(name) is None else "0x0" for name in ("auth-provider", "exec")),
        "[]",
    ]


_PATHS = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}


def _with_absolute_paths(config: dict[str, Any], base: Path) -> dict[str, Any]:
    """The file with relative paths made absolute."""
    for section, (inner, names) in _PATHS.items():
        for entry in config.get(section) or ():
            part = entry.setdefault(inner, {})
            for name in names:
                _make_absolute(part, name, base)
            plugin = part.get("exec") or {}
            if "/" in plugin.get("command", ""):  # a bare name is looked for in PATH
                _make_absolute(plugin, "command", base)
    return config


def _make_absolute(part: dict[str, Any], name: str, base: Path) -> None:
    """Make the path in a field absolute, in place; it is relative to `base`."""
    if part.get(name) and not Path(part[name]).is_absolute():
        part[name] = str(base / part[name])
