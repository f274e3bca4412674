"""Checks the certificates, keys and authorities that a configuration names, as far as the files exist here.

A configuration may be checked on another machine than the one that it is for, so a missing file is no problem.

Also change: internal/trireme/config/service_tls.py (its fields).

Tests: tests/unit/cli/test_config_command.py.
"""

import pathlib
from collections.abc import Iterator

from trireme.config.inspection import InspectedConfiguration
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.rpc import tls_files
from trireme.rpc.listen_flags import ListenError


def files_of_trireme_configuration(own: TriremeConfiguration) -> Iterator[tls_files.Files]:
    """The files of a TriremeConfiguration."""
    yield _files_with_field_names("tls", own.tls.cert_file, own.tls.key_file, own.tls.ca_file)
    for number, plugin in enumerate(own.remote_plugins):
        if plugin.tls is not None:
            tls = plugin.tls
            yield _files_with_field_names(f"remotePlugins[{number}].tls", tls.cert_file, tls.key_file, tls.ca_file)


def files_of_scheduler_configuration(inspected: InspectedConfiguration) -> Iterator[tls_files.Files]:
    """The files of a KubeSchedulerConfiguration, in which inline data takes precedence over files."""
    for number, extender in enumerate(inspected.configuration.extenders):
        tls = extender.tls_config
        if tls is not None:
            pair = ("", "") if tls.cert_data or tls.key_data else (tls.cert_file, tls.key_file)
            yield _files_with_field_names(f"extenders[{number}].tlsConfig", *pair, "" if tls.ca_data else tls.ca_file)


def file_problem(files: tls_files.Files) -> str:
    """The problem with the files, beginning with the field that names the file; empty: none."""
    try:
        tls_files.WatchedFiles(files)
    except ListenError as error:
        return str(error)
    return ""


def existing_files(files: tls_files.Files) -> tuple[tls_files.Files, list[str]]:
    """The files that exist here, a key only with its certificate; and the missing ones, as `field: path`."""
    absent = [
        f"{file.name}: {file.path}"
        for file in (files.certificate, files.private_key, files.authorities)
        if file is not None and not file.path.exists()
    ]
    pair = [file for file in (files.certificate, files.private_key) if file is not None and file.path.exists()]
    certificate, key = (pair[0], pair[1]) if len(pair) == 2 else (None, None)
    authorities = files.authorities if files.authorities is not None and files.authorities.path.exists() else None
    return tls_files.Files(certificate, key, authorities), absent


def _files_with_field_names(field: str, certificate: str, key: str, authorities: str) -> tls_files.Files:
    """The files of one side, with the names of their fields; empty paths are none."""
    fields = (("certFile", certificate), ("keyFile", key), ("caFile", authorities))
    return tls_files.Files(
        *(tls_files.NamedFile(f"{field}.{name}", pathlib.Path(path)) if path else None for name, path in fields)
    )
