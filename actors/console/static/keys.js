// Named keys: list with what each has spent, children, and changes, each of which the wallet signs.

const GROUPS = { READ_CHEAP: "cheap reads", READ_MEDIUM: "medium reads", READ_HEAVY: "heavy reads", SEND: "sends", SEND_AND_CONFIRM: "sendAndConfirm", SEND_BUNDLE: "bundles", TRADE_BUILD: "trades", STREAMS: "streams", BULK: "bulk look-ups", RELAY: "the relay", ACCOUNT: "reading the account" };
const GRACES = [["0", "ends at once"], ["3600", "works for one hour more"], ["86400", "works for a day more"]];
const KEY_NUMBERS = { credits_a_day: "key-a-day", credits_total: "key-total", requests_per_second: "key-rate" };
const KEY_LISTS = { origins: "key-origins", addresses: "key-addresses" };
const keyRing = { list: [], use: null, range: "day", open: null, children: [], more: null, edited: null, shown: null, drawn: null };

async function refreshKeys() {
  if (!chosenUse.account) {
    const account = await ask("/account/info");
    if (!stillSignedIn(account)) return account;
    if (account.ok) { noticeBalance(account.body); chosenUse.account = account.body; }
  }
  const answer = await ask("/account/keys");
  if (!stillSignedIn(answer)) return answer;
  trouble("keys", answer.message);
  if (!answer.ok) return answer;
  keyRing.list = answer.body.keys;
  if (keyRing.open) await readChildren();
  showKeys();
  const range = keyRing.range, use = await ask(usagePath(RANGES[range], "json", "key,method"));
  if (!stillSignedIn(use)) return use;
  trouble("key use", use.message);
  if (use.ok && range === keyRing.range) { keyRing.use = { ...use.body, range }; showKeyUse(); }
  return use;
}

async function readChildren(after = 0) {
  const parent = keyRing.open, answer = await ask(`/account/keys?parent=${parent}&after=${after}`);
  if (!answer.ok || parent !== keyRing.open) return;
  keyRing.children = after ? [...keyRing.children, ...answer.body.keys] : answer.body.keys;
  keyRing.more = answer.body.next_after;
}

function showKeys() {
  showKeyWallet();
  const text = JSON.stringify([keyRing.list, keyRing.open, keyRing.children, keyRing.more, Boolean(found.chosen)]);
  if (text === keyRing.shown) return;
  keyRing.shown = text;
  const focused = document.activeElement?.dataset?.focus;
  show("key-rows", ...(keyRing.list.length ? keyRing.list.map(keyRow) : [empty("No named keys yet", h("span", null, "A named key has a budget of its own, and can be stopped without the others: make one for each bot, agent or page."))]));
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

// Says what to do where no wallet is connected, as nothing but its signature changes a key.
function showKeyWallet() {
  const chosen = found.chosen;
  $("key-wallet").hidden = Boolean(chosen);
  $("new-named-key").hidden = !chosen;
  if (!chosen) closeKeyForm();
  const names = found.wallets.map((wallet) => String(wallet.name).slice(0, 40)).join("|");
  if (chosen || names === keyRing.wallets) return;
  keyRing.wallets = names;
  const buttons = found.wallets.map((wallet) => h("button", { type: "button", class: "primary", click: () => connectForKeys(wallet) }, `Connect ${String(wallet.name).slice(0, 40)}`));
  const none = crypto.subtle ? "No wallet was found in this browser. Open this page in one that has yours, or use the command line: " : "Wallets sign over https, or on this machine itself. Or use the command line: ";
  show("key-wallet", h("p", null, "Only your wallet makes and changes keys: it signs each change. Whoever has a key or a session of yours can look, and change nothing."),
    buttons.length ? h("div", { class: "actions" }, buttons) : h("p", { class: "help" }, none, h("code", null, "ledger-gateway keys new agent --credits-a-day 5000"), "."),
    h("p", { class: "error", id: "key-wallet-error", role: "alert" }));
}

const connectForKeys = (wallet) => connectOwn(wallet, "key-wallet-error", () => { showKeys(); $("new-named-key").focus(); });

// Connects the wallet of the account that is signed in by its key, so that it can sign changes.
async function connectOwn(wallet, error_id, then) {
  try {
    const account = await connected(wallet), address = base58(account.publicKey), own = chosenUse.account?.pubkey;
    if (address !== own) throw new Error(`the wallet is at ${short(address)}, and this account is ${short(own)}: choose that account in the wallet`);
    found.chosen = { wallet, account, address };
    showWalletTools();
    then();
  } catch (error) { $(error_id).textContent = `Not connected: ${said(error)}.`; }
}

const ofLimit = (value, limit) => limit === null ? count(value) : `${count(value)} of ${count(limit)}`;
const hasEnded = (key) => key.expires_at !== null && Date.parse(key.expires_at) <= Date.now();

// What is spent and held of the narrower budget; the same figures stand beside it as text.
function budgetBar(key) {
  const parts = [[key.credits_a_day, key.spent_today], [key.credits_total, key.spent_total]].filter(([limit]) => limit !== null);
  if (!parts.length) return null;
  const share = (value, limit) => limit === 0 ? 100 : Math.min(100, value * 100 / limit);
  const [limit, spent] = parts.sort((one, other) => share(other[1] + key.held, other[0]) - share(one[1] + key.held, one[0]))[0];
  const used = share(spent, limit), held = Math.min(100 - used, share(key.held, limit));
  return s("svg", { class: `budget ${used + held >= 90 ? "is-low" : ""}`, viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "all", width: 100, height: 4 }), s("rect", { class: "used", width: used, height: 4 }), s("rect", { class: "held", x: used, width: held, height: 4 }));
}

function limitsOf(key) {
  const told = [];
  if (key.requests_per_second !== null) told.push(`${many(key.requests_per_second, "request")} a second`);
  if (key.methods.length) told.push(`only ${key.methods.map((name) => GROUPS[name] ?? name).join(", ")}`);
  if (key.origins.length) told.push(`from pages of ${key.origins.join(", ")}`);
  if (key.addresses.length) told.push(`from ${key.addresses.join(", ")}`);
  if (key.expires_at !== null) told.push(`${hasEnded(key) ? "ended" : "until"} ${moment(Date.parse(key.expires_at), false)}`);
  return told.length ? told.join(" · ") : "No other limits";
}

function keyFacts(key) {
  const figures = [`Today ${ofLimit(key.spent_today, key.credits_a_day)}`, `in all ${ofLimit(key.spent_total, key.credits_total)} credits`];
  if (key.held) figures.push(`${count(key.held)} held by calls under way`);
  const former = key.former_key_good_until && Date.parse(key.former_key_good_until) > Date.now() ? h("span", null, h("br"), `The key before the last rotation works until ${moment(Date.parse(key.former_key_good_until), false)}`) : null;
  return h("div", { class: "about" }, h("span", { class: "spent" }, figures.join(" · ")), budgetBar(key), limitsOf(key), former);
}

function keyTag(key) {
  const [look, name] = key.status !== "active" ? ["bad", key.status] : hasEnded(key) ? ["", "ended"] : ["good", "active"];
  return h("span", { class: `tag ${look}` }, name);
}

function keyButtons(key, isChild) {
  const button = (name, act, label) => h("button", { type: "button", "aria-label": `${label} ${key.name}`, "data-focus": `${name} key ${key.id}`, "aria-expanded": name === "Children" ? String(keyRing.open === key.id) : null, click: act }, name);
  const frozen = key.status === "frozen";
  return h("div", { class: "actions" },
    isChild ? null : button("Children", () => openChildren(key), "Keys made from"),
    ...(found.chosen ? [
      isChild ? null : button("Limits", () => editKey(key), "Limits of"),
      frozen ? button("Unfreeze", () => freezeKey(key, false), "Unfreeze") : button("Freeze", () => freezeKey(key, true), "Freeze"),
      isChild ? null : button("Rotate", () => rotateKey(key), "Make a new text for"),
      button("Delete", () => deleteKey(key), "Delete")] : []));
}

function keyRow(key) {
  return h("div", { class: "hook" },
    h("div", { class: "url" }, key.name, " ", keyTag(key), " ", h("span", { class: "mono soft" }, `${key.prefix}…`)),
    keyFacts(key), keyButtons(key, false), keyRing.open === key.id ? childList(key) : null);
}

function childList(key) {
  const rows = keyRing.children.map((child) => h("div", { class: "hook" }, h("div", { class: "url" }, child.name, " ", keyTag(child)), keyFacts(child), keyButtons(child, true)));
  const more = keyRing.more ? h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", click: async () => { await readChildren(keyRing.more); showKeys(); } }, "Show more")) : null;
  const none = () => empty("No key was made from this one", h("span", null, "Whoever holds it makes narrower ones, and they are here once they have called."), h("pre", { class: "mono", tabindex: "0" }, "ledger-gateway keys narrow task --credits-total 100 --seconds 600"));
  return h("div", { class: "log children" }, rows.length ? [h("p", { class: "help" }, "Made from this key. What they spend counts for it too."), rows, more] : none());
}

async function openChildren(key) {
  keyRing.open = keyRing.open === key.id ? null : key.id;
  Object.assign(keyRing, { children: [], more: null });
  if (keyRing.open) await readChildren();
  showKeys();
}

// --- changes

const keySaid = (text) => { $("keys-said").textContent = text; };

// Has the wallet sign a change, and makes it. Gives the answer's body, or null where nothing was changed.
async function changeKey(method, path, body, done) {
  keySaid("Your wallet asks you to sign …");
  try {
    const answer = await askSigned(method, path, body);
    if (!answer.ok) throw new Error(answer.message.replace(/\.$/, ""));
    keySaid(done);
    if (answer.body.api_key) showNewKey(answer.body);
    await repeated.keys.now();
    return answer.body;
  } catch (error) { keySaid(`Nothing was changed: ${said(error)}.`); return null; }
}

function showNewKey({ key, api_key }) {
  const copied = h("span", { class: "soft", role: "status" });
  const copy = h("button", { type: "button", click: () => navigator.clipboard?.writeText(api_key).then(() => { copied.textContent = "Copied."; }, () => { copied.textContent = "Select it and copy it by hand."; }) }, "Copy");
  const kept = h("button", { type: "button", class: "quiet", click: () => { forgetNewKey(); $("new-named-key").focus(); } }, "I have kept it");
  show("named-key-made", h("b", null, `The key of ${key.name}. It is shown once: keep it now.`), h("code", null, api_key), h("span", null, "Programs send it as ", h("code", null, "X-Api-Key"), "."), h("div", { class: "actions" }, copy, kept, copied));
  $("named-key-made").hidden = false;
  $("named-key-made").focus();
}

function forgetNewKey() {
  $("named-key-made").hidden = true;
  show("named-key-made");
}

const freezeKey = (key, frozen) => changeKey("PATCH", `/account/keys/${key.id}`, { frozen }, frozen ? `${key.name} is frozen: its calls are refused, and its open streams end.` : `${key.name} is active again.`);

async function rotateKey(key) {
  const grace = await chosenIn("Make a new key?", `${key.name} keeps its budgets and its limits, and gets a new text. Your wallet signs the change.`, "Make a new key", "The key that is used now", GRACES);
  if (grace !== null) await changeKey("POST", `/account/keys/${key.id}/rotate`, { grace_seconds: Number(grace) }, `${key.name} has a new key.`);
}

async function deleteKey(key) {
  if (!await confirmed("Delete this key?", `${key.name} ends for good, with its open streams and all keys made from it. What it spent stays in the ledger.`, "Delete")) return;
  await changeKey("DELETE", `/account/keys/${key.id}`, undefined, `${key.name} was deleted.`);
  if (!$("new-named-key").hidden) $("new-named-key").focus();
}

// key: the one to change; null: a new one is made.
function openKeyForm(key) {
  keyRing.edited = key;
  $("key-form").reset();
  $("key-form").hidden = false;
  $("new-named-key").setAttribute("aria-expanded", "true");
  $("key-form-error").textContent = "";
  $("key-form-title").textContent = key ? `Limits of ${key.name}` : "New key";
  $("key-save").textContent = key ? "Change the key" : "Make the key";
  const chosen = key?.methods ?? [];
  show("key-groups", ...Object.entries(GROUPS).map(([value, name]) => h("label", null, h("input", { type: "checkbox", value, checked: chosen.includes(value) }), name)));
  if (key) {
    $("key-name").value = key.name;
    for (const [name, id] of Object.entries(KEY_NUMBERS)) $(id).value = key[name] ?? "";
    for (const [name, id] of Object.entries(KEY_LISTS)) $(id).value = key[name].join(", ");
    $("key-methods").value = chosen.filter((name) => !(name in GROUPS)).join(", ");
    $("key-end").value = key.expires_at?.slice(0, 16) ?? "";
  }
  $("key-name").focus();
}
const editKey = (key) => openKeyForm(key);

function closeKeyForm() {
  $("key-form").hidden = true;
  $("new-named-key").setAttribute("aria-expanded", "false");
}

const listIn = (text) => text.split(/[\s,]+/).filter(Boolean);

// The form as the gateway takes it. Throws where a number is none.
function writtenKey() {
  const body = { name: $("key-name").value.trim() };
  for (const [name, id] of Object.entries(KEY_NUMBERS)) {
    const text = $(id).value.replace(/[\s,]/g, "");
    if (text && !/^\d{1,15}$/.test(text)) throw new Error(`${$(id).labels[0].textContent}: a whole number, or nothing for no limit`);
    body[name] = text ? Number(text) : null;
  }
  for (const [name, id] of Object.entries(KEY_LISTS)) body[name] = listIn($(id).value);
  body.methods = [...[...$("key-groups").querySelectorAll("input:checked")].map((box) => box.value), ...listIn($("key-methods").value)];
  const end = $("key-end").value.slice(0, 16), before = keyRing.edited?.expires_at ?? null; // The field has no seconds.
  body.expires_at = !end ? null : before?.startsWith(end) ? before : `${end}Z`;
  return body;
}

async function saveKey(event) {
  event.preventDefault();
  const key = keyRing.edited;
  let body;
  try { body = writtenKey(); } catch (error) { $("key-form-error").textContent = `${said(error)}.`; return; }
  $("key-form-error").textContent = "";
  $("key-save").disabled = true;
  const changed = await changeKey(key ? "PATCH" : "POST", key ? `/account/keys/${key.id}` : "/account/keys", body, key ? `${body.name} was changed.` : `${body.name} was made.`);
  $("key-save").disabled = false;
  if (!changed) { $("key-form-error").textContent = $("keys-said").textContent; return; }
  closeKeyForm();
  if (key) $("new-named-key").focus();
}

// --- use

function showKeyUse() {
  const text = JSON.stringify([keyRing.use, keyRing.list.map((key) => [key.id, key.name])]);
  if (text === keyRing.drawn) return;
  keyRing.drawn = text;
  const { rows, totals, range } = keyRing.use, names = new Map([...keyRing.list, ...keyRing.children].map((key) => [String(key.id), key.name]));
  const keys = new Map();
  for (const row of rows) {
    const one = keys.get(row.key) ?? { calls: 0, credits: 0, methods: [] };
    one.calls += row.calls;
    one.credits += row.credits;
    one.methods.push(row);
    keys.set(row.key, one);
  }
  const called = (key) => key === "" ? "Own key, wallet and sessions" : names.get(key) ?? `Key ${key}, a child or deleted`;
  const shown = [...keys.entries()].sort(([, one], [, other]) => other.credits - one.credits || other.calls - one.calls).map(([key, one]) => [
    called(key), count(one.calls), count(one.credits), `${(one.credits * 100 / (totals.credits || 1)).toFixed(1)} %`,
    one.methods.sort((a, b) => b.credits - a.credits).slice(0, 3).map((row) => row.method).join(", ") + (one.methods.length > 3 ? ` and ${one.methods.length - 3} more` : ""),
  ]);
  const columns = [["Key"], ["Calls", "number", "calls"], ["Credits", "number", "credits"], ["Of credits", "number", "of all"], ["Most for", "wide"]];
  show("key-use", shown.length ? table("Use by key", columns, shown, "cards uses") : empty(`No calls in the last ${RANGES[range].name}`));
}

function forgetKeys() {
  Object.assign(keyRing, { list: [], use: null, open: null, children: [], more: null, edited: null, shown: null, drawn: null, wallets: null });
  for (const id of ["key-rows", "key-use", "key-wallet", "keys-said"]) show(id);
  forgetNewKey();
  $("key-form").reset();
  closeKeyForm();
}
