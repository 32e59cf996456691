// What the compiler must take, and what it must refuse: a line after @ts-expect-error that compiles is an error. Not run.

import { type Call, Gateway, narrow } from "../dist/index.js";

export async function types(gateway: Gateway): Promise<void> {
  await gateway.call("getSlot");
  await gateway.call("getSlot", [{ commitment: "confirmed" }], { maxCredits: 1 });
  await gateway.call("getBalance", ["11111111111111111111111111111111"]);
  await gateway.call("getBlock", [7n, { transactionDetails: "none" }]);
  await gateway.call("getSomethingNew", [1, { two: 3 }]);
  await gateway.sendAndConfirm("AQ==", { skipPreflight: true });
  const calls: Call[] = [["getSlot"], ["getBalance", "11111111111111111111111111111111"]];
  await gateway.batch(calls, { maxCredits: 7, consistency: "monotonic" });
  // @ts-expect-error: one of any, monotonic.
  await gateway.call("getSlot", [], { consistency: "strong" });
  await gateway.quote(Array.from({ length: 3 }, (_, slot) => ["getBlock", slot] as const));
  await gateway.batch([...calls, ["getSlot", null], ["getSomethingNew", 1]]);
  const balance: number = (await gateway.account()).balance;
  await narrow("srpc_live_", "task", { credits_total: balance });

  // @ts-expect-error: a public key is missing.
  await gateway.call("getBalance");
  // @ts-expect-error: a slot is a number.
  await gateway.call("getBlock", ["7"]);
  // @ts-expect-error: no such option.
  await gateway.call("getBlock", [7, { transactionDetail: "none" }]);
  // @ts-expect-error: one of full, accounts, signatures, none.
  await gateway.call("getBlock", [7, { transactionDetails: "some" }]);
  // @ts-expect-error: no such limit.
  await narrow("srpc_live_", "task", { credits: 1 });
  // @ts-expect-error: a public key is missing.
  await gateway.batch([["getSlot"], ["getBalance"]]);
  // @ts-expect-error: a slot is a number.
  await gateway.quote([["getBlock", "7"]]);
  // @ts-expect-error: a batch is a list of lists.
  await gateway.batch(["getSlot"]);
}
