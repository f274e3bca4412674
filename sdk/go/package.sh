#!/usr/bin/env bash
# Also change: sdk/build_packages.py (which runs it, and names those of other languages).
# Builds the Go module of the SDK as a module proxy: sdk/go/package.sh OUTPUT_DIR. Use it with
#
#   GOPROXY=file://OUTPUT_DIR/goproxy,$(go env GOPROXY) GONOSUMDB=trireme.dev go get trireme.dev/sdk/go@vVERSION
#
# The same files are there as vVERSION-dev.HASH too, HASH of what they contain: Go keeps a version that it has once fetched,
# so what is built while the SDK changes names that version (it is in OUTPUT_DIR/version).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[[ $# -eq 1 ]] || { echo "usage: sdk/go/package.sh OUTPUT_DIR" >&2; exit 2; }
command -v go >/dev/null || { echo "sdk go: go is not installed" >&2; exit 77; }
output=$(mkdir -p "$1" && cd "$1" && pwd)
python=../../.venv/bin/python
[[ -x $python ]] || python=$(command -v python3)
go build ./...
"$python" - "$output" <<'EOPY'
import hashlib, json, pathlib, re, sys, zipfile

MODULE = "trireme.dev/sdk/go"
source = pathlib.Path("../../internal/trireme/framework/release.py").read_text()
RELEASE = "v" + re.search(r'^TRIREME = "(.+)"$', source, re.MULTILINE)[1]
output = pathlib.Path(sys.argv[1])
names = [path for pattern in ("*.go", "go.mod", "go.sum", "*.md") for path in pathlib.Path().rglob(pattern)]
files = {str(path): path.read_bytes() for path in sorted(names)}
files["LICENSE"] = pathlib.Path("../../LICENSE").read_bytes()
digest = hashlib.sha256(b"".join(name.encode() + b"\0" + data for name, data in sorted(files.items()))).hexdigest()[:12]
folder = output / "goproxy" / MODULE / "@v"
folder.mkdir(parents=True, exist_ok=True)
versions = (RELEASE, f"{RELEASE}-dev.{digest}")
for version in versions:
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-01-01T00:00:00Z"}))
    (folder / f"{version}.mod").write_bytes(files["go.mod"])
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(f"{MODULE}@{version}/{name}"), data, zipfile.ZIP_DEFLATED)
(folder / "list").write_text("".join(f"{version}\n" for version in versions))
(output / "version").write_text(versions[1] + "\n")
EOPY
