// A provider that fails as it is told, one address per path to it, so that requests are counted exactly. It runs in a
// thread of its own: a busy client must not look like a slow provider.
//   workerData: { paths, kind, share, outages, answerMs, seed }
//   "counts" → { path: { requests, failed } }
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

const { paths, kind, share, outages, answerMs, seed } = workerData;
const kCycleMs = 20_000;
// A provider is well when the first jobs come.
const kWellMs = 5_000;
let began = Date.now();

/// mulberry32: the same seed gives every path the same luck, request by request.
function random(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const isDown = () => share >= 1 || (Date.now() - began + kCycleMs - kWellMs) % kCycleMs < share * kCycleMs;

const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
const answers = {
  "/v1/chat/completions": {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_764_500_000,
    model: "gpt-5-mini",
    choices: [{ index: 0, message: { role: "assistant", content: "hello", refusal: null }, logprobs: null, finish_reason: "stop" }],
    usage,
  },
  "/v1/responses": {
    id: "resp_1",
    object: "response",
    created_at: 1_764_500_000,
    status: "completed",
    error: null,
    incomplete_details: null,
    model: "gpt-5-mini",
    output: [{ type: "message", id: "msg_1", status: "completed", role: "assistant", content: [{ type: "output_text", text: "hello", annotations: [] }] }],
    usage: { input_tokens: 9, input_tokens_details: { cached_tokens: 0 }, output_tokens: 2, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 11 },
  },
  "/v2/chat": {
    id: "c-1",
    finish_reason: "COMPLETE",
    message: { role: "assistant", content: [{ type: "text", text: "hello" }] },
    usage: { billed_units: { input_tokens: 9, output_tokens: 2 }, tokens: { input_tokens: 9, output_tokens: 2 } },
  },
};
const refusals = {
  503: { status: 503, message: "The server is overloaded", type: "server_error", headers: {} },
  429: { status: 429, message: "Rate limit reached", type: "requests", headers: { "retry-after": "1" } },
};

function send(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

function fail(request, response) {
  if (kind === "reset") return request.socket.resetAndDestroy();
  const { status, message, type, headers } = refusals[kind];
  const body = request.url.startsWith("/v2") ? { message } : { error: { message, type, param: null, code: null } };
  send(response, status, body, headers);
}

const counts = {};
const ports = {};
for (const path of paths) {
  const luck = random(seed);
  const count = (counts[path] = { requests: 0, failed: 0 });
  const server = createServer({ keepAliveTimeout: 620_000 }, (request, response) => {
    // A request counts when it is whole, as the provider's bill does.
    request.resume().on("end", () => {
      ++count.requests;
      if (outages ? isDown() : luck() < share) {
        ++count.failed;
        return fail(request, response);
      }
      const answer = answers[request.url];
      if (!answer) return send(response, 404, { error: { message: request.url } });
      setTimeout(() => send(response, 200, answer), answerMs);
    });
    request.on("error", () => {});
  });
  await new Promise((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, resolve));
  ports[path] = server.address().port;
}

parentPort.on("message", (word) => {
  if (word === "begin") began = Date.now();
  if (word === "counts") parentPort.postMessage({ counts });
});
parentPort.postMessage({ ports });
