// The log of calls: live, filtered by method and outcome, searched by a request id.

const LOG_ROWS = 50, LOG_SHOWN = 500;
const OUTCOMES = [["", "All outcomes"], ["result", "Answered"], ["node_error", "Node's error"], ["refused", "Refused"]];
const callLog = { calls: [], older: null, live: true, shown: null, asked: 0, timer: 0 };

function logQuery() {
  const query = new URLSearchParams({ limit: String(LOG_ROWS) });
  for (const [name, id] of [["request_id", "log-request"], ["method", "log-method"], ["outcome", "log-outcome"]]) {
    const text = $(id).value.trim();
    if (text) query.set(name, text);
  }
  return query;
}

async function refreshLog() {
  if (!callLog.live && callLog.shown !== null) return { ok: true };
  const asked = callLog.asked, answer = await ask(`/account/calls?${logQuery()}`);
  if (!stillSignedIn(answer)) return answer;
  if (asked !== callLog.asked) return answer; // The filter has changed meanwhile.
  if (answer.status === 404 && !answer.body?.error?.message?.includes("wallet")) { trouble("log", ""); logState("", ""); show("log-rows", empty("This gateway keeps no log of calls", h("span", null, "Its operator has switched it off. What was charged is in the ledger."))); return { ok: true }; }
  trouble("log", answer.message);
  if (!answer.ok) { logState("is-warn", "Waiting for the log"); return answer; }
  const fresh = answer.body.calls, known_ids = new Set(fresh.map((call) => call.id)), oldest = fresh.at(-1)?.id;
  // Calls that were loaded before stay below, where nothing is missing between them and the newest.
  const joins = callLog.calls.some((call) => known_ids.has(call.id));
  callLog.calls = joins ? [...fresh, ...callLog.calls.filter((call) => !known_ids.has(call.id) && BigInt(call.id) < BigInt(oldest))].slice(0, LOG_SHOWN) : fresh;
  if (!joins || callLog.calls.length === fresh.length) callLog.older = answer.body.next_before;
  if (callLog.live) logState("is-ok", "Live");
  showLog();
  return answer;
}

function logState(look, text) {
  const node = $("log-state");
  if (node.textContent === text && node.className === `live ${look}`) return;
  node.className = `live ${look}`;
  node.replaceChildren(...(text ? [h("span", { class: "dot", "aria-hidden": "true" }), text] : []));
}

function outcomeTag(outcome) {
  if (outcome === "result") return h("span", { class: "tag good" }, "answered");
  if (outcome === "node_error") return h("span", { class: "tag" }, "node's error");
  return h("span", { class: "tag bad" }, outcome.toLowerCase().replaceAll("_", " "));
}

const milliseconds = (value) => value >= 100 ? count(Math.round(value)) : value.toFixed(value >= 10 ? 1 : 2);

function showLog() {
  const isFiltered = logQuery().size > 1, text = JSON.stringify([callLog.calls, callLog.older, isFiltered]);
  if (text === callLog.shown) return;
  const before = new Set(callLog.shown === null ? [] : JSON.parse(callLog.shown)[0].map((call) => call.id));
  callLog.shown = text;
  const rows = callLog.calls.map((call) => [
    moment(Date.parse(call.at)), h("span", { class: "mono" }, call.method ?? "unknown method"), outcomeTag(call.outcome), milliseconds(call.ms), count(call.credits),
    call.key === null ? "" : String(call.key), h("span", { class: "mono id" }, call.request_id),
  ]);
  const columns = [["Time", "nowrap"], ["Method", ""], ["Outcome", ""], ["ms", "number", "ms"], ["Credits", "number", "credits"], ["Key", "number", "key"], ["Request id", "number", "request"]];
  const none = isFiltered ? () => empty("No call fits", h("span", null, "A call is here a second after its answer, and for 24 hours. Calls with a wrong key are in nobody's log."))
    : () => empty("No calls in the last 24 hours", h("span", null, "Each call is here a second after its answer, refused and free ones too."));
  const focused = document.activeElement?.id;
  const shown = rows.length ? table("Calls, newest first", columns, rows, "cards calls-log") : none();
  if (before.size) [...shown.querySelectorAll?.("tbody tr") ?? []].forEach((row, at) => row.classList.toggle("is-new", !before.has(callLog.calls[at].id)));
  show("log-rows", shown);
  $("log-older").hidden = callLog.older === null || callLog.calls.length >= LOG_SHOWN;
  if (focused === "log-older" && !$("log-older").hidden) $("log-older").focus();
}

async function olderCalls() {
  const asked = callLog.asked, query = logQuery();
  query.set("before", callLog.older);
  $("log-older").disabled = true;
  const answer = await ask(`/account/calls?${query}`);
  $("log-older").disabled = false;
  if (!stillSignedIn(answer) || asked !== callLog.asked) return;
  trouble("log", answer.message);
  if (!answer.ok) return;
  callLog.calls = [...callLog.calls, ...answer.body.calls].slice(0, LOG_SHOWN);
  callLog.older = answer.body.next_before;
  showLog();
}

function filterLog() {
  Object.assign(callLog, { calls: [], older: null, shown: null });
  callLog.asked += 1;
  repeated.log.now();
}

// While somebody writes, the gateway is not asked for every letter.
function filterLogSoon() {
  clearTimeout(callLog.timer);
  callLog.timer = setTimeout(filterLog, 500);
}

function pauseLog() {
  callLog.live = !callLog.live;
  $("log-pause").textContent = callLog.live ? "Pause" : "Go on";
  logState(callLog.live ? "is-ok" : "", callLog.live ? "Live" : "Paused");
  if (callLog.live) repeated.log.now();
}

function forgetLog() {
  clearTimeout(callLog.timer);
  Object.assign(callLog, { calls: [], older: null, live: true, shown: null });
  callLog.asked += 1;
  $("log-pause").textContent = "Pause";
  $("log-filter").reset();
  $("log-older").hidden = true;
  show("log-rows");
  logState("", "");
}
