// Sends: when each leg was given a transaction and took it, and when it landed.

const LEGS = { local_rpc: "Our node", jito: "Block engine", tpu_quic: "Leaders by QUIC" };
const SENDS_ROWS = 20, TRACK = 34;
const sends = { signature: null, status: null, list: null, rowsShown: null, shown: null, asked: 0 };

// The charged sends of the ledger, and the send that is open until its outcome is known.
async function refreshSends() {
  const answer = await ask(`/account/ledger?details=true&type=debit&method=sendAndConfirm&limit=${SENDS_ROWS}`);
  if (!stillSignedIn(answer)) return answer;
  trouble("sends", answer.message);
  if (answer.ok) { sends.list = answer.body.entries.filter((entry) => entry.signature); showSendRows(); }
  if (sends.signature && (sends.status === null || ["pending", "unknown"].includes(sends.status.status))) await readSend();
  return answer;
}

async function readSend() {
  const asked = sends.asked, answer = await ask("/", { method: "POST", body: { jsonrpc: "2.0", id: 1, method: "getSendStatus", params: [sends.signature] } });
  if (!stillSignedIn(answer) || asked !== sends.asked) return;
  const error = answer.body?.error;
  if (error?.code === -32602) { sends.status = { status: "none" }; showNoSend(error.message); return; }
  trouble("sends", error ? `The send could not be looked up: ${error.message}.` : answer.message);
  if (error || !answer.ok) return;
  sends.status = answer.body.result;
  showSend();
}

function openSend(signature) {
  Object.assign(sends, { signature, status: null, shown: null });
  sends.asked += 1;
  $("send-signature").value = signature;
  $("send-error").textContent = "";
  show("send-timeline", h("p", { class: "soft" }, "Asking …"));
  showSendRows();
  readSend();
}

function findSend(event) {
  event.preventDefault();
  const signature = $("send-signature").value.trim(), fits = /^[1-9A-HJ-NP-Za-km-z]{64,90}$/.test(signature);
  $("send-error").textContent = fits ? "" : "A signature is 64 to 90 characters of base58, as sendAndConfirm and explorers show it.";
  if (fits) openSend(signature);
}

function showSendRows() {
  if (sends.list === null) return;  // A send was opened by its signature before the list was read.
  const text = JSON.stringify([sends.list, sends.signature]);
  if (text === sends.rowsShown) return;
  sends.rowsShown = text;
  const focused = document.activeElement?.dataset?.focus;
  const rows = sends.list.map((entry) => [
    moment(Date.parse(entry.timestamp)), h("button", { type: "button", class: "link mono", title: entry.signature, "data-focus": `send ${entry.signature}`, "aria-pressed": String(entry.signature === sends.signature), click: () => openSend(entry.signature) }, short(entry.signature, 8, 6)),
    count(Math.abs(entry.amount)),
  ]);
  show("send-rows", rows.length ? table("Charged sends, newest first", [["Time", "nowrap"], ["Transaction", ""], ["Credits", "number", "credits"]], rows, "cards uses")
    : empty("No send was charged yet", h("span", null, "sendAndConfirm gives a transaction to every leg at once and waits for its outcome. A charged one is listed here; any other is found by its signature.")));
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

function showNoSend(message) {
  const why = message.replace(/^Invalid params: /, "");
  trouble("sends", "");
  show("send-timeline", empty("No send of this signature", h("span", null, `${why[0].toUpperCase()}${why.slice(1)}.`), h("span", null, "Only sendAndConfirm leaves a timeline: sendTransaction gives a transaction to the node, and follows it no further.")));
}

const STATUS_LOOKS = { confirmed: ["good", "confirmed"], failed: ["bad", "failed"], pending: ["", "pending"], unknown: ["", "outcome not known"] };

function showSend() {
  const body = sends.status, text = JSON.stringify([body, $("send-timeline").clientWidth]);
  trouble("sends", "");
  if (text === sends.shown) return;
  sends.shown = text;
  const [look, name] = STATUS_LOOKS[body.status] ?? ["", body.status];
  const ms = (value) => value === null || value === undefined ? null : `${count(value)} ms`;
  const reports = Object.entries(body.legs ?? {}).flatMap(([leg, each]) => each.map((report) => ({ leg, ...report })));
  const after = (at) => at === null || body.started_at_ms === undefined ? null : at - body.started_at_ms;
  const facts = pairs([
    ["Outcome", h("span", { class: `tag ${look}` }, name)], ["Transaction", mono(short(body.signature, 12, 10), body.signature)], ["Landed after", ms(body.landing_time_ms)], ["In slot", body.slot === null ? null : count(body.slot)],
    ["Broadcast again", body.retry_count ? many(body.retry_count, "time") : null], ["Cost", many(body.charged_credits, "credit")], ["Reason", body.error],
  ]);
  if (!reports.length) {
    const why = body.status === "pending" ? "It is being given to the legs now." : body.confirmed ? "It had landed before this send began, so no leg was given it." : "No leg was given it.";
    show("send-timeline", facts, empty("Nothing was broadcast", h("span", null, why)));
    return;
  }
  const rows = reports.sort((one, other) => (one.submitted_at_ms ?? Infinity) - (other.submitted_at_ms ?? Infinity)).map((report) => [
    LEGS[report.leg] ?? report.leg.replaceAll("_", " "), count(report.broadcast), ms(after(report.submitted_at_ms)) ?? "not given", ms(after(report.acknowledged_at_ms)) ?? "–", report.error ?? "",
  ]);
  const columns = [["Leg", "nowrap"], ["Broadcast", "number", "broadcast"], ["Given after", "number", "given after"], ["Taken after", "number", "taken after"], ["Error", "wide"]];
  show("send-timeline", facts, drawLegs(body, reports), table("Each leg", columns, rows, "cards legs"));
}

// One track for each leg: a bar from when it was given the transaction until it took it; a line where it landed.
function drawLegs(body, reports) {
  const width = Math.max(280, $("send-timeline").clientWidth || 700), [left, right, top, bottom] = [width < 480 ? 106 : 130, 12, 18, 24];
  const names = [...new Set(reports.map((report) => report.leg))], landed = body.landing_time_ms;
  const times = reports.flatMap((report) => [report.submitted_at_ms, report.acknowledged_at_ms]).filter((at) => at !== null).map((at) => at - body.started_at_ms);
  const most = niceTop(Math.max(1, landed ?? 0, ...times)), height = top + names.length * TRACK + bottom;
  const x = (value) => left + (width - left - right) * Math.max(0, value) / most;
  const tracks = names.flatMap((leg, at) => {
    const y = top + at * TRACK + TRACK / 2;
    const marks = reports.filter((report) => report.leg === leg && report.submitted_at_ms !== null).map((report) => {
      const from = x(report.submitted_at_ms - body.started_at_ms), taken = report.acknowledged_at_ms, to = taken === null ? from : x(taken - body.started_at_ms);
      return s("rect", { class: report.error ? "leg-bad" : taken === null ? "leg-open" : "leg-taken", x: Math.min(from, width - right - 4), y: y - 7, width: Math.max(4, to - from), height: 14, rx: 3 });
    });
    return [s("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }), s("text", { x: 0, y: y + 4 }, LEGS[leg] ?? leg), ...marks];
  });
  const axis = [0, most / 2, most].map((value, at) => s("text", { class: ["", "middle", "end"][at], x: x(value), y: height - 6 }, at ? `${compact(value)} ms` : "0"));
  const isRight = landed !== null && x(landed) > width * .7;
  const landing = landed === null ? [] : [s("line", { class: "leg-landed", x1: x(landed), x2: x(landed), y1: top - 4, y2: height - bottom }), s("text", { class: isRight ? "end" : "", x: x(landed) + (isRight ? -5 : 5), y: 12 }, `landed, ${count(landed)} ms`)];
  const plot = s("svg", { class: "plot legs-plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Timeline of ${many(names.length, "leg")}; the table below has the same figures.` }, tracks, axis, landing);
  plot.style.height = `${height}px`;
  return plot;
}

function forgetSends() {
  Object.assign(sends, { signature: null, status: null, list: null, rowsShown: null, shown: null });
  sends.asked += 1;
  for (const id of ["send-rows", "send-error"]) show(id);
  $("send-form").reset();
  showSendStart();
}

const showSendStart = () => show("send-timeline", empty("No send is open", h("span", null, "Choose a send, or write its signature: here is when each leg was given it and took it, and when it landed.")));
