// The first page: what is left, how long it lasts, and what it is used for.

const HOUR = 3600e3, DAY = 24 * HOUR;
const RANGES = {
  day: { name: "24 hours", by: "hour", columns: 24 },
  week: { name: "7 days", by: "hour", columns: 168 },
  month: { name: "30 days", by: "day", columns: 30 },
};
const chosenUse = { range: "day", measure: "credits", last: null, drawn: null, account: null, pay: null, chart: null };

function usagePath(range, format = "json", by = `method,${range.by}`) {
  const size = range.by === "hour" ? HOUR : DAY;
  const end = Math.floor(Date.now() / size + 1) * size;
  return `/account/usage?by=${by}&from=${(end - range.columns * size) / 1000}&to=${end / 1000}&format=${format}`;
}

async function refreshUsage() {
  const range = RANGES[chosenUse.range];
  const account = await ask("/account/info");
  if (!stillSignedIn(account)) return account;
  trouble("account", account.message);
  if (account.ok) { noticeBalance(account.body); chosenUse.account = account.body; }
  const usage = await ask(usagePath(range));
  if (!stillSignedIn(usage)) return usage;
  trouble("usage", usage.message);
  if (usage.ok && range === RANGES[chosenUse.range]) { chosenUse.last = usage.body; chosenUse.lastRange = chosenUse.range; }
  if (account.ok) { showFacts(); showBatches(account.body); showPay(account.body); }
  if (chosenUse.last) showUse();
  return account.ok ? usage : account;
}

function showFacts() {
  const account = chosenUse.account, usage = chosenUse.last;
  if (!account) return;
  const range = RANGES[chosenUse.lastRange ?? chosenUse.range];
  const seconds = usage ? (Math.min(Date.now(), Date.parse(usage.to)) - Date.parse(usage.from)) / 1000 : 0;
  const pace = usage && usage.totals.credits > 0 ? usage.totals.credits / seconds : 0;
  const lasts = pace ? account.balance / pace : Infinity;
  const low = account.balance < 1000;
  const last = account.last_deposit;
  const fact = (name, value, unit, note, look = "") => h("div", null, h("dt", null, name), h("dd", { class: `value ${look}` }, value, unit ? h("small", null, ` ${unit}`) : null), h("dd", { class: "note" }, note));
  const runway = account.balance === 0 ? ["None", "Add credits to make calls"] : pace ? [lasts > 3650 * 86400 ? "Over 10 years" : duration(lasts), `at the pace of the last ${range.name}`] : ["No use yet", `in the last ${range.name}`];
  const rows = [
    fact("Balance", count(account.balance), account.balance === 1 ? "credit" : "credits", low ? `Low. ${count(account.funding.credits_per_usdc)} credits cost 1 USDC` : `${count(account.funding.credits_per_usdc)} credits cost 1 USDC`, low ? "is-low" : ""),
    fact("Lasts", runway[0], "", runway[1], account.balance === 0 ? "is-low" : ""),
    fact(`Used in ${range.name}`, usage ? count(usage.totals.credits) : "–", "credits", usage ? many(usage.totals.calls, "call") : ""),
    fact("Used in all", count(account.total_consumed_credits), "credits", last ? `Last deposit ${last.amount_usdc} USDC, ${moment(last.credited_at * 1000, false)}` : "No deposit yet"),
  ];
  const text = rows.map((row) => row.textContent).join("|");
  if (text !== chosenUse.facts) { chosenUse.facts = text; show("facts", ...rows); }
}

function byMethod(usage, range) {
  const size = range.by === "hour" ? HOUR : DAY;
  const start = Date.parse(usage.from), columns = Math.round((Date.parse(usage.to) - start) / size);
  const methods = new Map();
  for (const row of usage.rows) {
    const at = Math.floor((Date.parse(row[range.by]) - start) / size);
    if (!(at >= 0 && at < columns)) continue;
    const found = methods.get(row.method) ?? { name: row.method, calls: 0, credits: 0, values: { calls: new Array(columns).fill(0), credits: new Array(columns).fill(0) } };
    found.calls += row.calls;
    found.credits += row.credits;
    found.values.calls[at] += row.calls;
    found.values.credits[at] += row.credits;
    methods.set(row.method, found);
  }
  const times = Array.from({ length: columns }, (_, at) => {
    const date = new Date(start + at * size);
    const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
    const hour = `${two(date.getUTCHours())}:00`;
    return { label: range.by === "day" || range.columns > 24 ? day : hour, whole: range.by === "day" ? day : `${day} ${hour}` };
  });
  return { methods: [...methods.values()], times };
}

function showUse() {
  const { measure, last, lastRange } = chosenUse;
  const range = RANGES[lastRange];
  const signature = JSON.stringify([measure, lastRange, last, $("chart").clientWidth]);
  if (signature === chosenUse.drawn) return;
  chosenUse.drawn = signature;
  if (!last.rows.length) {
    const example = `curl ${location.origin} -H 'x-api-key: …' -H 'content-type: application/json' \\\n  -d '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'`;
    show("chart", empty(`No calls in the last ${range.name}`, h("span", null, "Make one, and it is here a few seconds later."), h("pre", { class: "mono", tabindex: "0" }, example)));
    return;
  }
  // Read aloud when the range or the measure changes, and not with every new call.
  const said = `${measure} ${lastRange}`;
  if (said !== chosenUse.said) {
    chosenUse.said = said;
    $("usage-said").textContent = `${many(last.totals.credits, "credit")} for ${many(last.totals.calls, "call")} in the last ${range.name}. The balance is ${count(chosenUse.account?.balance)}.`;
  }
  const { methods, times } = byMethod(last, range);
  methods.sort((a, b) => b[measure] - a[measure] || (a.name < b.name ? -1 : 1));
  const drawn = methods.slice(0, PARTS_MAX).map((method) => ({ name: method.name, values: method.values[measure] }));
  const rest = methods.slice(PARTS_MAX);
  if (rest.length) drawn.push({ name: many(rest.length, "other method"), values: times.map((_, at) => rest.reduce((sum, method) => sum + method.values[measure][at], 0)) });
  const unit = measure === "calls" ? "call" : "credit";
  const before = chosenUse.chart?.chosen() ?? -1, focused = document.activeElement?.classList.contains("plot");
  const chart = drawChart(times, drawn, unit, `${many(last.totals[measure], unit)} in the last ${range.name}, by method and ${range.by}`);
  const total = last.totals[measure] || 1;
  const rows = methods.map((method, at) => [
    h("span", { class: "nowrap" }, h("i", { class: `swatch t${Math.min(at, PARTS_MAX)}`, "aria-hidden": "true" }), method.name),
    count(method.calls), count(method.credits), `${(method[measure] * 100 / total).toFixed(1)} %`,
  ]);
  show("chart", chart.node, table("Use by method", [["Method"], ["Calls", "number"], ["Credits", "number"], [measure === "calls" ? "Of calls" : "Of credits", "number share"]], rows, "methods"));
  chosenUse.chart = chart;
  if (before >= 0) chart.choose(before);
  if (focused) chart.node.querySelector(".plot").focus();
}

const SOURCES = { deposit: "Deposit", referral_bonus: "Referral bonus", adjustment: "Adjustment" };

function showBatches(account) {
  const rows = account.credit_batches.map((batch) => [SOURCES[batch.source] ?? batch.source, count(batch.remaining), count(batch.credits), moment(batch.created_at * 1000, false), moment(batch.expires_at * 1000, false)]);
  const columns = [["From", "wide nowrap"], ["Left", "number", "left"], ["Of", "number", "of"], ["Since", "number", "since"], ["Expires", "number", "expires"]];
  const none = () => empty("No credits", h("span", null, `Send ${account.funding.asset} on ${account.funding.network_name} from your wallet to `, mono(account.deposit_address || "the deposit address"), "."), h("span", null, "They are here within seconds after the transfer is final."));
  const text = JSON.stringify(rows);
  if (text === chosenUse.batches) return;
  chosenUse.batches = text;
  show("batches", rows.length ? table("Credits by expiry", columns, rows, "cards batches") : none());
}

async function showPay(account) {
  const deposit = await findDeposit();
  if (!deposit || !session.key) return;
  const { funding } = account;
  const text = JSON.stringify([deposit, funding, account.pubkey]);
  if (text === chosenUse.pay) return;
  chosenUse.pay = text;
  if (!funding.deposit_address) { show("pay", empty("Ask the operator", h("span", null, deposit.instructions))); return; }
  show("pay", pairs([
    ["Send", `${funding.asset} on ${funding.network_name}`], ["To", mono(funding.deposit_address)], ["Mint", mono(deposit.usdc_mint)], ["From", mono(account.pubkey)],
    ["At least", `${deposit.minimum_deposit_usdc} USDC`], ["For 1 USDC", `${count(funding.credits_per_usdc)} credits for ${many(funding.credit_expiry_days, "day")}`],
  ]), h("p", { class: "help" }, "From this wallet alone: another one would get the credits itself. They are here about 30 seconds after the transfer is final. ", h("a", { href: "/docs#account" }, "More")));
}

async function downloadUsage() {
  const answer = await ask(usagePath(RANGES[chosenUse.range], "csv"), { accept: "text/csv" });
  trouble("download", answer.message);
  if (!answer.ok) return;
  const link = h("a", { href: URL.createObjectURL(new Blob([answer.text], { type: "text/csv" })), download: `usage-${chosenUse.range}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function choices(id, entries, current, chosen) {
  const buttons = entries.map(([value, name]) => h("button", { type: "button", "aria-pressed": String(value === current), click: () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button === buttons[entries.findIndex(([each]) => each === value)]));
    chosen(value);
  } }, name));
  show(id, ...buttons);
}
