#!/usr/bin/env bash
# Finds the browser that the tests of the pages need, or installs Debian's Chromium; prints its path.
set -euo pipefail

find_browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return 0
    done
    return 1
}

find_browser && exit 0
if [ -n "${SPARINGLY_NO_BROWSER:-}" ]; then
    echo "No browser, and SPARINGLY_NO_BROWSER is set: the tests in a browser are left out." >&2
    exit 0
fi

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
if command -v apt-get > /dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; }; then
    echo "== Installing Chromium (apt-get), for the tests of the pages" >&2
    install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium)
    "${install[@]}" > /dev/null 2>&1 || { "${as_root[@]}" apt-get update > /dev/null && "${install[@]}" > /dev/null; } || true
fi
find_browser && exit 0
# Not an error here: the other tests are worth running. Those in a browser fail, and say the same.
echo "No Chromium and no Chrome, and it could not be installed. Install one (Debian: apt-get install chromium)," \
    "or set SPARINGLY_NO_BROWSER=1 to leave the tests in a browser out." >&2
