#!/bin/sh
# kubectl trireme: runs the wheel beside this file, from an environment of its own that its first use makes.
set -eu
here=$(dirname "$(readlink -f "$0")")
wheel=$(ls "$here"/*.whl)
home=${XDG_CACHE_HOME:-${HOME:?"kubectl trireme: set HOME or XDG_CACHE_HOME"}/.cache}/kubectl-trireme
environment=$home/$(basename "$wheel" .whl)
# After an upgrade of Python the environment is there, and its packages are another version's.
if ! "$environment/bin/python" -c 'import trireme' 2>/dev/null; then
    python=
    for each in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        if [ -n "$each" ] && "$each" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$each
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "kubectl trireme: there is no Python of 3.11 or newer with venv; install one, or set PYTHON to it" >&2
        exit 1
    fi
    echo "kubectl trireme: installing into $environment, once" >&2
    mkdir -p "$home"
    # Renamed once it is whole: an installation that is interrupted is begun again.
    unfinished=$environment.$$
    "$python" -m venv "$unfinished"
    "$unfinished/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" >&2 || {
        rm -rf "$unfinished"
        exit 1
    }
    rm -rf "$environment"
    mv "$unfinished" "$environment"
fi
exec "$environment/bin/python" -c 'import sys
from trireme.cli.main import main_under_kubectl
sys.exit(main_under_kubectl())' "$@"
