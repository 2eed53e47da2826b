#!/usr/bin/env bash
# The main job at small size, offline, on a CPU: shards -> cold start -> SAPO -> tests -> report.
#   bash scripts/quickstart.sh [--seed N]
# Everything lands in runs/quickstart; a run that is there already is replaced.
set -euo pipefail

SEED=0
while [ $# -gt 0 ]; do
  case $1 in
    --seed) SEED=${2:?--seed needs a number}; shift 2 ;;
    *) echo "usage: bash scripts/quickstart.sh [--seed N]" >&2; exit 2 ;;
  esac
done

START=$SECONDS
EXTRAS=quickstart
source "$(dirname "$0")/env.sh"
RUN=runs/quickstart
TASKS=leftmost_colour,more_colour,bar_highest
TIMES=(install=$((SECONDS - START)))

stage() { # stage NAME COMMAND...: run it and note how long it took
  local name=$1 start=$SECONDS
  shift
  echo
  echo "== $name: ${*/#$PYTHON/python}"
  "$@"
  TIMES+=("$name=$((SECONDS - start))")
}
make_data() {
  "$PYTHON" scripts/make_shards.py figures easy_vqa --tasks "$TASKS" --seed "$SEED" \
    --split train --count 6000 $RUN/data
  "$PYTHON" scripts/make_shards.py figures easy_vqa --tasks "$TASKS" --seed "$SEED" \
    --split val,test --count 400 $RUN/data
  "$PYTHON" scripts/build_model.py configs/quickstart/model.yaml $RUN/model \
    --texts "$RUN/data/*-train-*.tar" --seed "$SEED"
}
sapo_vl() { "$PYTHON" -m sapo_vl "$@" --seed_everything "$SEED"; }
test_both() {
  sapo_vl test --config configs/quickstart/test.yaml \
    --model.policy.path $RUN/cold_start/hf --trainer.default_root_dir $RUN/test/cold_start
  sapo_vl test --config configs/quickstart/test.yaml \
    --model.policy.path $RUN/sapo/hf --trainer.default_root_dir $RUN/test/sapo
}

rm -rf $RUN
stage data make_data
stage cold_start sapo_vl fit --config configs/quickstart/cold_start.yaml
stage sapo sapo_vl fit --config configs/quickstart/sapo.yaml
stage test test_both
"$PYTHON" scripts/report.py $RUN --seed "$SEED" --seconds "${TIMES[@]}"
