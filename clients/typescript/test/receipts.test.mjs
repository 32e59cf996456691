// Receipts that the gateway's own code has made hold, and no changed one does. RECEIPTS: a file of the project's tests.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { toHex } from "../dist/bytes.js";
import {
  callDigestOf, check, checkContinued, digestOf, keyOf, NotProven, parseExact, publicKeys, readChain, readReceipts,
  requestIdOf,
} from "../dist/index.js";

const skip = process.env.RECEIPTS ? false : "RECEIPTS names no file";
const made = skip ? {} : parseExact(readFileSync(process.env.RECEIPTS, "utf8"));
const held = async (receipt, keys = made.keys) => toHex(await check(readReceipts(receipt)[0], publicKeys(keys)));

test("every entry of every account is proven", { skip }, async () => {
  assert.ok(made.good.length > 50);
  for (const { receipt, after } of made.good) assert.equal(await held(receipt), after);
  assert.equal(readReceipts({ receipts: made.good.map(({ receipt }) => receipt) }).length, made.good.length);
});

test("no changed receipt is proven", { skip }, async () => {
  assert.ok(Object.keys(made.changed).length > 20);
  for (const [name, receipt] of Object.entries(made.changed)) await assert.rejects(held(receipt), NotProven, name);
});

test("what is no receipt is refused", { skip }, async () => {
  const [{ receipt }] = made.good, { entry } = receipt;
  const others = [
    { ...receipt, more: 1 }, { ...receipt, version: 2 }, { ...receipt, first: 1.5 }, { ...receipt, entry: { ...entry, more: "" } },
    { ...receipt, entry: { ...entry, method: "\ud800" } }, { ...receipt, account_path: [7] }, { ...receipt, signature: "zz" },
    { ...receipt, head: receipt.head.toUpperCase() }, { ...receipt, before: "00" }, { ...receipt, account: "0OIl" },
    { ...receipt, account_index: -1 }, { ...receipt, last: 2n ** 63n }, { ...receipt, entry: null },
  ];
  for (const document of [{}, { receipts: [{}] }, { receipts: 7 }, [], "x", null, 7, ...others])
    await assert.rejects(async () => held(document), NotProven, JSON.stringify(document, (_, value) => String(value)));
});

test("a key that is not published proves nothing", { skip }, async () => {
  const [{ receipt }] = made.good;
  const other = made.keys.keys.map((key) => ({ ...key, public_key: "11".repeat(32) }));
  for (const keys of [{ keys: [] }, { keys: other }]) await assert.rejects(held(receipt, keys), NotProven);
  for (const document of [{}, { keys: [{ id: "x" }] }, null, { keys: [{ id: "x", public_key: "z" }] }])
    assert.throws(() => publicKeys(document), NotProven);
});

test("a later receipt continues an earlier one", { skip }, async () => {
  const one = made.continued.map((receipt) => readReceipts(receipt)[0]), [first, last] = [one[0], one.at(-1)];
  const entries = one.slice(1).map(({ entry }) => entry), chain = { account: first.account, after: first.entry.number, entries };
  await checkContinued(first, last, readChain(chain));
  const wrong = [[{ ...entries[0], amount: -1 }, ...entries.slice(1)], entries.slice(0, -1), [...entries, entries.at(-1)]];
  for (const others of wrong) await assert.rejects(checkContinued(first, last, { ...chain, entries: others }), NotProven);
  await assert.rejects(checkContinued(first, readReceipts(made.stranger)[0], chain), NotProven);
  for (const document of [{}, null, { ...chain, more: 1 }, { ...chain, entries: [{}] }]) assert.throws(() => readChain(document), NotProven);
});

test("a description tells what was asked, and by which key", async () => {
  assert.equal(await digestOf("[]", '{"jsonrpc":"2.0","result":1082,"id":1}'), "boqZPddNHeBOr4ZV41ls7w"); // Of a running gateway.
  assert.notEqual(await digestOf("[ ]", '{"jsonrpc":"2.0","result":1082,"id":1}'), "boqZPddNHeBOr4ZV41ls7w");
  const entry = (description, type = 2) => ({ type, description, operation: "0123456789abcdef" });
  const told = (found) => [requestIdOf(found), callDigestOf(found), keyOf(found)];
  assert.deepEqual(told(entry("r-1 dig hit|7")), ["r-1", "dig", 7]);
  assert.deepEqual(told(entry("-1 dig")), ["0123456789-1", "dig", 0]);
  assert.deepEqual(told(entry("tx:sig|12")), ["", "", 12]);
  assert.deepEqual(told(entry("deposit of|3", 0)), ["", "", 0]);
});
