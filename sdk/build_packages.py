"""Builds the installable packages of the SDKs: `python sdk/build_packages.py [LANGUAGE...]`, or `make sdk-packages`.

Each folder sdk/LANGUAGE with a `package.sh` is one. Its packages go to build/sdk/LANGUAGE; the examples are built from
there, as a stranger would build them. `protos` is one more: the contract as an archive of a buf module. Without names
all are built. A language without its toolchain is then left out with a message; with CI=true, or where it was named,
that is an error. With `--if-changed` packages stay as they are that were built from the present sources.

Also change: sdk/go/package.sh, sdk/java/package.sh, sdk/python/package.sh, sdk/rust/package.sh,
sdk/typescript/package.sh (what each language builds).
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "build" / "sdk"
_RELEASE = ROOT / "internal" / "trireme" / "framework" / "release.py"

# How package.sh says that the toolchain is missing; the reason is on its stderr.
MISSING_TOOLCHAIN = 77

# Beside the packages of a language: the hashes of the sources and of the packages that were built from them.
_STAMP = ".sources"
# What tools make in a folder of sources.
_MADE = frozenset({"node_modules", "dist", "generated", "target", "v1.ts", "LICENSE", "__pycache__"})

_BUF_YAML = """\
version: v2
name: trireme.dev/trireme/protos
lint:
  use: [STANDARD, COMMENTS]
  except: [SERVICE_SUFFIX, RPC_REQUEST_RESPONSE_UNIQUE]
breaking:
  use: [FILE]
"""

_README = """\
# The protocol of Trireme

The contract between the scheduler Trireme and its plugins: `trireme/v1/*.proto`, a buf module. Generate code with buf
or protoc; `go_package` and `java_package` are those of the SDKs. A plugin serves `PluginService` (plugin.proto) and, of
FilterPlugin (filter.proto), ScorePlugin (score.proto), BindPlugin (bind.proto), QueueService (queue.proto) and
PodGroupPlugin (pod_groups.proto), those of its extension points.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Build the packages of these languages, all without names; return the exit code."""
    known = ["protos", *sorted(script.parent.name for script in ROOT.glob("sdk/*/package.sh"))]
    parser = argparse.ArgumentParser(prog="build_packages.py", description="Build the packages of the SDKs.")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--if-changed", action="store_true", help="leave packages of the present sources as they are")
    options = parser.parse_args(argv)
    languages: list[str] = options.languages
    for language in languages:
        if language not in known:
            parser.error(f"no SDK {language!r}: must be one of {', '.join(known)}")
    required = bool(languages) or os.environ.get("CI") == "true"
    wanted = [each for each in languages or known if not (options.if_changed and is_current(each))]
    return max((_build(language, required) for language in wanted), default=0)


def release_version() -> str:
    """The version of this release, which is that of the packages."""
    found = re.search(r'^TRIREME = "(.+)"$', _RELEASE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def is_current(language: str) -> bool:
    """Whether the packages are those that were built from the present sources."""
    stamp = PACKAGES / language / _STAMP
    return stamp.exists() and stamp.read_text() == _stamp_text(language)


def _stamp_text(language: str) -> str:
    """The hashes of the sources and of the packages."""
    own = [ROOT / "sdk" / "build_packages.py"] if language == "protos" else [ROOT / "sdk" / language]
    shared = [_RELEASE, ROOT / "LICENSE", ROOT / "protos" / "trireme"]
    if language == "python":
        shared += [ROOT / "internal", ROOT / "pyproject.toml"]
    return f"{_hash([*own, *shared])} {_hash([PACKAGES / language])}"


def _hash(paths: Iterable[Path]) -> str:
    """The hash of files and folders; what begins with a dot, or a build makes among sources, does not count."""
    digest = hashlib.sha256()
    for path in paths:
        for file in _files(path):
            digest.update(f"{file.relative_to(ROOT)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    """The file, or those of the folder, in order."""
    if not path.is_dir():
        yield path
        return
    for each in sorted(path.iterdir()):
        if not (each.name in _MADE or each.name.startswith(".") or each.name.endswith(".egg-info")):
            yield from _files(each)


def _build(language: str, required: bool) -> int:
    """Build one language's packages; return the exit code, 0 where it is left out."""
    output = PACKAGES / language
    if language == "protos":
        _build_protos(output)
        code = 0
    else:
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        code = subprocess.run([ROOT / "sdk" / language / "package.sh", output], cwd=ROOT, check=False).returncode
    if code == MISSING_TOOLCHAIN and not required:
        print(f"sdk {language}: skipped, its toolchain is missing", file=sys.stderr)
        return 0
    if code:
        print(f"sdk {language}: package.sh failed with exit code {code}", file=sys.stderr)
        return 1
    (output / _STAMP).write_text(_stamp_text(language))
    print(f"sdk {language}: {output.relative_to(ROOT)}")
    return 0


def _build_protos(output: Path) -> None:
    """Write the contract as an archive of a buf module; the same files give the same bytes."""
    output.mkdir(parents=True, exist_ok=True)
    files = {
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "README.md": _README.encode(),
        "buf.yaml": _BUF_YAML.encode(),
    }
    for proto in sorted((ROOT / "protos" / "trireme" / "v1").glob("*.proto")):
        files[f"trireme/v1/{proto.name}"] = proto.read_bytes()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    for older in output.glob("trireme-protos-*.tar.gz"):
        older.unlink()
    target = output / f"trireme-protos-{release_version()}.tar.gz"
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


if __name__ == "__main__":
    raise SystemExit(main())
