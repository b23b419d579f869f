// Loss against bytes, one point a run; asked for by --plot frontier.

/// Names beside points, to the first side where they cover nothing else; else only in the tooltip.
const pointNames = (named) => ({
  id: "pointNames",
  afterDatasetsDraw: ({ ctx, chartArea, scales }) => {
    ctx.save();
    ctx.font = "12px " + Chart.defaults.font.family;
    ctx.fillStyle = cssColor("ink");
    ctx.textBaseline = "middle";
    const visible = named.filter(({ run }) => !hiddenRuns.has(run));
    const places = visible.map(({ x, y }) => [scales.x.getPixelForValue(x), scales.y.getPixelForValue(y)]);
    const taken = places.map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]);
    visible.forEach(({ run }, index) => {
      const text = shortened(runs[run].name, 32);
      const width = ctx.measureText(text).width;
      const [x, y] = places[index];
      const starts = [[x + 9, y], [x - 9 - width, y], [x - width / 2, y - 15], [x - width / 2, y + 15]];
      for (const [left, middle] of starts) {
        const box = [left, middle - 7, left + width, middle + 7];
        const isInside = box[0] >= chartArea.left && box[2] <= chartArea.right &&
          box[1] >= chartArea.top && box[3] <= chartArea.bottom;
        const isFree = taken.every((other) =>
          box[2] < other[0] || other[2] < box[0] || box[3] < other[1] || other[3] < box[1]);
        if (!isInside || !isFree) continue;
        ctx.fillText(text, left, middle);
        taken.push(box);
        break;
      }
    });
    ctx.restore();
  },
});

/// Points that no other one beats in both bytes and loss, from the fewest bytes up.
const undominated = (all) => {
  const sorted = [...all].sort((a, b) => a.x - b.x || a.y - b.y);
  let best = Infinity;
  return sorted.filter(({ y }) => {
    if (y >= best) return false;
    best = y;
    return true;
  });
};

const frontierPlot = (named) => {
  const target = runs[0].summary.val_loss;
  const xs = named.map(({ x }) => x);
  const ends = [Math.min(...xs) / 1.5, Math.max(...xs) * 1.5];
  const dots = named.map((point) =>
    runLine(point.run, [point], { pointRadius: 5, pointBackgroundColor: runColor(point.run), borderWidth: 2 }));
  const lines = [{
    data: undominated(named),
    borderColor: cssColor("muted"),
    borderWidth: 1,
    pointRadius: 0,
    stepped: "before",
  }];
  if (isNumber(target)) {
    lines.push({
      data: ends.map((x) => ({ x, y: target })),
      borderColor: runColor(0),
      borderWidth: 1,
      borderDash: [6, 4],
      pointRadius: 0,
    });
  }
  const x = {
    title: "K, V and their gradients, a step, all ranks",
    format: bytes,
    axis: { type: "logarithmic", min: ends[0], max: ends[1] },
  };
  const y = {
    title: "last validation loss (nats per token)",
    format: plain,
    precise: (value) => fixed(value, 4),
    axis: { grace: "8%" },
  };
  const plot = linePlot(x, y, [...dots, ...lines], [pointNames(named)]);
  plot.options.interaction = { mode: "nearest", intersect: true };
  plot.options.plugins.tooltip.callbacks.label = ({ dataset, parsed }) =>
    `${dataset.label}: ${fixed(parsed.y, 4)} (${change(parsed.y - target, 4)})`;
  for (const dot of dots) dot.pointHitRadius = 6;
  return plot;
};

const addFrontier = () => {
  const named = runs
    .map((run, index) => ({ run: index, x: run.summary.compressed_step_bytes, y: run.summary.val_loss }))
    .filter(({ x, y }) => isNumber(y) && x > 0);
  section(
    "Loss against bytes",
    `One point a run. Bytes are those of a compressed step, the warm start is left out. Dashed: ` +
      `the loss of ${runs[0].name}, to be reached; thin: the best loss for at most so many bytes.`,
  );
  if (named.length < runs.length) {
    main.append(element("p", {}, `Left out, for they sent nothing or have no evaluation: ` +
      runs.filter((_, index) => !named.some(({ run }) => run === index)).map(({ name }) => name).join(", ")));
  }
  if (!named.length) return;
  addCard(addGrid("one"), "Validation loss against bytes of a step", "", 460, () => frontierPlot(named));
};
