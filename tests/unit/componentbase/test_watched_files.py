"""Files whose contents may change are compared by what their paths lead to, then by contents."""

from pathlib import Path

from trireme_kube.componentbase import watched_files


def test_a_config_map_that_is_mounted_is_seen_to_change(tmp_path: Path) -> None:
    """If this fails, the kubelet's update of a ConfigMap, which moves a symbolic link two levels up, goes unseen."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.yaml").write_text(version)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    files = watched_files.WatchedFiles([str(tmp_path / "config.yaml")])
    before, content = files.identity(), files.hash_content()
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert files.identity() != before
    assert files.hash_content() != content


def test_files_that_cannot_be_read_have_a_hash_of_their_own(tmp_path: Path) -> None:
    """If this fails, a file that vanished looks as if it were empty."""
    path = tmp_path / "file"
    files = watched_files.WatchedFiles([str(path)])
    missing = files.hash_content()
    path.write_text("")
    assert files.hash_content() != missing
