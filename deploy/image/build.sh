#!/usr/bin/env bash
# Builds the image with whichever builder is there: build.sh TAG [FLAGS OF THE BUILDER]. BUILDER chooses one of several.
# The same sources and packages give the same image: all times in it are SOURCE_DATE_EPOCH, by default the last commit's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tag=$1
shift
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
arguments=(--tag "$tag" --file Dockerfile --build-arg "VERSION=${tag##*:}" --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH")
works() {
  case $1 in
    docker) docker info >/dev/null 2>&1 ;; # the client alone builds nothing
    *) command -v "$1" >/dev/null ;;
  esac
}
if [[ -z ${BUILDER:-} ]]; then
  for BUILDER in docker podman buildah none; do
    if works "$BUILDER"; then break; fi
  done
fi
case $BUILDER in
  # An attestation of BuildKit's own would name the time and the machine.
  docker) docker buildx build --load --provenance=false "${arguments[@]}" "$@" . ;;
  podman | buildah) "$BUILDER" build --timestamp "$SOURCE_DATE_EPOCH" "${arguments[@]}" "$@" . ;;
  none) echo "image: none of docker (with its engine running), podman and buildah is here; install one of them" >&2; exit 1 ;;
  *) echo "image: BUILDER=$BUILDER is none of docker, podman and buildah" >&2; exit 1 ;;
esac
