#!/usr/bin/env bash
# Also change: protos/generate.sh (which names those of other languages).
# Generates the Rust code of the contract into src/v1/, which is committed: the published crate needs no protoc.
#
#   sdk/rust/generate.sh           writes it
#   sdk/rust/generate.sh --check   writes nothing; exits 1 when what is committed differs
#
# The generator is pinned in Cargo.lock; protoc comes with the repository's Python environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
if [[ $# -gt 1 || (-n ${1-} && $1 != --check) ]]; then
  echo "usage: sdk/rust/generate.sh [--check]" >&2
  exit 2
fi
root=$(cd ../.. && pwd)
python=$root/.venv/bin/python
[[ -x $python ]] || python=$(command -v python3)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR-$root/build/sdk-rust-target}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
files=(apps bind bind_phase core cycle decision_explanation filter filter_phase frontend meta plugin pod_groups policy
  queue resource scheduler_explanation scheduler_status scheduling score score_copies score_phase snapshot status storage)
paths=()
for file in "${files[@]}"; do
  paths+=("trireme/v1/$file.proto")
done
mkdir "$new/out"
"$python" -m grpc_tools.protoc -I "$root/protos" --include_imports --descriptor_set_out="$new/out/descriptors.bin" "${paths[@]}"
# With comments, which become the documentation.
"$python" -m grpc_tools.protoc -I "$root/protos" --include_imports --include_source_info \
  --descriptor_set_out="$new/commented.bin" "${paths[@]}"
cargo run --quiet --package trireme-sdk-generator -- "$new/commented.bin" "$new/out"
if [[ ${1-} == --check ]]; then
  if ! diff -rq "$new/out" src/v1; then
    echo "sdk/rust/src/v1 is not what the protos generate: run sdk/rust/generate.sh" >&2
    exit 1
  fi
  exit 0
fi
rm -rf src/v1
mv "$new/out" src/v1
