#!/usr/bin/env bash
# scripts/check_tensorboard.sh [RUN_DIR]: reads the event files of a run (metrics.tensorboard: true)
# with the real TensorBoard and compares every scalar with metrics.jsonl. Without RUN_DIR it trains a
# tiny model for some steps first. TensorBoard is installed by pip into build/tensorboard, once:
# this needs python3 with venv, and a package registry that can be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=build/tensorboard
if [[ ! -x $venv/bin/tensorboard ]]; then
  echo "check_tensorboard.sh: installing TensorBoard into $venv"
  python3 -m venv "$venv"
  # setuptools: TensorBoard uses pkg_resources, which newer ones dropped.
  "$venv/bin/pip" install --quiet --disable-pip-version-check tensorboard 'setuptools<81'
fi

run=${1:-}
if [[ -z $run ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  run=$work/run
  build/bin/subring tokenize --tokenizer bytes --out "$work/data" docs/*.md
  build/bin/subring train configs/demo.yaml --local-ranks 2 --out "$run" \
    --set "data.train=$work/data/train_*.bin" --set "data.validation=$work/data/validation_*.bin" \
    --set data.seq_len=64 --set parallelism.context_parallel_degree=2 --set training.steps=12 \
    --set training.eval_interval=5 --set training.eval_batches=1 --set compression.warmup_steps=4 \
    --set lr_scheduler.warmup_steps=2 --set metrics.tensorboard=true
fi

"$venv/bin/python3" - "$run" <<'PYTHON'
import json, pathlib, struct, sys
import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = pathlib.Path(sys.argv[1])


def float32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


# tag -> [(step, value)] as metrics.jsonl has it
expected = {}
for text in (run / "metrics.jsonl").read_text().splitlines():
    line = json.loads(text)
    if "val_loss" in line:
        scalars = {"eval/val_loss": line["val_loss"]}
    elif "loss" in line:
        scalars = {"train/" + key: line[key] for key in ("loss", "lr", "grad_norm")}
        scalars |= {"speed/" + key: line[key] for key in ("tokens_per_second", "step_seconds")}
        scalars["speed/wait_share"] = line["wait_seconds"] / line["step_seconds"]
        scalars |= {"bytes/" + kind: sent for kind, sent in line["bytes"].items()}
    else:
        continue
    for tag, value in scalars.items():
        expected.setdefault(tag, []).append((line["step"], float32(value)))

events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
found = events.Tags()["scalars"]
if not expected or set(found) != set(expected):
    sys.exit(f"check_tensorboard.sh: {run}: tags {sorted(found)}, expected {sorted(expected)}")
count = 0
for tag, points in expected.items():
    scalars = events.Scalars(tag)
    if [(scalar.step, scalar.value) for scalar in scalars] != points:
        sys.exit(f"check_tensorboard.sh: {run}: {tag} differs from metrics.jsonl")
    times = [scalar.wall_time for scalar in scalars]
    if times != sorted(times):
        sys.exit(f"check_tensorboard.sh: {run}: wall times of {tag} do not ascend")
    count += len(points)
print(f"check_tensorboard.sh: TensorBoard {tensorboard.__version__} reads {len(found)} series, "
      f"{count} scalars, all as in metrics.jsonl")
PYTHON
