// Signals: the newest ones for everybody, and the live stream for an account.

const SIGNALS_SHOWN = 100;
const seen = { list: [], ids: new Set(), live: null, cursor: null, since: 0, told: 0 };

const signalId = (event) => `${event.signature} ${event.kind} ${event.mint}`;

function addSignals(list, fresh) {
  let added = 0;
  for (const event of list) {
    if (typeof event !== "object" || event === null || seen.ids.has(signalId(event))) continue;
    seen.ids.add(signalId(event));
    seen.list.unshift({ event, fresh });
    added += 1;
  }
  for (const { event } of seen.list.splice(SIGNALS_SHOWN)) seen.ids.delete(signalId(event));
  if (added || !$("signal-rows").childElementCount) showSignals();
  return added;
}

function showSignals() {
  if (!seen.list.length) {
    show("signal-rows", empty("No signals yet", h("span", null, "New coins, graduations, wallet activity and large swaps are listed as the chain shows them.")));
    return;
  }
  const rows = seen.list.map(({ event }) => [
    SIGNAL_TITLES[event.kind] ?? String(event.kind), event.mint ? mono(short(event.mint, 8, 6), event.mint) : "–",
    event.quote_asset === null || event.quote_asset === undefined ? "–" : short(event.quote_asset, 6, 4),
    mono(short(event.program, 6, 4), event.program), mono(short(event.signature, 8, 6), event.signature), count(event.slot),
  ]);
  const columns = [["Kind", "nowrap"], ["Coin", ""], ["Priced in", "", "priced in"], ["Program", "", "program"], ["Transaction", "", "transaction"], ["Slot", "number", "slot"]];
  const shown = table("Signals, newest first", columns, rows, "cards");
  [...shown.querySelectorAll("tbody tr")].forEach((row, at) => row.classList.toggle("is-new", seen.list[at].fresh && Date.now() - seen.list[at].fresh < 4000));
  show("signal-rows", shown);
}
const SIGNAL_TITLES = { newPair: "New coin or pool", graduation: "Graduation", walletActivity: "Wallet activity", largeSwap: "Large swap" };

async function refreshSignals() {
  if (seen.live) return { ok: true };
  return readRecent();
}

async function readRecent() {
  const answer = await ask("/signals/recent?limit=50", { key: null });
  trouble("signals", answer.status === 404 ? "" : answer.message);
  if (answer.status === 404) show("signal-rows", empty("This gateway has no signals", h("span", null, "Its operator has not switched them on.")));
  if (!answer.ok) return answer;
  addSignals([...answer.body.events].reverse(), 0);
  return answer;
}

function liveState(look, text) {
  const node = $("live-state");
  node.className = `live ${look}`;
  node.replaceChildren(...(text ? [h("span", { class: "dot", "aria-hidden": "true" }), text] : []));
}

function stopLive(text = "") {
  seen.live?.abort();
  seen.live = null;
  $("live").textContent = "Start live stream";
  liveState("", text);
  repeated.signals.now();
}

async function startLive() {
  const stop = seen.live = new AbortController();
  Object.assign(seen, { since: Date.now(), told: 0, cursor: null });
  $("live").textContent = "Stop live stream";
  liveState("", "Connecting …");
  readRecent();
  let tries = 0, lost = false;
  while (seen.live === stop) {
    let ended;
    try {
      ended = await events("/signals/stream", seen.cursor, stop.signal, () => { liveState("is-ok", lost ? "Live again, from the last signal on." : "Live"); tries = 0; }, takeEvent);
    } catch {
      ended = { status: 0, wait: 0, message: "The gateway does not answer." };
    }
    if (seen.live !== stop) return;
    if ([400, 401, 402, 403, 404].includes(ended.status)) {
      stopLive();
      trouble("stream", ended.message);
      if (ended.status === 401) stillSignedIn(ended);
      return;
    }
    lost = true;
    tries += 1;
    // A stream ends by itself every five minutes, and goes on at once. Otherwise the gateway gets time to come back.
    const seconds = ended.status === 200 && tries < 2 ? 1 : Math.max(ended.wait, Math.min(30, 2 ** tries));
    for (let left = seconds; left > 0 && seen.live === stop; left -= 1) {
      liveState("is-warn", `The stream was lost. Resuming in ${many(left, "second")}.`);
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

function takeEvent({ id, kind, data }) {
  if (id) seen.cursor = id;
  let body;
  try { body = JSON.parse(data); } catch { return; }
  if (kind === "end") {
    const why = body.reason === "INSUFFICIENT_CREDITS" ? "The stream has ended: the account has no credits left." : `The stream has ended: ${String(body.reason).toLowerCase().replaceAll("_", " ")}.`;
    stopLive();
    trouble("stream", why);
    return;
  }
  if (body.gap) { liveState("is-warn", "Live. Some signals could not be recovered."); return; }
  if (body.correction === "moved") {
    for (const row of seen.list) if (signalId(row.event) === signalId(body)) row.event.slot = body.slot;
    showSignals();
    return;
  }
  if (body.correction === "removed") {
    seen.list = seen.list.filter(({ event }) => signalId(event) !== signalId(body));
    showSignals();
    return;
  }
  seen.told += addSignals([body], Date.now());
  liveState("is-ok", `Live. ${many(seen.told, "signal")} since ${moment(seen.since).slice(-8)}`);
}
