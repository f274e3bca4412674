"""Reads a kubeconfig and checks the one context that is used.

Pure except for reading files: it returns a small document with only the current context, its cluster and its user, and
absolute file paths. Only that document is loaded, so a wrong entry that we do not use does no harm, and one that we do
use is checked here, where the message can still name it.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import Any

import yaml

from trireme_kube.client.rest.errors import KubeconfigError

# Fields that name a file, and the field that holds the same content base64-encoded.
_CLUSTER_FILES = {"certificate-authority": "certificate-authority-data"}
_USER_FILES = {"client-certificate": "client-certificate-data", "client-key": "client-key-data"}


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The current context of a kubeconfig, validated."""

    origin: str  # how messages call the configuration: the file's path, or the flag
    document: Mapping[str, Any]  # a kubeconfig of this context alone
    names: Mapping[str, str]  # "cluster" and "user" -> their place in the file
    has_plugin: bool  # credentials come from a program (user.exec)
    has_external_credentials: bool  # credentials come from a program or an identity provider
    rotates: bool  # credentials change while we run
    impersonation: tuple[tuple[str, str], ...]  # headers of user.as and its kin

    def field_error(self, field: str, problem: str) -> KubeconfigError:
        """An error about a field such as `user.client-key`; the first word is looked up in `names`."""
        return KubeconfigError(f"{self.origin}: {_field_path(self.names, field)}: {problem}")


def read(path: str, master: str = "") -> Context:
    """Read the kubeconfig at `path` ("" for none), with `master` (if any) in place of its server.

    Raises:
      KubeconfigError: the file is unusable; the message names the file and the field.
    """
    if not path:
        return _make_context("--master", pathlib.Path(), "master", {"server": master}, "", {})
    origin = f"kubeconfig {path}"
    document = _parse_document(origin, pathlib.Path(path))
    name = document.get("current-context")
    if not isinstance(name, str) or not name:
        raise KubeconfigError(f"{origin}: current-context: missing")
    context = _entry_by_name(origin, document, "contexts", "context", name, "current-context")
    cluster_name = _checked_text(origin, f"contexts[{name}].context.cluster", context.get("cluster"))
    cluster = dict(
        _entry_by_name(origin, document, "clusters", "cluster", cluster_name, f"contexts[{name}].context.cluster")
    )
    user_name = context.get("user") or ""
    user: Mapping[str, Any] = {}
    if user_name:
        user = _entry_by_name(origin, document, "users", "user", user_name, f"contexts[{name}].context.user")
    if master:
        cluster["server"] = master
    return _make_context(origin, pathlib.Path(path).absolute().parent, cluster_name, cluster, user_name, dict(user))


def _parse_document(origin: str, path: pathlib.Path) -> Mapping[str, Any]:
    """Read a file as YAML and check only that it is a mapping."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigError(f"{origin}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{origin}: not a text file in UTF-8") from error
    except RecursionError:
        raise KubeconfigError(f"{origin}: not a kubeconfig: its nesting is too deep") from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise KubeconfigError(f"{origin}: {line}not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{origin}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"{origin}: not a kubeconfig: {_kind_of_value(document)} instead of a mapping")
    return document


def _entry_by_name(
    origin: str, document: Mapping[str, Any], plural: str, singular: str, name: str, named_by: str
) -> Mapping[str, Any]:
    """Return the entry of a name, empty for a user without credentials.

    Args: named_by: The field that names the entry, for the error message.
    """
    entries = document.get(plural) or []
    if not isinstance(entries, list):
        raise KubeconfigError(f"{origin}: {plural}: {_kind_of_value(entries)} instead of a list")
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(singular)
            if value is None and singular == "user":
                return {}  # a user without credentials
            if not isinstance(value, dict):
                raise KubeconfigError(
                    f"{origin}: {plural}[{name}].{singular}: {_kind_of_value(value)} instead of a mapping"
                )
            return value
    raise KubeconfigError(f"{origin}: {named_by}: no entry named {name!r} in {plural}")


def _make_context(
    origin: str, folder: pathlib.Path, cluster_name: str, cluster: dict[str, Any], user_name: str, user: dict[str, Any]
) -> Context:
    """Check the cluster and the user, and make a kubeconfig of these two alone, with absolute paths."""
    names = {"cluster": f"clusters[{cluster_name}].cluster", "user": f"users[{user_name}].user"}
    if origin == "--master":
        names = {"cluster": "", "user": ""}
    _check_server(origin, names, cluster)
    _resolve_file_or_data(origin, names, "cluster", folder, cluster, _CLUSTER_FILES)
    _resolve_file_or_data(origin, names, "user", folder, user, _USER_FILES)
    if ("client-certificate" in user or "client-certificate-data" in user) != (
        "client-key" in user or "client-key-data" in user
    ):
        raise KubeconfigError(f"{origin}: {names['user']}: client-certificate and client-key need each other")
    if user.get("tokenFile"):
        user.pop("token", None)  # the file wins, as with client-go: it rotates
        user["tokenFile"] = _absolute_path(origin, f"{names['user']}.tokenFile", folder, user["tokenFile"])
    plugin = user.get("exec")
    if plugin is not None:
        user["exec"] = _checked_credential_plugin(origin, f"{names['user']}.exec", folder, plugin)
    impersonation = _impersonation_headers(user)
    if cluster["server"].startswith("http:"):
        user = {}  # client-go's rule: credentials go over TLS only, so none are obtained here
    return Context(
        origin=origin,
        document={
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        },
        names=names,
        has_plugin="exec" in user,
        has_external_credentials=any(user.get(key) for key in ("exec", "auth-provider")),
        rotates=any(user.get(key) for key in ("exec", "tokenFile", "auth-provider")),
        impersonation=impersonation,
    )


def _check_server(origin: str, names: Mapping[str, str], cluster: dict[str, Any]) -> None:
    """Check the cluster's URL, and normalize it in place; a bare host gets http. Raises: KubeconfigError."""
    server = _checked_text(origin, _field_path(names, "cluster.server"), cluster.get("server"))
    if "://" not in server:
        # client-go's rule for a bare host: no TLS, whatever the entry says of certificates.
        server = f"http://{server}"
    try:
        url = urllib.parse.urlsplit(server)
        _ = url.port  # a port out of range is noticed only here
    except ValueError as error:
        raise KubeconfigError(f"{origin}: {_field_path(names, 'cluster.server')}: {server!r}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise KubeconfigError(f"{origin}: {_field_path(names, 'cluster.server')}: {server!r} is not an http(s) URL")
    cluster["server"] = f"{url.scheme}{server[len(url.scheme) :]}".rstrip("/")


def _resolve_file_or_data(
    origin: str,
    names: Mapping[str, str],
    entry: str,
    folder: pathlib.Path,
    value: dict[str, Any],
    fields: Mapping[str, str],
) -> None:
    """Keep of each field and its `-data` form the one that counts: the data, else the file, by absolute path."""
    for field, data_field in fields.items():
        data = value.get(data_field)
        if data:
            try:
                base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError, TypeError) as error:
                raise KubeconfigError(f"{origin}: {_field_path(names, entry)}.{data_field}: not base64") from error
            value.pop(field, None)
        elif value.get(field):
            value.pop(data_field, None)
            value[field] = _absolute_path(origin, f"{_field_path(names, entry)}.{field}", folder, value[field])
        else:
            value.pop(field, None)
            value.pop(data_field, None)


def _checked_credential_plugin(origin: str, place: str, folder: pathlib.Path, plugin: Any) -> dict[str, Any]:
    """Check a credential plugin; return it with its command's path resolved. Raises: KubeconfigError."""
    if not isinstance(plugin, dict):
        raise KubeconfigError(f"{origin}: {place}: {_kind_of_value(plugin)} instead of a mapping")
    command = _checked_text(origin, f"{place}.command", plugin.get("command"))
    _checked_text(origin, f"{place}.apiVersion", plugin.get("apiVersion"))
    if "/" in command and not pathlib.Path(command).is_absolute():
        command = str(folder / command)  # client-go's rule: a path is relative to the kubeconfig, a bare name to PATH
    return {**plugin, "command": command}


def _absolute_path(origin: str, place: str, folder: pathlib.Path, name: Any) -> str:
    """Return the path of a file named relative to the kubeconfig. Raises: KubeconfigError if it cannot be read."""
    path = folder / _checked_text(origin, place, name)
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise KubeconfigError(f"{origin}: {place}: {path}: {error.strerror or error}") from error
    return str(path)


def _impersonation_headers(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the request headers for the user's `as…` fields."""
    headers: list[tuple[str, str]] = []
    if user.get("as"):
        headers.append(("Impersonate-User", str(user["as"])))
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers.extend(("Impersonate-Group", str(group)) for group in user.get("as-groups") or [])
    for key, values in (user.get("as-user-extra") or {}).items():
        headers.extend((f"Impersonate-Extra-{urllib.parse.quote(str(key), safe='')}", str(value)) for value in values)
    return tuple(headers)


def _checked_text(origin: str, place: str, value: Any) -> str:
    """Return the value. Raises: KubeconfigError if it is missing or no text."""
    if not isinstance(value, str) or not value:
        problem = "missing" if value in (None, "") else f"{_kind_of_value(value)} instead of a text"
        raise KubeconfigError(f"{origin}: {place}: {problem}" if place else f"{origin}: {problem}")
    return value


def _field_path(names: Mapping[str, str], field: str) -> str:
    """Return a field's place in the kubeconfig, with the entry's name in place of its kind."""
    first, dot, rest = field.partition(".")
    return f"{names.get(first, first)}{dot}{rest}".strip(".")


def _kind_of_value(value: Any) -> str:
    """Return what the value is, for messages: `a list`, `nothing`."""
    kinds = {
        dict: "a mapping",
        list: "a list",
        str: "a text",
        type(None): "nothing",
        int: "a number",
        bool: "a boolean",
    }
    return kinds.get(type(value), type(value).__name__)
