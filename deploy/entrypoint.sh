#!/bin/sh
# The image's entry point. A node of a Ray cluster (LEDGER_FRONT_FOLDER is set) gets the front before `ray start`, as
# Serve starts HAProxy through it (actors/launch/FRONT.md). Then the command runs with more open files than the default.
set -eu
ulimit -n 65536 2>/dev/null || echo "open files are limited to $(ulimit -n); HAProxy holds fewer connections" >&2
if [ -n "${LEDGER_FRONT_FOLDER:-}" ]; then
  python -m actors.launch.front "$LEDGER_FRONT_FOLDER"
fi
exec "$@"
