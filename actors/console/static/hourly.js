// The hourly limit: what is in force, what this hour has cost, how long the credits last. The wallet signs each change.

const hourly = { state: null, shown: null, wallets: null };
const HOURLY = "/account/hourly-limit";
const LIFTS = [["3600", "an hour"], ["21600", "six hours"], ["86400", "a day"]];
const STAGES = {
  normal: ["good", "not reached", "Calls go on as usual."],
  slowed: ["bad", "half is used", "Until the hour ends, calls are let through at a tenth of their rate."],
  stopped: ["bad", "reached", "Calls that cost credits are refused until the hour ends, or until your wallet raises or lifts the limit."],
  lifted: ["", "lifted", "Nothing is limited for now."],
};

async function refreshHourly() {
  const answer = await ask(HOURLY);
  if (!stillSignedIn(answer)) return answer;
  $("hourly-panel").hidden = answer.status === 403 || answer.status === 404; // A named key may see use, and not this.
  if (answer.ok) { hourly.state = answer.body; showHourly(); }
  return answer;
}

function showHourly() {
  const { setting, credits_an_hour, basis, usual_credits_an_hour, spent_this_hour, stage, hour_ends_at, lifted_until } = hourly.state;
  const runway = chosenUse.account?.runway, text = JSON.stringify([hourly.state, runway, Boolean(found.chosen)]);
  showHourlyWallet();
  if (text === hourly.shown) return;
  hourly.shown = text;
  const [look, name, meaning] = STAGES[stage] ?? ["", stage, ""];
  const limit = credits_an_hour === null ? (setting === "learnt" ? "None yet: it is learnt from your usual hours" : "None") : `${many(credits_an_hour, "credit")} an hour, ${basis === "set" ? "set by your wallet" : "learnt: ten times a usual hour"}`;
  const used = credits_an_hour === null ? many(spent_this_hour, "credit") : `${count(spent_this_hour)} of ${many(credits_an_hour, "credit")}`;
  const ends = `ends ${moment(Date.parse(hour_ends_at), false)}`;
  const state = credits_an_hour === null && stage === "normal" ? null : [h("span", { class: `tag ${look}` }, name), " ", stage === "lifted" && lifted_until ? `Nothing is limited until ${moment(Date.parse(lifted_until), false)}.` : meaning];
  show("hourly-facts", pairs([
    ["Limit", limit], ["Used in this hour", `${used}, ${ends}`], ["State", state], ["A usual hour", usual_credits_an_hour === null ? "not known yet: it takes 24 hours with calls" : many(usual_credits_an_hour, "credit")],
    ["At the pace of the last day", runway ? runwayText(runway) : undefined],
  ]), ...(credits_an_hour ? [hourBar(spent_this_hour, credits_an_hour)] : []));
  $("hourly-unlift").hidden = stage !== "lifted";
  $("hourly-lift").hidden = stage === "lifted" || credits_an_hour === null;
  $("hourly-learn").hidden = setting === "learnt";
  $("hourly-none").hidden = setting === null;
}

function runwayText({ credits_an_hour, hours_left, expiring }) {
  if (hours_left === null) return "nothing was spent";
  const lasts = hours_left < 1 ? "less than an hour" : hours_left > 87600 ? "over 10 years" : duration(hours_left * 3600);
  return `${many(credits_an_hour, "credit")} an hour: the balance lasts ${lasts}${expiring ? `, and ${many(expiring, "credit")} expire before they are used` : ""}`;
}

// The same figures stand above it as text.
function hourBar(spent, limit) {
  const used = Math.min(100, spent * 100 / limit);
  return s("svg", { class: `budget ${used >= 50 ? "is-low" : ""}`, viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: "all", width: 100, height: 4 }), s("rect", { class: "used", width: used, height: 4 }));
}

function showHourlyWallet() {
  const chosen = found.chosen;
  $("hourly-form").hidden = !chosen;
  $("hourly-wallet").hidden = Boolean(chosen);
  const names = found.wallets.map((wallet) => String(wallet.name).slice(0, 40)).join("|");
  if (chosen || names === hourly.wallets) return;
  hourly.wallets = names;
  const buttons = found.wallets.map((wallet) => h("button", { type: "button", click: () => connectOwn(wallet, "hourly-error", () => { showHourly(); $("hourly-credits").focus(); }) }, `Connect ${String(wallet.name).slice(0, 40)}`));
  show("hourly-wallet", h("p", { class: "help" }, "Only your wallet changes the limit: a key that leaked cannot raise it. ", ...(buttons.length ? [] : ["From a terminal: ", h("code", null, "ledger-gateway limit --set 5000"), "."])), h("div", { class: "actions" }, buttons));
}

async function changeHourly(body, done) {
  const told = (text) => { $("hourly-said").textContent = text; };
  $("hourly-error").textContent = "";
  told("Your wallet asks you to sign …");
  try {
    const answer = await askSigned("PATCH", HOURLY, body);
    if (!answer.ok) throw new Error(answer.message.replace(/\.$/, ""));
    hourly.state = answer.body;
    told(done(answer.body));
    showHourly();
  } catch (error) { told(`Nothing was changed: ${said(error)}.`); }
}

async function setHourly(event) {
  event.preventDefault();
  const text = $("hourly-credits").value.replace(/[\s,]/g, "");
  $("hourly-error").textContent = /^[1-9]\d{0,14}$/.test(text) ? "" : "A limit is a whole number of credits, from 1.";
  if (!$("hourly-error").textContent) await changeHourly({ credits_an_hour: Number(text) }, (state) => `The limit is ${many(state.credits_an_hour, "credit")} an hour.`);
}

const learnHourly = () => changeHourly({ credits_an_hour: "learnt" }, () => "The limit follows your usual hours again.");

async function endHourly() {
  if (await confirmed("Have no limit?", "Whoever has your API key can then spend all credits of the account within an hour. Your wallet signs the change.", "Have no limit")) await changeHourly({ credits_an_hour: null }, () => "There is no limit.");
}

async function liftHourly() {
  const seconds = await chosenIn("Lift the limit?", "Nothing is limited for so long; then the limit holds again by itself. Your wallet signs it.", "Lift it", "For", LIFTS);
  if (seconds !== null) await changeHourly({ lift_seconds: Number(seconds) }, (state) => `Nothing is limited until ${moment(Date.parse(state.lifted_until), false)}.`);
}

const unliftHourly = () => changeHourly({ lift_seconds: 0 }, () => "The limit holds again.");

function forgetHourly() {
  Object.assign(hourly, { state: null, shown: null, wallets: null });
  for (const id of ["hourly-facts", "hourly-said", "hourly-error", "hourly-wallet"]) show(id);
  $("hourly-form").reset();
  $("hourly-panel").hidden = true;
}
