#!/usr/bin/env bash
# Also change: sdk/build_packages.py (which runs it, and names those of other languages).
# Builds the npm package: package.sh OUTPUT_DIR writes OUTPUT_DIR/trireme-plugin-sdk.tgz. The name has no version, so
# that a package.json can name the file. Exits with 77 where Node.js is missing.
set -euo pipefail
if [[ $# -ne 1 ]]; then
  echo "usage: sdk/typescript/package.sh OUTPUT_DIR" >&2
  exit 2
fi
if ! command -v npm >/dev/null; then
  echo "no npm: the TypeScript SDK needs Node.js 20 or later" >&2
  exit 77
fi
mkdir -p "$1"
output=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
npm ci --ignore-scripts --no-progress --prefer-offline >&2
rm -rf dist
./generate.sh
npm run --silent build
cp ../../LICENSE LICENSE
made=$(npm pack --silent --pack-destination "$output")
mv "$output/$made" "$output/trireme-plugin-sdk.tgz"
