#!/usr/bin/env bash
# Also change: protos/generate.sh (which names those of other languages).
# Generates the Go code of the contract, of the files that plugins and phases need, into triremev1/, which is committed:
# building a plugin takes Go alone.
#
#   sdk/go/generate.sh           writes it
#   sdk/go/generate.sh --check   writes nothing; exits 1 when what is committed differs
#
# Both then compile the SDK: a file of the contract that is missing in the list below, or a renamed field, shows here.
# The generators are pinned in go.mod; protoc comes with the repository's Python environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ $# -gt 1 || (-n ${1-} && $1 != --check) ]]; then
  echo "usage: sdk/go/generate.sh [--check]" >&2
  exit 2
fi
root=$(cd ../.. && pwd)
python=$root/.venv/bin/python
[[ -x $python ]] || python=$(command -v python3)
module=$(go list -m)
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

go build -o "$new/bin/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

files=(apps bind bind_phase core cycle decision_explanation filter filter_phase frontend meta plugin pod_groups policy
  queue resource scheduler_explanation scheduler_status scheduling score score_copies score_phase snapshot status storage)
paths=()
for file in "${files[@]}"; do
  paths+=("trireme/v1/$file.proto")
done
mkdir "$new/out"
"$python" -m grpc_tools.protoc -I "$root/protos" \
  --plugin="$new/bin/protoc-gen-go" --plugin="$new/bin/protoc-gen-go-grpc" \
  --go_out="$new/out" --go_opt=module="$module" --go-grpc_out="$new/out" --go-grpc_opt=module="$module" \
  "${paths[@]}"
# Only the version of protoc in the headers depends on where this runs.
sed -i -E '/^\/\/ (- |\t)protoc +/d' "$new"/out/triremev1/*.go

if [[ ${1-} == --check ]]; then
  if ! diff -rq "$new/out/triremev1" triremev1; then
    echo "sdk/go/triremev1 is not what the protos generate: run sdk/go/generate.sh" >&2
    exit 1
  fi
else
  rm -rf triremev1
  mv "$new/out/triremev1" triremev1
fi
go build ./...
