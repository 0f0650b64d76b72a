// A worker of the queue, in a thread of its own, with the real OpenAI SDK and its own timeout and retries.
//   workerData: { data (address), retries, seed, leave (share of streams that are left half-way) }
//   { delivery, job: { key, run, model, stream }, timeout } → { delivery, nonce | error, source, idempotency }
import { parentPort, workerData } from "node:worker_threads";
import OpenAI from "openai";
import { random } from "./luck.mjs";

for (const name of Object.keys(process.env)) {
  if (name.startsWith("OPENAI_")) delete process.env[name];
}
// SDKs differ in what they leave unhandled when a connection is reset; it is the delivery's failure, which is counted.
process.on("unhandledRejection", () => {});

const sdk = new OpenAI({ baseURL: `http://${workerData.data}/openai/v1`, apiKey: "sk-test", maxRetries: workerData.retries });
const luck = random(workerData.seed);

async function ask({ key, run, model, stream }, timeout) {
  const headers = { "Idempotency-Key": key, "Callgate-Run-Id": run, "Callgate-Tenant": "bench" };
  const body = { model, user: run, max_completion_tokens: 1_000, messages: [{ role: "user", content: `Say the nonce of ${run}` }], stream };
  const leaves = stream && luck() < workerData.leave;
  const { data, response } = await sdk.chat.completions.create(body, { headers, timeout }).withResponse();
  let text = "";
  if (stream) {
    let reason;
    for await (const chunk of data) {
      text += chunk.choices[0]?.delta?.content ?? "";
      reason ??= chunk.choices[0]?.finish_reason;
      if (leaves && text.length > 10) {
        data.controller.abort();
        throw Object.assign(new Error("the worker died"), { code: "left" });
      }
    }
    // The SDK takes a stream that just ends for whole; a worker that looks does not.
    if (reason !== "stop") throw Object.assign(new Error("the stream had no end"), { code: "no_end" });
  } else {
    text = data.choices[0].message.content;
  }
  const nonce = /^nonce ([0-9a-f]{24}) for (\S+) by (\S+)$/.exec(text);
  if (!nonce || nonce[2] !== run) throw Object.assign(new Error(`another's answer or half of one: ${text}`), { code: "garbled" });
  return { nonce: nonce[1], execution: nonce[3], idempotency: response.headers.get("callgate-idempotency") ?? "none" };
}

parentPort.on("message", async ({ delivery, job, timeout }) => {
  try {
    parentPort.postMessage({ delivery, ...(await ask(job, timeout)) });
  } catch (error) {
    const code = error.code ?? error.error?.code ?? error.cause?.code;
    const name = error.constructor?.name ?? String(error);
    parentPort.postMessage({ delivery, error: error.status ? `${error.status} ${code ?? ""}`.trim() : (code ?? name) });
  }
});
parentPort.postMessage({ ready: true });
