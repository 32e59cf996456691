// The rules that need no gateway; the vectors are those of the Python client.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { fromBase58, fromHex, toBase58, toHex } from "../dist/bytes.js";
import { errorOf } from "../dist/errors.js";
import {
  ApiKey, BadCredential, Continuity, current, exactJson, Gateway, narrow, NodeError, parseExact, RetryPolicy, SENDS,
  Session, Unreachable, verify, Wallet, WebhookInvalid,
} from "../dist/index.js";
import { KEY } from "./doubles.mjs";

const VECTORS = JSON.parse(readFileSync(process.env.CLIENT_VECTORS ?? new URL("../../vectors.json", import.meta.url), "utf8"));

test("children of keys are the Python client's, byte for byte", async () => {
  assert.ok(VECTORS.children.length > 3);
  for (const { parent, name, limits, seed, key } of VECTORS.children)
    assert.equal(await narrow(parent, name, limits, fromHex(seed)), key);
  const [one, other] = [await narrow(KEY, "a"), await narrow(KEY, "a")];
  assert.ok(one !== other && one.startsWith("srpc_live_"));
});

test("what cannot be narrowed is refused", async () => {
  for (const text of ["", "key", "srpc_live_", "srpc_live_!!", KEY.slice(0, -1), `x${KEY}`])
    await assert.rejects(narrow(text), BadCredential, text);
  await assert.rejects(narrow(KEY, "a", {}, new Uint8Array(31)), BadCredential);
  await assert.rejects(narrow(KEY, "a", { origins: Array(60).fill("https://a.example") }), /at most 1000 bytes/);
});

test("signed requests have the Python client's headers", async () => {
  const wallet = await Wallet.fromSecret(fromHex(VECTORS.wallet.secret));
  assert.equal(wallet.pubkey, VECTORS.wallet.pubkey);
  for (const { method, path, body, now, nonce, headers } of VECTORS.signatures)
    assert.deepEqual(await wallet.headers(method, path, body, now, nonce), headers);
  const told = [...wallet.secretBytes];
  for (const text of [toBase58(wallet.secretBytes), JSON.stringify(told)])
    assert.equal((await Wallet.fromText(text)).pubkey, wallet.pubkey);
  told[40] ^= 1;
  for (const text of ["", "0OIl", "[1,2]", "[", JSON.stringify(told), JSON.stringify([...told.slice(1), 256])])
    await assert.rejects(Wallet.fromText(text), BadCredential);
});

test("secrets are in no text", async () => {
  const wallet = await Wallet.generate(), session = new Session(wallet);
  session.token = "token-of-session";
  const gateway = new Gateway("http://a.example", new ApiKey(KEY));
  const { inspect } = await import("node:util");
  for (const each of [wallet, session, new ApiKey(KEY), gateway])
    for (const text of [String(each), JSON.stringify(each), inspect(each, { depth: 9, showHidden: true })])
      assert.ok(!text.includes(KEY) && !text.includes("token-of-session") && !text.includes(wallet.secretBytes.join()), text);
  assert.throws(() => new ApiKey("two words"), BadCredential);
});

test("errors have the classes of the Python client", () => {
  for (const { constant, http, class: name } of VECTORS.errors)
    assert.equal(errorOf({ constant, http, told: "x" }).name, name, `${constant} ${http}`);
});

test("retries wait as the Python client's do", () => {
  assert.deepEqual([...SENDS].sort(), VECTORS.sends);
  const policy = new RetryPolicy();
  for (const { constant, http, retry_after, waits } of VECTORS.waits) {
    const error = errorOf({ constant, http, told: "x", retryAfter: retry_after });
    for (const [again, wanted] of Object.entries(waits))
      assert.deepEqual([1, 2, 3, 4, 5].map((attempt) => policy.waitSeconds(error, attempt, again, 0.5)), wanted, constant);
  }
  const sent = new Unreachable("x", true), notSent = new Unreachable("x", false);
  const first = (error) => ["harmless", "charged", "never"].map((again) => policy.waitSeconds(error, 1, again, 0));
  assert.deepEqual(first(sent), [0.5, null, null]);
  assert.deepEqual(first(notSent), [0.5, 0.5, null]);
  assert.deepEqual(first(new NodeError(-32602, "x")), [null, null, null]);
});

test("deliveries of webhooks are the gateway's own or invalid", async () => {
  const { secret, body, now, headers } = VECTORS.webhook;
  for (const each of headers) {
    const found = await verify(each, body, secret, now);
    assert.deepEqual([found.eventId, found.event.lamports], ["evt_1_2", 18446744073709551615n]);
    await assert.rejects(verify(each, `${body} `, secret, now), WebhookInvalid);
    await assert.rejects(verify(each, body, "whsec_b3RoZXI=", now), WebhookInvalid);
    await assert.rejects(verify(each, body, secret, now + 301), WebhookInvalid);
    await assert.rejects(verify({ ...each, "X-Webhook-Event-Id": "evt_1_3", "webhook-id": "evt_1_3" }, body, secret, now), WebhookInvalid);
  }
  await assert.rejects(verify({}, body, secret, now), WebhookInvalid);
});

test("whole numbers stay exact in both directions", () => {
  const text = '{"a":18446744073709551615,"b":[-9007199254740993,9007199254740991],"c":"12345678901234567890","d":1e25,"e":0.12345678901234567}';
  const found = parseExact(text);
  assert.deepEqual(found, {
    a: 18446744073709551615n, b: [-9007199254740993n, 9007199254740991], c: "12345678901234567890", d: 1e25,
    e: 0.12345678901234567,
  });
  assert.deepEqual(JSON.parse(exactJson({ a: 7, b: "bigint" })), { a: 7, b: "bigint" });
  assert.equal(exactJson({ a: 2n ** 64n - 1n, b: ['"1234567890123456789"', 2n] }), '{"a":18446744073709551615,"b":["\\"1234567890123456789\\"",2]}');
  assert.deepEqual(parseExact('["\\u0062igint:9", "a\\"1234567890123456789", 1234567890123456789]'), ["bigint:9", 'a"1234567890123456789', 1234567890123456789n]);
  for (const bad of ["", "{", "1234567890123456789,", "[01234567890123456789]"]) assert.throws(() => parseExact(bad), SyntaxError);
  for (const bad of [NaN, [Infinity]]) assert.throws(() => exactJson(bad), TypeError);
});

test("base58 and hexadecimal are read and written", () => {
  for (const hex of ["", "00", "000001", "ff".repeat(32), "00".repeat(32), "0102030405"])
    assert.equal(toHex(fromBase58(toBase58(fromHex(hex)))), hex);
  assert.equal(toBase58(new Uint8Array(32)), "1".repeat(32));
  for (const bad of ["0", "O", "a b", "é"]) assert.equal(fromBase58(bad), null);
  for (const bad of ["0", "zz", "0x"]) assert.equal(fromHex(bad), null);
});

test("a signal is told once, and its corrections each once", () => {
  const seen = new Continuity(null, 3);
  const signal = (mint, others = {}) => ({ kind: "newPair", program: "p", signature: "s", slot: 1, mint, ...others });
  assert.deepEqual([seen.take(signal("a", { cursor: "1-0" })), seen.take(signal("a")), seen.cursor], [true, false, "1-0"]);
  assert.ok(seen.take(signal("a", { correction: "moved", cursor: "2-0" })));
  assert.ok(seen.take(signal("a", { correction: "moved", cursor: "3-0" })));
  assert.ok(!seen.take(signal("a", { correction: "moved", cursor: "3-0" })));
  assert.ok(seen.take({ gap: { reason: "lost", to_cursor: "9-0" } }) && seen.cursor === "9-0");
  for (const mint of ["b", "c", "d"]) seen.take(signal(mint));
  assert.ok(seen.take(signal("a")), "what was forgotten is new again: the memory is bounded");
  const moved = signal("a", { slot: 2, correction: "moved" });
  assert.deepEqual(current([signal("a"), signal("b"), moved, signal("b", { correction: "removed" })]), [{ ...moved, correction: null }]);
});

test("a URL that cannot be one is refused without repeating it", () => {
  for (const url of ["", "gateway", "ftp://a", "http://", "http://u:p@a/", "http://a/?api-key=secret", "http://a:99999"])
    assert.throws(() => new Gateway(url), (error) => error instanceof TypeError && !error.message.includes("secret"), url);
  assert.equal(new Gateway("https://a.example/base/").url, "https://a.example/base");
});
