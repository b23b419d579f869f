// What the page shows of the runs, section by section. Series come as arrays of equal length,
// a point each `stride` steps (html_report.cpp says how they are made).

const last = (array) => array[array.length - 1];
const largest = (read) => Math.max(0, ...runs.map(read).filter(isNumber));

const points = (xs, ys) => xs.map((x, index) => ({ x, y: ys[index] }));

/// What losses and rates stand against.
const xOfSteps = () => ({ key: "step", title: "step", format: (value) => scaled(value), axis: { min: 0 } });
const xOfTokens = () => ({ key: "tokens", title: "tokens", format: (value) => scaled(value), axis: { min: 0 } });
const xOfSeconds = () => {
  const [unit, seconds] = timeUnit(largest((run) => last(run.series.seconds)));
  return {
    key: "seconds",
    title: `training time (${unit})`,
    format: plain,
    axis: { min: 0 },
    scale: 1 / seconds,
  };
};
const valuesOf = (series, x) => series[x.key].map((value) => value * (x.scale ?? 1));

/// Where phases begin, of all runs; [] where they are too many to be read.
const phaseStarts = () => {
  const starts = new Map();
  for (const run of runs) {
    for (const { step, phase } of run.phases.slice(1)) {
      starts.set(step + phase, { step, name: phase.replace("_", " ") });
    }
  }
  return starts.size > 3 ? [] : [...starts.values()];
};

/// Mean of the points around each one, 2 % of all.
const smoothed = (values) => {
  const half = Math.round(values.length / 100);
  const sums = [0];
  values.forEach((value, index) => sums.push(sums[index] + value));
  return values.map((_, index) => {
    const from = Math.max(0, index - half);
    const to = Math.min(values.length, index + half + 1);
    return (sums[to] - sums[from]) / (to - from);
  });
};

const kManyPoints = 50; // from here on single steps are drawn pale, with a smoothed line over them

/// Lines of series `name`, pale with a smoothed line over them where there are many points.
const runLines = (x, name, factor = 1) =>
  runs.flatMap((run, index) => {
    const xs = valuesOf(run.series, x);
    const ys = run.series[name].map((value) => value * factor);
    if (ys.length < kManyPoints) return [runLine(index, points(xs, ys))];
    const pale = { label: undefined, borderColor: runColor(index) + "38", borderWidth: 1, borderDash: [], order: 100 };
    return [runLine(index, points(xs, smoothed(ys))), runLine(index, points(xs, ys), pale)];
  });

/// The first steps of a loss would press the rest flat: the axis ends where 5 % of the run is over.
const topOfLoss = () => {
  const tops = runs
    .filter((run) => run.series.loss.length >= kManyPoints)
    .map((run) => smoothed(run.series.loss)[Math.floor(run.series.loss.length / 20)]);
  return tops.length === runs.length ? Math.max(...tops) : undefined;
};

const addLoss = () => {
  const axes = [xOfSteps, xOfTokens, xOfSeconds];
  const names = ["steps", "tokens", "training time"];
  if (runs.some((run) => run.evals.step.length)) {
    section("Validation loss", "Training time is the sum of step times, without evaluations.");
    const grid = addGrid();
    axes.forEach((makeX, which) => {
      addCard(grid, `Validation loss over ${names[which]}`, "Nats per token.", 300, () => {
        const x = makeX();
        const lines = runs.map((run, index) => {
          const line = points(valuesOf(run.evals, x), run.evals.val_loss);
          return runLine(index, line, { pointRadius: line.length > 40 ? 0 : 3 });
        });
        const y = { title: "loss (nats per token)", format: plain, precise: (value) => fixed(value, 4) };
        return linePlot(x, y, lines, which ? [] : [phaseMarks(phaseStarts())]);
      });
    });
  } else {
    section("Validation loss", "No run has evaluations (data.validation).");
  }
  section("Training loss", report.stride_note);
  const grid = addGrid();
  const top = topOfLoss();
  axes.forEach((makeX, which) => {
    const note = "Nats per token." + (top ? " The first steps lie above the plot." : "");
    addCard(grid, `Training loss over ${names[which]}`, note, 300, () => {
      const x = makeX();
      const y = {
        title: "loss (nats per token)",
        format: plain,
        precise: (value) => fixed(value, 4),
        axis: { max: top },
      };
      return linePlot(x, y, runLines(x, "loss"), which ? [] : [phaseMarks(phaseStarts())]);
    });
  });
};

const addSpeed = () => {
  section("Speed and training");
  const grid = addGrid("two");
  const add = (title, note, y, name, factor) =>
    addCard(grid, title, note, 240, () => {
      const x = xOfSteps();
      return linePlot(x, y, runLines(x, name, factor), [phaseMarks(phaseStarts())]);
    });
  add(
    "Tokens per second",
    "All ranks together.",
    { title: "tokens/s", format: (value) => scaled(value), axis: { min: 0 } },
    "tokens_per_second",
  );
  add(
    "Share of the step spent waiting",
    "Mean over ranks: blocked on transfers.",
    { title: "share of step time (%)", format: plain, axis: { min: 0, suggestedMax: 10 } },
    "wait_share",
    100,
  );
  add("Learning rate", "", { title: "learning rate", format: (value) => Number(value.toPrecision(3)).toString(), axis: { min: 0 } }, "lr");
  add(
    "Gradient norm",
    "Before clipping; the largest of the steps that one point stands for.",
    { title: "global norm", format: plain, axis: { type: "logarithmic" } },
    "grad_norm",
  );
};

const kKinds = [
  ["kv_forward", "K and V forward"],
  ["kv_backward", "their gradients"],
  ["weights", "weights or gradients of weights"],
  ["other", "other"],
];

const addTraffic = () => {
  section(
    "Bytes on the wire",
    "Payload that left a rank, summed over ranks; evaluations are not counted.",
  );
  if (!runs.some((run) => run.summary.total_bytes > 0)) {
    main.append(element("p", {}, "None: no run had more than one rank."));
    return;
  }
  const height = 96 + 34 * runs.length;
  const grid = addGrid("two");
  const uncompressed = runs.map((run) => run.summary.bytes.kv_uncompressed);
  addCard(
    grid,
    "Keys, values and their gradients",
    "The mark is what bf16 without compression would have sent.",
    height,
    () => stackedBars(kKinds.slice(0, 2), uncompressed),
  );
  addCard(grid, "All bytes by kind", "Weights do not grow with the sequence, K and V do.", height, () =>
    stackedBars(kKinds, runs.map(() => null)),
  );
  const over = addGrid("two");
  const y = (title) => ({ title, format: bytes, axis: { type: "logarithmic" } });
  addCard(over, "K, V and their gradients, a step", "All ranks; logarithmic.", 240, () => {
    const x = xOfSteps();
    const lines = runs.map((run, index) => runLine(index, points(run.series.step, run.series.kv).filter(({ y }) => y > 0)));
    return linePlot(x, y("bytes a step"), lines, [phaseMarks(phaseStarts())]);
  });
  addCard(over, "All bytes, a step", "All ranks; logarithmic.", 240, () => {
    const x = xOfSteps();
    const lines = runs.map((run, index) => runLine(index, points(run.series.step, run.series.all).filter(({ y }) => y > 0)));
    return linePlot(x, y("bytes a step"), lines, [phaseMarks(phaseStarts())]);
  });
};
