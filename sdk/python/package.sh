#!/usr/bin/env bash
# Builds the wheel trireme-plugin-sdk into a folder: sdk/python/package.sh OUTPUT_DIR
set -euo pipefail
if [[ $# -ne 1 ]]; then
  echo "usage: sdk/python/package.sh OUTPUT_DIR" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec "$root/.venv/bin/python" "$root/sdk/python/build_wheel.py" "$1"
