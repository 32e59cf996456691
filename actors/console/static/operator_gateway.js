// Asking with the operator's token, and the forms that a change is written in. The token is in a header, never in a link.

const TOKEN = "ledger-gateway-operator";
const operator = { token: null };
const tokenInTab = () => { try { return sessionStorage.getItem(TOKEN); } catch { return null; } };
const keepToken = (token) => { try { token ? sessionStorage.setItem(TOKEN, token) : sessionStorage.removeItem(TOKEN); } catch { /* Without storage the token lasts as long as the page. */ } };

async function askOperator(path, { method = "GET", body, more = {}, token = operator.token } = {}) {
  const answer = await ask(`/operator/${path}`, { method, body, key: null, more: { "x-operator-token": token, ...more } });
  if (answer.status === 401) answer.message = "This is not the operator's token.";
  else if (answer.status === 403) answer.message = `${answer.body?.error?.message ?? "This is not allowed"}.`;
  return answer;
}

// Asks what a view shows. Gives null, and says why, where there is nothing to show.
async function shownBy(about, path) {
  const token = operator.token, answer = await askOperator(path);
  if (answer.status === 401 && token === operator.token) { leave(answer.message); return answer; }
  if (token !== operator.token) return { ok: true };
  trouble(about, answer.message);
  return answer;
}

const words = (text) => String(text).replaceAll("_", " ");
const ago = (seconds) => seconds === null || seconds === undefined ? "–" : duration(seconds);
const onlyNumber = (text) => /^\d{1,15}$/.test(text.replace(/[\s,]/g, "")) ? Number(text.replace(/[\s,]/g, "")) : null;

// A small form in a dialog. fields: of each its id, label, value, hint, and whether it may be empty. Gives an object of
// texts, or null where it was left. fault: gives a sentence for what cannot be sent.
function filled(title, text, yes, fields, fault = () => "") {
  $("fill-title").textContent = title;
  $("fill-text").textContent = text;
  $("fill-yes").textContent = yes;
  $("fill-error").textContent = "";
  show("fill-fields", ...fields.map(({ id, label, value = "", hint = "", optional = false, look = "" }) => h("div", { class: "field" },
    h("label", { for: `fill-${id}` }, label), h("input", { id: `fill-${id}`, value, class: look, placeholder: hint, required: !optional, maxlength: "200", autocapitalize: "off", spellcheck: "false" }))));
  const dialog = $("fill");
  return new Promise((done) => {
    let answer = null;
    $("fill-form").onsubmit = (event) => {
      event.preventDefault();
      const written = Object.fromEntries(fields.map(({ id }) => [id, $(`fill-${id}`).value.trim()]));
      const wrong = fault(written);
      $("fill-error").textContent = wrong;
      if (wrong) return;
      answer = written;
      dialog.close();
    };
    $("fill-no").onclick = () => dialog.close();
    dialog.onclose = () => done(answer);
    dialog.showModal();
    $(`fill-${fields[0].id}`).focus();
  });
}

const REASON = { id: "reason", label: "Reason", hint: "kept with the change" };

// A change whose answer did not come is sent again under the same name, so that it is made once.
const unanswered = new Map();
async function changeOnce(path, body) {
  const about = JSON.stringify([path, body]);
  const key = unanswered.get(about) ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  unanswered.set(about, key);
  const answer = await askOperator(path, { method: "POST", body, more: { "idempotency-key": key } });
  if (answer.status !== 0 && answer.status < 500) unanswered.delete(about);
  else answer.message = `${answer.message} It may have been done: write the same again, and it is done once.`;
  return answer;
}
