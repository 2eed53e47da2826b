#!/usr/bin/env bash
# Three model sizes, one recipe: the quickstart's cold start and SAPO on models of about 1, 3 and 10
# million parameters, side by side on one page.
#   bash scripts/size_study.sh [--seed N] [--iterations N] [SIZE ...]
# Sizes are the files of configs/size_study (1m 3m 10m). Everything lands in runs/size_study; a size
# that is there already is replaced.
set -euo pipefail

SEED=0 ITERATIONS=400 SIZES=()
while [ $# -gt 0 ]; do
  case $1 in
    --seed) SEED=${2:?--seed needs a number}; shift 2 ;;
    --iterations) ITERATIONS=${2:?--iterations needs a number}; shift 2 ;;
    -*) echo "usage: bash scripts/size_study.sh [--seed N] [--iterations N] [SIZE ...]" >&2; exit 2 ;;
    *) SIZES+=("$1"); shift ;;
  esac
done
[ ${#SIZES[@]} -gt 0 ] || SIZES=(1m 3m 10m)

EXTRAS=quickstart
source "$(dirname "$0")/env.sh"
RUN=runs/size_study
TASKS=leftmost_colour,more_colour,bar_highest

if [ ! -d $RUN/data ]; then
  "$PYTHON" scripts/make_shards.py figures easy_vqa --tasks "$TASKS" --seed "$SEED" --split train --count 6000 $RUN/data
  "$PYTHON" scripts/make_shards.py figures easy_vqa --tasks "$TASKS" --seed "$SEED" --split val,test --count 400 $RUN/data
fi

sapo_vl() { "$PYTHON" -m sapo_vl "$@" --seed_everything "$SEED"; }
for size in "${SIZES[@]}"; do
  folder=$RUN/$size
  rm -rf "$folder"
  "$PYTHON" scripts/build_model.py "configs/size_study/$size.yaml" "$folder/model" \
    --texts "$RUN/data/*-train-*.tar" --seed "$SEED"
  # The quickstart's own files, with other folders: what differs between sizes is the model alone.
  for file in data cold_start sapo test; do
    sed -e "s#runs/quickstart/data#$RUN/data#; s#runs/quickstart#$folder#" \
      "configs/quickstart/$file.yaml" > "$folder/$file.yaml"
  done
  sapo_vl fit --config "$folder/cold_start.yaml"
  sapo_vl fit --config "$folder/sapo.yaml" --trainer.max_steps $((2 * ITERATIONS)) \
    --model.lr_scheduler.init_args.total_iters $((2 * ITERATIONS))
  for stage in cold_start sapo; do
    sapo_vl test --config "$folder/test.yaml" --model.policy.path "$folder/$stage/hf" \
      --trainer.default_root_dir "$folder/test/$stage"
  done
done
mapfile -t runs < <(printf '%s\n' $RUN/*/sapo | sort -V)  # by size
if [ ${#runs[@]} -gt 1 ]; then
  "$PYTHON" scripts/compare.py "${runs[@]}" --out $RUN/compare
fi
