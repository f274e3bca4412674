#!/usr/bin/env bash
# Also change: sdk/build_packages.py (which runs it, and names those of other languages).
# Builds the crate: sdk/rust/package.sh OUTPUT_DIR writes OUTPUT_DIR/trireme-sdk-VERSION.crate, and beside it the same
# unpacked, which a Cargo.toml names by its path.
set -euo pipefail
[[ $# -eq 1 ]] || { echo "usage: sdk/rust/package.sh OUTPUT_DIR" >&2; exit 2; }
command -v cargo >/dev/null || { echo "sdk rust: cargo is not installed" >&2; exit 77; }
mkdir -p "$1"
output=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR-$(cd ../.. && pwd)/build/sdk-rust-target}
# To verify a crate cargo compiles what it has packed, in a folder of its own and so everything twice. Tests do that
# instead, in tests/contract/test_plugin_examples.py: test_the_rust_sdk_passes_its_own_tests compiles and tests the
# unpacked crate by itself, with the versions of its own lock file, and the examples depend on it as a stranger does.
version=$(sed -n '/^name = "trireme-sdk"$/,/^version/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
cargo package --quiet --no-verify --allow-dirty --package trireme-sdk
cp "$CARGO_TARGET_DIR/package/trireme-sdk-$version.crate" "$output"
tar -xzf "$output/trireme-sdk-$version.crate" -C "$output"
# cargo goes by the times of files, which are the same in every archive: what has not changed is left as it is.
if ! diff -rq "$output/trireme-sdk-$version" "$output/trireme-sdk" >/dev/null 2>&1; then
  find "$output/trireme-sdk-$version" -type f -exec touch {} +
  rm -rf "$output/trireme-sdk"
  mv "$output/trireme-sdk-$version" "$output/trireme-sdk"
fi
rm -rf "$output/trireme-sdk-$version"
