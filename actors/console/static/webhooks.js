// Webhooks: list, create, test, enable, delete, new secrets, and what was delivered.

const LIFECYCLE = { low_balance: "credits run low", "deposit.credited": "a deposit is credited", "credits.expiring": "credits expire within a day", "api_key.rotated": "my key is replaced", "credits.anomaly": "credits are spent much faster than usual" };
const SIGNAL_NAMES = { newPair: "a new coin or pool", graduation: "a graduation", walletActivity: "wallet activity", largeSwap: "a large swap" };
const hooks = { open: null, log: null };

function about(hook) {
  const names = { ...LIFECYCLE, ...SIGNAL_NAMES };
  const events = (hook.lifecycle_events ?? hook.signal_events ?? []).map((name) => names[name] ?? name).join(", ");
  const kinds = { lifecycle: `When ${events}`, signal: `Signals: ${events}`, my_account: "When my own wallet is used", account: "When this address is used:", program: "When this program is called:" };
  return [kinds[hook.filter_type] ?? hook.filter_type, hook.filter_value ? h("span", null, " ", mono(hook.filter_value)) : null];
}

function delivered(last) {
  if (!last) return "Nothing sent yet";
  return `Last delivery ${last.status}${last.http_status ? ` with status ${last.http_status}` : ""}, ${moment(last.at * 1000)}`;
}

async function refreshWebhooks() {
  const answer = await ask("/webhooks");
  if (!stillSignedIn(answer)) return answer;
  trouble("webhooks", answer.message);
  if (!answer.ok) return answer;
  const text = JSON.stringify([answer.body.webhooks, hooks.open, hooks.log]);
  if (text === hooks.shown) return answer;
  hooks.shown = text;
  const focused = document.activeElement?.dataset?.focus;
  show("webhook-rows", ...(answer.body.webhooks.length ? answer.body.webhooks.map(hookRow) : [empty("No webhooks yet", h("span", null, "A webhook sends you a signed request whenever something happens."))]));
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  return answer;
}

function hookRow(hook) {
  const button = (name, act, label) => h("button", { type: "button", "aria-label": label, "data-focus": `${name} ${hook.id}`, "aria-expanded": name === "Deliveries" ? String(hooks.open === hook.id) : null, click: act }, name);
  const status = h("span", { class: `tag ${hook.status === "active" ? "good" : "bad"}` }, hook.status === "active" ? "active" : "disabled");
  return h("div", { class: "hook" },
    h("div", { class: "url" }, hook.url, " ", status),
    h("div", { class: "about" }, about(hook), h("br"), hook.status === "active" ? delivered(hook.last_delivery) : hook.disabled_reason ?? "Switched off"),
    h("div", { class: "actions" },
      button("Test", () => tryHook(hook), `Send a test event to ${hook.url}`),
      button("Deliveries", () => openLog(hook), `Deliveries to ${hook.url}`),
      hook.status === "active" ? null : button("Enable", () => enableHook(hook), `Enable the webhook to ${hook.url}`),
      button("New secret", () => renewSecret(hook), `Make a new secret for ${hook.url}`),
      button("Delete", () => deleteHook(hook), `Delete the webhook to ${hook.url}`)),
    hooks.open === hook.id ? deliveryLog(hook) : null);
}

async function changed(message) {
  $("webhook-said").textContent = message;
  await repeated.webhooks.now();
}

async function tryHook(hook) {
  $("webhook-said").textContent = `Sending a test event to ${hook.url} …`;
  const answer = await ask(`/webhooks/${hook.id}/test`, { method: "POST" });
  const body = answer.body ?? {};
  if (!answer.ok) return changed(answer.message);
  const what = body.http_status ? `status ${body.http_status} after ${count(body.latency_ms)} ms` : body.error ?? "no answer";
  return changed(`${body.delivered ? "The test event was delivered" : "The test event was not delivered"}: ${what}. ${body.response ? `The answer: ${body.response.slice(0, 300)}` : ""}`);
}

async function enableHook(hook) {
  const answer = await ask(`/webhooks/${hook.id}`, { method: "PATCH", body: { status: "active" } });
  await changed(answer.ok ? `The webhook to ${hook.url} is active again.` : answer.message);
  document.querySelector(`[data-focus="${CSS.escape(`Test ${hook.id}`)}"]`)?.focus();
}

async function renewSecret(hook) {
  if (!await confirmed("Make a new secret?", `Events to ${hook.url} are signed with the new secret at once. The old one signs them too for 24 hours, so that your endpoint can change over.`, "New secret")) return;
  const answer = await ask(`/webhooks/${hook.id}/rotate-secret`, { method: "POST" });
  if (answer.ok) showSecret(answer.body.secret);
  await changed(answer.ok ? `The webhook to ${hook.url} has a new secret. The old one ends ${moment(answer.body.previous_valid_until * 1000)}.` : answer.message);
}

// A secret is shown until the person says that it is kept.
function showSecret(secret) {
  const copied = h("span", { class: "soft", role: "status" });
  const copy = h("button", { type: "button", click: () => navigator.clipboard?.writeText(secret).then(() => { copied.textContent = "Copied."; }, () => { copied.textContent = "Select it and copy it by hand."; }) }, "Copy");
  show("secret", h("b", null, "Keep this secret now: it is shown once."), h("code", null, secret), h("span", null, "Your endpoint checks the signature of each event with it. "), h("div", { class: "actions" }, copy, h("button", { type: "button", class: "quiet", click: () => { $("secret").hidden = true; show("secret"); $("new-webhook").focus(); } }, "I have kept it"), copied));
  $("secret").hidden = false;
  $("secret").focus();
}

async function deleteHook(hook) {
  if (!await confirmed("Delete this webhook?", `${hook.url} gets no more events, and its deliveries are forgotten.`, "Delete")) return;
  const answer = await ask(`/webhooks/${hook.id}`, { method: "DELETE" });
  await changed(answer.ok ? `The webhook to ${hook.url} was deleted.` : answer.message);
  $("new-webhook").focus();
}

async function openLog(hook) {
  hooks.open = hooks.open === hook.id ? null : hook.id;
  hooks.log = null;
  if (hooks.open) {
    const answer = await ask(`/webhooks/${hook.id}/deliveries?limit=20`);
    hooks.log = answer.ok ? answer.body.deliveries : [];
    if (!answer.ok) $("webhook-said").textContent = answer.message;
  }
  await repeated.webhooks.now();
}

function deliveryLog(hook) {
  const deliveries = hooks.log ?? [];
  if (!deliveries.length) return h("div", { class: "log" }, empty("Nothing was sent yet", h("span", null, "Test events are not kept here.")));
  const look = { delivered: "good", failed: "bad" };
  const rows = deliveries.map((delivery) => {
    const last = delivery.attempts.at(-1);
    const outcome = last ? `${last.http_status ?? last.error ?? "no answer"}${last.latency_ms === null || !last.http_status ? "" : `, ${count(last.latency_ms)} ms`}` : "waiting";
    return [
      moment(delivery.created_at * 1000), h("span", { class: `tag ${look[delivery.status] ?? ""}` }, delivery.status),
      h("div", null, `${many(delivery.attempts.length, "try", "tries")}: ${outcome}`, last?.response ? h("pre", { class: "answer mono" }, last.response.slice(0, 2000)) : null),
      h("button", { type: "button", "aria-label": `Send event ${delivery.event_id} again`, click: () => replay(hook, { event_ids: [delivery.event_id] }) }, "Send again"),
    ];
  });
  const day = Math.floor(Date.now() / 1000);
  return h("div", { class: "log" }, table(`Deliveries to ${hook.url}`, [["Time", "nowrap"], ["Outcome", "tight"], ["Answer", "wide"], ["", "number"]], rows, "cards"),
    h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", click: () => replay(hook, { from: day - 86400, to: day }) }, "Send all of the last 24 hours again")));
}

async function replay(hook, wanted) {
  const answer = await ask(`/webhooks/${hook.id}/replay`, { method: "POST", body: wanted });
  if (answer.ok) {
    const log = await ask(`/webhooks/${hook.id}/deliveries?limit=20`);
    if (log.ok && hooks.open === hook.id) hooks.log = log.body.deliveries;
  }
  await changed(answer.ok ? `${many(answer.body.replayed, "event")} will be sent again.` : answer.message);
}

function showHookForm(open) {
  $("webhook-form").hidden = !open;
  $("new-webhook").setAttribute("aria-expanded", String(open));
  const signals = $("hook-type").querySelector('option[value="signal"]');
  signals.disabled = known.prices?.webhooks?.signal?.available === false;
  if (signals.disabled) signals.textContent = "a signal is found on the chain (not offered here yet)";
  if (open) { fillHookForm(); $("hook-url").focus(); } else $("new-webhook").focus();
}

function fillHookForm() {
  const type = $("hook-type").value;
  const names = type === "lifecycle" ? LIFECYCLE : type === "signal" ? SIGNAL_NAMES : null;
  $("hook-events").hidden = !names;
  $("hook-value-field").hidden = type !== "account" && type !== "program";
  $("hook-value").required = !$("hook-value-field").hidden;
  show("hook-checks", ...Object.entries(names ?? {}).map(([value, name]) => h("label", null, h("input", { type: "checkbox", value, checked: true }), name)));
}

async function createHook(event) {
  event.preventDefault();
  const type = $("hook-type").value, body = { url: $("hook-url").value.trim(), filter_type: type };
  const events = [...$("hook-checks").querySelectorAll("input:checked")].map((box) => box.value);
  if (type === "lifecycle") body.lifecycle_events = events;
  if (type === "signal") body.signal_events = events;
  if (type === "account" || type === "program") body.filter_value = $("hook-value").value.trim();
  const answer = await ask("/webhooks", { method: "POST", body });
  if (!stillSignedIn(answer)) return;
  $("hook-error").textContent = answer.message;
  if (!answer.ok) return;
  $("webhook-form").reset();
  showHookForm(false);
  showSecret(answer.body.secret);
  await changed(`A webhook to ${answer.body.url} was made.`);
}
