// The page as a whole: who is signed in, which view is shown, what is repeated.

const VIEWS = ["usage", "ledger", "calls", "log", "sends", "keys", "webhooks", "signals", "service"];
const repeated = {
  health: new Repeated(15, refreshHealth),
  usage: new Repeated(10, async () => { const told = await refreshUsage(); return told.ok ? refreshHourly() : told; }),
  ledger: new Repeated(20, refreshLedger),
  log: new Repeated(4, refreshLog),
  sends: new Repeated(8, refreshSends),
  keys: new Repeated(15, refreshKeys),
  webhooks: new Repeated(20, refreshWebhooks),
  signals: new Repeated(8, refreshSignals),
  service: new Repeated(30, refreshService),
};

// False when the key has turned out to be no good: then nobody is signed in any more.
function stillSignedIn(answer) {
  if (answer.status !== 401) return true;
  if (session.key) signOut(answer.message);
  return false;
}

function noticeBalance(account) {
  $("who-key").textContent = short(account.pubkey, 6, 6);
  $("who-key").title = account.pubkey;
  trouble("standing", account.status === "suspended" ? "This account is suspended: its calls are refused. Ask the operator." : account.balance === 0 ? `This account has no credits: its calls are refused. Send USDC from your wallet to ${account.deposit_address || "the deposit address"}.` : "");
}

function route(focus = false) {
  const wanted = location.hash.slice(1);
  const isAccount = (name) => ["usage", "ledger", "calls", "log", "sends", "keys", "webhooks"].includes(name);
  const view = VIEWS.includes(wanted) ? wanted : session.key ? "usage" : "sign-in";
  const shown = isAccount(view) && !session.key ? "sign-in" : view;
  for (const node of document.querySelectorAll(".view")) node.hidden = node.id !== shown;
  for (const link of document.querySelectorAll(".tabs a")) {
    link.hidden = link.hasAttribute(session.key ? "data-visitor" : "data-account");
    if (link.hash === `#${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("live").hidden = !session.key;
  $("who").hidden = !session.key;
  document.title = `${document.querySelector(`.tabs a[href="#${shown}"]`).textContent} – Ledger Gateway`;
  for (const [name, work] of Object.entries(repeated)) {
    if (name === "health" || name === shown || (name === "service" && shown === "sign-in")) work.start();
    else work.stop();
  }
  if (shown === "webhooks" && !known.prices) refreshService();
  if (shown === "calls") showCalls();
  if (shown === "sign-in") showPayStep();
  for (const about of ["usage", "ledger", "calls", "log", "sends", "keys", "webhooks", "signals", "prices", "download"]) if (about !== shown) trouble(about, "");
  if (shown === "sign-in") { $("sign-in").hidden = false; if (focus) $("key").focus(); } else if (focus) { window.scrollTo(0, 0); $("main").focus({ preventScroll: true }); }
}

async function signIn(event) {
  event.preventDefault();
  const key = $("key").value.trim();
  $("key-error").textContent = "";
  if (!looksLikeKey(key)) {
    $("key-error").textContent = "This is not an API key. A key begins with srpc_live_ and has no spaces.";
    $("key").focus();
    return;
  }
  $("sign-in-button").disabled = true;
  const answer = await ask("/account/info", { key });
  $("sign-in-button").disabled = false;
  if (!answer.ok) {
    $("key-error").textContent = answer.message;
    $("key").focus();
    return;
  }
  $("key").value = "";
  begin(key, answer.body);
}

// Somebody is signed in: with a key, or with a session as `Bearer …`.
function begin(key, account) {
  session.key = key;
  remember(key);
  noticeBalance(account);
  chosenUse.account = account;
  showWalletTools();
  if (!["#signals", "#service"].includes(location.hash)) history.replaceState(null, "", "#usage");
  route(true);
}

function signOut(message = "") {
  if (session.key?.startsWith("Bearer ")) ask("/auth/logout", { method: "POST", body: {}, keepalive: true });  // The tab may be closed at once.
  forgetWallet();
  session.key = null;
  remember(null);
  stopLive();
  forgetKeys();
  forgetHourly();
  forgetLog();
  forgetSends();
  Object.assign(chosenUse, { last: null, drawn: null, account: null, facts: null, batches: null, pay: null, chart: null });
  Object.assign(hooks, { open: null, log: null, shown: null });
  ledgerPlace.offset = 0;
  for (const id of ["facts", "chart", "batches", "pay", "ledger-rows", "call-answer", "webhook-rows", "secret", "webhook-said"]) show(id);
  $("secret").hidden = true;
  $("webhook-form").reset();
  $("webhook-form").hidden = true;
  for (const about of ["account", "standing", "stream", "wallet", "key use"]) trouble(about, "");
  history.replaceState(null, "", location.pathname);
  route(true);
  $("key-error").textContent = message;
}

choices("range-choices", Object.entries(RANGES).map(([value, range]) => [value, range.name]), "day", (value) => { chosenUse.range = value; repeated.usage.now(); });
choices("measure-choices", [["credits", "Credits"], ["calls", "Calls"]], "credits", (value) => { chosenUse.measure = value; if (chosenUse.last) showUse(); });
$("sign-in-form").addEventListener("submit", signIn);
$("sign-out").addEventListener("click", () => signOut());
$("hourly-form").addEventListener("submit", setHourly);
for (const [id, act] of [["hourly-lift", liftHourly], ["hourly-unlift", unliftHourly], ["hourly-learn", learnHourly], ["hourly-none", endHourly]]) $(id).addEventListener("click", () => act());
$("pay-form").addEventListener("submit", payIn);
$("new-key").addEventListener("click", replaceKey);
$("csv").addEventListener("click", downloadUsage);
choices("language-choices", Object.entries(LANGUAGES), "curl", (value) => { chosenCall.language = value; showProgram(); });
$("call-method").addEventListener("change", showMethod);
$("call-params").addEventListener("input", showProgram);
$("call-price").addEventListener("click", priceCall);
$("call-form").addEventListener("submit", runCall);
$("log-outcome").replaceChildren(...OUTCOMES.map(([value, name]) => h("option", { value }, name)));
$("log-outcome").addEventListener("change", filterLog);
for (const id of ["log-request", "log-method"]) $(id).addEventListener("input", filterLogSoon);
$("log-filter").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(callLog.timer); filterLog(); });
$("log-pause").addEventListener("click", pauseLog);
$("log-older").addEventListener("click", olderCalls);
$("send-form").addEventListener("submit", findSend);
choices("key-range-choices", Object.entries(RANGES).map(([value, range]) => [value, range.name]), "day", (value) => { keyRing.range = value; repeated.keys.now(); });
$("new-named-key").addEventListener("click", () => $("key-form").hidden || keyRing.edited ? openKeyForm(null) : (closeKeyForm(), $("new-named-key").focus()));
$("key-cancel").addEventListener("click", () => { closeKeyForm(); $("new-named-key").focus(); });
$("key-form").addEventListener("keydown", (event) => { if (event.key === "Escape") { closeKeyForm(); $("new-named-key").focus(); } });
$("key-form").addEventListener("submit", saveKey);
$("newer").addEventListener("click", () => turnLedger(-1));
$("older").addEventListener("click", () => turnLedger(1));
$("new-webhook").addEventListener("click", () => showHookForm($("webhook-form").hidden));
$("hook-cancel").addEventListener("click", () => showHookForm(false));
$("webhook-form").addEventListener("keydown", (event) => { if (event.key === "Escape") showHookForm(false); });
$("hook-type").addEventListener("change", fillHookForm);
$("webhook-form").addEventListener("submit", createHook);
$("live").addEventListener("click", () => seen.live ? stopLive() : (trouble("stream", ""), startLive()));
$("price-filter").addEventListener("input", showPriceRows);
window.addEventListener("hashchange", () => route(true));
window.addEventListener("resize", () => { if (chosenUse.last && !$("usage").hidden) showUse(); if (sends.status?.legs && !$("sends").hidden) showSend(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) for (const work of Object.values(repeated)) work.now(); });

session.key = remembered();
findWallets();
showSendStart();
$("sign-in").hidden = true;
route();
if (!$("service").hidden || !$("sign-in").hidden) showPublicFacts();
else refreshService();
if (!session.key) $("key").focus();
