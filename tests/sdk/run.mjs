// Real SDKs from npm through a running callgate: client × scenario, as a table. Exit code 1 if any failed.
import OpenAI6 from "openai";
import OpenAI4 from "openai4";
import { scenarios as openai } from "./openai.mjs";
import { start } from "./world.mjs";

const kScenarioMs = 60_000;

const world = await start();
const openaiClient = (OpenAI) => ({ OpenAI, client: new OpenAI({ baseURL: `${world.base}/openai/v1`, apiKey: "sk-test" }) });
const clients = [
  { name: "openai 6", scenarios: openai, ...openaiClient(OpenAI6) },
  { name: "openai 4", scenarios: openai, ...openaiClient(OpenAI4) },
];

let passed = 0;
const failures = [];
for (const { name, scenarios, ...client } of clients) {
  for (const [scenario, play] of Object.entries(scenarios)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not within ${kScenarioMs} ms`)), kScenarioMs);
    });
    try {
      await Promise.race([play({ ...client, world }), late]);
      ++passed;
      console.log(`ok      ${name}  ${scenario}`);
    } catch (error) {
      failures.push({ name, scenario, error });
      console.log(`FAILED  ${name}  ${scenario}`);
    } finally {
      clearTimeout(timer);
    }
  }
}
for (const { name, scenario, error } of failures) console.log(`\n${name}, ${scenario}:\n${error.stack}`);
try {
  await world.end();
} catch (error) {
  failures.push({ error });
  console.log(error.stack);
}
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length > 0 ? 1 : 0);
