#!/usr/bin/env bash
# The tests: bash scripts/test.sh [pytest arguments]. Without arguments also ruff and mypy, and the
# tests run in as many processes as there are cores, 4 at most.
# Long ones: bash scripts/test.sh -m slow
set -euo pipefail

EXTRAS=quickstart,deepspeed,test
source "$(dirname "$0")/env.sh"
export DS_ACCELERATOR=${DS_ACCELERATOR:-cpu}  # else deepspeed looks for a GPU, aloud

if [ $# -eq 0 ]; then
  "$PYTHON" -m ruff check .
  "$PYTHON" -m ruff format --check .
  "$PYTHON" -m mypy
  cores=$(nproc)
  set -- -n $((cores < 4 ? cores : 4))
  export OMP_NUM_THREADS=1  # the processes share the cores
fi
exec "$PYTHON" -m pytest -m "not slow and not gpu" "$@"
