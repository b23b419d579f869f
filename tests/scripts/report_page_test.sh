#!/usr/bin/env bash
# report_page_test.sh SUBRING: trains two tiny runs, writes their report and opens it in headless
# Chromium: no console message, every plot shows its data, in the light and in the dark theme, and
# the theme's button does what it says. Exit code 77 (skipped) without Chromium.
set -euo pipefail
subring=$(realpath "$1")
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v chromium >/dev/null || {
  echo "report_page_test.sh: no chromium here, skipped"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$subring" tokenize --tokenizer bytes --out data "$source_dir"/docs/*.md >/dev/null 2>&1
train() {
  "$subring" train "$source_dir/configs/demo.yaml" --local-ranks 2 --out "$@" \
    --set 'data.train=data/train_*.bin' --set 'data.validation=data/validation_*.bin' \
    --set data.seq_len=64 --set parallelism.context_parallel_degree=2 --set training.steps=8 \
    --set training.eval_interval=4 --set training.eval_batches=1 --set compression.warmup_steps=4 \
    --set lr_scheduler.warmup_steps=2 --set metrics.spectra_interval=4 2>/dev/null
}
train "plain" --set compression.codec=none --set compression.wire_dtype=bf16
train "<b>compressed</b>"
printf 'A note.\n\n- an item\n' >notes.txt
"$subring" report plain "<b>compressed</b>" --out report.html --title 'Two <runs>' \
  --notes notes.txt --plot frontier

# How many pixels each plot's data cover: those that change when its data are hidden.
cat >probe.html <<'HTML'
<script>
addEventListener("load", () => {
  const pixels = (canvas) => {
    const { width, height } = canvas;
    const copy = Object.assign(document.createElement("canvas"), { width, height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    return new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  };
  const inked = () => [...document.querySelectorAll("canvas")].map((canvas) => {
    const chart = Chart.getChart(canvas);
    const shown = pixels(canvas);
    chart.data.datasets.forEach((_, index) => chart.setDatasetVisibility(index, false));
    chart.update("none");
    const hidden = pixels(canvas);
    return shown.filter((pixel, index) => pixel !== hidden[index]).length;
  });
  const look = () => {
    const counts = inked();
    return `${document.documentElement.dataset.theme} ${counts.length} plots, least ${Math.min(...counts)} pixels, ` +
      `page ${getComputedStyle(document.body).backgroundColor}`;
  };
  const first = look();
  document.getElementById("theme").click();
  document.title = `PROBE ${first}; then ${look()}; ${document.querySelectorAll("b").length} injected`;
});
</script>
HTML
cat report.html probe.html >probed.html

fail() {
  echo "report_page_test.sh: $*" >&2
  exit 1
}
# probe THEME OTHER CHROMIUM_OPTION...: opens the page in THEME, and switches to OTHER.
probe() {
  timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
    --enable-logging=stderr --window-size=1300,2000 --virtual-time-budget=10000 --dump-dom "${@:3}" \
    "file://$work/probed.html" >dom.html 2>log.txt || fail "chromium failed: $(tail -3 log.txt)"
  if grep -q ':CONSOLE' log.txt; then fail "messages on the console: $(grep ':CONSOLE' log.txt | head -3)"; fi
  found=$(grep -o '<title>PROBE [^<]*' dom.html) || fail "the page did not finish"
  echo "$found"
  local pattern="PROBE ($1) ([0-9]+) plots, least ([0-9]+) pixels, page rgb\(([0-9]+), .*then"
  pattern+=" ($2) ([0-9]+) plots, least ([0-9]+) pixels, page rgb\(([0-9]+), .*; 0 injected"
  [[ $found =~ $pattern ]] || fail "expected the $1 theme, then the $2 one, and no element injected"
  local plots=${BASH_REMATCH[2]} least=${BASH_REMATCH[3]} tone=${BASH_REMATCH[4]}
  local plots_then=${BASH_REMATCH[6]} least_then=${BASH_REMATCH[7]} tone_then=${BASH_REMATCH[8]}
  ((plots >= 20 && plots == plots_then)) || fail "$plots and $plots_then plots"
  ((least >= 20 && least_then >= 20)) || fail "a plot is empty: $found"
  if [[ $1 == light ]]; then ((tone > 200 && tone_then < 60)); else ((tone < 60 && tone_then > 200)); fi ||
    fail "the page's colour does not follow the theme"
}
probe light dark --blink-settings=preferredColorScheme=1
probe dark light --blink-settings=preferredColorScheme=0
