// @solana/kit and its token program client, as their registry ships them, straight at a devnode. Prints one line of
// JSON; any failure is an exit code. Everything is sent and confirmed over WebSocket by the library's own means.
import {
  AccountRole, address, airdropFactory, appendTransactionMessageInstructions, assertIsSendableTransaction,
  compressTransactionMessageUsingAddressLookupTables, createSolanaRpc, createSolanaRpcSubscriptions,
  createTransactionMessage, generateKeyPairSigner, getAddressEncoder, getBase64EncodedWireTransaction,
  getProgramDerivedAddress, getSignatureFromTransaction, getU64Encoder, lamports, pipe,
  sendAndConfirmTransactionFactory, setTransactionMessageConfig, setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash, signTransactionMessageWithSigners,
} from '@solana/kit';
import { getCreateAccountInstruction, getTransferSolInstruction } from '@solana-program/system';
import {
  fetchToken, findAssociatedTokenPda, getCreateAssociatedTokenIdempotentInstruction, getInitializeMint2Instruction,
  getMintSize, getMintToInstruction, getTransferCheckedInstruction, TOKEN_PROGRAM_ADDRESS,
} from '@solana-program/token';

const { RPC_URL, WS_URL } = process.env;
const LOOKUP_TABLES = address('AddressLookupTab1e1111111111111111111111111');
const SYSTEM = address('11111111111111111111111111111111');
const commitment = 'confirmed';
const rpc = createSolanaRpc(RPC_URL);
const rpcSubscriptions = createSolanaRpcSubscriptions(WS_URL);
const sendAndConfirm = sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions });
const found = {};

const payer = await generateKeyPairSigner();
await airdropFactory({ rpc, rpcSubscriptions })({
  commitment, lamports: lamports(10_000_000_000n), recipientAddress: payer.address,
});

async function signed(version, instructions, refine = (message) => message) {
  const { value: blockhash } = await rpc.getLatestBlockhash({ commitment }).send();
  return signTransactionMessageWithSigners(pipe(
    createTransactionMessage({ version }),
    (message) => setTransactionMessageFeePayerSigner(payer, message),
    (message) => setTransactionMessageLifetimeUsingBlockhash(blockhash, message),
    (message) => appendTransactionMessageInstructions(instructions, message),
    refine,
  ));
}

async function land(version, instructions, refine) {
  const transaction = await signed(version, instructions, refine);
  assertIsSendableTransaction(transaction);
  await sendAndConfirm(transaction, { commitment });
  return getSignatureFromTransaction(transaction);
}

const pay = (destination, amount) =>
  getTransferSolInstruction({ source: payer, destination, amount: lamports(BigInt(amount)) });
const balance = async (key) => Number((await rpc.getBalance(key, { commitment }).send()).value);

// Subscriptions are open before anything happens.
const abort = new AbortController();
const watched = (await generateKeyPairSigner()).address;
const options = { abortSignal: abort.signal };
const [accounts, logs, slots] = await Promise.all([
  rpcSubscriptions.accountNotifications(watched, { commitment, encoding: 'base64' }).subscribe(options),
  rpcSubscriptions.logsNotifications({ mentions: [watched] }, { commitment }).subscribe(options),
  rpcSubscriptions.slotNotifications().subscribe(options),
]);
const next = async (notifications) => (await notifications[Symbol.asyncIterator]().next()).value;
const heard = Promise.all([next(accounts), next(logs), next(slots)]);
const paid = await land('legacy', [pay(watched, 2_000_000)]);
const [account, log, slot] = await heard;
abort.abort();
found.subscriptions = {
  lamports: Number(account.value.lamports), logsOfPayment: log.value.signature === paid, err: log.value.err,
  slotAboveParent: slot.slot > slot.parent && slot.parent >= slot.root,
};

// v0: make a table, fill it, wait until it may be used, use it.
const recentSlot = await rpc.getSlot({ commitment: 'finalized' }).send();
const slotBytes = getU64Encoder().encode(recentSlot);
const [table, bump] = await getProgramDerivedAddress({
  programAddress: LOOKUP_TABLES, seeds: [getAddressEncoder().encode(payer.address), slotBytes],
});
const keys = await Promise.all(Array.from({ length: 3 }, async () => (await generateKeyPairSigner()).address));
const signer = { address: payer.address, role: AccountRole.WRITABLE_SIGNER, signer: payer };
const tableAccounts = [
  { address: table, role: AccountRole.WRITABLE },
  { address: payer.address, role: AccountRole.READONLY_SIGNER, signer: payer },
  signer,
  { address: SYSTEM, role: AccountRole.READONLY },
];
const u32 = (number) => Uint8Array.of(number, 0, 0, 0);
const bytes = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
await land(0, [
  { programAddress: LOOKUP_TABLES, accounts: tableAccounts, data: bytes(u32(0), slotBytes, [bump]) },
  {
    programAddress: LOOKUP_TABLES, accounts: tableAccounts,
    data: bytes(u32(2), getU64Encoder().encode(3n), ...keys.map((key) => getAddressEncoder().encode(key))),
  },
]);
const extended = await rpc.getSlot({ commitment }).send();
while ((await rpc.getSlot({ commitment }).send()) <= extended) await new Promise((later) => setTimeout(later, 20));
const looked = await land(0, keys.map((key) => pay(key, 2_000_000)), (message) =>
  compressTransactionMessageUsingAddressLookupTables(message, { [table]: keys }));
const shown = await rpc.getTransaction(looked, { commitment, maxSupportedTransactionVersion: 0 }).send();
const tableInfo = await rpc.getAccountInfo(table, { commitment, encoding: 'jsonParsed' }).send();
found.lookupTable = {
  version: shown.version, loaded: shown.meta.loadedAddresses.writable.length,
  static: shown.transaction.message.accountKeys.length, parsed: tableInfo.value.data.parsed.info.addresses.length,
  balances: await Promise.all(keys.map(balance)),
};

// v1: limits in the header, no compute budget instructions.
const receiver = (await generateKeyPairSigner()).address;
const config = { computeUnitLimit: 5_000, loadedAccountsDataSizeLimit: 100_000, priorityFeeLamports: 777n };
const first = await land(1, [pay(receiver, 3_000_000)], (message) => setTransactionMessageConfig(config, message));
const v1 = await rpc.getTransaction(first, { commitment, maxSupportedTransactionVersion: 1 }).send();
const hidden = await rpc.getTransaction(first, { commitment, maxSupportedTransactionVersion: 0 }).send()
  .catch((error) => error);
const wire = await signed(1, [pay(receiver, 3_000_000)]);
const simulated = await rpc
  .simulateTransaction(getBase64EncodedWireTransaction(wire), { commitment, encoding: 'base64' }).send();
found.v1 = {
  version: v1.version, fee: Number(v1.meta.fee), balance: await balance(receiver),
  config: v1.transaction.message.transactionConfig, hidden: hidden.message, withoutLimits: simulated.value.err,
};

// Token: mint, associated accounts, supply, transfer.
const mint = await generateKeyPairSigner();
const owner = (await generateKeyPairSigner()).address;
const space = BigInt(getMintSize());
const rent = await rpc.getMinimumBalanceForRentExemption(space).send();
const tokens = async (holder) =>
  (await findAssociatedTokenPda({ owner: holder, mint: mint.address, tokenProgram: TOKEN_PROGRAM_ADDRESS }))[0];
const [source, destination] = [await tokens(payer.address), await tokens(owner)];
const open = (holder, ata) =>
  getCreateAssociatedTokenIdempotentInstruction({ payer, ata, owner: holder, mint: mint.address });
await land(0, [
  getCreateAccountInstruction({
    payer, newAccount: mint, lamports: rent, space, programAddress: TOKEN_PROGRAM_ADDRESS,
  }),
  getInitializeMint2Instruction({ mint: mint.address, decimals: 6, mintAuthority: payer.address }),
  open(payer.address, source),
  open(owner, destination),
  getMintToInstruction({ mint: mint.address, token: source, mintAuthority: payer, amount: 5_000_000n }),
]);
await land(0, [getTransferCheckedInstruction({
  source, mint: mint.address, destination, authority: payer, amount: 1_250_000n, decimals: 6,
})]);
const held = await rpc.getTokenAccountBalance(destination, { commitment }).send();
found.token = {
  source: Number((await fetchToken(rpc, source, { commitment })).data.amount), destination: held.value.uiAmountString,
  supply: (await rpc.getTokenSupply(mint.address, { commitment }).send()).value.amount,
};

const plain = (key, value) => (typeof value === 'bigint' ? Number(value) : value);
console.log(JSON.stringify(found, plain));
process.exit(0);
