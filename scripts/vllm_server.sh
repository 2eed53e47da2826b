#!/usr/bin/env bash
# Start a vLLM server that samples for a training run (docs/rollout.md):
#   SAPO_VL_VLLM_PYTHON=/path/to/vllm/bin/python bash scripts/vllm_server.sh MODEL_FOLDER [vLLM's arguments]
#   ... MODEL_FOLDER --tensor-parallel-size 4 --max-model-len 8192 --host 0.0.0.0 --port 8000
# Arguments given here come last and win. SAPO_VL_VLLM_PYTHON is the interpreter that has vLLM installed
# (by default python), which is not the one that trains: vLLM pins a torch of its own.
set -euo pipefail

if [[ $# -eq 0 || $1 == -* ]]; then
  echo "usage: bash scripts/vllm_server.sh MODEL_FOLDER [arguments of vLLM's server]" >&2
  exit 2
fi
model=$1
shift
python=${SAPO_VL_VLLM_PYTHON:-python}
worker=$(cd "$(dirname "${BASH_SOURCE[0]}")/../sapo_vl/rollout/server" && pwd)

# Development mode opens the routes that replace weights and reset caches, to all who reach the port.
export VLLM_SERVER_DEV_MODE=1
export PYTHONPATH=$worker${PYTHONPATH:+:$PYTHONPATH}

# scale-out: token ids and pixels as the trainer made them, instead of a chat that is processed again.
# processed_logprobs: those after the temperature. generation-config vllm: no top_p, top_k of the folder's.
# mm-processor-cache-gb 0: that cache and the engine's can come to disagree about which images are known.
# no-mm-device-do-normalize: pixels arrive normalized.
exec "$python" -m vllm.entrypoints.openai.api_server \
  --model "$model" --served-model-name policy --host 127.0.0.1 --port 8000 \
  --worker-extension-cls sapo_vl_worker.PolicyWorker --enable-scale-out \
  --logprobs-mode processed_logprobs --generation-config vllm --mm-processor-cache-gb 0 --no-mm-device-do-normalize "$@"
