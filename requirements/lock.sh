#!/bin/sh
# Writes the hashed locks beside this file: sh requirements/lock.sh PYTHON [--upgrade]
#
# One resolution (check.txt) holds everything; the smaller sets take their versions from it, so a package
# has one version in all of them. The files name no index: where packages come from is the machine's business.
set -eu
python=$1
shift
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/python" -m pip install --disable-pip-version-check --no-input -qq uv==0.13.9

compile() {
    out=$1
    shift
    echo "resolving $out ..."
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --annotation-style line --custom-compile-command "make lock" -o "$out" "$@"
}

extras="--extra anthropic --extra hcl --extra inspector --extra mcp --extra otel --extra postgres --extra server"
everything="$extras --group build --group test"
compile requirements/check.txt pyproject.toml $everything --group check "$@"
compile requirements/test.txt pyproject.toml $everything -c requirements/check.txt "$@"
compile requirements/runtime.txt pyproject.toml --group build -c requirements/check.txt "$@"
compile requirements/docs.txt pyproject.toml --group build --group docs -c requirements/check.txt "$@"
compile requirements/local.txt --no-deps requirements/local.in "$@"

if grep -nE '://|--(extra-)?index-url|--find-links' requirements/*.txt; then
    echo "the lock names a host; it must not" >&2
    exit 1
fi
