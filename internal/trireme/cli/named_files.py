"""The certificates, keys and authorities that a configuration names: whether they can be used, as far as they are here.

A configuration may be checked on another machine than the one that it is for, so a file that is not here is no problem.
"""

import pathlib
from collections.abc import Iterator

from trireme.config.inspection import Inspected
from trireme.config.own import TriremeConfiguration
from trireme.rpc import tls_files
from trireme.rpc.listening import ListenError


def of_own(own: TriremeConfiguration) -> Iterator[tls_files.Files]:
    """Those of a TriremeConfiguration."""
    yield _files("tls", own.tls.cert_file, own.tls.key_file, own.tls.ca_file)
    for number, plugin in enumerate(own.remote_plugins):
        if plugin.tls is not None:
            tls = plugin.tls
            yield _files(f"remotePlugins[{number}].tls", tls.cert_file, tls.key_file, tls.ca_file)


def of_scheduler(inspected: Inspected) -> Iterator[tls_files.Files]:
    """Those of a KubeSchedulerConfiguration, in which data count and not the files beside them."""
    for number, extender in enumerate(inspected.configuration.extenders):
        tls = extender.tls_config
        if tls is not None:
            pair = ("", "") if tls.cert_data or tls.key_data else (tls.cert_file, tls.key_file)
            yield _files(f"extenders[{number}].tlsConfig", *pair, "" if tls.ca_data else tls.ca_file)


def problem(files: tls_files.Files) -> str:
    """What is wrong with them, beginning with the field that names the file; empty: nothing."""
    try:
        tls_files.WatchedFiles(files)
    except ListenError as error:
        return str(error)
    return ""


def present(files: tls_files.Files) -> tuple[tls_files.Files, list[str]]:
    """Those of the files that are here, a key only with its certificate; and which are not, as `field: path`."""
    absent = [
        f"{file.name}: {file.path}"
        for file in (files.certificate, files.private_key, files.authorities)
        if file is not None and not file.path.exists()
    ]
    pair = [file for file in (files.certificate, files.private_key) if file is not None and file.path.exists()]
    certificate, key = (pair[0], pair[1]) if len(pair) == 2 else (None, None)
    authorities = files.authorities if files.authorities is not None and files.authorities.path.exists() else None
    return tls_files.Files(certificate, key, authorities), absent


def _files(field: str, certificate: str, key: str, authorities: str) -> tls_files.Files:
    named = (("certFile", certificate), ("keyFile", key), ("caFile", authorities))
    return tls_files.Files(
        *(tls_files.NamedFile(f"{field}.{name}", pathlib.Path(path)) if path else None for name, path in named)
    )
