"""`trireme up`: what it takes of the configuration that it is given."""

import argparse
import pathlib

import pytest
import yaml

from trireme.cli import up

HEADER = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"


@pytest.mark.parametrize(
    ("text", "socket"),
    [
        ("admin: {socket: /run/mine.sock}", "/run/mine.sock"),
        ("", "/free.sock"),
        ("admin: {socket: relative}", "/free.sock"),
    ],
    ids=["named", "not-named", "invalid"],
)
def test_the_admin_socket_is_the_one_that_is_named(tmp_path: pathlib.Path, text: str, socket: str) -> None:
    """Broken, whoever named a socket asks there and is told that no scheduler runs."""
    own = tmp_path / "own.yaml"
    own.write_text(HEADER + text)
    options = argparse.Namespace(trireme_config=str(own), filters=1, scores=1, binds=1, insights=1)
    admin = up._admin_socket(options, pathlib.Path("/free.sock"))
    assert admin == pathlib.Path(socket)
    document = up._trireme_document(options, up.Layout(tmp_path, tmp_path / "kubeconfig", admin))
    assert yaml.safe_load(yaml.safe_dump(document))["admin"] == {"socket": socket}
