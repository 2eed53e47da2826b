#!/usr/bin/env bash
# Objectives side by side as rollouts go stale: the quickstart's cold start, trained on with several objectives, each at several
# numbers of updates a rollout, for the same number of updates and (but for dapo, which holds prompts back) of responses.
#   bash scripts/objective_study.sh [--seed N] [--steps N] [--stale "2 8 32"] [OBJECTIVE ...]
# Objectives are the files of configs/objective (sapo sapo_stale grpo gspo). It needs the run of scripts/quickstart.sh and writes
# to runs/objective_study; a run that is there already is kept.
set -euo pipefail

usage() {
  echo 'usage: bash scripts/objective_study.sh [--seed N] [--steps N] [--stale "2 8 32"] [OBJECTIVE ...]' >&2
  exit 2
}
SEED=0 STEPS=800 STALE="2 8 32" OBJECTIVES=()
while [ $# -gt 0 ]; do
  case $1 in
    --seed) SEED=${2:?--seed needs a number}; shift 2 ;;
    --steps) STEPS=${2:?--steps needs a number of updates}; shift 2 ;;
    --stale) STALE=${2:?--stale needs numbers of updates a rollout}; shift 2 ;;
    -*) usage ;;
    *) OBJECTIVES+=("$1"); shift ;;
  esac
done
[ ${#OBJECTIVES[@]} -gt 0 ] || OBJECTIVES=(sapo sapo_stale grpo gspo)

EXTRAS=quickstart
source "$(dirname "$0")/env.sh"
FROM=runs/quickstart RUN=runs/objective_study
[ -d $FROM/cold_start/hf ] || { echo "$FROM/cold_start/hf is not there; run bash scripts/quickstart.sh first" >&2; exit 1; }

sapo_vl() { "$PYTHON" -m sapo_vl "$@" --seed_everything "$SEED"; }
mkdir -p $RUN
cp configs/quickstart/data.yaml $RUN
for updates in $STALE; do
  for objective in "${OBJECTIVES[@]}"; do
    name=$objective-$updates-seed$SEED
    folder=$RUN/$name
    [ ! -f "$folder/test/metrics.json" ] || continue
    rm -rf "$folder"
    # The quickstart's own file, with another place to log to. Every update has 8 prompts, so a staler rollout is a larger one.
    sed "s#save_dir: $FROM, name: sapo#save_dir: $RUN, name: $name#" configs/quickstart/sapo.yaml > "$RUN/$name.yaml"
    iterations=$((STEPS / updates))
    sapo_vl fit --config "$RUN/$name.yaml" --config "configs/objective/$objective.yaml" \
      --model.updates_per_iteration "$updates" --data.prompts_per_iteration $((8 * updates)) \
      --trainer.max_steps $((iterations * updates)) --model.lr_scheduler.init_args.total_iters $((iterations * updates)) \
      --trainer.val_check_interval $(((iterations + 7) / 8))
    sapo_vl test --config configs/quickstart/test.yaml --model.policy.path "$folder/hf" \
      --trainer.default_root_dir "$folder/test"
  done
  runs=("${OBJECTIVES[@]/#/$RUN/}")
  runs=("${runs[@]/%/-$updates-seed$SEED}")
  [ ${#runs[@]} -lt 2 ] || "$PYTHON" scripts/compare.py "${runs[@]}" --out "$RUN/compare-$updates-seed$SEED"
done
