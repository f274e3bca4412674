#!/usr/bin/env bash
# Builds the crate: sdk/rust/package.sh OUTPUT_DIR writes OUTPUT_DIR/trireme-sdk-0.1.0.crate, and beside it the same
# unpacked, which a Cargo.toml names by its path.
set -euo pipefail
[[ $# -eq 1 ]] || { echo "usage: sdk/rust/package.sh OUTPUT_DIR" >&2; exit 2; }
command -v cargo >/dev/null || { echo "sdk rust: cargo is not installed" >&2; exit 77; }
mkdir -p "$1"
output=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR-$(cd ../.. && pwd)/build/sdk-rust-target}
# Examples build it; to verify it here would compile everything twice.
cargo package --quiet --no-verify --allow-dirty --package trireme-sdk
cp "$CARGO_TARGET_DIR/package/trireme-sdk-0.1.0.crate" "$output"
tar -xzf "$output/trireme-sdk-0.1.0.crate" -C "$output"
# cargo goes by the times of files, which are the same in every archive: what has not changed is left as it is.
if ! diff -rq "$output/trireme-sdk-0.1.0" "$output/trireme-sdk" >/dev/null 2>&1; then
  find "$output/trireme-sdk-0.1.0" -type f -exec touch {} +
  rm -rf "$output/trireme-sdk"
  mv "$output/trireme-sdk-0.1.0" "$output/trireme-sdk"
fi
rm -rf "$output/trireme-sdk-0.1.0"
