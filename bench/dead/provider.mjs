// A provider that fails each job in the way that the job's body asks for, until it is repaired; it counts the whole
// answers that it gave, by the key in the body.
import { createServer } from "node:http";

/// What callgate makes of each way of failing.
export const kClasses = ["server_error", "overloaded", "timeout", "network", "malformed_response", "permission"];

const kErrors = {
  server_error: [500, { message: "The server had an error while processing your request", type: "server_error", param: null, code: null }],
  overloaded: [503, { message: "That model is currently overloaded with other requests", type: "server_error", param: null, code: null }],
  permission: [403, { message: "Project `proj_abc` does not have access to this model", type: "invalid_request_error", param: null, code: "model_not_found" }],
};
const kHeaders = { "content-type": "application/json" };

export class Provider {
  asked = 0;
  answered = 0;
  answers = new Map();  // By key.
  #broken = true;
  #open = 0;

  static async start(luck) {
    const one = new Provider();
    one.server = createServer({ keepAliveTimeout: 620_000 }, (ask, response) => {
      let body = "";
      ask.setEncoding("utf8");
      ask.on("data", (part) => (body += part));
      ask.on("error", () => {});
      response.on("error", () => {});
      ask.on("end", () => one.#take(JSON.parse(body), response, luck));
    });
    await new Promise((resolve) => one.server.listen({ port: 0, host: "127.0.0.1", backlog: 4_096 }, resolve));
    one.url = `http://127.0.0.1:${one.server.address().port}`;
    return one;
  }
  repair() {
    this.#broken = false;
  }
  /// Requests that it works on.
  open = () => this.#open;
  stop() {
    this.server.close();
    this.server.closeAllConnections();
  }

  #take({ user: key, model, metadata: { wanted } }, response, luck) {
    ++this.asked;
    if (this.#broken) {
      if (wanted === "timeout") return;  // Not a word, until callgate has had enough.
      if (wanted === "network") return response.socket.resetAndDestroy();
      if (wanted === "malformed_response") return response.writeHead(200, kHeaders).end('{"id": "chatcmpl-1", "choices": [');
      const [status, error] = kErrors[wanted];
      return response.writeHead(status, kHeaders).end(JSON.stringify({ error }));
    }
    ++this.#open;
    response.on("close", () => --this.#open);
    setTimeout(() => {
      if (response.destroyed) return;
      ++this.answered;
      this.answers.set(key, (this.answers.get(key) ?? 0) + 1);
      response.writeHead(200, kHeaders);
      response.end(JSON.stringify({
        id: `chatcmpl-${this.answered}`,
        object: "chat.completion",
        created: 1_764_500_000,
        model,
        choices: [{ index: 0, message: { role: "assistant", content: `done: ${key}`, refusal: null }, logprobs: null, finish_reason: "stop" }],
        usage: { prompt_tokens: 90, completion_tokens: 12, total_tokens: 102 },
      }));
    }, 5 + luck() * 15);
  }
}
