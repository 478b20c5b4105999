// Numbers as people read them.

const SPACE = "\u00a0";

/** Four significant digits at most, without zeros behind the point. */
function digits(number) {
  if (number === 0) return "0";
  const decimals = Math.max(0, 3 - Math.max(0, Math.floor(Math.log10(Math.abs(number))) + 1));
  return number.toFixed(decimals).replace(/\.0+$|(\.\d*?)0+$/, "$1");
}

function scaled(number, base, units) {
  let unit = 0;
  let value = number;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit++;
  }
  const name = units[unit];
  return name ? digits(value) + SPACE + name : digits(value);
}

const bytes = number => scaled(number, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const count = number => scaled(number, 1000, ["", "thousand", "M", "G", "T", "P"]).replace(SPACE + "thousand", SPACE + "k");
const grouped = number => Math.round(number).toLocaleString("en-US");

function seconds(number) {
  if (number === null || number === undefined) return "\u2013";
  const size = Math.abs(number);
  if (size === 0) return "0" + SPACE + "s";
  if (size >= 1) return digits(number) + SPACE + "s";
  if (size >= 1e-3) return digits(number * 1e3) + SPACE + "ms";
  if (size >= 1e-6) return digits(number * 1e6) + SPACE + "µs";
  return digits(number * 1e9) + SPACE + "ns";
}

const times = number => digits(number) + "×";
const percent = number => digits(number * 100) + SPACE + "%";
const signed = (number, format) => number === 0 ? "same" : (number > 0 ? "+" : "−") + format(Math.abs(number));

/** `model.rs:42` of `src/examples/model.rs:42`. */
const shortLine = at => at.replace(/^.*[/\\]/, "");

/** A text of at most so many characters. */
const cut = (text, most) => text.length <= most ? text : text.slice(0, most - 1) + "…";

/** The end of a text, of at most so many characters: of a line, the number is what tells it. */
const cutStart = (text, most) => text.length <= most ? text : "…" + text.slice(text.length - most + 1);

/** Steps of an axis: about `wanted` round numbers up to `end`, in powers of `base`. */
function ticks(start, end, wanted, base = 10) {
  const span = end - start;
  if (!(span > 0)) return [start];
  const rough = span / wanted;
  const power = base === 2 ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].filter(factor => base === 10 || factor < 5).map(factor => factor * power)
    .find(size => span / size <= wanted) ?? 10 * power;
  const found = [];
  for (let at = Math.ceil(start / step) * step; at <= end + step * 1e-9; at += step) found.push(at);
  return found;
}
