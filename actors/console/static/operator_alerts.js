// What a person should look at now: each alert with what it means and what to do.

const alertView = { shown: null };

async function refreshAlerts() {
  const answer = await shownBy("alerts", "alerts");
  if (!answer.body?.alerts) return answer;
  const { alerts, at, has_figures, processes } = answer.body;
  $("alerts-at").textContent = `${alerts.length ? many(alerts.length, "alert") : "None"}, as of ${moment(at * 1000)}`;
  document.querySelector('.tabs a[href="#alerts"]').textContent = alerts.length ? `Alerts (${alerts.length})` : "Alerts";
  const text = JSON.stringify([alerts.map(({ name, process, machine, summary }) => [name, process, machine, summary]), has_figures]);
  if (text === alertView.shown) return answer;
  alertView.shown = text;
  const missing = has_figures ? null : h("p", { class: "help" }, "Processes report no figures here (telemetry.metrics_port is 0), so only actors that do not answer and deposits that wait are told.");
  show("alert-rows", ...(missing ? [missing] : []), ...(alerts.length ? alerts.map(alertRow) : [empty("All is well", h("span", null, `${many(processes, "process", "processes")} report, and every actor answers.`), h("span", null, "An alert says what is wrong, what it means for customers, and what to do. A program asks the same: "), h("pre", { class: "mono", tabindex: "0" }, "ledger-gateway alerts --json"))]));
  return answer;
}

function alertRow({ name, severity, summary, means, remedy, process, machine }) {
  const look = severity === "critical" ? "bad" : severity === "info" ? "good" : "";
  const where = [process, machine && `on ${machine}`].filter(Boolean).join(" ");
  return h("div", { class: "hook" },
    h("div", { class: "url" }, h("span", { class: `tag ${look}` }, severity), " ", summary),
    h("div", { class: "about" }, h("span", { class: "mono" }, [name, where].filter(Boolean).join(" · ")), h("br"), coded(means), h("br"), h("b", null, "Do: "), coded(remedy)));
}

// Commands and names stand between backticks.
const coded = (text) => text.split("`").map((part, at) => at % 2 ? h("code", null, part) : part);
