// Owners of accounts and the other actors: where each runs, its epoch, what it holds, how far behind it is.

const ownerView = { shown: null };

async function refreshOwners() {
  const answer = await shownBy("owners", "owners");
  if (!answer.body?.actors) return answer;
  const text = JSON.stringify(answer.body.actors);
  if (text === ownerView.shown) return answer;
  ownerView.shown = text;
  const rows = answer.body.actors.map((actor) => [actor.name, ownerTag(actor), actor.machine ? `${actor.machine} · ${actor.process}` : "–", actor.epoch ?? "–", holdings(actor), count(actor.waiting_entries ?? NaN), ago(actor.oldest_hold_seconds), ago(actor.unsigned_seconds)]);
  const columns = [["Actor", "nowrap"], ["State", "tight"], ["Machine, process", "tight"], ["Epoch", "number", "epoch"], ["Holds", "wide"], ["Entries wait", "number", "entries wait"], ["Oldest hold", "number", "oldest hold"], ["Unsigned", "number", "unsigned"]];
  show("owner-rows", rows.length ? table("Owners and other actors", columns, rows, "cards actors") : empty("No actors", h("span", null, "The product is starting, or Ray does not answer.")));
  return answer;
}

function ownerTag({ answers, fenced, committing }) {
  if (!answers) return h("span", { class: "tag bad" }, "no answer");
  if (fenced) return h("span", { class: "tag bad" }, "has a newer owner");
  return committing === false ? h("span", { class: "tag bad" }, "does not commit") : h("span", { class: "tag good" }, "ok");
}

const holdings = ({ shards, slices, accounts }) => [[shards, "shard"], [slices, "slice"], [accounts, "account"]].filter(([number]) => Number.isFinite(number)).map(([number, name]) => many(number, name)).join(", ") || "–";
