#!/usr/bin/env bash
# Also change: sdk/build_packages.py (which runs it, and names those of other languages).
# Builds the Maven package: package.sh OUTPUT_DIR writes OUTPUT_DIR as a Maven repository with
# dev.trireme:trireme-plugin-sdk. Exits with 77 where Java or Maven is missing.
set -euo pipefail
if [[ $# -ne 1 ]]; then
  echo "usage: sdk/java/package.sh OUTPUT_DIR" >&2
  exit 2
fi
if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then
  echo "no mvn or javac: the Java SDK needs Java 17 and Maven 3.8 or later" >&2
  exit 77
fi
mkdir -p "$1"
output=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
rm -rf target
mvn --batch-mode --quiet deploy -Dmaven.test.skip=true -Dmaven.install.skip=true \
  "-DaltDeploymentRepository=trireme-sdk::file://$output" >&2
