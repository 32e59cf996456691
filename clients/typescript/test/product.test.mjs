// The client against a running gateway: GATEWAY_URL, API_KEY and SECRET_KEY are those of its demo account.

import assert from "node:assert/strict";
import { test } from "node:test";

import { concat, fromBase58 } from "../dist/bytes.js";
import {
  BadRequest, CallLog, check, checkContinued, Denied, Gateway, Keys, narrow, NodeError, PaymentNeeded, RetryPolicy, Session, Wallet,
} from "../dist/index.js";
import { next } from "./doubles.mjs";

const { GATEWAY_URL, API_KEY, SECRET_KEY } = process.env;
const skip = GATEWAY_URL ? false : "GATEWAY_URL names no gateway";
const retry = new RetryPolicy({ attemptsMax: 8 });
const gateway = skip ? null : new Gateway(GATEWAY_URL, API_KEY, { retry });
const wallet = skip ? null : await Wallet.fromText(SECRET_KEY);

/** A signed transfer, base64 (the legacy format of transactions). */
async function transfer(lamports) {
  const { blockhash } = (await gateway.call("getLatestBlockhash")).value, to = (await Wallet.generate()).pubkey;
  const amount = new Uint8Array(new BigUint64Array([BigInt(lamports)]).buffer);
  const accounts = [wallet.pubkey, to, "1".repeat(32), blockhash].map(fromBase58);
  const message = concat(Uint8Array.of(1, 0, 1, 3), ...accounts, Uint8Array.of(1, 2, 2, 0, 1, 12, 2, 0, 0, 0), amount);
  const signature = await wallet.sign(message);
  return { signature, text: Buffer.concat([Uint8Array.of(1), fromBase58(signature), message]).toString("base64") };
}

test("calls, batches and quotes with a key", { skip }, async () => {
  const slot = await gateway.call("getSlot", [{ commitment: "processed" }]);
  assert.ok(slot > 0 && gateway.figures.creditsRemaining > 0 && gateway.figures.requestId);
  const { value } = await gateway.call("getAccountInfo", [wallet.pubkey, { encoding: "base64" }]);
  assert.equal(value.rentEpoch, 18446744073709551615n);
  const ends = await gateway.batch([["getBalance", wallet.pubkey], ["getBalance", "bad"], ["getBlockHeight"]]);
  assert.ok(ends[0].result().value > 0 && ends[1].error instanceof BadRequest && ends[2].result() > 0);
  assert.equal((await gateway.quote([["getSlot"]])).credits, 1);
  const two = await gateway.quote([["getSlot"], ["getBlock", 1]]);
  assert.deepEqual([two.credits, two.calls.length], [26, 2]);
  await assert.rejects(gateway.call("getBlock", [1], { maxCredits: 2 }), (error) => error.constant === "MAX_CREDITS_EXCEEDED");
  await assert.rejects(gateway.call("nothing"), BadRequest);
});

test("a wallet signs each request, a session once, and a stranger is told how to pay", { skip }, async () => {
  const owner = new Gateway(GATEWAY_URL, wallet, { retry });
  assert.equal((await owner.account()).pubkey, wallet.pubkey);
  assert.ok((await owner.call("getSlot")) > 0);
  const session = new Session(wallet), visitor = new Gateway(GATEWAY_URL, session, { retry });
  assert.ok((await visitor.call("getSlot")) > 0 && session.token);
  await visitor.signOut();
  assert.equal(session.token, null);
  const stranger = new Gateway(GATEWAY_URL, await Wallet.generate(), { retry });
  await assert.rejects(stranger.call("getSlot"), (error) => error instanceof PaymentNeeded && error.howToPay.includes("USDC"));
  assert.match(await stranger.newApiKey(), /^srpc_live_/);
  assert.equal((await stranger.account()).balance, 0);
  await assert.rejects(new Gateway(GATEWAY_URL).call("getSlot"), PaymentNeeded);
});

test("a transaction is sent, confirmed and charged once, however often it is sent", { skip }, async () => {
  const { signature, text } = await transfer(1_000_001);
  const outcome = await gateway.sendAndConfirm(text, null, `typescript-${signature}`);
  assert.deepEqual([outcome.signature, outcome.confirmed], [signature, true]);
  assert.ok(Number(gateway.headers["x-credits-cost"]) > 0);
  assert.deepEqual(await gateway.sendAndConfirm(text, null, `typescript-${signature}`), outcome);
  assert.equal(gateway.headers["idempotent-replayed"], "true");
  const own = await transfer(1_000_002);
  assert.equal(await gateway.call("sendTransaction", [own.text, { encoding: "base64" }]), own.signature);
  const broken = gateway.call("sendTransaction", [(await transfer(2n ** 63n)).text, { encoding: "base64" }]);
  await assert.rejects(broken, (error) => error instanceof NodeError && error.data.logs.length > 0);
});

test("a named key has a budget, and its child a smaller one", { skip }, async () => {
  const keys = new Keys(new Gateway(GATEWAY_URL, wallet, { retry }));
  const { key, api_key } = await keys.create("typescript", { credits_total: 100, methods: ["READ_CHEAP", "STREAMS", "ACCOUNT"] });
  try {
    const child = await narrow(api_key, "task é", { credits_total: 2 }), grandchild = await narrow(child, "part", { methods: ["getSlot"] });
    const [task, part] = [child, grandchild].map((text) => new Gateway(GATEWAY_URL, text, { retry }));
    assert.ok((await part.call("getSlot")) > 0);
    await assert.rejects(part.call("getBlockHeight"), Denied);
    await task.call("getBlockHeight");
    await assert.rejects(task.call("getSlot"), (error) => error instanceof Denied && error.constant === "KEY_BUDGET_EXCEEDED");
    const stream = new Gateway(GATEWAY_URL, await narrow(api_key, "stream"), { retry }).stream();
    const slots = (await stream.subscribe("slotSubscribe"))[Symbol.asyncIterator]();
    assert.ok((await next(slots)).slot > 0, "a child opens a socket by a subprotocol, as browsers do");
    await stream.close();
    const listed = await keys.listed(key.id);
    assert.deepEqual(listed.map(({ name }) => name).sort(), ["stream", "task é"]);
    assert.equal((await keys.listed()).find(({ id }) => id === key.id).spent_total >= 2, true);
    assert.equal((await keys.change(key.id, { name: "bot", credits_total: null })).name, "bot");
    assert.notEqual((await keys.rotate(key.id)).api_key, api_key);
    const usage = await gateway.usage(["key", "method"]);
    const spender = listed.find(({ name }) => name === "task é"); // The last one of a chain is named; all of it is charged.
    assert.ok(usage.rows.some((row) => row.key === String(spender.id) && row.method === "getBlockHeight"), JSON.stringify(usage));
  } finally {
    assert.equal((await keys.delete(key.id)).status, "deleted");
  }
});

test("the log of calls has free and refused ones, page by page", { skip }, async () => {
  const log = new CallLog(gateway);
  await gateway.call("getBlockHeight");
  const { requestId } = gateway.figures;
  await assert.rejects(gateway.call("getSlot", [], { maxCredits: 0 }));
  const until = async (find) => { for (;;) { const found = await find(); if (found !== undefined) return found; } };
  const [paid] = await until(async () => { const found = await log.newest(1, { requestId }); return found[0] && found; });
  assert.deepEqual([paid.method, paid.outcome, paid.request_id, paid.credits > 0], ["getBlockHeight", "result", requestId, true]);
  const refused = await until(async () => (await log.newest(50, { outcome: "refused" }))[0]);
  assert.deepEqual([refused.method, refused.credits], ["getSlot", 0]);
  const ids = [];
  for await (const { id } of log.all({ method: "getBlockHeight" })) ids.push(id);
  assert.ok(ids.includes(paid.id) && new Set(ids).size === ids.length);
  assert.ok(!(await log.newest(5, { before: ids.at(-1) })).some(({ id }) => ids.includes(id)));
});

test("the account's pages add up, and its receipts hold offline", { skip }, async () => {
  await gateway.call("getBlockHeight");
  const operation = gateway.headers["x-receipt"];
  const [newest] = await gateway.ledger(1);
  assert.equal(newest.type, "debit");
  assert.ok((await gateway.history(1))[0].credits >= 0);
  const entries = [];
  for await (const entry of gateway.ledgerEntries()) entries.push(entry);
  assert.ok(entries.every(({ number }, place) => place === 0 || number < entries[place - 1].number), "newest first, each once");
  assert.equal(entries.reduce((sum, { amount }) => sum + amount, 0), entries[0].balance);
  const published = await gateway.ledgerKeys(), [later] = await gateway.receipt(operation);
  assert.equal(later.entry.method, "getBlockHeight");
  await check(later, published);
  let proven = 0, first = null;
  for await (const receipt of gateway.receipts()) {
    await check(receipt, published);
    proven += 1;
    first = receipt;
    if (proven === 120) break;
  }
  assert.ok(proven >= Math.min(entries.length - 40, 20), `${proven} receipts of ${entries.length} entries`);
  const place = ({ entry }) => `${entry.at_ms}-${entry.number}`;
  await checkContinued(first, later, await gateway.consistency(place(first), place(later)));
  const month = new Date().toISOString().slice(0, 7), bill = await gateway.bill(month);
  const sum = bill.lines.reduce((total, { credits }) => total + credits, bill.opening.balance);
  assert.deepEqual([sum, bill.account, bill.month], [bill.closing.balance, wallet.pubkey, month]);
  assert.ok((await gateway.billText(month, "csv")).includes("closing"));
});

test("a stream goes on after a lost connection, whoever opens it", { skip }, async () => {
  for (const credential of [API_KEY, wallet, new Session(wallet)]) {
    const opened = [];
    const openSocket = (url, protocols, headers) => {
      const socket = new WebSocket(url, Object.keys(headers).length ? { protocols, headers } : protocols);
      opened.push(socket);
      return socket;
    };
    const stream = new Gateway(GATEWAY_URL, credential, { openSocket, retry }).stream();
    const events = (await stream.subscribe("slotSubscribe"))[Symbol.asyncIterator]();
    const { slot } = await next(events);
    assert.ok(slot > 0);
    opened[0].close();
    let event = await next(events);
    while (!("gap" in event)) event = await next(events);
    assert.ok(event.gap.fromSlot >= slot && (await next(events)).slot > event.gap.fromSlot);
    assert.equal(stream.connections, 2);
    await stream.close();
    assert.equal((await events.next()).done, true);
  }
  await assert.rejects(new Gateway(GATEWAY_URL, "srpc_live_" + "A".repeat(43), { retry }).stream().subscribe("slotSubscribe"), Denied);
  for await (const event of gateway.subscribe("slotSubscribe")) {
    assert.ok(event.slot > 0);
    break;
  }
});

test("signals, look-ups, webhooks and public pages", { skip }, async () => {
  const stream = gateway.stream();
  await (await stream.signals({ kinds: ["newPair"] })).close();
  await stream.close();
  const page = await gateway.recentSignals({ limit: 2, kinds: ["newPair", "graduation"] });
  assert.ok(page.events.length <= 2);
  for await (const signal of gateway.pastSignals()) {
    assert.ok(signal.slot > 0);
    break;
  }
  const bulk = await gateway.bulkBalances([wallet.pubkey], "confirmed");
  assert.deepEqual([bulk.results[0].address, bulk.commitment], [wallet.pubkey, "confirmed"]);
  const webhook = await gateway.createWebhook("http://127.0.0.1:9/typescript", "account", { filter_value: wallet.pubkey });
  assert.ok(webhook.secret && (await gateway.webhooks()).some(({ id }) => id === webhook.id));
  assert.ok(Array.isArray(await gateway.webhookDeliveries(webhook.id)));
  await gateway.webhookAction(webhook.id, "", {}, "DELETE");
  assert.ok((await gateway.health()).status && (await gateway.page("/pricing")).credits_per_usdc > 0);
  await assert.rejects(gateway.page("/nothing"), { name: "NotFound" });
});
