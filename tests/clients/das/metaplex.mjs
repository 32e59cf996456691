// @metaplex-foundation/digital-asset-standard-api with umi, at one URL: the methods that the gateway has, and those that
// it has not. Prints one line of JSON.
import { createUmi } from '@metaplex-foundation/umi-bundle-defaults';
import { publicKey } from '@metaplex-foundation/umi';
import { dasApi } from '@metaplex-foundation/digital-asset-standard-api';

const { RPC_URL, OWNER, HOLDER, MINT, NOBODY } = process.env;
const { rpc } = createUmi(RPC_URL).use(dasApi());
const owner = publicKey(OWNER), holder = publicKey(HOLDER), mint = publicKey(MINT), nobody = publicKey(NOBODY);

async function failure(work) {
  try {
    return `answered ${JSON.stringify(await work())}`;
  } catch (error) {
    return error.message;
  }
}

const walked = [];
let cursor;
do {
  const page = await rpc.getAssetsByOwner({ owner, limit: 1, cursor, displayOptions: { showFungible: true } });
  walked.push(...page.items.map((item) => item.id));
  cursor = page.cursor;
} while (cursor);

console.log(JSON.stringify({
  nfts: await rpc.getAssetsByOwner({ owner, limit: 10, page: 1 }),
  all: await rpc.getAssetsByOwner({ owner, displayOptions: { showFungible: true, showNativeBalance: true } }),
  walked,
  coins: await rpc.getAssetsByOwner({ owner: holder, displayOptions: { showFungible: true } }),
  one: await rpc.getAsset(mint),
  several: await rpc.getAssets([mint, nobody]),
  missing: await failure(() => rpc.getAsset(nobody)),
  refused: {
    searchAssets: await failure(() => rpc.searchAssets({ owner })),
    getAssetsByGroup: await failure(() => rpc.getAssetsByGroup({ groupKey: 'collection', groupValue: MINT })),
    getAssetsByCreator: await failure(() => rpc.getAssetsByCreator({ creator: owner, onlyVerified: false })),
    getAssetsByAuthority: await failure(() => rpc.getAssetsByAuthority({ authority: owner })),
    getAssetProof: await failure(() => rpc.getAssetProof(mint)),
    getAssetSignatures: await failure(() => rpc.getAssetSignatures({ assetId: mint })),
    sortBy: await failure(() => rpc.getAssetsByOwner({ owner, sortBy: { sortBy: 'created', sortDirection: 'asc' } })),
    option: await failure(() => rpc.getAssetsByOwner({ owner, displayOptions: { showCollectionMetadata: true } })),
  },
}));
