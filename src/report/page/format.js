// Numbers as people read them. What is not there (null) is a dash.

const kNone = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

const withSign = (text, value) => (value > 0 ? "+" : "") + text.replace("-", "−");

/// 12345.6 -> "12,346"; digits: decimals.
const fixed = (value, digits = 0) =>
  isNumber(value)
    ? value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })
    : kNone;

/// Change against the first run, e.g. "+0.0123".
const change = (value, digits) => (isNumber(value) ? withSign(fixed(value, digits), value) : kNone);

const percent = (share, digits = 1) => (isNumber(share) ? fixed(100 * share, digits) + " %" : kNone);

/// Three digits and a prefix: 1234567 -> "1.23 M". Zeros at the end go.
const scaled = (value, unit = "") => {
  if (!isNumber(value)) return kNone;
  const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [scale, prefix] = prefixes.find(([size]) => Math.abs(value) >= 0.9995 * size) ?? [1, ""];
  const text = String(Number((value / scale).toPrecision(3)));
  return text + (prefix + unit ? " " + prefix + unit : "");
};

const bytes = (value) => scaled(value, "B");

const plain = (value) => (isNumber(value) ? String(Number(value.toPrecision(4))) : kNone);

/// The unit for times up to `seconds`: its name and its length in seconds.
const timeUnit = (seconds) => {
  if (seconds < 300) return ["s", 1];
  if (seconds < 3 * 3600) return ["min", 60];
  return ["h", 3600];
};

const shortened = (text, length) =>
  text.length > length ? text.slice(0, length - 1) + "…" : text;
