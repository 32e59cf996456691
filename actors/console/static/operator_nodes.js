// Nodes: how the replicas find each, and changes that hold at once: weight, drain, a node more, a node less.

const ROLES = { read: "reads", send: "sends", archive: "history" };
const nodeView = { shown: null };

async function refreshNodes() {
  const answer = await shownBy("nodes", "nodes");
  if (answer.body?.nodes) showNodes(answer.body);
  return answer;
}

function showNodes({ nodes, notes = [] }) {
  const text = JSON.stringify([nodes, notes]);
  if (text === nodeView.shown) return;
  nodeView.shown = text;
  const focused = document.activeElement?.dataset?.focus;
  show("node-rows", ...nodes.map(nodeRow), ...notes.map((note) => h("p", { class: "help" }, note)));
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

function healthOf(node) {
  if (node.removed) return ["", "removed"];
  const { well = 0, behind = 0, failing = 0 } = node.health ?? {}, all = well + behind + failing;
  const of = (found) => all > 1 ? ` for ${found} of ${all} processes` : "";
  if (failing) return ["bad", `failing${of(failing)}`];
  if (behind) return ["bad", `behind${of(behind)}`];
  return well ? ["good", "well"] : ["", "not known yet"];
}

function nodeRow(node) {
  const [look, health] = healthOf(node);
  const button = (name, act, label) => h("button", { type: "button", "aria-label": `${label} ${node.id}`, "data-focus": `${name} ${node.id}`, click: () => act(node) }, name);
  const weight = node.settings_weight === null || node.settings_weight === undefined || node.settings_weight === node.weight ? `weight ${node.weight}` : `weight ${node.weight} (${node.settings_weight} in the settings)`;
  const share = node.share_percent === null || node.share_percent === undefined ? null : `${node.share_percent} % of calls (${node.share_wanted_percent} % wanted)`;
  const figures = [node.slot ? `slot ${count(node.slot)}` : null, node.lag_slots ? `${many(node.lag_slots, "slot")} behind` : null, Number.isFinite(node.latency_ms) ? `${count(node.latency_ms)} ms` : null, node.in_flight ? `${many(node.in_flight, "call")} under way` : null];
  return h("div", { class: "hook" },
    h("div", { class: "url" }, node.id, " ", h("span", { class: `tag ${look}` }, health), node.drained && !node.removed ? [" ", h("span", { class: "tag" }, words(node.state === "in_use" ? "drained" : node.state))] : null),
    h("div", { class: "about" }, h("span", { class: "mono" }, node.url), h("br"), [weight, share, (node.roles ?? []).map((role) => ROLES[role] ?? role).join(", "), node.origin === "operator" ? "added while running" : "of the settings"].filter(Boolean).join(" · "), h("br"), figures.filter(Boolean).join(" · ") || "no figures yet"),
    h("div", { class: "actions" },
      node.removed ? null : button("Weight", weighNode, "Weight of"),
      node.drained || node.removed ? button("Use again", (one) => drainNode(one, false), "Use again") : button("Drain", (one) => drainNode(one, true), "Drain"),
      node.drained && !node.removed ? button("Remove", removeNode, "Remove") : null));
}

async function nodeChanged(answer, done) {
  $("node-said").textContent = answer.ok ? done : `Nothing was changed: ${answer.message}`;
  if (answer.ok) showNodes(answer.body);
  return answer.ok;
}

async function weighNode(node) {
  const weightOf = (text) => { const weight = onlyNumber(text); return weight !== null && weight <= 1000 ? weight : null; };
  const written = await filled(`Weight of ${node.id}`, "Nodes share the calls by their weights. With 0 it is asked when no other node can answer.", "Change it", [{ id: "weight", label: "Weight, 0 to 1000", value: String(node.weight) }], ({ weight }) => weightOf(weight) === null ? "A weight is a whole number from 0 to 1000." : "");
  if (written) await nodeChanged(await askOperator(`nodes/${node.id}`, { method: "PATCH", body: { weight: weightOf(written.weight) } }), `${node.id} has the weight ${written.weight}.`);
}

async function drainNode(node, drained) {
  if (drained && !await confirmed(`Drain ${node.id}?`, "It gets no new calls, and those under way end. Other nodes take its share.", "Drain")) return;
  await nodeChanged(await askOperator(`nodes/${node.id}`, { method: "PATCH", body: { drained } }), drained ? `${node.id} gets no new calls.` : `${node.id} gets calls again.`);
}

async function removeNode(node) {
  if (await confirmed(`Remove ${node.id}?`, "Its connections are closed. A node of the settings can be used again later.", "Remove")) await nodeChanged(await askOperator(`nodes/${node.id}`, { method: "DELETE" }), `${node.id} was removed.`);
}

function openNodeForm(open) {
  $("node-form").hidden = !open;
  $("node-new").setAttribute("aria-expanded", String(open));
  $("node-error").textContent = "";
  if (!open) { $("node-new").focus(); return; }
  $("node-form").reset();
  show("node-roles", ...Object.entries(ROLES).map(([value, name]) => h("label", null, h("input", { type: "checkbox", value, checked: value !== "archive" }), name)));
  $("node-id").focus();
}

async function addNode(event) {
  event.preventDefault();
  const roles = [...$("node-roles").querySelectorAll("input:checked")].map((box) => box.value), weight = onlyNumber($("node-weight").value.trim());
  const wrong = weight === null || weight > 1000 ? "A weight is a whole number from 0 to 1000." : !roles.length ? "It takes calls of one kind at least." : "";
  $("node-error").textContent = wrong;
  if (wrong) return;
  const id = $("node-id").value.trim(), body = { id, url: $("node-url").value.trim(), ws_url: $("node-ws").value.trim() || null, weight, roles };
  $("node-save").disabled = true;
  const answer = await askOperator("nodes", { method: "POST", body });
  $("node-save").disabled = false;
  $("node-error").textContent = answer.ok ? "" : answer.message;
  if (await nodeChanged(answer, `${id} was added: it gets calls once it has answered.`)) openNodeForm(false);
}
