// Downloads one file of a dataset. Arguments: the hub, the package, ORG/NAME, path, where to put it.
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [hubUrl, library, name, path, out] = process.argv.slice(2);
const hub = await import(pathToFileURL(library));
const blob = await hub.downloadFile({ hubUrl, repo: { type: "dataset", name }, path });
writeFileSync(out, Buffer.from(await blob.arrayBuffer()));
