// A provider that serves as long as it is told, call by call: the request's `user` is "MS INPUT OUTPUT STATUS".
//   "counts" → { served, failed, most (at once) }
import { createServer } from "node:http";
import { parentPort } from "node:worker_threads";

const kErrors = {
  400: { message: "Unsupported value", type: "invalid_request_error" },
  500: { message: "The server had an error while processing your request", type: "server_error" },
  503: { message: "The server is overloaded", type: "server_error" },
};
let served = 0;
let failed = 0;
let open = 0;
let most = 0;

function answer(response, [ms, input, output, status]) {
  --open;
  if (status !== 200) {
    ++failed;
    response.writeHead(status, { "content-type": "application/json" });
    const error = kErrors[status];
    return response.end(JSON.stringify({ error: { ...error, param: null, code: null } }));
  }
  ++served;
  response.writeHead(200, { "content-type": "application/json" });
  response.end(
    JSON.stringify({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_764_500_000,
      model: "gpt-5-mini",
      choices: [{ index: 0, message: { role: "assistant", content: `after ${ms} ms`, refusal: null }, logprobs: null, finish_reason: "stop" }],
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    }),
  );
}

const server = createServer({ keepAliveTimeout: 620_000 }, (request, response) => {
  let body = "";
  request.setEncoding("latin1");
  request.on("data", (part) => (body += part));
  request.on("error", () => {});
  request.on("end", () => {
    most = Math.max(most, ++open);
    const job = JSON.parse(body).user.split(" ").map(Number);
    // A refusal comes at once; what breaks, breaks after all the work.
    [200, 500].includes(job[3]) ? setTimeout(answer, job[0], response, job) : answer(response, job);
  });
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => parentPort.postMessage({ answer: "port", value: server.address().port }));
parentPort.on("message", ({ word }) => parentPort.postMessage({ answer: word, value: { served, failed, most } }));
