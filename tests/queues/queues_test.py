#!/usr/bin/env python3
"""Goal: the snippets in docs/queues.md do what the page says.
Method: they are taken out of the page as they are and run on stand-ins for the libraries that they import."""

import importlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "queues.md"
PATIENCE = 20
SNIPPETS = dict(re.findall(r"<!-- tested: (\S+) -->\n```\w+\n(.*?)```", PAGE.read_text(), re.S))


class FakeOpenAI:
    """Remembers what was asked; an answer may have to wait for something."""

    made = []

    def __init__(self, **options):
        self.options = options
        self.asked = []
        self.wait = lambda: None
        self.chat = types.SimpleNamespace(completions=types.SimpleNamespace(create=self.create))
        FakeOpenAI.made.append(self)

    def create(self, **request):
        self.asked.append(request)
        self.wait()
        message = types.SimpleNamespace(content="answer")
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


class ReceiptHandleIsInvalid(Exception):
    pass


class FakeSqs:
    def __init__(self):
        self.exceptions = types.SimpleNamespace(ReceiptHandleIsInvalid=ReceiptHandleIsInvalid)
        self.renewed = []
        self.deleted = []
        self.errors = []
        self.beats = threading.Semaphore(0)

    def change_message_visibility(self, QueueUrl, ReceiptHandle, VisibilityTimeout):
        self.renewed.append((QueueUrl, ReceiptHandle, VisibilityTimeout))
        error = self.errors.pop(0) if self.errors else None
        self.beats.release()
        if error:
            raise error

    def delete_message(self, QueueUrl, ReceiptHandle):
        self.deleted.append(ReceiptHandle)

    def await_beats(self, count):
        for _ in range(count):
            if not self.beats.acquire(timeout=PATIENCE):
                raise AssertionError("no heartbeat came")


class FakeCelery:
    def __init__(self, name, broker):
        self.settings = {}
        self.conf = types.SimpleNamespace(update=lambda **values: self.settings.update(values))

    def task(self, bind):
        assert bind
        return lambda function: function


def loaded(file, **modules):
    """The snippet as a module, with these in the place of what it imports."""
    for name, module in modules.items():
        sys.modules[name] = module
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / file
        path.write_text(SNIPPETS[file])
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def module(name, **members):
    made = types.ModuleType(name)
    for key, value in members.items():
        setattr(made, key, value)
    return made


OPENAI = module("openai", OpenAI=FakeOpenAI)
MESSAGE = {"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": "text"}


class Sqs(unittest.TestCase):
    def setUp(self):
        self.sqs = FakeSqs()
        self.snippet = loaded("sqs.py", boto3=module("boto3", client=lambda service: self.sqs), openai=OPENAI)
        self.snippet.VISIBILITY = 60
        # A third of this is how often it beats.
        self.snippet.kept.__wrapped__.__defaults__ = (0.3,)

    def test_renews_while_the_call_takes_long_and_stops_with_it(self):
        self.snippet.llm.wait = lambda: self.sqs.await_beats(3)
        self.snippet.handle("q", MESSAGE)
        self.assertGreaterEqual(len(self.sqs.renewed), 3)
        self.assertEqual(self.sqs.renewed[0], ("q", "r-1", 0.3))
        self.assertEqual(self.sqs.deleted, ["r-1"])
        self.assertEqual(threading.active_count(), 1, "the heartbeat has ended")

    def test_a_failed_renewal_is_tried_again(self):
        self.sqs.errors = [RuntimeError("throttled")]
        self.snippet.llm.wait = lambda: self.sqs.await_beats(2)
        self.snippet.handle("q", MESSAGE)
        self.assertEqual(self.sqs.deleted, ["r-1"])

    def test_a_lost_receipt_ends_the_heartbeat(self):
        self.sqs.errors = [ReceiptHandleIsInvalid()]

        def until_it_is_over():
            self.sqs.await_beats(1)
            for thread in threading.enumerate():
                if thread is not threading.current_thread():
                    thread.join(PATIENCE)

        self.snippet.llm.wait = until_it_is_over
        self.snippet.handle("q", MESSAGE)
        self.assertEqual(len(self.sqs.renewed), 1)

    def test_a_failed_call_leaves_the_message_and_ends_the_heartbeat(self):
        def fail():
            raise RuntimeError("no")

        self.snippet.llm.wait = fail
        with self.assertRaises(RuntimeError):
            self.snippet.handle("q", MESSAGE)
        self.assertEqual(self.sqs.deleted, [])
        self.assertEqual(threading.active_count(), 1)

    def test_the_key_is_the_same_when_it_is_delivered_again(self):
        self.snippet.handle("q", MESSAGE)
        self.snippet.handle("q", MESSAGE | {"ReceiptHandle": "r-2"})
        keys = [asked["extra_headers"]["Idempotency-Key"] for asked in self.snippet.llm.asked]
        self.assertEqual(keys, ["m-1:summary"] * 2)
        self.assertEqual(self.snippet.llm.options["max_retries"], 0)


class CeleryApp(unittest.TestCase):
    def setUp(self):
        self.snippet = loaded("celery_app.py", celery=module("celery", Celery=FakeCelery), openai=OPENAI)

    def test_timeouts_stand_in_the_right_order(self):
        settings = self.snippet.app.settings
        sdk = self.snippet.llm.options["timeout"]
        self.assertLess(sdk, settings["task_time_limit"])
        self.assertLess(settings["task_time_limit"], settings["broker_transport_options"]["visibility_timeout"])
        self.assertTrue(settings["task_acks_late"])
        self.assertEqual(settings["worker_prefetch_multiplier"], 1)
        self.assertEqual(self.snippet.llm.options["max_retries"], 0)

    def test_the_key_is_the_same_when_it_is_delivered_again(self):
        task = types.SimpleNamespace(request=types.SimpleNamespace(id="t-1"))
        for _ in range(2):
            self.assertEqual(self.snippet.summarize(task, "text"), "answer")
        keys = [asked["extra_headers"]["Idempotency-Key"] for asked in self.snippet.llm.asked]
        self.assertEqual(keys, ["t-1:summary"] * 2)


@unittest.skipUnless(shutil.which("node"), "no Node.js here")
class BullMq(unittest.TestCase):
    def test_worker_and_jobs_by_hand(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            for name in ("bullmq_worker.mjs", "bullmq_by_hand.mjs"):
                (place / name).write_text(SNIPPETS[name])
            for name in ("bullmq", "openai"):
                (place / "node_modules" / name).mkdir(parents=True)
                (place / "node_modules" / name / "package.json").write_text('{"type":"module","main":"index.js"}')
                shutil.copy(HERE / f"fake_{name}.mjs", place / "node_modules" / name / "index.js")
            shutil.copy(HERE / "bullmq_test.mjs", place)
            ran = subprocess.run(["node", "bullmq_test.mjs"], cwd=place, timeout=60, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


class Page(unittest.TestCase):
    def test_has_every_snippet_that_is_tested(self):
        self.assertEqual(sorted(SNIPPETS), ["bullmq_by_hand.mjs", "bullmq_worker.mjs", "celery_app.py", "sqs.py"])


if __name__ == "__main__":
    unittest.main()
