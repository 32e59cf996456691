// Columns of stacked parts, one column for each hour or day. Drawn as SVG; every figure is in the table below it too.

const PARTS_MAX = 5; // Methods with a shade of their own; the others share one.

function niceTop(value) {
  if (value <= 5) return Math.max(1, value);
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

const compact = (value) => value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1e4 ? `${+(value / 1e3).toFixed(1)}k` : whole.format(+value.toFixed(1));

// times: labels of the columns. methods: [{name, values}], largest first. say(at): the readout of a column.
function drawChart(times, methods, unit, name) {
  const width = Math.max(280, $("chart").clientWidth || 1040);
  const height = width < 480 ? 190 : 220;
  const [left, right, top, bottom] = [44, 4, 10, 22];
  const step = (width - left - right) / times.length;
  const sums = times.map((_, at) => methods.reduce((sum, method) => sum + method.values[at], 0));
  const most = niceTop(Math.max(1, ...sums));
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const lines = (most <= 5 ? [0, most] : [0, most / 2, most]).flatMap((value) => [
    s("line", { class: value ? "grid" : "base", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    s("text", { class: "end", x: left - 8, y: y(value) + 4 }, compact(value)),
  ]);
  const gap = step > 12 ? 3 : step > 5 ? 1.5 : 0.5;
  const marks = times.flatMap((_, at) => {
    let below = 0;
    return methods.map((method, part) => {
      const value = method.values[at];
      if (!value) return null;
      const [from, to] = [y(below), y(below + value)];
      below += value;
      return s("rect", { class: `t${part}`, x: left + at * step + gap / 2, width: Math.max(1, step - gap), y: to, height: Math.max(1, from - to) });
    });
  });
  const readout = h("p", { class: "readout", role: "status" });
  const columns = times.map((_, at) => s("rect", { class: "column", x: left + at * step, width: step, y: top, height: height - top - bottom, pointerenter: () => choose(at) }));
  const every = Math.ceil(times.length / Math.max(2, Math.floor((width - left) / 84)));
  const labels = times.map((time, at) => at % every ? null : s("text", { class: at ? "middle" : "", x: left + (at + (at ? 0.5 : 0)) * step, y: height - 6 }, time.label));
  const plot = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": `${name}. Use the arrow keys to read a column.` }, lines, columns, marks, labels);
  plot.style.height = `${height}px`;
  const hint = "Point at a column, or use the arrow keys, to read it.";
  let chosen = -1;
  plot.addEventListener("pointerleave", () => {
    columns[chosen]?.classList.remove("is-chosen");
    chosen = -1;
    readout.textContent = hint;
  });
  function choose(at) {
    if (at === chosen) return;
    columns[chosen]?.classList.remove("is-chosen");
    chosen = Math.max(0, Math.min(times.length - 1, at));
    columns[chosen].classList.add("is-chosen");
    const parts = methods.filter((method) => method.values[chosen]).map((method) => `${method.name} ${count(method.values[chosen])}`);
    readout.replaceChildren(h("b", null, times[chosen].whole), ` ${many(sums[chosen], unit)}${parts.length ? `: ${parts.join(", ")}` : ""}`);
  }
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(chosen < 0 ? times.length - 1 : chosen + moves[event.key]);
  });
  readout.textContent = hint;
  return { node: h("div", { class: "chart-box" }, plot, readout), choose, chosen: () => chosen };
}
