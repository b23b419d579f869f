// Elements of the page, theme, and the runs as its legend. All text goes in as text nodes.

const report = JSON.parse(document.getElementById("data").textContent);
const runs = report.runs;
const root = document.documentElement;
const main = document.querySelector("main");

/// element("td", {class: "number"}, "text", child...)
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// Colours: contrast above 3 with the cards, told apart by people who are colour-blind (after Okabe
// and Ito). The first run, which the others are compared with, has the colour of the text. Beyond
// seven runs the line is dashed.
const kRunColors = {
  light: ["#1a1c1e", "#0072b2", "#c4500a", "#00805c", "#b0478a", "#8a6a00", "#6f52c9"],
  dark: ["#e9ebed", "#5cb3f0", "#ff8f4d", "#2bc799", "#ea8fc8", "#e3c03c", "#b9a2ff"],
};
const kKindColors = {
  light: { kv_forward: "#0072b2", kv_backward: "#7db9df", weights: "#c79a1e", other: "#7d848b" },
  dark: { kv_forward: "#3d95d9", kv_backward: "#a3d3f5", weights: "#d6ae3c", other: "#8b929a" },
};
const kDashes = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
const kMarkers = ["circle", "rect", "triangle", "rectRot", "crossRot", "star", "circle"];

let theme = "light";
const runColor = (index) => kRunColors[theme][index % kRunColors[theme].length];
const runDash = (index) => kDashes[Math.floor(index / kRunColors.light.length) % kDashes.length];
const runMarker = (index) => kMarkers[index % kMarkers.length];
const kindColor = (kind) => kKindColors[theme][kind];
const cssColor = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

/// A piece of the run's line, for legends and tables.
const swatch = (index) => {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  line.setAttribute("class", "swatch");
  line.setAttribute("viewBox", "0 0 22 10");
  line.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", "M0 5H22");
  path.setAttribute("stroke", runColor(index));
  path.setAttribute("stroke-width", "3");
  path.setAttribute("stroke-dasharray", runDash(index).join(" "));
  line.append(path);
  return line;
};

const section = (title, note = "") => {
  main.append(element("h2", {}, title));
  if (note) main.append(element("p", { class: "note" }, note));
};

const hiddenRuns = new Set();

const addLegend = () => {
  const legend = element("nav", { id: "legend", "aria-label": "Runs; press to hide or show" });
  runs.forEach((run, index) => {
    const button = element("button", { type: "button", "aria-pressed": !hiddenRuns.has(index) });
    button.append(swatch(index), run.name);
    button.addEventListener("click", () => {
      if (!hiddenRuns.delete(index)) hiddenRuns.add(index);
      button.setAttribute("aria-pressed", !hiddenRuns.has(index));
      showRuns();
    });
    legend.append(button);
  });
  main.append(legend);
};

/// Paragraphs, lists (lines that begin with "- ") and, where all lines are indented, code.
const addNotes = (text) => {
  for (const block of text.split(/\n\s*\n/)) {
    const lines = block.split("\n").filter((line) => line.trim());
    if (!lines.length) continue;
    if (lines.every((line) => /^(    |\t)/.test(line))) {
      main.append(element("pre", {}, lines.map((line) => line.replace(/^(    |\t)/, "")).join("\n")));
    } else if (/^\s*- /.test(lines[0])) {
      const items = block.trim().split(/\n?\s*^\s*- /m).filter((item) => item.trim());
      main.append(element("ul", {}, ...items.map((item) => element("li", {}, item.trim()))));
    } else {
      main.append(element("p", {}, lines.join(" ")));
    }
  }
};
