// What everybody may know: health, landing statistics, prices.

const known = { prices: null, landing: null, deposit: null, health: {}, facts: null };

async function refreshHealth() {
  const answer = await ask("/health", { key: null });
  const body = answer.body ?? {};
  const words = { ok: "All systems work", degraded: "Working, with a part down", starting: "Starting: paid calls are refused" };
  const text = answer.status === 0 ? "The gateway does not answer" : words[body.status] ?? "The gateway's health is not known";
  $("health").className = `health ${answer.status === 0 ? "is-bad" : body.status === "ok" ? "is-ok" : "is-warn"}`;
  if ($("health-text").textContent !== text) $("health-text").textContent = text;
  trouble("health", answer.status === 0 ? "The gateway does not answer. This page tries again by itself." : "");
  if (answer.status !== 0) {
    known.health = body;
    showPublicFacts();
    const services = Object.entries(body.service_profile?.services ?? {}).filter(([, on]) => on).map(([name]) => name.replaceAll("_", " ").replace("grpc", "gRPC").replace("rpc", "RPC"));
    show("health-facts", pairs([
      ["State", text], ["Paid calls", body.paid_traffic_ready ? "accepted" : "refused for now"], ["Node", body.agave_healthy ? "healthy" : "behind or not answering"],
      ["Slot", body.solanaSlot === undefined ? undefined : count(body.solanaSlot)], ["Block height", body.solanaBlockHeight === undefined ? undefined : count(body.solanaBlockHeight)],
      ["Node version", body.nodeVersion], ["Up for", body.uptime === undefined ? undefined : duration(body.uptime)], ["Services", services.join(", ")],
    ]));
  }
  return answer.status === 503 ? { ok: true } : answer;
}

// Where to pay does not change while a gateway runs: it is asked once.
async function findDeposit() {
  if (known.deposit) return known.deposit;
  const answer = await ask("/.well-known/x402.json", { key: null });
  known.deposit = answer.ok ? answer.body.deposit : null;
  return known.deposit;
}

async function showPayStep() {
  const deposit = await findDeposit();
  if (!deposit) return;
  show("pay-step", ...deposit.deposit_address ? ["Send at least ", deposit.minimum_deposit_usdc, " USDC on ", deposit.network_name, " from that wallet to ", h("code", null, deposit.deposit_address), ". The mint is ", h("code", null, deposit.usdc_mint), ". The credits are there about 30 seconds after the transfer is final."] : [deposit.instructions]);
}

async function refreshService() {
  const landing = await ask("/stats/landing", { key: null });
  if (landing.ok) showLanding(landing.body);
  else if (landing.status) show("landing", empty("No figures now", h("span", null, landing.message)));
  let prices = await ask("/pricing");  // Of the account, where it is signed in and has a price list.
  if (prices.status === 401) prices = await ask("/pricing", { key: null });
  trouble("prices", prices.status ? prices.message : "");
  if (prices.ok) showPrices(prices.body);
  if (landing.ok) known.landing = landing.body;
  showPublicFacts();
  return prices;
}

function showLanding(body) {
  const window = duration(body.window_seconds);
  if (!body.races) {
    show("landing", empty(`Nothing was sent in the last ${window}`, h("span", null, "Here is how fast sendAndConfirm gets transactions into a block.")));
    return;
  }
  const times = body.landing_ms ?? {};
  const ms = (value) => value === null || value === undefined ? "–" : `${count(value)} ms`;
  const legs = Object.entries(body.legs ?? {}).map(([name, leg]) => [name.replaceAll("_", " "), count(leg.submitted), ms(leg.acknowledge_ms?.p50)]);
  show("landing", pairs([
    ["Sent", `${count(body.races)} in ${window}`], ["Landed", `${count(body.landed)} (${(body.landed * 100 / body.races).toFixed(1)} %)`], ["At the first try", count(body.landed_on_first_try)],
    ["Half landed within", ms(times.p50)], ["90 % within", ms(times.p90)], ["99 % within", ms(times.p99)],
  ]), legs.length ? table("Ways of sending", [["Way"], ["Sent", "number"], ["Accepted, median", "number"]], legs) : "");
}

function showPrices(body) {
  known.prices = body;
  const live = body.streams?.signals ?? {};
  $("signals-help").textContent = `Free: the newest ${count(50)}, every few seconds. Live: ${many(live.connect_credits, "credit")} for each connection of up to five minutes, ${eventPrice(live)} for each signal.`;
  const list = body.price_list?.name ?? "public";
  $("price-terms").textContent = `${list === "public" ? "" : `These are the prices of your account, by the list ${list}. `}1 USDC is ${count(body.credits_per_usdc)} credits. The smallest deposit is ${body.minimum_deposit_usdc} USDC. Credits last ${many(body.credit_expiry_days, "day")}.`;
  showPriceRows();
}

// Of a price list, an event can cost a part of a credit.
const eventPrice = (signals) => signals.credits_per_1000_events === undefined ? many(signals.event_credits, "credit") : `${signals.credits_per_1000_events / 1000} credits`;
const notificationPrice = (websocket) => websocket.notifications_per_credit === undefined ? `${many(websocket.credits_per_1000_notifications, "credit")} for 1,000 notifications` : `1 for ${many(websocket.notifications_per_credit, "notification")}`;

// Methods of one price are one row: what is asked is the price of a method, and which methods are cheap.
function showPriceRows() {
  const body = known.prices, wanted = $("price-filter").value.trim().toLowerCase();
  if (!body) return;
  const groups = new Map();
  const add = (price, order, name) => {
    if (!name.toLowerCase().includes(wanted)) return;
    const group = groups.get(price) ?? { price, order, names: [] };
    group.names.push(name);
    groups.set(price, group);
  };
  const sent = body.outcome_priced?.sendAndConfirm;
  for (const [name, row] of Object.entries(body.methods).filter(([, each]) => each.available)) {
    const trade = body.percentage_priced?.[name];
    if (trade) add(`${count(trade.build_credits)} credits and ${(trade.trade_bps * (trade.trade_percent ?? 100) / 10000).toFixed(2)} % of the trade`, 9e6, name);
    else if (name === "sendAndConfirm" && sent) add(`${many(sent.landing_credits, "credit")} when it lands, ${count(sent.base_credits)} when not`, 8e6, name);
    else if (Number.isFinite(row.credits)) add(row.credits ? many(row.credits, "credit") : "Free", row.credits, name);
  }
  const units = [["/bulk/", body.bulk], ["/relay/", body.relay], ["Webhook: ", body.webhooks]];
  for (const [prefix, rows] of units) {
    for (const [name, row] of Object.entries(rows ?? {})) {
      if (row.available) add(row.credits ? `${many(row.credits, "credit")} for each ${row.per}` : "Free", row.credits ? 1e5 + row.credits : 0, `${prefix}${prefix.startsWith("/") ? name : name.replaceAll("_", " ")}`);
    }
  }
  const { websocket, signals, grpc } = body.streams ?? {};
  if (websocket?.available) add(`${many(websocket.connect_credits, "credit")} for each subscription, ${notificationPrice(websocket)}`, 6e6, "WebSocket subscriptions");
  if (signals?.available) add(`${many(signals.connect_credits, "credit")} for each subscription, ${eventPrice(signals)} for each signal`, 6e6 + 1, "Signals");
  if (grpc?.available) add(`${many(grpc.request_credits, "credit")} for each request, ${count(grpc.interval_credits)} for each further ${grpc.interval_seconds === 60 ? "minute" : duration(grpc.interval_seconds)} of a stream`, 6e6 + 2, "gRPC");
  const found = [...groups.values()].sort((a, b) => a.order - b.order);
  const rows = found.map(({ price, names }) => [price, h("span", { class: "names" }, names.sort().map((name) => h("span", null, name)))]);
  show("prices", rows.length ? table("Prices", [["Price", "price"], ["Methods", "wide"]], rows, "cards") : empty(`No method has “${wanted}” in its name`));
}

// For visitors: what this service is, in four figures.
function showPublicFacts() {
  const fact = (name, value, note) => h("div", null, h("dt", null, name), h("dd", { class: "value" }, value), h("dd", { class: "note" }, note));
  const { health = {}, landing, prices } = known;
  const sends = landing?.races ? [`${(landing.landed * 100 / landing.races).toFixed(1)} %`, `of ${count(landing.races)} sent in ${duration(landing.window_seconds)}`] : ["–", "Nothing was sent lately"];
  const cheapest = prices ? Object.values(prices.methods).filter((row) => row.available && row.credits > 0).map((row) => row.credits) : [];
  const offered = prices ? Object.values(prices.methods).filter((row) => row.available).length : 0;
  const rows = [
    fact("Newest slot", count(health.solanaSlot), health.nodeVersion ? `Node version ${health.nodeVersion}` : ""),
    fact("Transactions landed", ...sends),
    fact("A call from", prices ? many(Math.min(...cheapest), "credit") : "–", prices ? `${count(offered)} methods` : ""),
    fact("1 USDC", prices ? `${count(prices.credits_per_usdc)}` : "–", prices ? `credits, from ${prices.minimum_deposit_usdc} USDC on` : "credits"),
  ];
  const text = rows.map((row) => row.textContent).join("|");
  if (text !== known.facts) { known.facts = text; show("public-facts", ...rows); }
}
