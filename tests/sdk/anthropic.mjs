// The Anthropic SDK in two major versions: the elder sends its key as x-api-key, the newer as Bearer.
import assert from "node:assert/strict";
import Anthropic1 from "@anthropic-ai/sdk";
import Anthropic0 from "anthropic0";
import { failure, kHello, limiterWaitedOut } from "./common.mjs";

const kAsk = { model: "claude-haiku-4-5", max_tokens: 100, messages: [{ role: "user", content: kHello }] };
const kErrors = {
  400: "BadRequestError",
  401: "AuthenticationError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  413: "APIError",
  422: "UnprocessableEntityError",
  429: "RateLimitError",
  503: "APIError",
};

const own = {
  async "a full limiter is waited out"({ client }) {
    await limiterWaitedOut(client);
  },
  async "529 for ever is an overload"({ client, sdk, world }) {
    await world.script([{ answer: { status: 529, headers: [["request-id", "req_77"]] } }]);
    const error = await failure(client.call(sdk));
    assert.ok(error instanceof client.Anthropic[client.overload], String(error));
    assert.equal(error.status, 529);
    assert.equal(error.error.error.type, "overloaded_error");
    assert.equal(error.requestID ?? error.request_id, "req_77");
    assert.equal((await world.seen()).length, 3);
  },
};

const family = (Anthropic, more) => ({
  Anthropic,
  upstream: "anthropic",
  dialect: "anthropic",
  at: "/anthropic",
  direct: "",
  bases: ["/anthropic/v1", "", "/v1"],
  // One value serves this SDK, which appends /v1, and the AI SDK's, which does not.
  environment: { name: "ANTHROPIC_BASE_URL", at: ["/anthropic", "/anthropic/v1"] },
  statuses: [400, 401, 403, 404, 413, 422],
  connect: (baseURL) => new Anthropic({ baseURL, apiKey: "sk-ant-test" }),
  call: async (sdk, signal) => (await sdk.messages.create(kAsk, { signal })).content[0].text,
  async *parts(sdk, signal) {
    for await (const event of await sdk.messages.create({ ...kAsk, stream: true }, { signal })) {
      if (event.type === "content_block_delta") yield event.delta.text;
    }
  },
  models: (sdk) => sdk.models.list(),
  expect: (error, status) => assert.ok(error instanceof Anthropic[kErrors[status]], String(error)),
  obeys: true,
  own,
  ...more,
});

export const clients = [
  family(Anthropic1, { name: "anthropic 1", overload: "OverloadedError" }),
  family(Anthropic0, { name: "anthropic 0", overload: "InternalServerError" }),
];
