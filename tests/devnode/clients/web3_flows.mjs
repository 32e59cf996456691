// @solana/web3.js 1.x and @solana/spl-token, as their registry ships them, straight at a devnode. Only the RPC URL is
// given: the library looks for WebSockets on the port above. Prints one line of JSON; any failure is an exit code.
import {
  AddressLookupTableProgram, Connection, Keypair, LAMPORTS_PER_SOL, sendAndConfirmTransaction, SystemProgram,
  Transaction, TransactionMessage, VersionedTransaction,
} from '@solana/web3.js';
import {
  createMint, getAccount, getMint, getOrCreateAssociatedTokenAccount, mintTo, transferChecked,
} from '@solana/spl-token';

const { RPC_URL, V1_SIGNATURE } = process.env;
const commitment = 'confirmed';
const connection = new Connection(RPC_URL, commitment);
const found = {};
const payer = Keypair.generate();

async function confirmed(signature) {
  const latest = await connection.getLatestBlockhash(commitment);
  const { value } = await connection.confirmTransaction({ signature, ...latest }, commitment);
  if (value.err !== null) throw new Error(JSON.stringify(value.err));
  return signature;
}

await confirmed(await connection.requestAirdrop(payer.publicKey, 10 * LAMPORTS_PER_SOL));
const pay = (toPubkey, lamports) => SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports });

// Subscriptions are open before anything happens.
const watched = Keypair.generate().publicKey;
const once = (subscribe) => new Promise((resolve) => { subscribe(resolve); });
const heard = Promise.all([
  once((tell) => connection.onAccountChange(watched, (info) => tell(info), { commitment })),
  once((tell) => connection.onLogs(watched, (logs) => tell(logs), commitment)),
  once((tell) => connection.onSlotChange(tell)),
  once((tell) => connection.onProgramAccountChange(SystemProgram.programId, (one) => {
    if (one.accountId.equals(watched)) tell(one.accountInfo);
  }, { commitment })),
]);
await new Promise((later) => setTimeout(later, 500)); // The library does not say when its subscriptions stand.
const paid = await sendAndConfirmTransaction(connection, new Transaction().add(pay(watched, 2_000_000)), [payer]);
const [account, logs, slot, ofProgram] = await heard;
const signatureTold = await once(async (tell) => {
  const { blockhash } = await connection.getLatestBlockhash(commitment);
  const one = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(pay(watched, 1_000));
  one.sign(payer);
  const signature = await connection.sendRawTransaction(one.serialize(), { skipPreflight: true });
  connection.onSignature(signature, (result) => tell(result), commitment);
});
found.subscriptions = {
  lamports: account.lamports, logsOfPayment: logs.signature === paid, err: logs.err,
  slotAboveParent: slot.slot > slot.parent, ofProgram: ofProgram.lamports, signature: signatureTold.err,
};

// v0: make a table, fill it, wait until it may be used, use it.
const [create, table] = AddressLookupTableProgram.createLookupTable({
  authority: payer.publicKey, payer: payer.publicKey, recentSlot: await connection.getSlot('finalized'),
});
const addresses = Array.from({ length: 3 }, () => Keypair.generate().publicKey);
const extend = AddressLookupTableProgram.extendLookupTable({
  authority: payer.publicKey, payer: payer.publicKey, lookupTable: table, addresses,
});

async function landV0(instructions, tables = []) {
  const { blockhash } = await connection.getLatestBlockhash(commitment);
  const message = new TransactionMessage({ payerKey: payer.publicKey, recentBlockhash: blockhash, instructions });
  const transaction = new VersionedTransaction(message.compileToV0Message(tables));
  transaction.sign([payer]);
  return confirmed(await connection.sendTransaction(transaction));
}

await landV0([create, extend]);
const extended = await connection.getSlot(commitment);
while ((await connection.getSlot(commitment)) <= extended) await new Promise((later) => setTimeout(later, 20));
const { value: lookupTable } = await connection.getAddressLookupTable(table);
const looked = await landV0(addresses.map((key) => pay(key, 2_000_000)), [lookupTable]);
const shown = await connection.getTransaction(looked, { commitment, maxSupportedTransactionVersion: 0 });
const parsed = await connection.getParsedTransaction(looked, { commitment, maxSupportedTransactionVersion: 0 });
const tooNew = await connection.getTransaction(looked, { commitment }).catch((error) => error);
found.lookupTable = {
  version: shown.version, loaded: shown.meta.loadedAddresses.writable.length,
  static: shown.transaction.message.staticAccountKeys.length, addresses: lookupTable.state.addresses.length,
  parsed: parsed.transaction.message.accountKeys.filter((key) => key.source === 'lookupTable').length,
  balances: await Promise.all(addresses.map((key) => connection.getBalance(key))), tooNew: tooNew.message,
};

// v1: this library cannot build or read one; what it is told, it can say.
const v1 = await connection.getTransaction(V1_SIGNATURE, { commitment, maxSupportedTransactionVersion: 0 })
  .catch((error) => error);
found.v1 = { hidden: v1.message, status: (await connection.getSignatureStatus(V1_SIGNATURE)).value.err };

// Token: mint, associated accounts, supply, transfer.
const mint = await createMint(connection, payer, payer.publicKey, null, 6, Keypair.generate(), { commitment });
const owner = Keypair.generate().publicKey;
const source = await getOrCreateAssociatedTokenAccount(connection, payer, mint, payer.publicKey, false, commitment);
const destination = await getOrCreateAssociatedTokenAccount(connection, payer, mint, owner, false, commitment);
await mintTo(connection, payer, mint, source.address, payer, 5_000_000n, [], { commitment });
await transferChecked(
  connection, payer, source.address, mint, destination.address, payer, 1_250_000n, 6, [], { commitment },
);
found.token = {
  source: Number((await getAccount(connection, source.address, commitment)).amount),
  destination: (await connection.getTokenAccountBalance(destination.address, commitment)).value.uiAmountString,
  supply: Number((await getMint(connection, mint, commitment)).supply),
};

// A failing send says why.
const refused = await sendAndConfirmTransaction(
  connection, new Transaction().add(pay(watched, 100 * LAMPORTS_PER_SOL)), [payer],
).catch((error) => error);
found.refused = { name: refused.constructor.name, logs: refused.logs };

console.log(JSON.stringify(found));
process.exit(0);
