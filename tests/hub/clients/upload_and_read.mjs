// What @huggingface/hub does with a hub: uploads, lists, reads back, opens a pull request, searches.
// Arguments: the hub, then the file of the package to import.
import { pathToFileURL } from "node:url";

const [hubUrl, library] = process.argv.slice(2);
const hub = await import(pathToFileURL(library));
const common = { hubUrl, accessToken: "hf_of_the_test", useXet: false };
const repo = { type: "dataset", name: "acme/js" };
const small = new Blob(["---\nlicense: mit\ntags: [costhub]\n---\n# From JavaScript\n"]);
const large = new Blob(["PAR1".repeat(20000)]);

await hub.createRepo({ ...common, repo });
await hub.uploadFiles({
  ...common,
  repo,
  files: [
    { path: "README.md", content: small },
    { path: "measurements/cpu0/train-00000-of-00001.parquet", content: large },
  ],
});
const listed = [];
for await (const entry of hub.listFiles({ ...common, repo, recursive: true })) {
  if (entry.type === "file") listed.push([entry.path, entry.size]);
}
const blob = await hub.downloadFile({ ...common, repo, path: listed.find(([path]) => path.endsWith("parquet"))[0] });
const missing = await hub.downloadFile({ ...common, repo, path: "no.json" });
const offered = await hub.commit({
  ...common,
  repo,
  title: "more",
  isPullRequest: true,
  operations: [{ operation: "addOrUpdate", path: "more.json", content: new Blob(["{}"]) }],
});
const found = [];
for await (const entry of hub.listDatasets({ ...common, search: { tags: ["costhub"] } })) found.push(entry.name);

console.log(
  JSON.stringify({
    listed: listed.sort(),
    same: (await blob.text()) === (await large.text()),
    missing,
    pullRequest: offered.pullRequestUrl,
    found,
    exists: [await hub.repoExists({ ...common, repo }), await hub.repoExists({ ...common, repo: "acme/no" })],
  }),
);
