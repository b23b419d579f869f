# shellcheck shell=bash
# The experiments of scripts/reproduce.sh: which arms each has, and their settings. Sourced.
# The first arm of an experiment is what the others are compared with.

experiment_names() {
  echo "table1 table2 table3 table4 table5 figure2 figure5 ratio frontier ranks memory average"
}

title_of() {
  case $1 in
    table1) echo "Ablations of the subspaces (paper, table 1)" ;;
    table4) echo "Ablations in the paper's own form (paper, table 4)" ;;
    table2) echo "Speed and loss over slow and fast links (paper, table 2)" ;;
    figure2) echo "Loss over wall-clock time (paper, figure 2)" ;;
    table3) echo "Length of the warm start (paper, table 3)" ;;
    table5) echo "Step of unplugging (paper, table 5)" ;;
    figure5) echo "Rivals: top-k, 4 bits, one joint latent (paper, figure 5)" ;;
    ratio) echo "Loss by compression ratio" ;;
    frontier) echo "Loss against bytes: ranks and formats" ;;
    ranks) echo "Rank study: spectra of Q, K and V over training" ;;
    memory) echo "Memory with and without compression" ;;
    average) echo "Weights by averages in place of summed gradients" ;;
  esac
}

# speed: timed over an emulated link, one run at a time. loss: in one process, several at once.
kind_of() {
  case $1 in
    table2 | figure2 | memory) echo speed ;;
    *) echo loss ;;
  esac
}

# Runs of one family share a directory, and so arms of the same name and settings.
family_of() {
  case $1 in
    frontier | average) echo "ranks4" ;;
    *) kind_of "$1" ;;
  esac
}

# Ranks at small scale. The frontier needs the bytes of real exchanges, averages need replicas.
ranks_of() {
  case $(family_of "$1") in
    speed) echo 2 ;;
    ranks4) echo 4 ;;
    loss) echo 1 ;;
  esac
}

plot_of() { [[ $1 == frontier || $1 == ratio ]] && echo frontier || echo none; }

config_of() {
  if [[ $2 == paper ]]; then echo configs/paper/800m.yaml; else echo "configs/small/$(kind_of "$1").yaml"; fi
}

arms_of() {
  case $1 in
    table1) echo "uncompressed full fixed_basis no_rotation random_rotation no_warm_start compressed_at_home" ;;
    table4) echo "uncompressed paper paper_fixed paper_random paper_no_warm_start paper_expm" ;;
    table2 | figure2) echo "fast_uncompressed slow_compressed slow_compressed_int8 slow_uncompressed" ;;
    table3) echo "uncompressed warm_start_0 warm_start_40 full warm_start_160" ;;
    table5) echo "uncompressed full unplug_70 unplug_95 unplug_99" ;;
    figure5) echo "uncompressed full latent quantize_int4 topk_10" ;;
    ratio) echo "uncompressed rank_2_4 rank_4_8 full rank_16_32" ;;
    frontier) echo "uncompressed full rank_4_8_int8 rank_2_4_bf16 rank_16_32_int4 fixed_4_8_int8 fixed_8_16_int4" \
      "not_at_home_8_16_int4 latent_24_int4" ;;
    ranks) echo "spectra" ;;
    memory) echo "fast_uncompressed fast_compressed" ;;
    average) echo "full average_1 average_8 average_8_moments" ;;
  esac | tr ' ' '\n'
}

uncompressed="compression.codec=none compression.wire_dtype=bf16"
# The paper's own form but for its angle's look ahead: also at home, fixed basis, few coordinates in
# bf16 (95.3 % fewer of them at width 128).
paper="compression.exact_local=false compression.learned_basis=false compression.rotation.kind=taylor2 \
compression.rotation.source=previous_chunk compression.wire_dtype=bf16"

rank() { echo "compression.key_rank=$1 compression.value_rank=$2"; }

# arm_settings ARM SCALE: key=value, blank between.
arm_settings() {
  local arm=$1 scale=$2 tight
  tight=$([[ $scale == paper ]] && rank 51 92 || rank 4 8)
  case $arm in
    uncompressed) echo "$uncompressed" ;;
    full) ;;
    fixed_basis) echo "compression.learned_basis=false" ;;
    no_rotation) echo "compression.learned_basis=false compression.rotation.kind=none" ;;
    random_rotation) echo "compression.learned_basis=false compression.rotation.kind=random" ;;
    no_warm_start) echo "compression.learned_basis=false compression.warmup_steps=0" ;;
    compressed_at_home) echo "compression.exact_local=false compression.rotation.source=previous_chunk" ;;
    paper) echo "$paper $tight" ;;
    paper_fixed) echo "${paper/taylor2/none} $tight" ;;
    paper_random) echo "${paper/taylor2/random} $tight" ;;
    paper_expm) echo "${paper/taylor2/expm} $tight" ;;
    paper_no_warm_start) echo "$paper $tight compression.warmup_steps=0" ;;
    warm_start_*) echo "compression.warmup_steps=$(steps_for "${arm##*_}" "$scale")" ;;
    unplug_*) echo "compression.unplug_at_step=$(unplug_step "${arm##*_}" "$scale")" ;;
    latent) echo "compression.codec=latent compression.latent_rank=$([[ $scale == paper ]] && echo 143 || echo 24)" ;;
    latent_24_int4) echo "compression.codec=latent compression.latent_rank=24" ;;
    quantize_int4) echo "compression.codec=quantize compression.wire_dtype=int4" ;;
    topk_10) echo "compression.codec=topk compression.wire_dtype=bf16 compression.topk_fraction=0.1" ;;
    rank_*_*_* | fixed_*_*_* | not_at_home_*_*_*) grid_settings "$arm" ;;
    rank_*_*) rank "$(cut -d_ -f2 <<<"$arm")" "$(cut -d_ -f3 <<<"$arm")" ;;
    spectra) echo "$uncompressed metrics.spectra_interval=$(steps_for 40 "$scale")" ;;
    average_*) average_settings "$arm" ;;
    fast_uncompressed) echo "$uncompressed network.bandwidth=none" ;;
    fast_compressed) echo "network.bandwidth=none" ;;
    slow_uncompressed) echo "$uncompressed $(slow_link "$scale") $([[ $scale == paper ]] || echo training.steps=5)" ;;
    slow_compressed) slow_link "$scale" ;;
    slow_compressed_int8) echo "$(slow_link "$scale") compression.wire_dtype=int8" ;;
    *)
      echo "reproduce.sh: no arm $arm" >&2
      return 1
      ;;
  esac
}

# [rank | fixed | not_at_home]_KEY_VALUE_DTYPE
grid_settings() {
  local dtype=${1##*_} rest=${1%_*} value key
  value=${rest##*_}
  rest=${rest%_*}
  key=${rest##*_}
  local form=
  case $1 in
    fixed_*) form="compression.learned_basis=false" ;;
    not_at_home_*) form="compression.exact_local=false compression.rotation.source=previous_chunk" ;;
  esac
  echo "$(rank "$key" "$value") compression.wire_dtype=$dtype $form"
}

average_settings() {
  local every=${1#average_} moments=
  [[ $1 == *_moments ]] && moments="weight_sync.average_moments=true"
  echo "weight_sync.method=average weight_sync.every=${every%_moments} $moments"
}

slow_link() { [[ $1 == paper ]] && echo "network.bandwidth=300Mbps" || echo "network.bandwidth=5.2Mbps"; }

# Steps of the small runs, and in proportion of the paper's 120000 (its ablations: 10000).
steps_for() { [[ $2 == paper ]] && echo $(($1 * 25 / 4)) || echo "$1"; }
unplug_step() { [[ $2 == paper ]] && echo $(($1 * 1200)) || echo $(($1 * 4)); }
