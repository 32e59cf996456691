// Asking the gateway: one function for all requests, one place that says what is wrong, and one clock for repeats.

const KEY = "ledger-gateway-key";
const session = { key: null };
const remembered = () => { try { return sessionStorage.getItem(KEY); } catch { return null; } };
const remember = (key) => { try { key ? sessionStorage.setItem(KEY, key) : sessionStorage.removeItem(KEY); } catch { /* Without storage the key lasts as long as the page. */ } };

// A key is visible ASCII; anything else could not be a header.
const looksLikeKey = (text) => /^[\x21-\x7e]{8,256}$/.test(text);

// An API key has no spaces, so a session of a wallet is told from one by how it begins.
const credential = (key) => !key ? {} : key.startsWith("Bearer ") ? { authorization: key } : { "x-api-key": key };

// The answer of a request: status (0: none came), body (the JSON, or null), wait (seconds), message (a sentence).
async function ask(path, { method = "GET", body, key = session.key, accept = "application/json", more = {}, keepalive = false } = {}) {
  const headers = { accept, ...credential(key), ...more };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", keepalive, credentials: "omit", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(25000) });
  } catch {
    return { status: 0, body: null, wait: 0, message: "The gateway does not answer." };
  }
  const text = await response.text().catch(() => "");
  let parsed = null;
  try { parsed = JSON.parse(text); } catch { /* CSV, or an answer that was cut. */ }
  const wait = Number(response.headers.get("retry-after")) || 0;
  return { status: response.status, ok: response.ok, body: parsed, text, wait, headers: response.headers, message: response.ok ? "" : explain(response.status, parsed, wait) };
}

function explain(status, body, wait) {
  const error = body?.error ?? {};
  const said = typeof error.message === "string" ? error.message : "";
  const later = `Next try in ${many(Math.max(1, wait), "second")}.`;
  if (status === 401) return session.key?.startsWith("Bearer ") ? "The session has ended. Sign in again." : "This API key is not valid. A newer key may have replaced it.";
  if (status === 402) {
    const address = error.data?.deposit_address;
    return `The account has too few credits for this.${address ? ` Send USDC from your wallet to ${address}.` : ""}`;
  }
  if (status === 403) return `This is not allowed for the account: ${said || "it may be suspended"}.`;
  if (status === 404) return said ? `${said}.` : "This is not offered here.";
  if (status === 429) return `Too many requests: ${said || "the limit is reached"}. ${later}`;
  if (status === 503) return `The gateway cannot answer this now: ${said || "it is starting"}. ${later}`;
  return said ? `${said[0].toUpperCase()}${said.slice(1)}.` : `The gateway answered with status ${status}.`;
}

// What is wrong now, by what was asked. The notice shows each sentence once, and goes away when all is well.
const troubles = new Map();
function trouble(about, message) {
  if (message) troubles.set(about, message);
  else troubles.delete(about);
  const text = [...new Set(troubles.values())].join("\n");
  if ($("notice").textContent !== text) $("notice").textContent = text;
  $("notice").hidden = !text;
}

// Repeats work while its page is seen: sooner when the gateway says so, later and later while it does not answer.
class Repeated {
  constructor(seconds, work) { Object.assign(this, { seconds, work, timer: 0, failures: 0, running: false, again: false, wanted: false }); }
  start() { this.wanted = true; this.now(); }
  stop() { this.wanted = false; clearTimeout(this.timer); }
  async now() {
    clearTimeout(this.timer);
    if (!this.wanted || document.hidden) return;
    if (this.running) { this.again = true; return; }
    this.running = true;
    let answer;
    try { answer = await this.work(); } finally { this.running = false; }
    if (this.again) { this.again = false; this.now(); return; }
    this.failures = answer?.status === 0 ? this.failures + 1 : 0;
    const backoff = this.failures ? Math.min(30, 2 ** this.failures) : 0;
    const seconds = Math.max(answer?.ok === false || this.failures ? Math.max(backoff, answer?.wait ?? 0, 2) : this.seconds, 1);
    if (this.wanted) this.timer = setTimeout(() => this.now(), seconds * 1000);
  }
}

// Server-sent events by fetch, since the browser's own reader cannot send a key. Gives each event to `told`; the
// promise ends when the stream does. last: cursor of the newest event, to go on from.
async function events(path, last, signal, opened, told) {
  const headers = { accept: "text/event-stream", ...credential(session.key) };
  if (last) headers["last-event-id"] = last;
  const response = await fetch(path, { headers, cache: "no-store", credentials: "omit", signal });
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    const wait = Number(response.headers.get("retry-after")) || 0;
    return { status: response.status, wait, message: explain(response.status, body, wait) };
  }
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    // The gateway says something every 15 seconds. A connection that is silent for longer is dead, though nobody said so.
    const silence = setTimeout(() => reader.cancel().catch(() => {}), 45000);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return { status: 200, wait: 0, message: "" };
    waiting += value;
    const pieces = waiting.split("\n\n");
    waiting = pieces.pop();
    if (waiting.length > 1e6) throw new Error("an event has no end");
    for (const piece of pieces) {
      const event = { id: null, kind: "message", data: "" };
      for (const line of piece.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.kind = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.data) told(event);
    }
  }
}

// Asks before something that cannot be undone. Gives true when it is confirmed.
const confirmed = async (title, text, yes) => await chosenIn(title, text, yes) !== null;

// The same with a choice. name, options: of the choice, as [value, text]; none: there is nothing to choose. Gives the
// chosen value, or null where it was not confirmed.
function chosenIn(title, text, yes, name = "", options = []) {
  $("ask-field").hidden = !options.length;
  $("ask-name").textContent = name;
  $("ask-choice").replaceChildren(...options.map(([value, each]) => h("option", { value }, each)));
  $("ask-title").textContent = title;
  $("ask-text").textContent = text;
  $("ask-yes").textContent = yes;
  const dialog = $("ask");
  return new Promise((done) => {
    let answer = null;
    $("ask-yes").onclick = () => { answer = $("ask-choice").value; dialog.close(); };
    $("ask-no").onclick = () => dialog.close();
    dialog.onclose = () => done(answer);
    dialog.showModal();
    $("ask-no").focus();
  });
}
