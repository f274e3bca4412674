#!/usr/bin/env bash
# Builds the image with whichever builder is there: build.sh TAG [FLAGS OF THE BUILDER]. BUILDER chooses one of several.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tag=$1
shift
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
  docker | podman | buildah) "$BUILDER" build --tag "$tag" --file Dockerfile "$@" . ;;
  none) echo "image: none of docker (with its engine running), podman and buildah is here; install one of them" >&2; exit 1 ;;
  *) echo "image: BUILDER=$BUILDER is none of docker, podman and buildah" >&2; exit 1 ;;
esac
