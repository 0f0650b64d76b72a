// Groq's SDK brings the path /openai/v1 by itself.
import assert from "node:assert/strict";
import Groq from "groq-sdk";
import { kHello, paidOnce } from "./common.mjs";

const kAsk = { model: "llama-3.3-70b-versatile", messages: [{ role: "user", content: kHello }] };

const own = {
  async "a keyed call is paid once, whatever the client repeats"({ sdk, world }) {
    await paidOnce(world, async (options) => (await sdk.chat.completions.create(kAsk, options)).choices[0].message.content);
  },
  async "no usage chunk that nobody asked for, and yet its count"({ sdk, world }) {
    await world.script([]);
    for await (const part of await sdk.chat.completions.create({ ...kAsk, stream: true })) assert.ok(part.choices.length > 0);
    assert.equal((await world.call()).usage.output, 2);
  },
};

export const clients = [
  {
    name: "groq",
    upstream: "groq",
    dialect: "openai",
    at: "/groq",
    direct: "",
    bases: [],
    world: { upstreams: { groq: "/openai" } },
    environment: { name: "GROQ_BASE_URL", at: ["/groq"] },
    statuses: [400, 401, 403, 404, 413, 422],
    usageIsAskedFor: true,
    connect: (baseURL) => new Groq({ baseURL, apiKey: "gsk-test" }),
    call: async (sdk, signal) => (await sdk.chat.completions.create(kAsk, { signal })).choices[0].message.content,
    async *parts(sdk, signal) {
      for await (const part of await sdk.chat.completions.create({ ...kAsk, stream: true }, { signal })) yield part.choices[0].delta.content;
    },
    expect: (error) => assert.ok(error instanceof Groq.APIError, String(error)),
    obeys: true,
    own,
  },
];
