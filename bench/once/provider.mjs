// A provider that knows what it was asked to do: each execution has a request id and a nonce in its text, is counted, and
// is paid for whether or not anybody is there to take it. It runs in a thread of its own.
//   workerData: { seed, least, most (ms), refuse, limit, reset, cut (shares), gauge (of those under way) }
//   "all" → { executions: [{ id, job, nonce, input, cached, output, reasoning, stream, finished, sent, cut }], refused: { 503, 429, reset } }
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";
import { random } from "./luck.mjs";

const { seed, least, most, refuse, limit, reset, cut } = workerData;
const luck = random(seed);
const gauge = new Int32Array(workerData.gauge);
const executions = [];
const refused = { 503: 0, 429: 0, reset: 0 };
const whole = (below) => Math.floor(below * luck());

const kRefusals = {
  503: { message: "The server is overloaded", type: "server_error", headers: {} },
  // On a model of its own, so that its pause holds up a share of the work, not all.
  429: { message: "Rate limit reached", type: "requests", headers: { "retry-after": "1", "retry-after-ms": "150" } },
};

function no(response, status) {
  ++refused[status];
  const { message, type, headers } = kRefusals[status];
  response.writeHead(status, { "content-type": "application/json", "x-request-id": `no_${seed}_${refused[status]}_${status}`, ...headers });
  response.end(JSON.stringify({ error: { message, type, param: null, code: null } }));
}

function begin({ user: job, model, stream = false, stream_options: options }) {
  const number = executions.length + 1;
  const nonce = Array.from({ length: 3 }, () => whole(2 ** 32).toString(16).padStart(8, "0")).join("");
  const input = 20 + whole(4_000);
  const output = 2 + whole(700);
  const one = { id: `req_${seed}_${number}`, job, model, nonce, input, cached: whole(input), output, reasoning: whole(output), stream, wantsUsage: options?.include_usage === true };
  Object.assign(one, { finished: false, sent: false, cut: luck() < cut });
  executions.push(one);
  return one;
}

const usageOf = ({ input, cached, output, reasoning }) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
});
const textOf = (one) => ["nonce ", one.nonce, ` for ${one.job}`, ` by ${one.id}`];

/// When it has been taken by the kernel to the last byte; a connection that was cut takes none.
function sent(one, response) {
  response.on("finish", () => (one.sent = !response.destroyed));
}

function unary(one, response, ms) {
  setTimeout(() => {
    // What breaks here was not answered: a provider that fails at the end of its work does not bill for it.
    if (one.cut) return response.socket?.resetAndDestroy();
    one.finished = true;
    sent(one, response);
    response.writeHead(200, { "content-type": "application/json", "x-request-id": one.id });
    response.end(
      JSON.stringify({
        id: `chatcmpl-${one.id}`,
        object: "chat.completion",
        created: 1_764_500_000,
        model: one.model,
        choices: [{ index: 0, message: { role: "assistant", content: textOf(one).join(""), refusal: null }, logprobs: null, finish_reason: "stop" }],
        usage: usageOf(one),
      }),
    );
  }, ms);
}

function streamed(one, response, ms) {
  const chunk = (choices, more = {}) => `data: ${JSON.stringify({ id: `chatcmpl-${one.id}`, object: "chat.completion.chunk", created: 1_764_500_000, model: one.model, choices, ...(one.wantsUsage ? { usage: null } : {}), ...more })}\n\n`;
  const delta = (what, reason = null) => chunk([{ index: 0, delta: what, logprobs: null, finish_reason: reason }]);
  const pieces = [delta({ role: "assistant", content: "" }), ...textOf(one).map((content) => delta({ content })), delta({}, "stop")];
  if (one.wantsUsage) pieces.push(chunk([], { usage: usageOf(one) }));
  pieces.push("data: [DONE]\n\n");
  // A third of the time until the head, then piece by piece.
  setTimeout(() => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "x-request-id": one.id });
    const step = (2 * ms) / 3 / (pieces.length - 1);
    let next = 0;
    const go = () => {
      if (one.cut && next === 3) return response.socket?.resetAndDestroy();
      const last = next === pieces.length - 1;
      if (last) {
        one.finished = true;
        sent(one, response);
        return response.end(pieces[next]);
      }
      response.write(pieces[next++]);
      setTimeout(go, step);
    };
    go();
  }, ms / 3);
}

const server = createServer({ keepAliveTimeout: 620_000 }, (request, response) => {
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (part) => (body += part));
  request.on("error", () => {});
  response.on("error", () => {});
  request.on("end", () => {
    const roll = luck();
    if (roll < refuse) return no(response, 503);
    if (roll < refuse + limit) return no(response, 429);
    if (roll < refuse + limit + reset) {
      ++refused.reset;
      return request.socket.resetAndDestroy();
    }
    const one = begin(JSON.parse(body));
    Atomics.add(gauge, 0, 1);
    response.on("close", () => Atomics.sub(gauge, 0, 1));
    const ms = least + luck() * (most - least);
    one.stream ? streamed(one, response, ms) : unary(one, response, ms);
  });
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => parentPort.postMessage({ answer: "port", value: server.address().port }));
parentPort.on("message", ({ word }) => parentPort.postMessage({ answer: word, value: { executions, refused } }));
