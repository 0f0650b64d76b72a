// Cohere's SDK, which retries whatever it is told and closes its connection at the stream's last event.
import assert from "node:assert/strict";
import { CohereClientV2, CohereError } from "cohere-ai";
import { common, failure, kHello, suiting } from "./common.mjs";

const kAsk = { model: "command-a-03-2025", messages: [{ role: "user", content: kHello }] };

export const clients = [
  {
    name: "cohere",
    upstream: "cohere",
    dialect: "cohere",
    at: "/cohere",
    direct: "",
    bases: ["/cohere/v2", ""],
    world: { upstreams: { cohere: "" } },
    statuses: [400, 401, 403, 404, 413, 422],
    connect: (baseUrl) => new CohereClientV2({ token: "test-key", baseUrl }),
    async once(baseUrl) {
      return (await this.connect(baseUrl).chat(kAsk, { maxRetries: 0 })).message.content[0].text;
    },
    call: async (sdk, abortSignal) => (await sdk.chat(kAsk, { abortSignal })).message.content[0].text,
    async *parts(sdk, abortSignal) {
      for await (const event of await sdk.chatStream(kAsk, { abortSignal })) {
        if (event.type === "content-delta") yield event.delta.message.content.text;
      }
    },
    expect: (error) => assert.ok(error instanceof CohereError, String(error)),
    scenarios: {
      ...suiting({ obeys: false }),
      async "429 with an hour to wait comes back at once"({ client, sdk, world }) {
        // It sleeps out up to 60 s of any Retry-After and cannot be told not to retry; so it is told a short one.
        await world.script([{ answer: { status: 429, headers: [["retry-after", "3600"]] } }]);
        const before = Date.now();
        const error = await failure(client.call(sdk));
        assert.equal(error.statusCode, 429, String(error));
        assert.ok(Date.now() - before < 8_000, `after ${Date.now() - before} ms`);
      },
      "calls with pauses meet no stale connection": common["calls with pauses meet no stale connection"],
    },
  },
];
