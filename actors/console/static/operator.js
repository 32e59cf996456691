// The operators' page as a whole: who has the token, which view is shown, what is repeated.

const VIEWS = ["alerts", "accounts", "deposits", "nodes", "owners"];
const repeated = {
  alerts: new Repeated(10, refreshAlerts),
  accounts: new Repeated(30, refreshAccounts),
  deposits: new Repeated(20, refreshDeposits),
  nodes: new Repeated(5, refreshNodes),
  owners: new Repeated(5, refreshOwners),
};

function route(focus = false) {
  const wanted = location.hash.slice(1), shown = !operator.token ? "sign-in" : VIEWS.includes(wanted) ? wanted : "alerts";
  for (const node of document.querySelectorAll(".view")) node.hidden = node.id !== shown;
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.hash === `#${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const id of ["tabs", "who"]) $(id).hidden = !operator.token;
  document.title = `${shown === "sign-in" ? "For operators" : `${shown[0].toUpperCase()}${shown.slice(1)}`} – Ledger Gateway`;
  for (const about of [...VIEWS, "account"]) if (about !== shown) trouble(about, "");
  for (const [name, work] of Object.entries(repeated)) {
    if (name === shown) work.start();
    else work.stop();
  }
  if (shown === "sign-in") { if (focus) $("token").focus(); } else if (focus) { window.scrollTo(0, 0); $("main").focus({ preventScroll: true }); }
}

async function enterToken(event) {
  event.preventDefault();
  const token = $("token").value.trim();
  $("token-error").textContent = "";
  if (!looksLikeKey(token)) { $("token-error").textContent = "This is not a token. A token has no spaces."; $("token").focus(); return; }
  $("token-button").disabled = true;
  const answer = await askOperator("alerts", { token });
  $("token-button").disabled = false;
  if (!answer.ok && answer.status !== 503) { $("token-error").textContent = answer.message; $("token").focus(); return; }
  $("token").value = "";
  operator.token = token;
  keepToken(token);
  route(true);
}

// Forgets the token, and everything that was shown with it.
function leave(message = "") {
  operator.token = null;
  keepToken(null);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  for (const id of ["alert-rows", "alerts-at", "account-rows", "account-facts", "account-said", "watcher-facts", "deposit-rows", "deposit-said", "node-rows", "node-said", "owner-rows"]) show(id);
  $("account-panel").hidden = $("node-form").hidden = true;
  $("account-filter").reset();
  unanswered.clear();
  Object.assign(accountView, { cursors: [""], next: null, open: null, shown: null, facts: null });
  for (const view of [alertView, depositView, nodeView, ownerView]) view.shown = null;
  document.querySelector('.tabs a[href="#alerts"]').textContent = "Alerts";
  history.replaceState(null, "", location.pathname);
  route(true);
  $("token-error").textContent = message;
}

$("token-form").addEventListener("submit", enterToken);
$("sign-out").addEventListener("click", () => leave());
$("account-filter").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(accountView.timer); filterAccounts(); });
$("account-find").addEventListener("input", () => { clearTimeout(accountView.timer); accountView.timer = setTimeout(filterAccounts, 400); });
for (const id of ["account-order", "account-status"]) $(id).addEventListener("change", filterAccounts);
$("account-first").addEventListener("click", filterAccounts);
$("account-next").addEventListener("click", () => { if (accountView.next) { accountView.cursors.push(accountView.next); repeated.accounts.now(); } });
$("account-close").addEventListener("click", closeAccountPanel);
$("account-panel").addEventListener("keydown", (event) => { if (event.key === "Escape") closeAccountPanel(); });
$("deposit-status").addEventListener("change", () => repeated.deposits.now());
$("node-new").addEventListener("click", () => openNodeForm($("node-form").hidden));
$("node-cancel").addEventListener("click", () => openNodeForm(false));
$("node-form").addEventListener("keydown", (event) => { if (event.key === "Escape") openNodeForm(false); });
$("node-form").addEventListener("submit", addNode);
window.addEventListener("hashchange", () => route(true));
document.addEventListener("visibilitychange", () => { if (!document.hidden) for (const work of Object.values(repeated)) work.now(); });

operator.token = tokenInTab();
route();
if (!operator.token) $("token").focus();
