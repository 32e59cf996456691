// Elements and text. Everything that comes from outside goes into the page as text: nothing here takes HTML.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map((child) => child instanceof Node ? child : String(child)));
  return node;
}

const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const s = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

const whole = new Intl.NumberFormat("en");
const count = (value) => Number.isFinite(value) ? whole.format(value) : "–";
const many = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
const two = (value) => String(value).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// A moment in UTC, from milliseconds: "22 Nov 19:04:05".
function moment(at, seconds = true) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "–";
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  const year = date.getUTCFullYear() === new Date().getUTCFullYear() ? "" : ` ${date.getUTCFullYear()}`;
  return `${day}${year} ${two(date.getUTCHours())}:${two(date.getUTCMinutes())}${seconds ? `:${two(date.getUTCSeconds())}` : ""}`;
}

function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const steps = [["day", 86400], ["hour", 3600], ["minute", 60]];
  for (const [name, size] of steps) if (seconds >= size * 2 || (name === "minute" && seconds >= size)) return many(Math.floor(seconds / size), name);
  return many(Math.max(0, Math.floor(seconds)), "second");
}

const short = (text, head = 6, tail = 4) => {
  const value = String(text ?? "");
  return value.length > head + tail + 1 ? `${value.slice(0, head)}…${value.slice(-tail)}` : value;
};
const mono = (text, whole_text = text) => h("span", { class: "mono", title: whole_text }, text);

// columns: [title, class]. rows: each a list of cells, which are texts or nodes.
function table(caption, columns, rows, kind = "") {
  const head = columns.map(([title, look]) => h("th", { scope: "col", class: look }, title));
  const body = rows.map((cells) => h("tr", null, cells.map((cell, at) => h("td", { class: columns[at][1], "data-name": columns[at][2] }, cell ?? "–"))));
  return h("div", { class: "scroll" }, h("table", { class: kind }, h("caption", { class: "out-of-sight" }, caption), h("thead", null, h("tr", null, head)), h("tbody", null, body)));
}

const pairs = (entries) => h("dl", { class: "pairs" }, entries.filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
const empty = (title, ...more) => h("div", { class: "empty" }, h("b", null, title), more);
const show = (id, ...children) => $(id).replaceChildren(...children);
