// @triton-one/yellowstone-grpc, unmodified: asks for one wallet's accounts, transactions and blocks and for all slots,
// has the faucet pay that wallet between two others, and prints whatever it was told.
const { PACKAGE, GRPC_URL, RPC_URL, TOKEN, MINE, OTHERS, LAMPORTS, ERRORS } = process.env;
const library = await import(PACKAGE);
const Client = library.default.default ?? library.default;
const { CommitmentLevel, txEncode, txErrDecode } = library;

const nothing = { accounts: {}, slots: {}, transactions: {}, transactionsStatus: {}, entry: {}, blocks: {}, blocksMeta: {}, accountsDataSlice: [] };
const wanted = {
  ...nothing,
  commitment: CommitmentLevel.CONFIRMED,
  accounts: { mine: { account: [MINE], owner: [], filters: [] } },
  slots: { every: {} },
  transactions: { mine: { accountInclude: [MINE], accountExclude: [], accountRequired: [] } },
  transactionsStatus: { mine: { accountInclude: [MINE], accountExclude: [], accountRequired: [] } },
  blocks: { mine: { accountInclude: [MINE], includeAccounts: true, includeEntries: false } },
};

async function fund(pubkey) {
  const answer = await fetch(`${RPC_URL}/admin/fund`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ pubkey, lamports: Number(LAMPORTS), usdc_base_units: 0 }),
  });
  return (await answer.json()).sol_signature;
}

async function rpc(method, ...params) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  return (await (await fetch(RPC_URL, { method: "POST", headers: { "content-type": "application/json" }, body })).json()).result;
}

const hex = (bytes) => Buffer.from(bytes).toString("hex");

function shown(update) {
  const kind = ["account", "slot", "transaction", "transactionStatus", "block", "blockMeta", "entry", "ping", "pong"].find((name) => update[name] !== undefined);
  const told = { kind, filters: update.filters };
  if (kind === "account") Object.assign(told, { slot: update.account.slot, pubkey: hex(update.account.account.pubkey), lamports: update.account.account.lamports, signature: hex(update.account.account.txnSignature) });
  if (kind === "slot") Object.assign(told, { slot: update.slot.slot, parent: update.slot.parent, status: update.slot.status });
  if (kind === "transaction") Object.assign(told, { slot: update.transaction.slot, signature: hex(update.transaction.transaction.signature), json: txEncode.encode(update.transaction.transaction, txEncode.encoding.Json, 255, true) });
  if (kind === "transactionStatus") Object.assign(told, { slot: update.transactionStatus.slot, signature: hex(update.transactionStatus.signature), failed: update.transactionStatus.err !== undefined });
  if (kind === "block") Object.assign(told, { slot: update.block.slot, parent: update.block.parentSlot, height: update.block.blockHeight.blockHeight, transactions: update.block.transactions.map((one) => hex(one.signature)), accounts: update.block.accounts.map((one) => hex(one.pubkey)), executed: update.block.executedTransactionCount });
  if (kind === "pong") told.id = update.pong.id;
  return told;
}

// Calls `seen` with every update until it returns true, and not once more.
function heard(stream, seen) {
  let over = false;
  return new Promise((resolve, reject) => {
    stream.on("data", (update) => {
      if (!over && seen(update)) {
        over = true;
        resolve();
      }
    });
    stream.on("error", reject);
    stream.on("end", () => reject(new Error("the stream ended")));
  });
}

const client = new Client(GRPC_URL, TOKEN || undefined, {});
if (client.connect) await client.connect();
const write = (stream, request) => new Promise((resolve, reject) => stream.write(request, (error) => (error ? reject(error) : resolve())));

const updates = [];
let paid, wake;
const stream = await client.subscribe();
const done = heard(stream, (update) => {
  const told = shown(update);
  if (told.kind === "pong") wake();
  if (told.kind !== "ping") updates.push(told);
  // Two blocks further, whatever belongs to the payment has been told.
  return paid !== undefined && told.kind === "block" && BigInt(told.slot) > paid + 2n;
});
done.catch(() => {});
await write(stream, wanted);
const ponged = new Promise((resolve) => (wake = resolve));
await write(stream, { ...nothing, ping: { id: 42 } });
await ponged;
const others = OTHERS.split(",");
const noise = [await fund(others[0])];
const payment = await fund(MINE);
noise.push(await fund(others[1]));
let transaction;
while (!transaction) transaction = await rpc("getTransaction", payment, { commitment: "confirmed", encoding: "json", maxSupportedTransactionVersion: 0 });
paid = BigInt(transaction.slot);
await done;
stream.destroy ? stream.destroy() : stream.cancel();

// The same payment once more, from the past; the newest client asks for it in compressed form as well.
const again = [];
const replay = await client.subscribe();
const replayed = heard(replay, (update) => {
  const told = shown(update);
  if (told.kind !== "ping") again.push(told);
  return told.kind === "block" && BigInt(told.slot) > paid;
});
const accounts = { ...wanted.accounts };
if (library.CompressedAccountFilterSet) {
  const compressed = new library.CompressedAccountFilterSet(16);
  for (const key of [MINE, ...others]) compressed.insert(key);
  accounts.compressed = compressed.toAccountFilter();
}
await write(replay, { ...wanted, accounts, slots: {}, fromSlot: String(paid) });
await replayed;
replay.destroy ? replay.destroy() : replay.cancel();

function decoded(bytes) {
  try {
    return txErrDecode.decode(Buffer.from(bytes, "hex"));
  } catch {
    return "unknown to the client";
  }
}

const latest = await client.getLatestBlockhash(CommitmentLevel.FINALIZED);
const plain = (value) => (typeof value === "object" ? value : { value });
console.log(
  JSON.stringify({
    updates,
    again,
    payment,
    noise,
    transaction,
    errors: JSON.parse(ERRORS).map(decoded),
    calls: {
      slot: plain(await client.getSlot(CommitmentLevel.FINALIZED)),
      height: plain(await client.getBlockHeight(CommitmentLevel.FINALIZED)),
      latest,
      valid: (await client.isBlockhashValid(latest.blockhash, CommitmentLevel.FINALIZED)).valid,
      version: plain(await client.getVersion()),
      ping: plain(await client.ping(7)),
    },
  }),
);
process.exit(0);
