// The summary, and how the runs' settings differ.

/// A table in a box that scrolls. columns: [{title, cell, mark?, number?}]; cell(row, index) gives
/// text or an element, mark(row, index) a class. The first column names the row.
const addTable = (parent, columns, rows, className = "") => {
  const head = element("tr");
  for (const { title, number } of columns) {
    head.append(element("th", { scope: "col", class: number ? "number" : "" }, title));
  }
  const body = element("tbody");
  rows.forEach((row, index) => {
    const line = element("tr");
    columns.forEach(({ cell, mark, number }, column) => {
      const made = column ? element("td") : element("th", { scope: "row" });
      made.className = [number ? "number" : "", mark?.(row, index) ?? ""].join(" ").trim();
      made.append(cell(row, index));
      line.append(made);
    });
    body.append(line);
  });
  const table = element("table", { class: className }, element("thead", {}, head), body);
  parent.append(element("div", { class: "table", tabindex: "0" }, table));
};

const runName = (run, index) => {
  const name = element("span", { title: run.directory }, swatch(index), " ", run.name);
  if (run.unfinished) name.append(element("span", { class: "tag" }, "unfinished"));
  return name;
};

const stepsOf = (run) =>
  fixed(run.summary.steps) + (run.unfinished ? " of " + fixed(run.planned_steps) : "");

const markOf = (value, better) => {
  if (!isNumber(value) || value === 0) return "same";
  return better(value) ? "better" : "worse";
};

const summaryColumns = () => {
  const first = runs[0].summary;
  const lossChange = (run) =>
    isNumber(run.summary.val_loss) && isNumber(first.val_loss)
      ? run.summary.val_loss - first.val_loss
      : null;
  const speedUp = (run) =>
    first.tokens_per_second > 0 ? run.summary.tokens_per_second / first.tokens_per_second : null;
  const columns = [
    { title: "run", cell: runName },
    { title: "codec", cell: (run) => run.summary.codec },
    { title: "steps", number: true, cell: stepsOf },
    { title: "train loss", number: true, cell: (run) => fixed(run.summary.train_loss, 4) },
    { title: "val loss", number: true, cell: (run) => fixed(run.summary.val_loss, 4) },
    {
      title: "vs first",
      number: true,
      cell: (run, index) => (index ? change(lossChange(run), 4) : kNone),
      mark: (run, index) => markOf(index ? lossChange(run) : null, (value) => value < 0),
    },
    { title: "K, V sent", number: true, cell: (run) => bytes(run.summary.kv_bytes) },
    { title: "saved", number: true, cell: (run) => percent(run.summary.saved) },
    { title: "saved, last phase", number: true, cell: (run) => percent(run.summary.saved_in_last_phase) },
    { title: "all sent", number: true, cell: (run) => bytes(run.summary.total_bytes) },
    { title: "tokens/s", number: true, cell: (run) => scaled(run.summary.tokens_per_second) },
    {
      title: "speed vs first",
      number: true,
      cell: (run, index) => (index && isNumber(speedUp(run)) ? plain(Number(speedUp(run).toPrecision(3))) + " ×" : kNone),
      mark: (run, index) => markOf(index ? speedUp(run) - 1 : null, (value) => value > 0),
    },
    { title: "waiting", number: true, cell: (run) => percent(run.summary.wait_share, 0) },
  ];
  const needed = (column) => runs.length > 1 || !column.title.endsWith("vs first");
  return columns.filter(needed);
};

const addSummary = () => {
  section("Summary");
  addTable(main, summaryColumns(), runs);
  main.append(
    element(
      "p",
      { class: "note" },
      "Losses in nats per token: train, the mean of the last tenth of the steps; val, the last " +
        "evaluation. K, V sent: keys, values and their gradients over the whole run, all ranks; " +
        "saved: against bf16 keys and values without compression, over the whole run and in its " +
        "last phase. All sent: weights and the rest too. Tokens/s: the median step. Waiting: " +
        "share of the step time in which ranks wait for transfers.",
    ),
  );
};

const valueColumns = () =>
  runs.map((run, index) => ({
    title: run.name,
    cell: (row) => row.values[index],
    mark: (row) => (row.values[index] !== row.values[0] ? "changed" : ""),
  }));

const addSettings = () => {
  const { differences, common } = report;
  const key = { title: "key", cell: (row) => row.key };
  if (runs.length > 1) {
    section("Settings that differ", "What differs from the first run is bold.");
    if (differences.length) addTable(main, [key, ...valueColumns()], differences, "settings");
    else main.append(element("p", {}, "None: the runs have the same configuration, mesh and host."));
  } else {
    section("Settings");
  }
  const details = element("details", {});
  details.append(element("summary", {}, `${runs.length > 1 ? "The same in all runs" : "All"}: ${common.length} keys`));
  addTable(details, [key, { title: "value", cell: (row) => row.value }], common, "settings");
  main.append(details);
};
