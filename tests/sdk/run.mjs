// Real SDKs through a running callgate: client × scenario, as a table. Exit code 1 if any failed.
//   node tests/sdk/run.mjs [client…]     with CALLGATE_EXE and FAKE_PROVIDER_EXE in the environment
import { clients as aisdk } from "./aisdk.mjs";
import { clients as anthropic } from "./anthropic.mjs";
import { scenariosOf } from "./common.mjs";
import { clients as cohere } from "./cohere.mjs";
import { clients as curl } from "./curl.mjs";
import { clients as genai } from "./genai.mjs";
import { clients as groq } from "./groq.mjs";
import { clients as langchain } from "./langchain.mjs";
import { clients as mistral } from "./mistral.mjs";
import { clients as openai } from "./openai.mjs";
import { clients as python, missing } from "./python.mjs";
import { checkReadme, has as hasExample, runExamples } from "./readme.mjs";
import { later, rows } from "./rows.mjs";
import { start, within } from "./world.mjs";

process.on("SIGTERM", () => process.exit(143));

const kScenarioMs = 60_000;
// A model that is told to wait for an hour is left alone for that long.
const kLast = "429 with an hour to wait comes back at once";
// Most of the time is waiting; more at once would make the abort's milliseconds a matter of luck.
const kWorlds = 3;

// A developer's own keys, base URLs and switches must not decide here.
for (const name of Object.keys(process.env)) {
  if (/^(OPENAI|ANTHROPIC|GOOGLE|GEMINI|GROQ|MISTRAL|CO|COHERE|LANGCHAIN|LANGSMITH|AI_SDK)_/.test(name)) delete process.env[name];
}
// It only warns, about nothing that a test could mend.
globalThis.AI_SDK_LOG_WARNINGS = false;

const all = [...(missing ? [] : python), ...openai, ...anthropic, ...genai, ...aisdk, ...groq, ...cohere, ...mistral, ...langchain, ...curl];
const wanted = process.argv.slice(2);
const clients = wanted.length > 0 ? all.filter(({ name }) => wanted.includes(name)) : all;

const cells = new Map();
const failures = [];
const cell = (row, name) => cells.get(`${row}\n${name}`);
function put(row, name, what, error) {
  if (!rows.includes(row)) throw new Error(`rows.mjs does not name "${row}"`);
  cells.set(`${row}\n${name}`, what);
  if (error) failures.push({ row, name, error });
}
for (const { row, clients: waiting } of later) for (const name of waiting) put(row, name, "later");

async function play(client) {
  let began = Date.now();
  const tell = (row, error) => {
    put(row, client.name, error ? "FAILED" : "ok", error);
    if (error) console.log(`FAILED  ${client.name}: ${row}`);
    if (process.env.SDK_TIMES) console.log(`${Date.now() - began} ms  ${client.name}: ${row}`);
    began = Date.now();
  };
  const attempt = async (row, scenario) => {
    try {
      await within(kScenarioMs, row, scenario());
      tell(row);
    } catch (error) {
      tell(row, error);
    }
  };
  try {
    const world = await start(client.world);
    const scenarios = Object.entries(client.play ? {} : client.scenarios ?? scenariosOf(client));
    const play = ([row, scenario]) =>
      attempt(row, async () => scenario({ client, world, sdk: client.connect(world.base + client.at) }));
    for (const one of scenarios.filter(([row]) => row !== kLast)) await play(one);
    if (hasExample(client.name)) await attempt("README example", () => runExamples(client.name, world));
    if (client.play) await client.play(world, tell);
    for (const one of scenarios.filter(([row]) => row === kLast)) await play(one);
    await world.end();
  } catch (error) {
    failures.push({ row: "its world", name: client.name, error });
    console.log(`FAILED  ${client.name}: its world`);
  }
}

checkReadme();

const queue = [...clients].reverse();
await Promise.all(
  Array.from({ length: kWorlds }, async () => {
    for (let client = queue.pop(); client; client = queue.pop()) await play(client);
  }),
);

for (const { row, name, error } of failures) console.log(`\n${name}: ${row}\n${error.stack}`);

// The matrix: names of clients over their columns, word by word.
const inOrder = [...clients.filter(({ play }) => !play), ...clients.filter(({ play }) => play)];
const columns = [...new Set([...inOrder.map(({ name }) => name), ...(wanted.length > 0 ? [] : later.flatMap((entry) => entry.clients))])];
const numbered = rows.map((row, i) => `${String(i + 1).padStart(2)} ${row}`);
const margin = Math.max(...numbered.map((row) => row.length)) + 2;
const words = columns.map((name) => name.split(" "));
const widths = words.map((list) => 2 + Math.max("FAILED".length, ...list.map((word) => word.length)));
console.log();
for (let line = 0; line < Math.max(...words.map((list) => list.length)); ++line) {
  console.log((" ".repeat(margin) + words.map((list, i) => (list[line] ?? "").padEnd(widths[i])).join("")).trimEnd());
}
for (const [i, row] of rows.entries()) {
  console.log((numbered[i].padEnd(margin) + columns.map((name, column) => (cell(row, name) ?? "-").padEnd(widths[column])).join("")).trimEnd());
}
console.log();
for (const { row, clients: waiting, waits_for } of later) console.log(`later: ${row} (${waiting.join(", ")}) waits for ${waits_for}`);
if (missing) for (const { name } of python) console.log(`skipped: ${name} (${missing})`);

const count = (what) => [...cells.values()].filter((value) => value === what).length;
console.log(`${count("ok")} passed, ${failures.length} failed, ${count("later")} wait for a later part`);
process.exit(failures.length > 0 ? 1 : 0);
