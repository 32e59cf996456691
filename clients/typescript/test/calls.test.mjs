// Calls over a scripted network: what is sent again, and what never is.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BadAnswer, Denied, Gateway, GatewayError, LimitReached, NodeError, PaymentNeeded, RetryPolicy, SENDS, Session,
  Unavailable, Unreachable, Wallet,
} from "../dist/index.js";
import { json, KEY, refused, scripted, Waits } from "./doubles.mjs";

const GOOD = json({ jsonrpc: "2.0", id: 0, result: 5 });
const BUSY = refused("SERVICE_TEMPORARILY_UNAVAILABLE", 503, { "Retry-After": "7" });
const LOST = new TypeError("fetch failed", { cause: { code: "ECONNRESET" } });
const DEAD = new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });

function world(answers, options = {}, credential = KEY) {
  const { fetch, asked } = scripted(...answers), waits = new Waits();
  const gateway = new Gateway("http://gateway.test", credential, { fetch, sleep: waits.sleep, jitter: () => 0, ...options });
  return { gateway, asked, waits: waits.seconds };
}
const keyOf = (request) => request.headers["Idempotency-Key"];

test("a busy gateway is asked again when it said so", async () => {
  const { gateway, asked, waits } = world([BUSY, BUSY, GOOD]);
  assert.equal(await gateway.call("getSlot"), 5);
  assert.deepEqual([asked.length, waits], [3, [7, 14]]);
  assert.equal(asked[0].headers["X-Api-Key"], KEY);
  const later = world([refused("RATE_LIMITED", 429, { "Retry-After": "31" }), GOOD]);
  await assert.rejects(later.gateway.call("getSlot"), (error) => error instanceof LimitReached && error.retryAfter === 31);
  assert.equal(later.asked.length, 1, "who is told to wait longer than the policy allows hears it at once");
});

test("a date to wait for counts from the date of the answer", async () => {
  const [sent, until] = ["Fri, 28 Nov 2025 16:00:00 GMT", "Fri, 28 Nov 2025 16:00:20 GMT"];
  for (const [told, date, wait] of [[until, sent, 20], [sent, until, 5], [until, "now", 5], ["7", sent, 7]]) {
    const { gateway, waits } = world([refused("SERVICE_TEMPORARILY_UNAVAILABLE", 503, { "Retry-After": told, Date: date }), GOOD]);
    await gateway.call("getSlot");
    assert.deepEqual(waits, [wait], told);
  }
});

test("consistency is an option of a call and of the client, and a call's own word wins", async () => {
  const wordOf = (request) => request.headers["X-Consistency"];
  const plain = world([GOOD]), all = world([GOOD], { consistency: "monotonic" });
  await plain.gateway.call("getSlot");
  await plain.gateway.call("getSlot", [], { consistency: "monotonic" });
  await all.gateway.call("getSlot");
  await all.gateway.call("getSlot", [], { consistency: "any", maxCredits: 1 });
  assert.deepEqual([...plain.asked, ...all.asked].map(wordOf), [undefined, "monotonic", "monotonic", "any"]);
  const ends = [{ jsonrpc: "2.0", id: 0, result: 5 }], bulk = { commitment: "confirmed", results: [], errors: [] };
  const lists = world([json(ends), json(bulk)], { consistency: "monotonic" });
  await lists.gateway.batch([["getSlot"]]);
  await lists.gateway.bulkBalances(["11111111111111111111111111111111"]);
  assert.deepEqual(lists.asked.map(wordOf), ["monotonic", "monotonic"]);
});

test("a send has a key by default and keeps it", async () => {
  for (const method of SENDS) {
    const { gateway, asked } = world([BUSY, LOST, GOOD]);
    for (let time = 0; time < 2; time += 1) assert.equal(await gateway.call(method, ["x"]), 5);
    const keys = asked.map(keyOf);
    assert.ok(keys[0] && keys[0] === keys[1] && keys[1] === keys[2] && keys[3] && keys[3] !== keys[2], method);
  }
  const { gateway, asked } = world([GOOD]);
  await gateway.call("getSlot");
  await gateway.sendAndConfirm("AQ==", null, "mine");
  await gateway.sendAndConfirm("AQ==");
  assert.deepEqual(asked.map(keyOf).slice(0, 2), [undefined, "mine"]);
  assert.ok(keyOf(asked[2]));
});

test("a send without a key is never repeated, whatever became of it", async () => {
  for (const failure of [BUSY, LOST, DEAD, refused("RATE_LIMITED", 429, { "Retry-After": "1" }), { body: "", status: 503 }])
    for (const method of SENDS) {
      const { gateway, asked } = world([failure, GOOD]);
      await assert.rejects(gateway.call(method, ["x"], { idempotencyKey: "" }));
      assert.deepEqual([asked.length, keyOf(asked[0])], [1, undefined]);
      const batch = world([json([{ jsonrpc: "2.0", id: 0, ...JSON.parse(BUSY.body) }]), GOOD]);
      const [end] = await batch.gateway.batch([[method, "x"]]);
      assert.ok(end.error instanceof Unavailable && batch.asked.length === 1);
      const whole = world([failure, GOOD]);
      await assert.rejects(whole.gateway.batch([["getSlot"], [method, "x"]]));
      assert.deepEqual([whole.asked.length, keyOf(whole.asked[0])], [1, undefined], "a batch has no key");
    }
});

test("a charged call whose answer was lost is not paid twice; one that was never sent is sent", async () => {
  const lost = world([LOST, GOOD]);
  await assert.rejects(lost.gateway.call("getSlot"), (error) => error instanceof Unreachable && error.wasSent);
  const dead = world([DEAD, DEAD, GOOD]);
  assert.equal(await dead.gateway.call("getSlot"), 5);
  assert.deepEqual([lost.asked.length, dead.asked.length], [1, 3]);
  const gone = world([DEAD]);
  await assert.rejects(gone.gateway.call("getSlot"), (error) => !error.wasSent && error.nextStep.includes("URL"));
  assert.equal(gone.asked.length, 4);
  const page = world([LOST, json({ ok: true })]);
  assert.deepEqual(await page.gateway.page("/pricing"), { ok: true });
});

test("refusals that stay are not repeated", async () => {
  for (const [constant, status, kind] of [["INSUFFICIENT_CREDITS", 402, PaymentNeeded], ["AUTH_FAILED", 401, Denied], ["X", 404, GatewayError]]) {
    const { gateway, asked } = world([refused(constant, status)]);
    await assert.rejects(gateway.call("getSlot"), kind);
    assert.equal(asked.length, 1);
  }
  const { gateway, asked } = world([{ body: "moved", status: 302, headers: { Location: "http://else.test/" } }]);
  await assert.rejects(gateway.call("getSlot"), BadAnswer);
  assert.deepEqual([asked.length, asked[0].redirect, asked[0].credentials], [1, "manual", "omit"]);
});

test("the node's errors and the gateway's are told apart", async () => {
  const error = (data) => json({ jsonrpc: "2.0", id: 0, error: { code: -32602, message: "bad", data } }, 200, { "X-Credits-Cost": "1" });
  const nodes = world([error({ logs: [] })]);
  await assert.rejects(nodes.gateway.call("getSlot"), (found) => found instanceof NodeError && found.credits === 1 && found.code === -32602);
  const own = world([error({ source: "gateway", constant: "INVALID_PARAMS", requestId: "r-1", hint: "look" })]);
  await assert.rejects(own.gateway.call("getSlot"), (found) => found.name === "BadRequest" && found.requestId === "r-1" && found.hint === "look");
});

test("an answer to another call is none", async () => {
  const bodies = [{ jsonrpc: "2.0", id: 1, result: 5 }, { jsonrpc: "2.0", id: "0", result: 5 }, [], 7, null, {}, { id: 0 }];
  for (const body of bodies) await assert.rejects(world([json(body)]).gateway.call("getSlot"), BadAnswer, JSON.stringify(body));
  await assert.rejects(world([{ body: "<html>", status: 200 }]).gateway.call("getSlot"), BadAnswer);
  await assert.rejects(world([json({ balance: 1.5 })]).gateway.account(), /not as documented/);
  await assert.rejects(world([json([])]).gateway.account(), BadAnswer);
  const id = (number, result) => ({ jsonrpc: "2.0", id: number, result });
  const { gateway } = world([json([id(1, "b"), id(0, "a"), id(1, "c"), id(7, "d")])]);
  const ends = await gateway.batch([["getSlot"], ["getSlot"], ["getSlot"]]);
  assert.equal(ends[0].result(), "a");
  assert.throws(() => ends[1].result(), /two replies/);
  assert.throws(() => ends[2].result(), /no reply to this call, and 1 with ids that no call had/);
});

test("long batches are cut, and only what was refused for a moment is sent again", async () => {
  const limited = { code: -32005, message: "x", data: { source: "gateway", constant: "RATE_LIMITED", retry_after_secs: 3 } };
  let turn = 0;
  const answer = (request) => {
    turn += 1;
    return json(JSON.parse(request.body).map(({ id, params }) =>
      turn === 1 && id % 2 ? { jsonrpc: "2.0", id, error: limited } : { jsonrpc: "2.0", id, result: params[0] }));
  };
  const { gateway, asked, waits } = world([answer]);
  const ends = await gateway.batch(Array.from({ length: 130 }, (_, place) => ["getBlockTime", place]));
  assert.deepEqual(ends.map((end) => end.result()), Array.from({ length: 130 }, (_, place) => place));
  assert.deepEqual(asked.map(({ body }) => JSON.parse(body).length), [100, 50, 30]);
  assert.deepEqual(waits, [3]);
  assert.deepEqual(await gateway.batch([]), []);
});

test("a session signs in once, and again when it has ended", async () => {
  const wallet = await Wallet.generate();
  let tokens = 0, isEnded = false;
  const answer = ({ url, headers }) => {
    if (url.endsWith("/auth/challenge")) return json({ challenge: "ab".repeat(32) });
    if (url.endsWith("/auth/verify")) return json({ token: `t${(tokens += 1)}`, expires_in: 3600 });
    if (isEnded && headers.Authorization === "Bearer t1") return refused("AUTH_FAILED", 401);
    return GOOD;
  };
  const session = new Session(wallet), { gateway, asked } = world([answer], {}, session);
  await Promise.all([gateway.call("getSlot"), gateway.call("getSlot"), gateway.call("getSlot")]);
  assert.deepEqual([tokens, asked.length], [1, 5]);
  isEnded = true;
  assert.equal(await gateway.call("getSlot"), 5);
  assert.deepEqual([tokens, session.token], [2, "t2"]);
});

test("only a challenge is signed", async () => {
  for (const challenge of ["ab", "zz".repeat(32), 7, "ab".repeat(32) + "\n"]) {
    let signed = 0;
    const { pubkey } = await Wallet.generate();
    const wallet = new Wallet(pubkey, async () => ((signed += 1), new Uint8Array(64)));
    const { gateway } = world([json({ challenge })], {}, new Session(wallet));
    await assert.rejects(gateway.call("getSlot"), BadAnswer);
    assert.equal(signed, 0);
  }
});

test("each attempt of a wallet is signed anew", async () => {
  const { gateway, asked } = world([BUSY, GOOD], { now: () => 1_700_000_000.7 }, await Wallet.generate());
  await gateway.call("getSlot");
  assert.notEqual(asked[0].headers["X-Nonce"], asked[1].headers["X-Nonce"]);
  assert.equal(asked[0].headers["X-Timestamp"], "1700000000");
});

test("a silent server ends by the client's own time, and an endless answer by its size", async () => {
  const silent = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { gateway } = world([], { fetch: silent, timeoutSeconds: 0.05, retry: new RetryPolicy({ attemptsMax: 1 }) });
  const keepsRunning = setTimeout(() => undefined, 5_000); // The time limit alone does not keep node running.
  await assert.rejects(gateway.call("getSlot"), (error) => error instanceof Unreachable && error.wasSent);
  clearTimeout(keepsRunning);
  const chunk = new Uint8Array(32 * 2 ** 20);
  let pulled = 0;
  const endless = new ReadableStream({ pull: (to) => ((pulled += 1), to.enqueue(chunk)) });
  await assert.rejects(world([{ body: endless, status: 200 }]).gateway.call("getSlot"), /larger than 256 MiB/);
  assert.ok(pulled < 14);
});

test("an id never becomes another path", async () => {
  const { gateway, asked } = world([json({})]);
  await assert.rejects(async () => gateway.webhookAction("../account/api-key", ""), TypeError);
  await assert.rejects(gateway.receipt("a/b"), TypeError);
  assert.equal(asked.length, 0);
});
