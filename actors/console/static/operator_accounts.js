// Accounts: a list that is searched and sorted, and one account with what an operator may do to it.

const accountView = { cursors: [""], next: null, open: null, shown: null, facts: null, timer: 0 };

async function refreshAccounts() {
  const place = accountView.cursors.at(-1), find = $("account-find").value.trim();
  const wanted = new URLSearchParams({ order: $("account-order").value, status: $("account-status").value, find, cursor: place, limit: "25" });
  const answer = await shownBy("accounts", `accounts?${wanted}`);
  if (answer.body?.accounts && place === accountView.cursors.at(-1) && find === $("account-find").value.trim()) showAccounts(answer.body, find);
  if (accountView.open) await refreshAccount();
  return answer;
}

function showAccounts({ accounts, next_cursor }, find) {
  accountView.next = next_cursor;
  $("account-first").disabled = accountView.cursors.length === 1;
  $("account-next").disabled = !next_cursor;
  $("account-place").textContent = accounts.length ? `page ${accountView.cursors.length}` : "";
  const text = JSON.stringify([accounts, accountView.open]);
  if (text === accountView.shown) return;
  accountView.shown = text;
  const focused = document.activeElement?.dataset?.focus;
  const rows = accounts.map((account) => [
    h("button", { type: "button", class: "link mono", "data-focus": account.pubkey, "aria-pressed": String(account.pubkey === accountView.open), click: () => openAccountPanel(account.pubkey) }, account.pubkey),
    count(account.balance), statusTag(account.status), count(account.total_consumed_credits), moment(account.created_at * 1000, false),
  ]);
  const columns = [["Public key", "wide"], ["Balance", "number", "credits"], ["Status", "tight"], ["Used in all", "number", "used"], ["Opened", "number", "opened"]];
  const none = find || $("account-status").value ? empty("No such account", h("span", null, "A public key is found by how it begins; capital letters matter.")) : empty("No accounts yet", h("span", null, "A wallet opens one with its first deposit, or with its first API key. To open one yourself:"), h("pre", { class: "mono", tabindex: "0" }, "ledger-gateway accounts grant PUBKEY 5000 --reason \"first account\""));
  show("account-rows", rows.length ? table("Accounts", columns, rows, "cards accounts") : none);
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

const statusTag = (status) => h("span", { class: `tag ${status === "active" ? "good" : "bad"}` }, status);

function filterAccounts() {
  accountView.cursors = [""];
  repeated.accounts.now();
}

async function openAccountPanel(pubkey) {
  accountView.open = pubkey;
  accountView.facts = null;
  $("account-said").textContent = "";
  await refreshAccount();
  repeated.accounts.now();
  if (!$("account-panel").hidden) $("account-panel").focus();
}

function closeAccountPanel() {
  const before = accountView.open;
  Object.assign(accountView, { open: null, facts: null });
  $("account-panel").hidden = true;
  show("account-facts");
  document.querySelector(`[data-focus="${CSS.escape(before ?? "")}"]`)?.focus();
}

async function refreshAccount() {
  const pubkey = accountView.open, answer = await shownBy("account", `accounts/${pubkey}`);
  if (!answer.body?.account || pubkey !== accountView.open) return;
  const account = answer.body.account, text = JSON.stringify(account);
  $("account-panel").hidden = false;
  if (text === accountView.facts) return;
  accountView.facts = text;
  const focused = document.activeElement?.dataset?.focus, last = account.last_deposit;
  const button = (name, act, look = "") => h("button", { type: "button", class: look, "data-focus": name, click: () => act(account) }, name);
  const batches = account.credit_batches.map((batch) => [words(batch.source), count(batch.remaining), count(batch.credits), moment(batch.expires_at * 1000, false)]);
  show("account-facts",
    h("div", { class: "actions" }, button("Give or take credits", adjustAccount, "primary"), button("Limits", limitAccount), button("Price list", priceAccount), account.status === "active" ? button("Suspend", suspendAccount, "danger") : button("Restore", restoreAccount)),
    pairs([
      ["Public key", mono(account.pubkey)], ["Status", statusTag(account.status)], ["Balance", many(account.balance, "credit")], ["Used in all", many(account.total_consumed_credits, "credit")],
      ["Opened", moment(account.created_at * 1000, false)], ["Last deposit", last ? `${last.amount_usdc} USDC, ${moment(last.credited_at * 1000, false)}` : "none"], ["Its signature", last ? mono(last.signature) : null],
      ["Price list", account.price_list === "public" ? "public prices" : mono(account.price_list)], ["Limits", `${many(account.requests_per_second, "request")} a second, ${count(account.concurrency)} at a time`], ["Hourly limit", account.hourly_limit === null ? "none" : `${count(account.spent_this_hour)} of ${many(account.hourly_limit, "credit")} spent in this hour`],
      ["Named keys", account.named_keys === null ? "–" : count(account.named_keys)],
    ]),
    batches.length ? table("Credits by expiry", [["From", "wide"], ["Left", "number", "left"], ["Of", "number", "of"], ["Expires", "number", "expires"]], batches, "cards batches") : h("p", { class: "help" }, "It has no credits."));
  if (focused) $("account-facts").querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

async function changeAccount(answer, done) {
  $("account-said").textContent = answer.ok ? done(answer.body) : `Nothing was changed: ${answer.message}`;
  accountView.shown = null;
  await refreshAccount();
  repeated.accounts.now();
}

async function adjustAccount({ pubkey, balance }) {
  const amount = (text) => /^[-+]?\d{1,15}$/.test(text.replace(/[\s,]/g, "")) ? Number(text.replace(/[\s,]/g, "")) : 0;
  const written = await filled("Give or take credits", `It is an entry of the ledger, and the customer sees it with its reason. The account has ${many(balance, "credit")} now.`, "Go on",
    [{ id: "credits", label: "Credits", hint: "5000, or -5000 to take them", look: "mono" }, REASON], ({ credits }) => amount(credits) ? "" : "Credits are a whole number; below zero they are taken.");
  if (!written) return;
  const credits = amount(written.credits), taken = credits < 0;
  if (!await confirmed(taken ? `Take ${many(-credits, "credit")}?` : `Give ${many(credits, "credit")}?`, `${taken ? "From" : "To"} ${pubkey}. Reason: ${written.reason}`, taken ? "Take them" : "Give them")) return;
  await changeAccount(await changeOnce(`accounts/${pubkey}/adjust`, { credits, reason: written.reason }), (body) => `${body.amount < 0 ? "Taken" : "Given"}: ${many(Math.abs(body.amount), "credit")}${body.amount === credits ? "" : `, of ${count(Math.abs(credits))} that were asked for`}${body.already_applied ? ", by an earlier copy of this request" : ""}. The balance is ${count(body.balance)}.`);
}

async function suspendAccount({ pubkey }) {
  const written = await filled("Suspend the account", "Its paid calls are refused, and its streams end; reading the account goes on.", "Go on", [REASON]);
  if (!written || !await confirmed("Suspend this account?", `All paid calls of ${pubkey} are refused from now on. Reason: ${written.reason}`, "Suspend")) return;
  await changeAccount(await askOperator(`accounts/${pubkey}/suspend`, { method: "POST", body: written }), () => "The account is suspended: its paid calls are refused.");
}

async function restoreAccount({ pubkey }) {
  const written = await filled("Restore the account", "Its paid calls are accepted again.", "Restore", [REASON]);
  if (written) await changeAccount(await askOperator(`accounts/${pubkey}/resume`, { method: "POST", body: written }), () => "The account is active: its paid calls are accepted again.");
}

async function priceAccount({ pubkey, price_list }) {
  const answer = await askOperator("price-lists"), lists = answer.body?.price_lists?.filter((list) => list.in_settings) ?? [];
  if (!answer.ok) return changeAccount(answer, () => "");
  const own = (list) => Object.keys(list.methods).length, more = (list) => own(list) ? `, ${many(own(list), "method")} of their own` : "";
  const told = lists.length ? `The settings have: ${lists.map((list) => `${list.name} (${list.percent} %${more(list)})`).join(", ")}.` : "The settings have no price list (pricing.lists).";
  const written = await filled("Price list of the account", `It pays by it from its next call on; public stands for the prices of everybody. ${told}`, "Give the list",
    [{ id: "name", label: "Price list", value: price_list, hint: "public", look: "mono" }], ({ name }) => name === "public" || lists.some((list) => list.name === name) ? "" : "The settings have no price list of this name.");
  if (!written || written.name === price_list) return;
  await changeAccount(await askOperator(`accounts/${pubkey}/price-list`, { method: "POST", body: { name: written.name } }), ({ account }) => account.price_list === "public" ? "The account pays the public prices." : `The account pays by the list ${account.price_list}.`);
}

async function limitAccount({ pubkey, requests_per_second, concurrency }) {
  const limit = (text) => text === "" ? null : onlyNumber(text);
  const written = await filled("Limits of the account", "They hold from its next call on. An empty field is the default of all accounts.", "Set the limits",
    [{ id: "requests_per_second", label: "Requests a second", value: String(requests_per_second), hint: "the default", optional: true }, { id: "concurrency", label: "Calls at a time", value: String(concurrency), hint: "the default", optional: true }],
    (each) => Object.values(each).every((text) => text === "" || onlyNumber(text)) ? "" : "A limit is a whole number above zero.");
  if (!written) return;
  const before = { requests_per_second: String(requests_per_second), concurrency: String(concurrency) };
  const changed = Object.entries(written).filter(([name, text]) => text !== before[name]);
  if (!changed.length) return;
  const body = Object.fromEntries(changed.map(([name, text]) => [name, limit(text)]));
  await changeAccount(await askOperator(`accounts/${pubkey}/limits`, { method: "POST", body }), ({ account }) => `The limits are ${many(account.requests_per_second, "request")} a second, and ${count(account.concurrency)} at a time.`);
}
