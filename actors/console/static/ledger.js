// The ledger, page by page.

const LEDGER_ROWS = 25;
const ledgerPlace = { offset: 0, balance: null };
const TYPES = { deposit: "Deposit", bonus: "Bonus", debit: "Use", refund: "Refund", adjustment: "Adjustment", expiry: "Expiry" };

async function refreshLedger() {
  const asked = ledgerPlace.offset;
  const answer = await ask(`/account/ledger?offset=${asked}&limit=${LEDGER_ROWS + 1}`);
  if (!stillSignedIn(answer)) return answer;
  trouble("ledger", answer.message);
  if (!answer.ok || asked !== ledgerPlace.offset) return answer;
  const entries = answer.body.entries, shown = entries.slice(0, LEDGER_ROWS);
  const rows = shown.map((entry) => [
    moment(entry.timestamp), TYPES[entry.type] ?? entry.type, entry.description || "–",
    h("span", { class: entry.amount > 0 ? "plus" : "" }, `${entry.amount > 0 ? "+" : entry.amount < 0 ? "−" : ""}${count(Math.abs(entry.amount))}`), count(entry.balance),
  ]);
  const columns = [["Time", "nowrap"], ["Type", "nowrap"], ["What for", "wide"], ["Credits", "number"], ["Balance", "number", "balance"]];
  show("ledger-rows", rows.length ? table("Ledger", columns, rows, "entries") : empty(asked ? "There is nothing older" : "Nothing has moved yet", h("span", null, "Deposits, use, refunds and expiries of credits are listed here.")));
  $("newer").disabled = asked === 0;
  $("older").disabled = entries.length <= LEDGER_ROWS;
  $("ledger-place").textContent = shown.length ? `${count(asked + 1)} to ${count(asked + shown.length)}` : "";
  return answer;
}

function turnLedger(pages) {
  ledgerPlace.offset = Math.max(0, ledgerPlace.offset + pages * LEDGER_ROWS);
  repeated.ledger.now();
}
