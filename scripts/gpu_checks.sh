#!/usr/bin/env bash
# Everything that needs a GPU, on one, within 8 minutes; the figures land in a JSON file.
#   bash scripts/gpu_checks.sh [gpu_figures.json]
set -euo pipefail
OUT=$(realpath -m "${1:-gpu_figures.json}")
cd "$(dirname "$0")/.."
PYTHON=${SAPO_VL_PYTHON:-python}
"$PYTHON" -c '
import sys, torch
if not torch.cuda.is_available():
    sys.exit("gpu_checks: torch finds no CUDA device; nothing was run")
'
rm -f "$OUT"
unset DS_ACCELERATOR
# The small checks first: they fail soonest. No network is needed.
GPU_FIGURES=$OUT HF_HUB_OFFLINE=1 timeout 480 "$PYTHON" -m pytest -q -m gpu tests --durations=0
echo "figures: $OUT"
