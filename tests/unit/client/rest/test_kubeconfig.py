"""A kubeconfig that cannot be used is reported in one line that names the file and the field."""

import base64
import pathlib
from typing import Any

import pytest
import yaml

from trireme_kube.client.rest import kubeconfig
from trireme_kube.client.rest.errors import KubeconfigError

PEM = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"


def _config(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "west", "user": "eve"}}],
        "clusters": [{"name": "west", "cluster": {"server": "https://10.0.0.1:6443/"}}],
        "users": [{"name": "eve", "user": {"token": "secret"}}],
    }
    return {**document, **changes}


def _cluster(**fields: Any) -> dict[str, Any]:
    return {"clusters": [{"name": "west", "cluster": {"server": "https://10.0.0.1:6443", **fields}}]}


def _user(**fields: Any) -> dict[str, Any]:
    return {"users": [{"name": "eve", "user": fields}]}


def _write(folder: pathlib.Path, document: Any) -> str:
    path = folder / "config"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


FAULTS = [
    pytest.param("a: [", "line 1: not YAML: expected the node content, but found '<stream end>'", id="yaml-syntax"),
    pytest.param("- a\n", "not a kubeconfig: a list instead of a mapping", id="a-list"),
    pytest.param("", "not a kubeconfig: nothing instead of a mapping", id="empty"),
    pytest.param(_config(**{"current-context": ""}), "current-context: missing", id="no-context"),
    pytest.param(
        _config(**{"current-context": "prod"}),
        "current-context: no entry named 'prod' in contexts",
        id="unknown-context",
    ),
    pytest.param(_config(contexts={}), "current-context: no entry named 'dev' in contexts", id="contexts-empty"),
    pytest.param(_config(contexts={"a": 1}), "contexts: a mapping instead of a list", id="contexts-a-mapping"),
    pytest.param(
        _config(contexts=[{"name": "dev", "context": {"user": "eve"}}]),
        "contexts[dev].context.cluster: missing",
        id="no-cluster-name",
    ),
    pytest.param(
        _config(clusters=[]), "contexts[dev].context.cluster: no entry named 'west' in clusters", id="unknown-cluster"
    ),
    pytest.param(_config(users=[]), "contexts[dev].context.user: no entry named 'eve' in users", id="unknown-user"),
    pytest.param(_config(**_cluster(server="")), "clusters[west].cluster.server: missing", id="no-server"),
    pytest.param(
        _config(**_cluster(server="ftp://x")),
        "clusters[west].cluster.server: 'ftp://x' is not an http(s) URL",
        id="wrong-scheme",
    ),
    pytest.param(
        _config(**_cluster(server="https://x:99999")),
        "clusters[west].cluster.server: 'https://x:99999': Port out of range 0-65535",
        id="wrong-port",
    ),
    pytest.param(
        _config(**_cluster(**{"certificate-authority": "nowhere.crt"})),
        "clusters[west].cluster.certificate-authority: {folder}/nowhere.crt: No such file or directory",
        id="missing-ca-file",
    ),
    pytest.param(
        _config(**_cluster(**{"certificate-authority-data": "%%%"})),
        "clusters[west].cluster.certificate-authority-data: not base64",
        id="ca-not-base64",
    ),
    pytest.param(
        _config(**_user(**{"client-certificate-data": base64.b64encode(PEM.encode()).decode()})),
        "users[eve].user: client-certificate and client-key need each other",
        id="certificate-without-key",
    ),
    pytest.param(
        _config(**_user(tokenFile="token")),
        "users[eve].user.tokenFile: {folder}/token: No such file or directory",
        id="missing-token-file",
    ),
    pytest.param(
        _config(**_user(exec={"apiVersion": "client.authentication.k8s.io/v1"})),
        "users[eve].user.exec.command: missing",
        id="plugin-without-command",
    ),
    pytest.param(_config(**_user(exec="x")), "users[eve].user.exec: a text instead of a mapping", id="plugin-a-text"),
]


@pytest.mark.parametrize(("document", "problem"), FAULTS)
def test_a_fault_is_named_by_file_and_field(tmp_path: pathlib.Path, document: Any, problem: str) -> None:
    """If this fails, whoever starts the scheduler is left guessing what is wrong with the kubeconfig."""
    path = _write(tmp_path, document)
    with pytest.raises(KubeconfigError) as caught:
        kubeconfig.read(path)
    assert str(caught.value) == f"kubeconfig {path}: {problem.replace('{folder}', str(tmp_path))}"


def test_a_missing_file_is_named() -> None:
    """If this fails, a mistyped --kubeconfig is not recognised as such."""
    with pytest.raises(KubeconfigError, match=r"^kubeconfig /nowhere/config: No such file or directory$"):
        kubeconfig.read("/nowhere/config")


def test_relative_paths_start_at_the_folder_of_the_kubeconfig(tmp_path: pathlib.Path) -> None:
    """If this fails, a kubeconfig with relative paths works only from its own folder."""
    (tmp_path / "ca.crt").write_text(PEM)
    (tmp_path / "token").write_text("t")
    document = _config(
        **_cluster(**{"certificate-authority": "ca.crt"}),
        **_user(tokenFile="token", token="old"),
    )
    context = kubeconfig.read(_write(tmp_path, document))
    assert context.document["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "ca.crt")
    assert context.document["users"][0]["user"] == {"tokenFile": str(tmp_path / "token")}
    assert context.rotates


def test_a_relative_plugin_path_starts_at_the_folder_of_the_kubeconfig(tmp_path: pathlib.Path) -> None:
    """If this fails, a credential plugin given by a relative path, or by its bare name, cannot be run."""
    for command, expected in (
        ("bin/login", str(tmp_path / "bin/login")),
        ("login", "login"),
        ("/bin/login", "/bin/login"),
    ):
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
        context = kubeconfig.read(_write(tmp_path, _config(**_user(exec=plugin))))
        assert context.document["users"][0]["user"]["exec"]["command"] == expected
        assert context.has_plugin


@pytest.mark.parametrize(
    ("server", "fields", "expected"),
    [
        pytest.param("https://10.0.0.1:6443/", {}, "https://10.0.0.1:6443", id="slash-at-the-end"),
        pytest.param("10.0.0.1:8080", {}, "http://10.0.0.1:8080", id="bare-host"),
        pytest.param(
            "10.0.0.1:6443",
            {"certificate-authority-data": base64.b64encode(PEM.encode()).decode()},
            "http://10.0.0.1:6443",
            id="bare-host-with-an-authority",
        ),
        pytest.param("HTTPS://10.0.0.1", {}, "https://10.0.0.1", id="upper-case"),
        pytest.param("https://rancher/k8s/clusters/c-1", {}, "https://rancher/k8s/clusters/c-1", id="path-prefix"),
    ],
)
def test_servers_in_all_their_forms(tmp_path: pathlib.Path, server: str, fields: dict[str, str], expected: str) -> None:
    """If this fails, a server that kubectl can reach is not reached."""
    context = kubeconfig.read(_write(tmp_path, _config(**_cluster(server=server, **fields))))
    assert context.document["clusters"][0]["cluster"]["server"] == expected


def test_the_master_flag_replaces_the_server_or_stands_alone(tmp_path: pathlib.Path) -> None:
    """If this fails, --master is ignored, or credentials of the kubeconfig are lost with it."""
    context = kubeconfig.read(_write(tmp_path, _config()), master="https://127.0.0.1:8080")
    assert context.document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:8080"
    assert context.document["users"][0]["user"] == {"token": "secret"}
    alone = kubeconfig.read("", master="http://127.0.0.1:8080")
    assert alone.document["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:8080"}
    with pytest.raises(KubeconfigError, match=r"^--master: server: 'ftp://x' is not an http\(s\) URL$"):
        kubeconfig.read("", master="ftp://x")


@pytest.mark.parametrize("server", ["http://10.0.0.1:8080", "10.0.0.1:6443", "HTTP://10.0.0.1"])
@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"token": "t"}, id="token"),
        pytest.param({"username": "u", "password": "p"}, id="password"),
        pytest.param({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}}, id="plugin"),
        pytest.param({"auth-provider": {"name": "oidc"}}, id="provider"),
    ],
)
def test_credentials_are_sent_over_tls_only(tmp_path: pathlib.Path, server: str, user: dict[str, Any]) -> None:
    """If this fails, a server without TLS is told what kube-scheduler keeps to itself, and so is all the network."""
    for there, master in ((server, ""), ("https://10.0.0.1", server)):
        document = _config(**_cluster(server=there), **_user(**user, **{"as": "bob"}))
        context = kubeconfig.read(_write(tmp_path, document), master)
        assert context.document["users"][0]["user"] == {}
        assert not (context.has_external_credentials)
        assert not (context.rotates)
        assert not (context.has_plugin)
        # Whom one acts as is no secret.
        assert context.impersonation == (("Impersonate-User", "bob"),)


def test_impersonation_becomes_headers(tmp_path: pathlib.Path) -> None:
    """If this fails, a kubeconfig that acts as somebody else acts as itself, perhaps with more rights."""
    user = {"token": "t", "as": "bob", "as-groups": ["a", "b"], "as-uid": "7", "as-user-extra": {"x/y": ["1"]}}
    context = kubeconfig.read(_write(tmp_path, _config(**_user(**user))))
    assert context.impersonation == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-x%2Fy", "1"),
    )
