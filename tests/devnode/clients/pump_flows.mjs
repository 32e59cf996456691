// The launch platform's own SDK at a chain whose program is imitated: its accounts decode, what it builds lands, and
// its quotes are what then happens. Prints one line of JSON.
// The SDK's ES modules do not load in Node.js (a dependency names exports that its CommonJS has not): so all is required.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const pumpSdk = require('@pump-fun/pump-sdk');
const {
  createAssociatedTokenAccountIdempotentInstruction, getAssociatedTokenAddressSync, TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
} = require('@solana/spl-token');
const { Connection, Keypair, PublicKey, Transaction } = require('@solana/web3.js');
const BN = require('bn.js');

const { RPC_URL, WS_URL, SECRET_KEY, USDC_MINT } = process.env;
const {
  OnlinePumpSdk, PUMP_SDK, bondingCurvePda, getBuySolAmountFromTokenAmount, getBuyTokenAmountFromSolAmount,
  getSellSolAmountFromTokenAmount, newBondingCurve,
} = pumpSdk;
const connection = new Connection(RPC_URL, { commitment: 'confirmed', wsEndpoint: WS_URL });
const online = new OnlinePumpSdk(connection);
const user = Keypair.fromSecretKey(Uint8Array.from(JSON.parse(SECRET_KEY)));
const global = await online.fetchGlobal();
const feeConfig = await online.fetchFeeConfig();
const quoteControl = await online.fetchQuoteControl();
const usdc = new PublicKey(USDC_MINT);
const checks = {};

// Not sendAndConfirmTransaction: it keeps a blockhash for 30 s, longer than one lives where slots are short.
async function land(instructions, signers = []) {
  const latest = await connection.getLatestBlockhash('confirmed');
  const transaction = new Transaction({ feePayer: user.publicKey, ...latest }).add(...instructions);
  transaction.sign(user, ...signers);
  const signature = await connection.sendRawTransaction(transaction.serialize());
  const { value } = await connection.confirmTransaction({ signature, ...latest }, 'confirmed');
  if (value.err) throw new Error(JSON.stringify(value.err));
  return signature;
}

// What a transaction moved: tokens of the mint to the user, and quote units from the user without the network's fee.
async function moved(signature, mint, quoteMint) {
  const { meta, transaction } = await connection.getTransaction(signature, {
    commitment: 'confirmed', maxSupportedTransactionVersion: 0,
  });
  const of = (balances, which) => new BN(
    balances.find((one) => one.owner === user.publicKey.toBase58() && one.mint === which)?.uiTokenAmount.amount ?? '0',
  );
  const change = (which) => of(meta.postTokenBalances, which).sub(of(meta.preTokenBalances, which));
  const paid = quoteMint ? change(quoteMint.toBase58()) : new BN(meta.postBalances[0] - meta.preBalances[0] + meta.fee);
  return { tokens: change(mint.toBase58()), paid, accounts: transaction.message.accountKeys.length, logs: meta.logMessages };
}

async function coin({ mayhem = false, quoteMint = undefined, classic = false }) {
  const mint = Keypair.generate();
  const asked = {
    mint: mint.publicKey, name: 'SDK Coin', symbol: 'SDK', uri: 'https://example.com/sdk', creator: user.publicKey,
    user: user.publicKey,
  };
  const made = classic
    ? await PUMP_SDK.createInstruction(asked)
    : await PUMP_SDK.createV2Instruction({ ...asked, mayhemMode: mayhem, quoteMint });
  await land([made], [mint]);
  const curve = await online.fetchBondingCurve(mint.publicKey);
  const fresh = newBondingCurve(global, quoteMint, quoteControl);
  const equal = ['virtualTokenReserves', 'virtualQuoteReserves', 'realTokenReserves', 'realQuoteReserves', 'tokenTotalSupply']
    .every((name) => curve[name].eq(fresh[name]));
  return { mint: mint.publicKey, curve, asExpected: equal && curve.creator.equals(user.publicKey) && curve.isMayhemMode === mayhem };
}

async function supplyOf(mint) {
  return new BN((await connection.getTokenSupply(mint, 'confirmed')).value.amount);
}

// Buy for a budget, then sell half: what the SDK quotes is what moves, to the unit.
async function trade(name, { v2 = false, tokenProgram = TOKEN_2022_PROGRAM_ID, budget, ...asked }) {
  const { mint, curve, asExpected } = await coin(asked);
  const quoteMint = curve.quoteMint;
  const state = await online.fetchBuyState(mint, user.publicKey, tokenProgram);
  const quoted = { global, feeConfig, mintSupply: await supplyOf(mint), bondingCurve: state.bondingCurve, quoteMint };
  const tokens = getBuyTokenAmountFromSolAmount({ ...quoted, amount: budget });
  const cost = getBuySolAmountFromTokenAmount({ ...quoted, amount: tokens });
  const shared = { global, ...state, mint, user: user.publicKey, slippage: 1, tokenProgram };
  // A first purchase also pays rents that are not the trade's: they are made here, before it.
  const account = getAssociatedTokenAddressSync(mint, user.publicKey, true, tokenProgram);
  await land([createAssociatedTokenAccountIdempotentInstruction(user.publicKey, account, user.publicKey, mint, tokenProgram)]);
  const build = v2
    ? (extra) => PUMP_SDK.buyV2Instructions({ ...shared, ...extra, associatedUserAccountInfo: {} })
    : (extra) => PUMP_SDK.buyInstructions({ ...shared, ...extra, associatedUserAccountInfo: {} });
  await land(await build({ amount: new BN(1_000_000), solAmount: new BN(1_000_000), quoteAmount: new BN(1_000_000) }));
  const again = await online.fetchBuyState(mint, user.publicKey, tokenProgram);
  const requoted = { ...quoted, mintSupply: await supplyOf(mint), bondingCurve: again.bondingCurve };
  const amount = getBuyTokenAmountFromSolAmount({ ...requoted, amount: budget });
  const price = getBuySolAmountFromTokenAmount({ ...requoted, amount });
  const bought = await moved(
    await land(await build({ amount, solAmount: price, quoteAmount: price })), mint, asked.quoteMint,
  );
  const sellState = await online.fetchSellState(mint, user.publicKey, tokenProgram);
  const half = amount.divn(2);
  const proceeds = getSellSolAmountFromTokenAmount({ ...requoted, bondingCurve: sellState.bondingCurve, amount: half });
  const sale = { global, ...sellState, mint, user: user.publicKey, amount: half, slippage: 0, tokenProgram };
  const sold = await moved(
    await land(v2
      ? await PUMP_SDK.sellV2Instructions({ ...sale, quoteAmount: proceeds })
      : await PUMP_SDK.sellInstructions({ ...sale, solAmount: proceeds, mayhemMode: asked.mayhem ?? false })),
    mint, asked.quoteMint,
  );
  const info = await connection.getAccountInfo(bondingCurvePda(mint), 'confirmed');
  checks[name] = {
    asExpected, curveBytes: info.data.length, quote: quoteMint.toBase58(),
    firstQuote: [tokens.toString(), cost.toString()],
    bought: [bought.tokens.toString(), bought.paid.neg().toString()], wantedBuy: [amount.toString(), price.toString()],
    sold: [sold.tokens.neg().toString(), sold.paid.toString()], wantedSale: [half.toString(), proceeds.toString()],
    said: bought.logs.some((line) => line.includes('imitated')),
  };
}

const budget = new BN(1_000_000_000);
await trade('classic', { classic: true, tokenProgram: TOKEN_PROGRAM_ID, budget });
await trade('createV2', { budget });
await trade('createV2 by v2', { v2: true, budget });
await trade('mayhem', { mayhem: true, budget });
await trade('usdc', { v2: true, quoteMint: usdc, budget: new BN(10_000_000) });

// A launch and its first buy in one transaction, as the SDK's own helper builds it.
const mint = Keypair.generate();
const solAmount = new BN(100_000_000);
const amount = getBuyTokenAmountFromSolAmount({
  global, feeConfig, mintSupply: null, bondingCurve: null, amount: solAmount, quoteMint: PublicKey.default,
});
const together = await PUMP_SDK.createV2AndBuyInstructions({
  global, mint: mint.publicKey, name: 'T', symbol: 'T', uri: '', creator: user.publicKey, user: user.publicKey, amount,
  solAmount, mayhemMode: false,
});
const signature = await land(together, [mint]);
checks.together = (await moved(signature, mint.publicKey)).tokens.toString() === amount.toString();
console.log(JSON.stringify(checks));
process.exit(0);
