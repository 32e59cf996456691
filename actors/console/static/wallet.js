// Wallets in the page: found by the Wallet Standard, without a library. Signing in, an API key, and paying in.

const found = { wallets: [], chosen: null }; // chosen: { wallet, account }, while somebody is signed in with it.
const TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", ATA_PROGRAM = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL";
const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const FIELD = 2n ** 255n - 19n, CURVE = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;
const inText = new TextEncoder(), outText = new TextDecoder();
const sameBytes = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);
const said = (error) => String(error?.message ?? error).slice(0, 200);

function base58(bytes) {
  let number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n), text = "";
  for (; number > 0n; number /= 58n) text = ALPHABET[Number(number % 58n)] + text;
  return "1".repeat(bytes.findIndex((byte) => byte !== 0) === -1 ? bytes.length : bytes.findIndex((byte) => byte !== 0)) + text;
}

function bytesOf(text, length = 32) {
  let number = [...text].reduce((sum, letter) => sum * 58n + BigInt(ALPHABET.indexOf(letter)), 0n);
  const bytes = new Uint8Array(length);
  for (let at = length - 1; at >= 0; at -= 1, number >>= 8n) bytes[at] = Number(number & 255n);
  return bytes;
}

const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));

function joined(...parts) {
  const whole_bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => { whole_bytes.set(part, at); return at + part.length; }, 0);
  return whole_bytes;
}

function power(base, exponent) {
  let result = 1n;
  for (let b = base % FIELD; exponent > 0n; exponent >>= 1n, b = b * b % FIELD) if (exponent & 1n) result = result * b % FIELD;
  return result;
}

// Whether 32 bytes are a point of the curve: an address that a program derives must be none.
function isPoint(bytes) {
  const y = [...bytes].reverse().reduce((sum, byte, at) => sum * 256n + BigInt(at === 0 ? byte & 127 : byte), 0n) % FIELD;
  const x2 = (y * y - 1n + FIELD) * power(CURVE * y % FIELD * y + 1n, FIELD - 2n) % FIELD;
  return x2 === 0n || power(x2, (FIELD - 1n) / 2n) === 1n;
}

async function tokenAccount(owner, mint) {
  for (let bump = 255; bump >= 0; bump -= 1) {
    const hash = await sha256(owner, bytesOf(TOKEN_PROGRAM), mint, Uint8Array.of(bump), bytesOf(ATA_PROGRAM), inText.encode("ProgramDerivedAddress"));
    if (!isPoint(hash)) return hash;
  }
  throw new Error("no address");
}

// A legacy message with one instruction: TransferChecked of USDC, paid and signed by the owner.
async function transferMessage({ owner, target, mint, amount, blockhash }) {
  const payer = bytesOf(owner), token = bytesOf(mint);
  const [from, to] = [await tokenAccount(payer, token), await tokenAccount(bytesOf(target), token)];
  const data = new Uint8Array(10);
  data[0] = 12;
  new DataView(data.buffer).setBigUint64(1, amount, true);
  data[9] = 6;
  return joined(Uint8Array.of(1, 0, 2, 5), payer, from, to, token, bytesOf(TOKEN_PROGRAM), bytesOf(blockhash), Uint8Array.of(1, 4, 4, 1, 3, 2, 0, data.length), data);
}

function takeWallet(...wallets) {
  for (const wallet of wallets) if (!found.wallets.includes(wallet) && wallet?.features?.["standard:connect"] && wallet.features["solana:signMessage"]) found.wallets.push(wallet);
  showWallets();
  return () => { found.wallets = found.wallets.filter((wallet) => !wallets.includes(wallet)); showWallets(); };
}

function findWallets() {
  const api = Object.freeze({ register: takeWallet });
  window.addEventListener("wallet-standard:register-wallet", (event) => event.detail(api));
  window.dispatchEvent(new CustomEvent("wallet-standard:app-ready", { detail: api }));
  showWallets();
}

function showWallets() {
  if (session.key) showKeyWallet();
  if (!crypto.subtle) { show("wallets", h("p", { class: "help" }, "Wallets can sign in over https, or on this machine itself.")); return; }
  if (!found.wallets.length) { show("wallets", h("p", { class: "help" }, "No wallet was found in this browser. Install one, or sign in with an API key.")); return; }
  show("wallets", ...found.wallets.map((wallet) => h("button", { type: "button", class: "primary", click: () => signInByWallet(wallet) }, `Sign in with ${String(wallet.name).slice(0, 40)}`)));
}

async function connected(wallet) {
  const { accounts } = await wallet.features["standard:connect"].connect();
  const account = accounts.find((one) => one.publicKey?.length === 32);
  if (!account) throw new Error("the wallet gave no account");
  wallet.features["standard:events"]?.on("change", (change) => {
    if (found.chosen?.wallet === wallet && change.accounts && !change.accounts.some((one) => one.address === found.chosen.account.address)) signOut("The wallet has changed to another account.");
  });
  return account;
}

// The signature of exactly this text. A wallet that signs another one is not followed.
async function signedText(wallet, account, text) {
  const message = inText.encode(text);
  const [{ signedMessage, signature }] = await wallet.features["solana:signMessage"].signMessage({ account, message });
  if (!sameBytes(signedMessage, message)) throw new Error("the wallet has signed another text than the one that was asked for");
  return base58(signature);
}

async function signInByWallet(wallet) {
  $("wallet-error").textContent = "";
  for (const button of $("wallets").querySelectorAll("button")) button.disabled = true;
  try {
    const account = await connected(wallet), address = base58(account.publicKey);
    const asked = await ask("/auth/challenge", { method: "POST", key: null, body: { pubkey: address, format: "sign-in" } });
    if (!asked.ok) throw new Error(asked.message);
    if (asked.body.sign_in.domain !== location.host) throw new Error(`this page is open at ${location.host}; wallets sign in at ${asked.body.sign_in.domain}`);
    let signature;
    if (wallet.features["solana:signIn"]) {
      const [output] = await wallet.features["solana:signIn"].signIn(asked.body.sign_in);
      if (outText.decode(output.signedMessage) !== asked.body.message) throw new Error("the wallet has signed another text than the one that was asked for");
      signature = base58(output.signature);
    } else signature = await signedText(wallet, account, asked.body.message);
    const verified = await ask("/auth/verify", { method: "POST", key: null, body: { pubkey: address, challenge: asked.body.message, signature } });
    if (verified.status === 401) throw new Error("the signature is not by this wallet, or it came too late");
    found.chosen = { wallet, account, address };
    if (!verified.ok) throw new Error(verified.message);
    await enter(`Bearer ${verified.body.token}`);
  } catch (error) {
    found.chosen = null;
    $("wallet-error").textContent = `Not signed in: ${said(error)}.`;
  } finally {
    showWallets();
  }
}

async function enter(key) {
  const answer = await ask("/account/info", { key });
  if (answer.status === 404) { await openAccount(); return; }
  if (!answer.ok) throw new Error(answer.message);
  begin(key, answer.body);
}

async function openAccount() {
  if (!await confirmed("Open an account?", "This wallet has no account here yet. Your wallet signs one more text, and you get an API key.", "Open the account")) throw new Error("this wallet has no account yet");
  const key = await newKey();
  await enter(key);
  showKey(key);
}

// The answer to a request that the wallet signs, in place of a key or a session. body: undefined where there is none.
async function askSigned(method, path, body) {
  const { wallet, account, address } = found.chosen, sent = body === undefined ? "" : JSON.stringify(body);
  const at = String(Math.floor(Date.now() / 1000)), nonce = base58(crypto.getRandomValues(new Uint8Array(16)));
  const digest = [...await sha256(inText.encode(sent))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const signature = await signedText(wallet, account, `ledger-svc:v2:${method}:${path}:${at}:${nonce}:${digest}`);
  const answer = await ask(path, { method, key: null, body, more: { "x-pubkey": address, "x-signature": signature, "x-timestamp": at, "x-nonce": nonce } });
  if (answer.status === 401) answer.message = `the signature was not accepted: ${answer.body?.error?.message ?? "sign sooner, and look at this machine's clock"}`;
  return answer;
}

// An API key by the wallet's signature of the request. The key before it ends at once.
async function newKey() {
  const answer = await askSigned("POST", "/account/api-key", {});
  if (!answer.ok) throw new Error(answer.message);
  return answer.body.api_key;
}

function showKey(key) {
  show("key-made", h("p", null, "Your API key. It is shown once: keep it now."), h("code", { class: "line" }, key));
  $("key-made").hidden = false;
  $("key-made").focus();
}

async function replaceKey() {
  trouble("wallet", "");
  if (!await confirmed("Make a new API key?", "The key that programs use now ends at once. Your wallet signs the request.", "Make a new key")) return;
  try {
    const key = await newKey();
    if (!session.key?.startsWith("Bearer ")) { session.key = key; remember(key); }
    showKey(key);
  } catch (error) { trouble("wallet", `No key was made: ${said(error)}.`); }
}

async function payTerms() {
  const answer = await ask("/", { method: "POST", key: null, body: { jsonrpc: "2.0", id: 1, method: "getLatestBlockhash" } });
  const terms = answer.body?.error?.data?.x402?.accepts?.[0];
  if (!terms?.extra?.recentBlockhash) throw new Error("the service has no terms of payment now");
  return { target: terms.payTo, mint: terms.asset, blockhash: terms.extra.recentBlockhash };
}

const payStep = (text) => { $("pay-said").textContent = text; };

async function payIn(event) {
  event.preventDefault();
  const usdc = $("pay-amount").value.trim();
  if (!/^\d{1,7}(\.\d{1,6})?$/.test(usdc) || Number(usdc) < 0.01) { payStep("An amount is 0.01 USDC or more, with at most six decimals."); return; }
  const [units, parts = ""] = usdc.split("."), amount = BigInt(units) * 1000000n + BigInt(parts.padEnd(6, "0"));
  const { wallet, account, address } = found.chosen;
  $("pay-button").disabled = true;
  try {
    const terms = await payTerms();
    if (!await confirmed("Pay in?", `${usdc} USDC go from your wallet ${short(address)} to ${terms.target}, the deposit address of this service. Your wallet shows the transfer and signs it; the network's fee is your wallet's.`, "Ask the wallet")) { payStep("Nothing was paid."); return; }
    const message = await transferMessage({ ...terms, owner: address, amount });
    payStep("Your wallet asks you to sign …");
    const chain = (account.chains ?? wallet.chains ?? []).find((one) => one.startsWith("solana:"));
    const [{ signedTransaction }] = await wallet.features["solana:signTransaction"].signTransaction({ account, chain, transaction: joined(Uint8Array.of(1), new Uint8Array(64), message) });
    if (!sameBytes(signedTransaction.slice(65), message)) throw new Error("the wallet has changed the transfer; nothing was sent");
    const sent = await ask("/x402/settle", { method: "POST", key: null, body: { transaction: btoa(String.fromCharCode(...signedTransaction)) } });
    if (!sent.ok || !sent.body.success) throw new Error(sent.body?.error ?? sent.body?.message ?? sent.message);
    await untilCredited(sent.body.transaction);
  } catch (error) { payStep(`Not paid: ${said(error)}.`); } finally { $("pay-button").disabled = false; }
}

async function untilCredited(signature) {
  for (const began = Date.now(); Date.now() - began < 180000 && found.chosen;) {
    payStep(`Sent: ${short(signature)}. The credits are there when the transfer is final, ${duration((Date.now() - began) / 1000)} so far …`);
    const answer = await ask("/account/confirm-deposit", { method: "POST", body: { signature } });
    if (answer.ok) {
      payStep(`Paid: the account has ${many(answer.body.new_balance, "credit")} now.`);
      repeated.usage.now();
      return;
    }
    if (answer.status !== 404 && answer.status !== 429 && answer.status !== 503) throw new Error(answer.message);
    await new Promise((done) => setTimeout(done, 1000 * Math.max(3, answer.wait)));
  }
  payStep(`Sent: ${signature}. It is credited by itself when it is final.`);
}

function showWalletTools() {
  const chosen = found.chosen;
  $("wallet-tools").hidden = !chosen;
  $("pay-form").hidden = !chosen?.wallet.features["solana:signTransaction"];
}

function forgetWallet() {
  found.chosen?.wallet.features["standard:disconnect"]?.disconnect().catch(() => {});
  found.chosen = null;
  payStep("");
  show("key-made");
  $("key-made").hidden = true;
  showWalletTools();
}
