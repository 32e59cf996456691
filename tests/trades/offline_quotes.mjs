// The launch platform's own SDK without a chain: for each state, its quote for a budget and for a sale, and the
// instructions that it builds. Reads the states from the file in STATES; prints one line of JSON.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire(import.meta.url);
const {
  PUMP_SDK, getBuySolAmountFromTokenAmount, getBuyTokenAmountFromSolAmount, getSellSolAmountFromTokenAmount,
} = require('@pump-fun/pump-sdk');
const { PublicKey } = require('@solana/web3.js');
const BN = require('bn.js');

// The SDK chooses fee recipients by chance: here always the first.
Math.random = () => 0;

const states = JSON.parse(readFileSync(process.env.STATES, 'utf8'));
const account = (hex) => ({ data: Buffer.from(hex, 'hex') });
const shown = (instruction) => ({
  program: instruction.programId.toBase58(),
  data: Buffer.from(instruction.data).toString('hex'),
  accounts: instruction.keys.map(({ pubkey, isSigner, isWritable }) => (
    [pubkey.toBase58(), `${isWritable ? 'w' : 'r'}${isSigner ? 's' : ''}`]
  )),
});

async function answer(state) {
  const global = PUMP_SDK.decodeGlobal(account(state.global));
  const feeConfig = state.fee_config === null ? null : PUMP_SDK.decodeFeeConfig(account(state.fee_config));
  const bondingCurve = PUMP_SDK.decodeBondingCurve(account(state.curve));
  const mintSupply = new BN(state.mint_supply);
  const quoted = { global, feeConfig, mintSupply, bondingCurve, quoteMint: bondingCurve.quoteMint };
  const budget = new BN(state.budget);
  const tokens = getBuyTokenAmountFromSolAmount({ ...quoted, amount: budget });
  const cost = getBuySolAmountFromTokenAmount({ ...quoted, amount: tokens });
  const sold = new BN(state.tokens_sold);
  const proceeds = getSellSolAmountFromTokenAmount({ ...quoted, amount: sold });
  const shared = {
    global, bondingCurveAccountInfo: account(state.curve), bondingCurve, mint: new PublicKey(state.mint),
    user: new PublicKey(state.user), slippage: state.slippage_bps / 100, tokenProgram: new PublicKey(state.token_program),
  };
  const isV2 = !bondingCurve.quoteMint.equals(PublicKey.default);
  const buy = { ...shared, associatedUserAccountInfo: null, amount: tokens };
  const sell = { ...shared, amount: sold };
  const bought = isV2
    ? await PUMP_SDK.buyV2Instructions({ ...buy, quoteAmount: budget })
    : await PUMP_SDK.buyInstructions({ ...buy, solAmount: budget });
  const mayhemMode = bondingCurve.isMayhemMode;
  const cashback = bondingCurve.isCashbackCoin;
  const given = isV2
    ? await PUMP_SDK.sellV2Instructions({ ...sell, quoteAmount: proceeds })
    : await PUMP_SDK.sellInstructions({ ...sell, solAmount: proceeds, mayhemMode, cashback });
  return {
    tokens: tokens.toString(), cost: cost.toString(), proceeds: proceeds.toString(),
    buy: bought.map(shown), sell: given.map(shown),
  };
}

const answers = [];
for (const state of states) answers.push(await answer(state));
console.log(JSON.stringify(answers));
