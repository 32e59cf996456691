// Deposits that wait: transfers that only a person can give to an account, and how far the watcher is.

const depositView = { shown: null };

async function refreshDeposits() {
  const status = $("deposit-status").value, answer = await shownBy("deposits", `deposits?status=${status}&limit=100`);
  if (!answer.body?.transfers || status !== $("deposit-status").value) return answer;
  const { watcher, transfers } = answer.body;
  const text = JSON.stringify([watcher, transfers]);
  if (text === depositView.shown) return answer;
  depositView.shown = text;
  const behind = watcher.caught_up_at ? `up to ${moment(watcher.caught_up_at * 1000)}` : "not yet";
  show("watcher-facts", pairs([
    ["Deposit account", mono(watcher.account)], ["Wait for you", many(watcher.listed, "transfer")], ["Wait for the watcher", many(watcher.waiting, "transaction")], ["Read", behind],
    ["Credited, assigned, ignored", [watcher.credited, watcher.assigned, watcher.ignored].map(count).join(", ")], ["Fault of the latest round", watcher.fault || null],
    ["Slots never seen", watcher.slots_never_seen?.length ? watcher.slots_never_seen.join("; ") : null],
  ]));
  const focused = document.activeElement?.dataset?.focus;
  const none = status === "listed" ? empty("Nothing waits for you", h("span", null, "A transfer is credited to the wallet that signed it. One that is below the minimum, or comes from a program or an exchange, waits here until you give it to an account.")) : empty("No such transfer");
  show("deposit-rows", ...(transfers.length ? transfers.map(transferRow) : [none]));
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  return answer;
}

function transferRow(row) {
  const button = (name, act) => h("button", { type: "button", "data-focus": `${name} ${row.signature} ${row.transfer}`, "aria-label": `${name} ${row.usdc} USDC, ${row.signature}`, click: () => act(row) }, name);
  const whose = row.account ? [h("br"), `${many(row.credits, "credit")} of `, mono(row.account)] : null;
  return h("div", { class: "hook" },
    h("div", { class: "url" }, `${row.usdc} USDC `, h("span", { class: `tag ${row.status === "listed" ? "bad" : row.status === "ignored" ? "" : "good"}` }, row.status)),
    h("div", { class: "about" }, mono(row.signature), h("br"), [row.why, row.time, `slot ${count(row.slot)}`].filter(Boolean).join(" · "), row.authority ? [h("br"), "from ", mono(row.authority)] : null, whose),
    h("div", { class: "actions" }, row.status === "listed" ? button("Assign", assignTransfer) : null, button("Look up", lookUp)));
}

async function assignTransfer(row) {
  const written = await filled("Give this transfer to an account", `${row.usdc} USDC of ${short(row.signature, 10, 10)}. The account gets its credits once; the customer sees the entry with its reason.`, "Go on",
    [{ id: "pubkey", label: "Public key of the account", look: "mono" }, REASON], ({ pubkey }) => /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(pubkey) ? "" : "A public key is 32 to 44 characters of base58.");
  if (!written || !await confirmed(`Give ${row.usdc} USDC to this account?`, `${written.pubkey} gets the credits of ${row.signature}. It cannot be undone here. Reason: ${written.reason}`, "Give it")) return;
  const answer = await askOperator(`deposits/${row.signature}/assign`, { method: "POST", body: { ...written, transfer: row.transfer } });
  await depositSaid(answer.ok ? `${many(answer.body.transfer.credits, "credit")} given to ${answer.body.transfer.account}.` : answer.message);
}

async function lookUp(row) {
  $("deposit-said").textContent = "Asking the chain …";
  const answer = await askOperator(`deposits/${row.signature}/explain`, { method: "POST", body: {} });
  await depositSaid(answer.ok ? `On the chain: ${answer.body.verdict}.` : answer.message);
}

async function depositSaid(text) {
  $("deposit-said").textContent = text;
  depositView.shown = null;
  await repeated.deposits.now();
}
