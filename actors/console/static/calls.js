// The call builder: a method, its parameters, what it costs before, what it answers after, and the same call as a program.

const builder = { methods: null, answer: null };
const LANGUAGES = { curl: "curl", python: "Python", js: "JavaScript" };
const chosenCall = { language: "curl" };
const SHOWN_CHARACTERS = 20000;

async function showCalls() {
  if (builder.methods) return;
  const answer = await ask("/openrpc.json", { key: null });
  trouble("calls", answer.ok ? "" : answer.message);
  if (!answer.ok) return;
  builder.methods = new Map(answer.body.methods.map((method) => [method.name, method]));
  $("call-method").replaceChildren(...[...builder.methods.keys()].sort().map((name) => h("option", { value: name }, name)));
  $("call-method").value = "getBalance";
  showMethod();
}

function exampleOf(method) {
  const own = chosenUse.account?.pubkey, values = method.examples?.[0]?.params.map((one) => one.value) ?? [];
  // The example's account is somebody's; one's own says more.
  if (own && ["getBalance", "getAccountInfo", "getSignaturesForAddress"].includes(method.name) && typeof values[0] === "string") values[0] = own;
  return values;
}

function showMethod() {
  const method = builder.methods.get($("call-method").value);
  $("call-params").value = JSON.stringify(exampleOf(method), null, 1);
  const named = method.params.map((one) => `${one.name}${one.required ? "" : " (may be left out)"}`);
  show("call-about", h("p", null, method.summary), h("p", { class: "help" }, method.description, " ", named.length ? `Parameters, in order: ${named.join(", ")}.` : "It takes no parameters."));
  show("call-answer");
  builder.answer = null;
  showProgram();
}

// The call as it is written now, or null where the parameters are no list.
function writtenCall() {
  let params;
  try { params = JSON.parse($("call-params").value || "[]"); } catch { params = null; }
  const fine = Array.isArray(params);
  $("call-error").textContent = fine ? "" : "The parameters must be a list in JSON, such as [\"address\"].";
  $("call-run").disabled = $("call-price").disabled = !fine;
  return fine ? { jsonrpc: "2.0", id: 1, method: $("call-method").value, ...params.length ? { params } : {} } : null;
}

function showProgram() {
  const call = writtenCall();
  if (!call) return;
  const body = JSON.stringify(call), url = `${location.origin}/`, quoted = body.replaceAll("'", "'\\''");
  const programs = {
    curl: `curl ${url} -H "X-Api-Key: $API_KEY" -H 'Content-Type: application/json' \\\n  -d '${quoted}'`,
    python: `import asyncio, json, os\nfrom ledger_gateway import Gateway\n\nasync def main():\n    async with Gateway(${JSON.stringify(location.origin)}, os.environ["API_KEY"]) as gateway:\n        params = json.loads(${JSON.stringify(JSON.stringify(call.params ?? []))})\n        print(await gateway.call(${JSON.stringify(call.method)}, *params))\n\nasyncio.run(main())`,
    js: `const response = await fetch(${JSON.stringify(url)}, {\n  method: "POST",\n  headers: { "content-type": "application/json", "x-api-key": process.env.API_KEY },\n  body: JSON.stringify(${body}),\n});\nconsole.log(await response.json());`,
  };
  $("call-program").textContent = programs[chosenCall.language];
}

async function priceCall() {
  const call = writtenCall();
  if (!call) return;
  const answer = await ask("/quote", { method: "POST", body: call });
  if (!stillSignedIn(answer)) return;
  const quoted = answer.body?.calls?.[0];
  if (!answer.ok || quoted?.error) { show("call-answer", h("p", { class: "error" }, quoted?.error?.message ?? answer.message)); return; }
  show("call-answer", h("p", null, `This call costs ${quoted.exact ? "" : "at most "}${many(quoted.credits, "credit")}.`));
}

async function runCall(event) {
  event.preventDefault();
  const call = writtenCall();
  if (!call) return;
  const changes = builder.methods.get(call.method).tags.some((tag) => ["SEND", "SEND_AND_CONFIRM", "SEND_BUNDLE"].includes(tag.name));
  if (changes && !await confirmed("Send this transaction?", "It changes the chain, and cannot be taken back.", "Send it")) return;
  $("call-run").disabled = true;
  const began = performance.now();
  const answer = await ask("/", { method: "POST", body: call });
  const took = Math.round(performance.now() - began);
  $("call-run").disabled = false;
  if (!stillSignedIn(answer)) return;
  const error = answer.body?.error, result = error ?? answer.body?.result;
  const text = result === undefined ? answer.message : JSON.stringify(result, null, 1);
  const facts = [["Came after", `${count(took)} ms`], ["Cost", answer.headers ? many(Number(answer.headers.get("x-credits-cost") ?? 0), "credit") : undefined], ["Left", answer.headers?.get("x-credits-remaining") ? count(Number(answer.headers.get("x-credits-remaining"))) : undefined], ["Request", requestLink(answer.headers?.get("x-request-id"))]];
  show("call-answer", h("h3", null, error ? "Error" : answer.ok ? "Result" : "No result"), h("pre", { class: "program", tabindex: "0" }, text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}\n… ${count(text.length - SHOWN_CHARACTERS)} characters more` : text), pairs(facts));
}

// A link to this request in the log.
const requestLink = (id) => id ? h("button", { type: "button", class: "link mono", title: "Show it in the log", click: () => { $("log-filter").reset(); $("log-request").value = id; filterLog(); location.hash = "#log"; } }, id) : undefined;
