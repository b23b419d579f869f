// Cards with one plot each. A plot is described, drawn by Chart.js, and drawn anew when the theme
// changes.

const descriptions = []; // {canvas, make() -> configuration of Chart.js}
let charts = [];

/// A grid of `columns` ("two", "one", or "" for three) that addCard fills.
const addGrid = (columns = "") => {
  const grid = element("div", { class: "grid " + columns });
  main.append(grid);
  return grid;
};

const addCard = (grid, title, note, height, make) => {
  const canvas = element("canvas", { role: "img", "aria-label": title });
  const plot = element("div", { class: "plot", style: `height: ${height}px` }, canvas);
  const card = element("section", { class: "card" }, element("h3", {}, title));
  card.append(element("p", { class: "note" }, note), plot);
  grid.append(card);
  descriptions.push({ canvas, make });
};

const drawCharts = () => {
  charts.forEach((chart) => chart.destroy());
  Chart.defaults.color = cssColor("muted");
  Chart.defaults.borderColor = cssColor("grid");
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  charts = descriptions.map(({ canvas, make }) => new Chart(canvas, make()));
  showRuns();
  root.dataset.charts = charts.length;
};

const showRuns = () => {
  for (const chart of charts) {
    chart.data.datasets.forEach((dataset, index) => {
      if (dataset.run !== undefined) chart.setDatasetVisibility(index, !hiddenRuns.has(dataset.run));
    });
    chart.update("none");
  }
};

/// Of every line the point nearest to the pointer, by x, so that runs are read off side by side.
Chart.Interaction.modes.nearestOfEach = (chart, event) => {
  const { x } = Chart.helpers.getRelativePosition(event, chart);
  const items = [];
  for (const meta of chart.getSortedVisibleDatasetMetas()) {
    let best = -1;
    meta.data.forEach((point, index) => {
      const isNearer = best < 0 || Math.abs(point.x - x) < Math.abs(meta.data[best].x - x);
      if (isNearer && !point.skip) best = index;
    });
    if (best >= 0 && Math.abs(meta.data[best].x - x) < 40) {
      items.push({ element: meta.data[best], datasetIndex: meta.index, index: best });
    }
  }
  return items;
};

/// An axis with its unit in the title; format(value) for ticks.
const axis = (title, format, more = {}) => ({
  type: "linear",
  title: { display: true, text: title, color: cssColor("muted") },
  grid: { color: cssColor("grid"), drawBorder: false, tickColor: "transparent" },
  ...more,
  ticks: { maxRotation: 0, autoSkipPadding: 16, callback: (value) => format(value), ...more.ticks },
});

const tooltip = (title, label) => ({
  backgroundColor: cssColor("card"),
  titleColor: cssColor("ink"),
  bodyColor: cssColor("ink"),
  borderColor: cssColor("line"),
  borderWidth: 1,
  usePointStyle: true,
  boxPadding: 4,
  itemSort: (a, b) => a.dataset.run - b.dataset.run,
  filter: (item) => item.dataset.label !== undefined,
  callbacks: { title, label },
});

/// Line of a run through `points` [{x, y}].
const runLine = (index, points, more = {}) => ({
  run: index,
  label: runs[index].name,
  data: points.filter(({ x, y }) => isNumber(x) && isNumber(y)),
  borderColor: runColor(index),
  backgroundColor: runColor(index),
  borderDash: runDash(index),
  borderWidth: 1.5,
  pointStyle: runMarker(index),
  pointRadius: points.length === 1 ? 4 : 0,
  pointHitRadius: 0,
  order: -index,
  ...more,
});

/// A plot of lines. x, y: {title, format, axis?: more of the axis}
const linePlot = (x, y, datasets, plugins = []) => ({
  type: "line",
  data: { datasets },
  plugins,
  options: {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    parsing: false,
    normalized: true,
    interaction: { mode: "nearestOfEach", intersect: false },
    scales: { x: axis(x.title, x.format, x.axis), y: axis(y.title, y.format, y.axis) },
    plugins: {
      legend: { display: false },
      tooltip: tooltip(
        (items) => (items.length ? `${x.title}: ${x.format(items[0].parsed.x)}` : ""),
        (item) => `${item.dataset.label}: ${(y.precise ?? y.format)(item.parsed.y)}`,
      ),
    },
  },
});

/// Bars of kinds of bytes, stacked, a run a row; marks [bytes or null] draws a line across a row.
const stackedBars = (kinds, marks) => ({
  type: "bar",
  data: {
    labels: runs.map((run) => shortened(run.name, 28)),
    datasets: kinds.map(([kind, label]) => ({
      label,
      data: runs.map((run) => run.summary.bytes[kind]),
      backgroundColor: kindColor(kind),
      borderColor: cssColor("card"),
      borderWidth: { right: 1 },
      borderSkipped: false,
      maxBarThickness: 26,
    })),
  },
  plugins: [rowMarks(marks)],
  options: {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    indexAxis: "y",
    scales: {
      x: axis("bytes over the whole run, all ranks", bytes, {
        stacked: true,
        min: 0,
        suggestedMax: 1.02 * Math.max(0, ...marks.filter(isNumber)),
      }),
      y: {
        stacked: true,
        grid: { display: false, drawBorder: false },
        ticks: { color: cssColor("ink"), autoSkip: false },
      },
    },
    plugins: {
      legend: { position: "bottom", align: "start", labels: { boxWidth: 12, boxHeight: 12 } },
      tooltip: {
        ...tooltip(
          (items) => (items.length ? runs[items[0].dataIndex].name : ""),
          (item) => `${item.dataset.label}: ${bytes(item.raw)}`,
        ),
        itemSort: undefined,
      },
    },
  },
});

const rowMarks = (marks) => ({
  id: "rowMarks",
  afterDatasetsDraw: ({ ctx, scales }) => {
    const half = Math.min(18, (0.46 * scales.y.height) / marks.length);
    ctx.save();
    ctx.strokeStyle = cssColor("ink");
    ctx.lineWidth = 2;
    marks.forEach((value, row) => {
      if (!isNumber(value) || value <= 0) return;
      const x = scales.x.getPixelForValue(value);
      const y = scales.y.getPixelForValue(row);
      ctx.beginPath();
      ctx.moveTo(x, y - half);
      ctx.lineTo(x, y + half);
      ctx.stroke();
    });
    ctx.restore();
  },
});

/// Dotted lines across a plot over steps where runs change phase, each named once.
const phaseMarks = (positions) => ({
  id: "phaseMarks",
  beforeDatasetsDraw: ({ ctx, chartArea, scales }) => {
    ctx.save();
    ctx.strokeStyle = cssColor("muted");
    ctx.fillStyle = cssColor("muted");
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.textBaseline = "top";
    ctx.setLineDash([2, 3]);
    positions.forEach(({ step, name }) => {
      const x = scales.x.getPixelForValue(step);
      if (x < chartArea.left || x > chartArea.right) return;
      ctx.beginPath();
      ctx.moveTo(x, chartArea.top);
      ctx.lineTo(x, chartArea.bottom);
      ctx.stroke();
      const fits = x + 4 + ctx.measureText(name).width < chartArea.right;
      ctx.textAlign = fits ? "left" : "right";
      ctx.fillText(name, fits ? x + 4 : x - 4, chartArea.top + 2);
    });
    ctx.restore();
  },
});
