"""What the Python SDKs must see through callgate, unchanged. Run by run.mjs, one process per client:

    python scenarios.py CLIENT

with BASE (callgate), PROVIDER and CONTROL (the fake provider's two addresses) in the environment, and with HTTP_PROXY
and NO_PROXY as a company's machine has them. Prints a line of JSON per scenario.
"""

import contextlib
import json
import os
import sys
import time
import traceback
import urllib.request

# Far below the minutes of a wrong Retry-After, far above a busy machine's delays.
SOON_S = 10
ASK = [{"role": "user", "content": "Say hello"}]


class Openai:
    ERRORS = {401: "AuthenticationError", 404: "NotFoundError", 429: "RateLimitError", 503: "InternalServerError"}

    def __init__(self):
        import openai

        self.module = openai
        self.sdk = openai.OpenAI(base_url=os.environ["BASE"] + "/openai/v1", api_key="sk-test")

    def call(self):
        return self.sdk.chat.completions.create(model="gpt-5-mini", messages=ASK).choices[0].message.content

    def stream(self):
        return self.sdk.chat.completions.create(model="gpt-5-mini", messages=ASK, stream=True)

    def text(self, part):
        return part.choices[0].delta.content

    def check(self, error, status):
        assert isinstance(error, getattr(self.module, self.ERRORS[status])), repr(error)
        assert error.status_code == status, error.status_code


class Anthropic(Openai):
    ERRORS = Openai.ERRORS

    def __init__(self):
        import anthropic

        self.module = anthropic
        self.sdk = anthropic.Anthropic(base_url=os.environ["BASE"] + "/anthropic", api_key="sk-ant-test")
        self.ask = {"model": "claude-haiku-4-5", "max_tokens": 100, "messages": ASK}

    def call(self):
        return self.sdk.messages.create(**self.ask).content[0].text

    def stream(self):
        return self.sdk.messages.create(**self.ask, stream=True)

    def text(self, event):
        return event.delta.text if event.type == "content_block_delta" else None


class Genai:
    def __init__(self):
        from google import genai
        from google.genai import errors

        self.errors = errors
        self.sdk = genai.Client(api_key="test-key", http_options={"base_url": os.environ["BASE"] + "/gemini"})
        self.ask = {"model": "gemini-flash-latest", "contents": "Say hello"}

    def call(self):
        return self.sdk.models.generate_content(**self.ask).text

    def stream(self):
        return contextlib.closing(self.sdk.models.generate_content_stream(**self.ask))

    def text(self, part):
        return part.text

    def check(self, error, status):
        kind = self.errors.ClientError if status < 500 else self.errors.ServerError
        assert isinstance(error, kind), repr(error)
        assert error.code == status, error.code


CLIENTS = {"openai": Openai, "anthropic": Anthropic, "genai": Genai}

local = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def control(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["CONTROL"] + path, data=data, method=method)
    text = local.open(request, timeout=20).read()
    return json.loads(text) if text else None


def script(rules):
    control("POST", "/reset")
    control("PUT", "/script", rules)


def seen():
    return control("GET", "/seen")


def nothing_open():
    control("GET", "/wait?open_requests=0&timeout_ms=5000")


def read(client):
    """The texts of a stream, and the error that ended it."""
    texts = []
    try:
        with client.stream() as stream:
            texts.extend(text for part in stream if (text := client.text(part)))
    except Exception as error:
        return texts, error
    return texts, None


def failure(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it should have failed")


def equal(got, wanted):
    assert got == wanted, f"{got!r} is not {wanted!r}"


def plain_call(client):
    script([])
    equal(client.call(), "hello")
    equal(len(seen()), 1)


def plain_stream(client):
    script([])
    equal(read(client), (["hel", "lo"], None))
    equal(len(seen()), 1)


def twice_503(client):
    script([{"match": {"times": 2}, "answer": 503}])
    equal(client.call(), "hello")
    equal(len(seen()), 3)


def always_503(client):
    script([{"answer": 503}])
    client.check(failure(client.call), 503)
    equal(len(seen()), 3)
    script([{"answer": 503}])
    client.check(read(client)[1], 503)
    equal(len(seen()), 3)


def hour_429(client):
    script([{"answer": {"status": 429, "headers": {"Retry-After": "3600"}}}])
    before = time.monotonic()
    client.check(failure(client.call), 429)
    assert time.monotonic() - before < SOON_S
    equal(len(seen()), 1)


def typed_4xx(client):
    for status in (401, 404):
        script([{"answer": status}])
        client.check(failure(client.call), status)
        equal(len(seen()), 1)


def broken_stream(client):
    for close in ("fin", "rst"):
        script([{"answer": {"stream": [{"say": "one"}, {"say": "two"}, {"wait_ms": 50}, {"close": close}]}}])
        texts, error = read(client)
        equal(texts, ["one", "two"])
        assert error is not None, close
        equal(len(seen()), 1)


def silence(client):
    script([{"answer": {"stream": [{"say": "one"}, {"wait_ms": 2500}, {"say": "two"}]}}])
    equal(read(client), (["one", "two"], None))


def closed_stream(client):
    script([{"answer": {"stream": [{"say": "one"}, {"hang": True}]}}])
    with client.stream() as stream:
        for part in stream:
            if client.text(part):
                break
    before = time.monotonic()
    nothing_open()
    assert time.monotonic() - before < SOON_S
    equal(len(seen()), 1)


def proxy(client):
    kind = type(client)
    assert os.environ["HTTP_PROXY"] == os.environ["PROVIDER"]
    script([])
    equal(client.call(), "hello")
    assert seen()[0]["target"].startswith("/"), "it came through callgate"
    # And without that setting it would have gone to the proxy.
    spared = os.environ.pop("NO_PROXY")
    try:
        script([])
        with contextlib.suppress(Exception):
            kind().call()
        assert seen()[0]["target"].startswith("http://"), "the proxy is asked"
    finally:
        os.environ["NO_PROXY"] = spared


# Rows as in rows.mjs.
SCENARIOS = {
    "plain call": plain_call,
    "plain stream": plain_stream,
    "503 twice, then fine": twice_503,
    "503 for ever: three attempts, one typed error": always_503,
    "401 and 404 raise their own class": typed_4xx,
    "a broken stream throws after its parts": broken_stream,
    "a long silence with heartbeats loses nothing": silence,
    "a context manager closes the stream": closed_stream,
    "HTTP_PROXY is set, NO_PROXY names us": proxy,
    # The last one: the model is left alone for an hour.
    "429 with an hour to wait comes back at once": hour_429,
}


def main():
    client = CLIENTS[sys.argv[1]]()
    for row, scenario in SCENARIOS.items():
        try:
            scenario(client)
            error = None
        except Exception:
            error = traceback.format_exc()
        print(json.dumps({"row": row, "error": error}), flush=True)


main()
