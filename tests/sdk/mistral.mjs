// Mistral's SDK, which never retries and closes its connection at the stream's last event.
import assert from "node:assert/strict";
import { Mistral } from "@mistralai/mistralai";
import { kHello } from "./common.mjs";

const kAsk = { model: "mistral-small-latest", messages: [{ role: "user", content: kHello }] };

const own = {
  async "no usage chunk that nobody asked for, and yet its count"({ sdk, world }) {
    await world.script([]);
    for await (const { data } of await sdk.chat.stream(kAsk)) assert.ok(data.choices.length > 0);
    assert.equal((await world.call()).usage.output, 2);
  },
};

export const clients = [
  {
    name: "mistral",
    upstream: "mistral",
    dialect: "mistral",
    at: "/mistral",
    direct: "",
    bases: ["/mistral/v1"],
    world: { upstreams: { mistral: "" } },
    statuses: [400, 401, 403, 404, 413, 422],
    connect: (serverURL) => new Mistral({ apiKey: "test-key", serverURL }),
    call: async (sdk, signal) => (await sdk.chat.complete(kAsk, { signal })).choices[0].message.content,
    async *parts(sdk, signal) {
      for await (const { data } of await sdk.chat.stream(kAsk, { signal })) yield data.choices[0].delta.content;
    },
    embed: async (sdk) => (await sdk.embeddings.create({ model: "mistral-embed", inputs: [kHello] })).data[0].embedding,
    obeys: true,
    idles: true,
    own,
  },
];
