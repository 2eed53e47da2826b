#!/usr/bin/env bash
# The tests: bash scripts/test.sh [pytest arguments]. Without arguments also ruff and mypy.
# Long ones: bash scripts/test.sh -m slow
set -euo pipefail

EXTRAS=quickstart,test
source "$(dirname "$0")/env.sh"

if [ $# -eq 0 ]; then
  "$PYTHON" -m ruff check .
  "$PYTHON" -m ruff format --check .
  "$PYTHON" -m mypy
fi
exec "$PYTHON" -m pytest -m "not slow and not gpu" "$@"
