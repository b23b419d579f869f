// The rank study: how many directions Q, K and V use (metrics.spectra_interval).

const kTensors = [["q", "Q"], ["k", "K"], ["v", "V"]];
const kEnergies = [["components_90", "90 %", [2, 3]], ["components_95", "95 %", []], ["components_99", "99 %", [7, 3]]];

const spectraOf = (run, tensor) => run.spectra.filter((spectrum) => spectrum.tensor === tensor);
const lastStudy = (run) => last(run.spectra)?.step;

/// Of the last study of a run, by layer.
const lastSpectra = (run, tensor) =>
  spectraOf(run, tensor).filter((spectrum) => spectrum.step === lastStudy(run));

const layerAxis = { title: "layer", format: (value) => (Number.isInteger(value) ? String(value) : ""), axis: { ticks: { stepSize: 1 } } };

const addSpectra = () => {
  const studied = runs.filter((run) => run.spectra.length);
  if (!studied.length) return;
  const width = (tensor) => [...new Set(studied.flatMap((run) => spectraOf(run, tensor).map((spectrum) => spectrum.width)))].join(", ");
  section(
    "Ranks of Q, K and V",
    "Spectra of the plain projections, before anything is rotated or compressed. By layer: the last " +
      "study of each run (" + [...new Set(studied.map((run) => `step ${fixed(lastStudy(run))}`))].join(", ") + ").",
  );
  const energy = addGrid();
  for (const [tensor, name] of kTensors) {
    addCard(energy, `${name}: directions that hold 90, 95, 99 % of the energy`,
      `Of ${width(tensor)}. Dotted 90 %, full 95 %, dashed 99 %.`, 260, () => {
        const lines = runs.flatMap((run, index) =>
          kEnergies.map(([key, share, dash]) => {
            const line = lastSpectra(run, tensor).map((spectrum) => ({ x: spectrum.layer, y: spectrum[key] }));
            return runLine(index, line, { label: `${run.name}, ${share}`, borderDash: dash, pointRadius: 2.5 });
          }));
        return linePlot(layerAxis, { title: "directions", format: plain, axis: { min: 0 } }, lines);
      });
  }
  const stable = addGrid();
  for (const [tensor, name] of kTensors) {
    addCard(stable, `${name}: stable rank by layer`, "Squared Frobenius norm / squared spectral norm.", 220, () => {
      const lines = runs.map((run, index) => {
        const line = lastSpectra(run, tensor).map((spectrum) => ({ x: spectrum.layer, y: spectrum.stable_rank }));
        return runLine(index, line, { pointRadius: 2.5 });
      });
      return linePlot(layerAxis, { title: "stable rank", format: plain, axis: { min: 0 } }, lines);
    });
  }
  if (!studied.some((run) => run.spectra[0].step !== lastStudy(run))) return;
  const over = addGrid();
  for (const [tensor, name] of kTensors) {
    addCard(over, `${name}: stable rank over training`, "Mean of the layers.", 220, () => {
      const lines = runs.map((run, index) => runLine(index, meanOverLayers(spectraOf(run, tensor)), { pointRadius: 2.5 }));
      return linePlot(xOfSteps(), { title: "stable rank", format: plain, axis: { min: 0 } }, lines, [phaseMarks(phaseStarts())]);
    });
  }
};

const meanOverLayers = (spectra) => {
  const steps = new Map();
  for (const { step, stable_rank } of spectra) {
    steps.set(step, [...(steps.get(step) ?? []), stable_rank]);
  }
  return [...steps].map(([step, ranks]) => ({ x: step, y: ranks.reduce((sum, rank) => sum + rank, 0) / ranks.length }));
};
