"""Gathers the file system of the image: an installation, the Python that runs it, and the libraries of both.

    python rootfs.py INSTALLATION DESTINATION

There is no shell, package manager or compiler in it, nor anything else that a process of Trireme does not load: less to
keep up to date, and nothing for an intruder to use. Works where the interpreter is Debian's or the official image's.
The same packages give the same bytes: bytecode is found by the digest of its source, and all files have one time.
A step of the Dockerfile, run on the build stage; standard library only.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

# Parts of Python's standard library that are for developing, or need a display.
_NOT_LOADED = shutil.ignore_patterns(
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data",
    "config-*", "site-packages", "dist-packages", "_tkinter*", "_test*", "_ctypes_test*", "xxlimited*",
)  # fmt: skip
# Loaded by name only when a thread is cancelled, so that no program lists it as a dependency.
_BY_NAME = ("libgcc_s.so.1",)
# Authorities, and how names are looked up.
_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/nsswitch.conf", "/etc/ssl/openssl.cnf")
_USERS = "root:x:0:0:root:/root:/sbin/nologin\ntrireme:x:65532:65532::/nonexistent:/sbin/nologin\n"
_GROUPS = "root:x:0:\ntrireme:x:65532:\n"
# Of the commands in the installation; the others are those of libraries.
_COMMANDS = ("trireme", "python")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def gather(installation: Path, destination: Path) -> None:
    """Fill the destination, which is made."""
    for folder in ("tmp", "etc", "root", "run", "var"):
        (destination / folder).mkdir(parents=True, exist_ok=True)
    (destination / "tmp").chmod(0o1777)
    _copy_tree(installation, destination)
    interpreter = Path(os.path.realpath(installation / "bin/python"))
    for link in _links(installation / "bin/python"):
        _copy_file(link, destination)
    _copy_file(interpreter, destination)
    standard = Path(sysconfig.get_path("stdlib"))
    _copy_tree(standard, destination)
    _merge_lib_folders(destination)
    programs = [interpreter, *installation.rglob("*.so*"), *(standard / "lib-dynload").glob("*.so")]
    for library in sorted(_libraries(programs)):
        _copy_file(library, destination)
        _copy_file(Path(os.path.realpath(library)), destination)
    for name in _FILES:
        if Path(name).exists():
            _copy_file(Path(os.path.realpath(name)), destination)
            _copy_file(Path(name), destination)
    (destination / "etc/passwd").write_text(_USERS)
    (destination / "etc/group").write_text(_GROUPS)
    for command in (destination / installation.relative_to("/") / "bin").iterdir():
        if not command.name.startswith(_COMMANDS):
            command.unlink()
    _list_packages(destination)


def finish(destination: Path, seconds: int) -> None:
    """Compile all modules, for nothing can be written where they run, and give each file this time, in Unix seconds.

    Raises: SystemExit: a module cannot be compiled.
    """
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(destination, 50, quiet=1, stripdir=str(destination), invalidation_mode=mode):
        raise SystemExit("rootfs: a module cannot be compiled")
    for folder, folders, files in os.walk(destination):
        for name in (".", *folders, *files):
            os.utime(Path(folder, name), (seconds, seconds), follow_symlinks=False)


def _list_packages(destination: Path) -> None:
    """Say which Debian packages files are of, where scanners look for it in images without dpkg."""
    files = (
        path for path in destination.rglob("*") if path.is_file() and path.relative_to(destination).parts[0] != "opt"
    )
    # Packages name their files by the paths before /lib became a link.
    names = {name for path in files for name in _names_of(Path("/", path.relative_to(destination)))}
    owners = subprocess.run(["dpkg", "--search", *sorted(names)], capture_output=True, text=True, check=False).stdout
    packages = {name for line in owners.splitlines() for name in line.rpartition(": ")[0].split(", ")}
    folder = destination / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    for package in sorted(packages):
        described = subprocess.run(["dpkg", "--status", package], capture_output=True, text=True, check=True).stdout
        (folder / package.partition(":")[0]).write_text(described)


def _names_of(path: Path) -> Iterator[str]:
    yield str(path)
    yield str(path).removeprefix("/usr")


def _merge_lib_folders(destination: Path) -> None:
    """/lib and /lib64 are links to folders below /usr where they are so on the build stage."""
    for name in ("lib", "lib64", "bin"):
        source = Path("/", name)
        if source.is_symlink() and not (destination / name).exists():
            (destination / "usr" / name).mkdir(parents=True, exist_ok=True)
            (destination / name).symlink_to(source.readlink())


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """What the loader maps for these programs and libraries, itself included."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    missing = re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)
    # Libraries that a wheel brings along are found by the path of the one that needs them.
    own = {path.name for path in programs}
    if unknown := sorted(set(missing) - own):
        raise SystemExit(f"rootfs: libraries that are needed and not there: {', '.join(unknown)}")
    found = {Path(path) for path in _LIBRARY.findall(done.stdout)}
    folders = {path.parent for path in found}
    found |= {folder / name for folder in folders for name in _BY_NAME if (folder / name).exists()}
    return (path for path in found if not any(path == program for program in programs))


def _links(path: Path) -> Iterator[Path]:
    """The chain of symbolic links from a path to its file, the last one's target left out."""
    while path.is_symlink():
        yield path
        path = Path(os.path.normpath(path.parent / path.readlink()))


def _copy_tree(source: Path, destination: Path) -> None:
    ignore = _NOT_LOADED if source.name.startswith("python3") else None
    shutil.copytree(source, destination / source.relative_to("/"), symlinks=True, ignore=ignore, dirs_exist_ok=True)


def _copy_file(source: Path, destination: Path) -> None:
    target = destination / source.relative_to("/")
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


if __name__ == "__main__":
    gather(Path(sys.argv[1]), Path(sys.argv[2]))
    finish(Path(sys.argv[2]), int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
