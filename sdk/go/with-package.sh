#!/usr/bin/env bash
# Runs go for a module that uses the SDK, with the package that sdk/go/package.sh built, as a stranger's go would:
#
#   sdk/go/with-package.sh examples/plugin-go build -o /tmp/plugin .
#
# It works on a copy in build/sdk/go-modules, whose go.mod names the version of the SDK's present contents.
set -euo pipefail
[[ $# -ge 2 ]] || { echo "usage: sdk/go/with-package.sh MODULE_DIR GO_COMMAND [ARGUMENTS]" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
module=$(cd "$1" && pwd)
shift
package=$root/build/sdk/go
# Several tests may run this at once; the lock is held until go has ended.
mkdir -p "$root/build/sdk"
exec 9>"$root/build/sdk/go.lock"
flock 9
newest=$(find "$root/sdk/go" -name '*.go' -newer "$package/version" -print -quit 2>/dev/null || echo none)
if [[ ! -e $package/version || -n $newest || $root/sdk/go/go.mod -nt $package/version ]]; then
  "$root/sdk/go/package.sh" "$package"
fi
version=$(<"$package/version")
copy=$root/build/sdk/go-modules/$(basename "$module")
mkdir -p "$copy"
find "$copy" -mindepth 1 -delete
cp -R "$module/." "$copy"
cd "$copy"
proxy=$(go env GOPROXY)
# The sums of the SDK's version are not known before it is built.
export GOPROXY="file://$package/goproxy,$proxy" GONOSUMDB=trireme.dev GOFLAGS=-mod=mod
go mod edit -require "trireme.dev/sdk/go@$version"
go mod download trireme.dev/sdk/go
exec go "$@"
