#!/usr/bin/env bash
# Generates the Go code of the contract, of the files that a filter and score plugin needs, into triremev1/, which is
# committed: building the plugin takes Go alone.
#
#   examples/plugin-go/generate.sh           writes it
#   examples/plugin-go/generate.sh --check   writes nothing; exits 1 when what is committed differs
#
# Into which package each file goes is said here, instead of that of the Go SDK, which the protos name. The generators are pinned in go.mod; protoc comes with the repository's Python environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ $# -gt 1 || (-n ${1-} && $1 != --check) ]]; then
  echo "usage: examples/plugin-go/generate.sh [--check]" >&2
  exit 2
fi
root=$(cd ../.. && pwd)
python=$root/.venv/bin/python
[[ -x $python ]] || python=$(command -v python3)
module=$(go list -m)
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

go build -o "$new/bin/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

files=(apps bind core cycle filter meta plugin policy resource scheduling score snapshot status storage)
options=()
paths=()
for file in "${files[@]}"; do
  paths+=("trireme/v1/$file.proto")
  options+=("--go_opt=Mtrireme/v1/$file.proto=$module/triremev1" "--go-grpc_opt=Mtrireme/v1/$file.proto=$module/triremev1")
done
mkdir "$new/out"
"$python" -m grpc_tools.protoc -I "$root/protos" \
  --plugin="$new/bin/protoc-gen-go" --plugin="$new/bin/protoc-gen-go-grpc" \
  --go_out="$new/out" --go_opt=module="$module" --go-grpc_out="$new/out" --go-grpc_opt=module="$module" \
  "${options[@]}" "${paths[@]}"
# Only the version of protoc in the headers depends on where this runs.
sed -i -E '/^\/\/ (- |\t)protoc +/d' "$new"/out/triremev1/*.go

if [[ ${1-} == --check ]]; then
  if ! diff -rq "$new/out/triremev1" triremev1; then
    echo "examples/plugin-go/triremev1 is not what the protos generate: run examples/plugin-go/generate.sh" >&2
    exit 1
  fi
  exit 0
fi
rm -rf triremev1
mv "$new/out/triremev1" triremev1
