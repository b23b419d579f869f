// Puts the page together.

const chooseTheme = (chosen) => {
  theme = chosen;
  root.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
};

/// All anew: colours are part of the plots and of the swatches.
const drawPage = () => {
  main.replaceChildren();
  descriptions.length = 0;
  addNotes(report.notes);
  if (runs.length > 1) addLegend();
  addSummary();
  if (report.plot === "frontier") addFrontier();
  addLoss();
  addTraffic();
  addSpeed();
  addSpectra();
  addSettings();
  drawCharts();
};

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
chooseTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", ({ matches }) => {
  chooseTheme(matches ? "dark" : "light");
  drawPage();
});
document.getElementById("theme").addEventListener("click", () => {
  chooseTheme(theme === "dark" ? "light" : "dark");
  drawPage();
});
drawPage();
