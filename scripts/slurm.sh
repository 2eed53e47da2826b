#!/usr/bin/env bash
#SBATCH --job-name=sapo
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1        # one torchrun a host; it starts a process for each GPU
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@1800       # 30 minutes before the limit: longer than an iteration takes
#SBATCH --requeue
#SBATCH --open-mode=append
# Train until trainer.max_steps, over as many jobs as that takes:
#   sbatch scripts/slurm.sh RUN_DIR --config configs/base.yaml --config ... [more of sapo-vl fit]
# RUN_DIR is where the loggers of the config write. Before the time limit the run is asked to stop
# after its iteration, saves, and the job is queued again; it goes on from the newest checkpoint.
set -euo pipefail
if [ $# -lt 3 ]; then
    echo "usage: sbatch scripts/slurm.sh RUN_DIR --config FILE [--config FILE ...]" >&2
    exit 2
fi
run_dir=$1
shift

mkdir -p "$run_dir"
rm -f "$run_dir/stop"
requeue=no
ask_to_stop() {
    requeue=yes
    touch "$run_dir/stop"  # sapo_vl.callbacks.StopFile looks for it between iterations
}
trap ask_to_stop USR1

resume=()
for path in "$run_dir"/checkpoints/iteration-*.ckpt; do  # names sort by iteration
    # DeepSpeed's are folders, whole once they hold `latest`.
    if [ -f "$path" ] || [ -f "$path/latest" ]; then
        resume=(--ckpt_path "$path")
    fi
done

nodes=${SLURM_JOB_NUM_NODES:-1}
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
# In the background: bash runs a trap only between commands.
srun --kill-on-bad-exit=1 "${SAPO_VL_PYTHON:-python}" -m torch.distributed.run \
    --nnodes "$nodes" --nproc-per-node "${SLURM_GPUS_ON_NODE:-8}" \
    --rdzv-backend c10d --rdzv-endpoint "$head_node:${MASTER_PORT:-29500}" --rdzv-id "$SLURM_JOB_ID" \
    -m sapo_vl fit "$@" --trainer.num_nodes "$nodes" ${resume[@]+"${resume[@]}"} &
job=$!
code=0
wait "$job" || code=$?
while kill -0 "$job" 2>/dev/null; do  # the signal ended the wait, not the job
    code=0
    wait "$job" || code=$?
done
if [ "$code" -ne 0 ] && [ "$requeue" = no ]; then
    exit "$code"
fi
if [ "$requeue" = yes ] && [ ! -e "$run_dir/stop" ] && [ "$code" -eq 0 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
