// helius-sdk at another base URL: the methods that the gateway has, and those that it has not. Prints one line of JSON.
import { createHelius } from 'helius-sdk';

const { BASE_URL, API_KEY, OWNER, MINT, NOBODY } = process.env;
const helius = createHelius({ apiKey: API_KEY, baseUrl: BASE_URL });

async function failure(work) {
  try {
    return `answered ${JSON.stringify(await work())}`;
  } catch (error) {
    return error.message;
  }
}

const plain = (value) => JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? one.toString() : one));
console.log(plain({
  balance: (await helius.getBalance(OWNER)).value,
  nfts: await helius.getAssetsByOwner({ ownerAddress: OWNER, page: 1 }),
  all: await helius.getAssetsByOwner({
    ownerAddress: OWNER, page: 1, limit: 50, sortBy: { sortBy: 'id', sortDirection: 'asc' },
    displayOptions: { showFungible: true, showNativeBalance: true, showGrandTotal: true, showInscription: false },
  }),
  one: await helius.getAsset({ id: MINT, options: { showFungible: true } }),
  several: await helius.getAssetBatch({ ids: [MINT, NOBODY] }),
  accounts: await helius.getTokenAccounts({ owner: OWNER, options: { showZeroBalance: false } }),
  fee: await helius.getPriorityFeeEstimate({ accountKeys: [OWNER], options: { priorityLevel: 'High' } }),
  missing: await failure(() => helius.getAsset({ id: NOBODY })),
  refused: {
    searchAssets: await failure(() => helius.searchAssets({ ownerAddress: OWNER, tokenType: 'all' })),
    getAssetProof: await failure(() => helius.getAssetProof({ id: MINT })),
    getAssetProofBatch: await failure(() => helius.getAssetProofBatch({ ids: [MINT] })),
    getAssetsByGroup: await failure(() => helius.getAssetsByGroup({ groupKey: 'collection', groupValue: MINT })),
    getSignaturesForAsset: await failure(() => helius.getSignaturesForAsset({ id: MINT })),
    getNftEditions: await failure(() => helius.getNftEditions({ mint: MINT })),
    getTransactionsForAddress: await failure(() => helius.getTransactionsForAddress([OWNER])),
    getTokenAccountsByOwnerV2: await failure(() => helius.getTokenAccountsByOwnerV2([OWNER, {}, {}])),
    holders: await failure(() => helius.getTokenAccounts({ mint: MINT })),
  },
}));
process.exit(0);
