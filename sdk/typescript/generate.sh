#!/usr/bin/env bash
# Also change: protos/generate.sh (which names those of other languages).
# Generates the contract for the package from protos/ of this repository: src/generated/ (messages, services) and
# dist/contract.binpb (the descriptors that reflection serves). Both are built for each package and not committed, so
# they cannot differ from the protos. protoc comes with the repository's Python environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../.. && pwd)
python=$root/.venv/bin/python
[[ -x $python ]] || python=$(command -v python3)

# What a plugin meets; the services between the scheduler's own processes are left out.
files=(apps bind core cycle decision_explanation filter frontend meta plugin pod_groups policy queue resource
  scheduler_explanation scheduler_status scheduling score score_copies snapshot status storage)
paths=()
for file in "${files[@]}"; do paths+=("trireme/v1/$file.proto"); done
options=(
  outputServices=grpc-js env=node esModuleInterop=true importSuffix=.js exportCommonSymbols=false
  forceLong=bigint oneof=unions-value removeEnumPrefix=true unrecognizedEnum=false
  outputJsonMethods=false useExactTypes=false
)
rm -rf src/generated
mkdir -p src/generated dist
"$python" -m grpc_tools.protoc -I "$root/protos" \
  --plugin=protoc-gen-ts_proto=node_modules/.bin/protoc-gen-ts_proto \
  --ts_proto_out=src/generated --ts_proto_opt="$(IFS=,; echo "${options[*]}")" \
  --descriptor_set_out=dist/contract.binpb --include_imports "${paths[@]}"
{
  echo "// Every message, enumeration and service of the contract that a plugin meets."
  for file in "${files[@]}"; do echo "export * from \"./generated/trireme/v1/$file.js\";"; done
} > src/v1.ts
