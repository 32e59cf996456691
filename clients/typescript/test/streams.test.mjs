// Streams over scripted sockets, which are cut, refuse, and send what nobody asked for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BadAnswer, BadCredential, Denied, Gateway, PaymentNeeded, Unreachable, Wallet } from "../dist/index.js";
import { json, KEY, next, scripted, sockets, Waits } from "./doubles.mjs";

const LOST = "the connection was lost";

function world(servers, credential = KEY, answers = [json({ events: [], next_cursor: "0-1" })]) {
  const { openSocket, opened } = sockets(...servers), waits = new Waits(), { fetch, asked } = scripted(...answers);
  const gateway = new Gateway("http://gateway.test/base", credential, { openSocket, fetch, sleep: waits.sleep, jitter: () => 0 });
  return { gateway, opened, waits: waits.seconds, asked, stream: gateway.stream() };
}
const gap = (fromSlot) => ({ gap: { fromSlot, toSlot: null, reason: LOST } });
const told = (result) => ({ result, slot: result });
const limited = { error: { code: -32005, message: "x", data: { source: "gateway", constant: "RATE_LIMITED", retry_after_secs: 3 } } };

test("a break is told, and the subscription goes on", async () => {
  const first = async (end) => {
    await end.answer(1);
    end.notify(1, 7);
    end.close(1012);
  };
  const gone = async (end) => {
    await end.request(); // And ends before it answers.
    end.close();
  };
  const second = async (end) => {
    await end.answer(limited);
    await end.answer(4);
    end.notify(1, 8); // Of nobody.
    end.notify(4, { from_slot: 7, to_slot: 9, reason: "a node" }, "gapNotification");
    end.notify(4, 9);
    await end.answer(true);
  };
  const { stream, opened, waits } = world([first, gone, new Error(), second]);
  const subscription = await stream.subscribe("rootSubscribe"), events = subscription[Symbol.asyncIterator]();
  assert.deepEqual(await next(events), told(7));
  assert.deepEqual([await next(events), await next(events)], [gap(7), gap(7)]);
  assert.deepEqual(await next(events), { gap: { fromSlot: 7, toSlot: 9, reason: "a node" } });
  assert.deepEqual(await next(events), told(9));
  await subscription.close();
  assert.equal((await events.next()).done, true);
  assert.deepEqual([stream.connections, opened.length], [3, 4]);
  assert.ok(waits.includes(3), "a subscription that is refused for a moment is asked for again");
  const { url, protocols, headers } = opened[0];
  assert.deepEqual([url, protocols, headers], ["ws://gateway.test/base/ws", ["solana-rpc", `auth.${KEY}`], {}]);
  await stream.close();
  await stream.close();
});

test("signals are exactly the uninterrupted set, whatever breaks", async () => {
  const signal = (number) => ({ kind: "newPair", program: "p", signature: `s${number}`, slot: number, cursor: `${number}-0` });
  const sinces = [];
  const serving = async (end) => {
    const { params } = await end.answer("sub");
    sinces.push(params[0].since ?? null);
    const at = Number((params[0].since ?? "0-0").split("-")[0]);
    for (let number = Math.max(1, at); number <= at + 3; number += 1) end.notify("sub", signal(number), "signal"); // The last one again.
    end.close();
  };
  const { gateway } = world([serving]);
  const found = [];
  for await (const event of gateway.signals({ kinds: ["newPair"] })) {
    found.push(event.slot);
    if (found.length === 12) break;
  }
  assert.deepEqual(found, Array.from({ length: 12 }, (_, place) => place + 1));
  assert.deepEqual(sinces.slice(0, 4), [null, "3-0", "6-0", "9-0"]);
});

test("a reader that is slow loses no signal, and the memory is bounded", async () => {
  const signal = (number) => ({ kind: "newPair", program: "p", signature: `s${number}`, slot: number, cursor: `${number}-0` });
  let sent = 0;
  const serving = async (end) => {
    const { params } = await end.answer("sub");
    const at = Number((params[0].since ?? "0-0").split("-")[0]);
    for (let number = at + 1; number <= 2_500 && end.isOpen; number += 1) {
      end.notify("sub", signal(number), "signal");
      sent += 1;
    }
  };
  const { stream } = world([serving]);
  const subscription = await stream.signals({ since: "0-0" });
  await new Promise((resolve) => setTimeout(resolve, 20)); // Nothing is read meanwhile.
  assert.ok(sent >= 1_000 && sent < 1_010, `${sent} were taken before a reader came`);
  const found = [];
  for await (const event of subscription) {
    found.push(event.slot);
    if (found.length === 2_500) break;
  }
  assert.deepEqual(found, Array.from({ length: 2_500 }, (_, place) => place + 1));
  await stream.close();
});

test("a native reader that is slow is told what it may have missed", async () => {
  const serving = async (end) => {
    await end.answer(1);
    for (let slot = 1; slot <= 1_200 && end.isOpen; slot += 1) end.notify(1, slot);
  };
  const { stream } = world([serving]);
  const subscription = await stream.subscribe("rootSubscribe");
  const events = subscription[Symbol.asyncIterator]();
  for (let slot = 1; slot <= 1_000; slot += 1) assert.deepEqual(await next(events), told(slot));
  assert.deepEqual(await next(events), gap(1_000));
  await stream.close();
});

test("a stream ends with the error where a new connection would end so too", async () => {
  for (const [code, kind] of [[4001, Denied], [1008, Denied], [4002, PaymentNeeded]]) {
    const { stream, opened } = world([(end) => end.close(code, "why")]);
    await assert.rejects(stream.subscribe("rootSubscribe"), (error) => error instanceof kind && error.message.includes("why"));
    assert.equal(opened.length, 1);
    const later = world([async (end) => { await end.answer(1); end.close(code); }]);
    const events = (await later.stream.subscribe("rootSubscribe"))[Symbol.asyncIterator]();
    await assert.rejects(events.next(), kind);
  }
  const unknown = { error: { code: -32601, message: "no", data: { source: "gateway", constant: "METHOD_NOT_FOUND" } } };
  const { stream } = world([(end) => end.answer(unknown)]);
  await assert.rejects(stream.subscribe("nothingSubscribe"), { name: "BadRequest" });
  await stream.close();
});

test("a dead, flapping or hostile server ends the beginning", async () => {
  const dead = world([new Error()]);
  await assert.rejects(dead.stream.subscribe("rootSubscribe"), Unreachable);
  assert.deepEqual([dead.opened.length, dead.waits.length], [4, 3]);
  const flapping = world([async (end) => { await end.answer(1); end.close(1012); }]);
  const events = await flapping.stream.subscribe("rootSubscribe");
  await assert.rejects(async () => { for await (const event of events) assert.deepEqual(event, gap(null)); }, /in a row/);
  assert.equal(flapping.opened.length, 10);
  for (const said of [{ jsonrpc: "2.0", id: 99, result: 1 }, [], 7]) {
    const hostile = world([async (end) => { await end.request(); end.say(said); }]);
    await assert.rejects(hostile.stream.subscribe("rootSubscribe"), BadAnswer);
  }
  const unread = world([async (end) => { await end.request(); end.tell("message", { data: "[" }); }]);
  await assert.rejects(unread.stream.subscribe("rootSubscribe"), /not JSON/);
});

test("a wallet signs the handshake, and a stream that is over can begin again", async () => {
  const { stream, opened } = world([(end) => end.answer(1)], await Wallet.generate());
  await stream.subscribe("rootSubscribe");
  await stream.close();
  await stream.subscribe("rootSubscribe");
  assert.deepEqual(Object.keys(opened[0].headers), ["X-Pubkey", "X-Signature", "X-Timestamp", "X-Nonce"]);
  assert.notEqual(opened[0].headers["X-Nonce"], opened[1].headers["X-Nonce"]);
  assert.deepEqual(opened[0].protocols, []);
  await stream.close();
});

test("a runtime whose sockets carry no headers says so", async () => {
  const before = [globalThis.WebSocket, process.versions.node];
  const stream = new Gateway("http://gateway.test", await Wallet.generate()).stream();
  globalThis.WebSocket = class {};
  Object.defineProperty(process, "versions", { value: {}, configurable: true });
  try {
    await assert.rejects(stream.subscribe("rootSubscribe"), (error) => error instanceof BadCredential && /API key/.test(error.message));
  } finally {
    globalThis.WebSocket = before[0];
    Object.defineProperty(process, "versions", { value: { node: before[1] }, configurable: true });
  }
});

test("a signature is told once, and its subscription is over", async () => {
  const serving = async (end) => {
    await end.answer(1);
    end.notify(1, { context: { slot: 4 }, value: "receivedSignature" }, "signatureNotification");
    end.notify(1, { context: { slot: 5 }, value: { err: null } }, "signatureNotification");
  };
  const { gateway } = world([serving]);
  const slots = [];
  for await (const event of gateway.subscribe("signatureSubscribe", "sig")) slots.push(event.slot);
  assert.deepEqual(slots, [4, 5]);
});
