#!/usr/bin/env bash
# Also change: sdk/build_packages.py (which runs it, and names those of other languages).
# Builds the wheel trireme-plugin-sdk into a folder: sdk/python/package.sh OUTPUT_DIR
set -euo pipefail
if [[ $# -ne 1 ]]; then
  echo "usage: sdk/python/package.sh OUTPUT_DIR" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec "$root/.venv/bin/python" "$root/sdk/python/build_wheel.py" "$1"
