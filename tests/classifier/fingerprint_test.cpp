// Goal: answers that differ only in what differs from call to call have one fingerprint, others have another, and
// nothing that could be somebody's is left in it.

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/cases.h"
#include "classifier/dialect.h"
#include "classifier/fingerprint.h"
#include "tests/classifier/help.h"

namespace fingerprint_test {

using classifier::fingerprint_of;
using classifier::masked;

std::string id_of(std::string_view body, int status = 418, std::string_view dialect = "openai") {
  const classifier::Headers none;
  return fingerprint_of(dialect, status, &none, body).id;
}

std::string said(std::string_view code, std::string_view message) {
  return R"({"error":{"code":")" + std::string{code} + R"(","message":")" + std::string{message} + "\"}}";
}

TEST(Masked, leaves_the_sentence_and_nothing_of_the_call) {
  EXPECT_EQ(masked("Request req_01HX3 took 12.5s of 30"), "request # took # of #");
  EXPECT_EQ(masked("see https://x.example/a?key=1 for 550e8400-e29b-41d4-a716-446655440000."), "see # for #");
  EXPECT_EQ(masked("The model `secret-model` and \"a prompt\" failed"), "the model # and # failed");
  EXPECT_EQ(masked("key sk-proj-abcdef0123 of jo@example.com, deadbeefdeadbeefdeadbeefdeadbeefdead"), "key # of #");
  EXPECT_EQ(masked("can't do that: try later."), "can't do that try later");
  EXPECT_LE(masked(std::string(100'000, 'a') + " b").size(), 512U);
}

TEST(Fingerprint, is_the_same_for_what_differs_only_in_ids_numbers_and_quotes) {
  const std::string one = id_of(said("odd_thing", "Request req_1 of 'this prompt' failed after 30 ms"));
  EXPECT_EQ(one.size(), 12U);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(one, id_of(said("odd_thing", "Request req_99zz of 'another' failed after 1234 ms")));
  EXPECT_EQ(one, id_of(said("OddThing", "request REQ_2 of 'x y' failed after 7 ms"))) << "codes as letters_of()";
}

TEST(Fingerprint, tells_codes_statuses_dialects_and_sentences_apart) {
  const std::string one = id_of(said("odd_thing", "failed"));
  EXPECT_NE(one, id_of(said("other_thing", "failed")));
  EXPECT_NE(one, id_of(said("odd_thing", "broken")));
  EXPECT_NE(one, id_of(said("odd_thing", "failed"), 419));
  EXPECT_NE(one, id_of(said("odd_thing", "failed"), 418, "groq"));
  EXPECT_NE(id_of(said("1300", "x")), id_of(said("1301", "x"))) << "a number may be a code";
  EXPECT_NE(id_of(R"({"error":{"code":512,"message":"x"}})", 200), id_of(R"({"error":{"message":"x"}})", 200))
      << "a status inside decides the class";
}

TEST(Fingerprint, keeps_nothing_of_a_key_that_a_provider_repeats) {
  const classifier::Headers none;
  const std::vector<std::string> hidden{"Sk-OwnSecretKeyOfTheCaller", "plainpassword"};
  const std::string_view kMessages[] = {
      "bad key Sk-OwnSecretKeyOfTheCaller",
      "bad key SK-OWNSECRETKEYOFTHECALLER.",
      "bad key (plainpassword)",
      "bad key [plainpassword], given",
      "bad key of plainp",
      "bad key prefix-plainpassword-suffix",
      "bad key sk-live-abcdefghijklmnop",
      "bad key AIzaSyabcdefghijklmnopqrst",
      "bad key gsk_abcdefghij",
  };
  const std::string_view kParts[] = {"ownsecret", "plainp", "abcdefghij"};
  const auto expect_clean = [&](std::string_view body) {
    SCOPED_TRACE(body);
    const auto made = fingerprint_of("openai", 418, &none, body, hidden);
    const std::string line = classifier::case_line(made, "openai", 418, {.cls = classifier::Class::Unknown});
    for (const std::string_view part : kParts) {
      EXPECT_FALSE(line.contains(part)) << line;
      EXPECT_FALSE(made.words.contains(part)) << made.words;
      EXPECT_FALSE(made.text.contains(part)) << made.text;
    }
  };
  for (const std::string_view message : kMessages) {
    expect_clean(said("odd", message));
    expect_clean(message);
  }
  for (const std::string_view code :
       {"Sk-OwnSecretKeyOfTheCaller", "plainpassword", "PLAIN_PASSWORD", "key_plainpassword", "sk-live-abcdefghij"}) {
    expect_clean(said(code, "odd"));
    expect_clean(R"({"error":{"type":"odd","reason":")" + std::string{code} + R"("}})");
    expect_clean(R"({"error":{"errors":[{"reason":")" + std::string{code} + R"("}]}})");
  }
  EXPECT_EQ(fingerprint_of("openai", 418, &none, said("odd", "bad key plainpassword"), hidden).id,
            fingerprint_of("openai", 418, &none, said("odd", "bad key Sk-OwnSecretKeyOfTheCaller"), hidden).id)
      << "whose key it was does not matter";
}

TEST(Fingerprint, of_a_compressed_answer_is_that_of_its_text) {
  const std::string body = said("odd_thing", "failed in an odd way");
  const classifier::Headers gzip = {{"Content-Encoding", "gzip"}};
  const std::string packed = classifier_tests::deflated(body, classifier_tests::kGzip);
  EXPECT_EQ(fingerprint_of("openai", 418, &gzip, packed).id, id_of(body));
}

TEST(Fingerprint, is_bounded_whatever_the_answer) {
  const classifier::Headers none;
  std::string reasons;
  for (int i = 0; i < 100; ++i) reasons += R"({"reason":"oddreason)" + std::string(20, 'x') + "\"},";
  reasons.pop_back();
  const std::string control = "\\u0001\\u0002 ";
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += control;
  const auto made =
      fingerprint_of("openai", 418, &none, R"({"error":{"message":")" + text + R"(","errors":[)" + reasons + "]}}");
  EXPECT_LE(made.words.size(), 256U);
  EXPECT_LE(made.text.size(), 512U);
  EXPECT_LE(classifier::case_line(made, "openai", 418, {}).size(), 4'096U);
}

/// Reads the line back and judges it, as `callgate classify --cases` does.
void expect_same(const classifier::Fingerprint& made, const classifier::Dialect& dialect, int status,
                 const classifier::Verdict& verdict) {
  const std::string line = classifier::case_line(made, dialect.name(), status, verdict);
  SCOPED_TRACE(line);
  const auto recorded = classifier::read_verdict_case(line);
  ASSERT_TRUE(recorded) << recorded.error();
  EXPECT_EQ(recorded->dialect->name(), dialect.name());
  EXPECT_FALSE(recorded->expect);
  const classifier::Verdict again = classifier::judge(*recorded);
  EXPECT_EQ(classifier_tests::spelled(again), classifier_tests::spelled(verdict));
}

TEST(CaseLine, has_the_verdict_of_the_answer_that_it_stands_for) {
  const std::string_view kBodies[] = {
      "",
      "{}",
      "<html>down</html>",
      "odd, very odd",
      R"({"error":{"code":"odd_thing","type":"very_odd","message":"Odd 7 'quoted words'"}})",
      R"({"error":{"code":"1300","type":"1301","message":"x"}})",
      R"({"error":{"code":512,"message":"odd"}})",
      R"({"error":{"code":418,"message":"odd"}})",
      R"({"error":{"message":"odd; try again in 20s"}})",
      R"({"type":"error","error":{"type":"odd_error","message":"odd"}})",
      R"({"message":"odd"})",
      R"({"error":"odd"})",
      R"({"error":{"message":"rate, limit, reached"}})",
  };
  const classifier::Headers kHeads[] = {
      {},
      {{"Retry-After", "7"}},
      {{"x-should-retry", "true"}, {"Retry-After", "2"}},
      {{"x-should-retry", "false"}},
      {{"Content-Type", "application/json"}},
  };
  int unexplained = 0;
  for (const classifier::Dialect* dialect : classifier::dialects()) {
    const classifier::Endpoint endpoint = dialect->endpoint("POST", classifier::usual_path(dialect->name()));
    EXPECT_TRUE(endpoint.understood) << dialect->name();
    for (const int status : {200, 400, 403, 418, 429, 451, 498, 500, 503, 520, 599, 700}) {
      for (const classifier::Headers& head : kHeads) {
        for (const std::string_view body : kBodies) {
          classifier::ProviderAnswer answer;
          answer.status = status;
          answer.headers = &head;
          answer.body = body;
          const classifier::Verdict verdict = dialect->judge(endpoint, answer);
          if (!verdict.unexplained || verdict.cls == classifier::Class::None) continue;
          ++unexplained;
          const bool malformed = verdict.cls == classifier::Class::MalformedResponse;
          const auto made = malformed ? classifier::fingerprint_of_malformed(dialect->name(), status, verdict.rule)
                                      : classifier::fingerprint_of(dialect->name(), status, &head, body);
          expect_same(made, *dialect, status, verdict);
        }
      }
    }
  }
  EXPECT_GT(unexplained, 1'000);
}

TEST(CaseLine, has_the_verdict_of_an_error_inside_a_stream) {
  const std::string_view kEvents[] = {
      R"({"type":"error","error":{"type":"odd_error","code":"odd_thing","message":"odd"}})",
      R"({"error":{"code":512,"message":"odd"}})",
      R"({"error":{"message":"odd","code":"1300"}})",
      R"({"error":"odd"})",
  };
  int unexplained = 0;
  for (const classifier::Dialect* dialect : classifier::dialects()) {
    const classifier::Endpoint endpoint = dialect->endpoint("POST", classifier::usual_path(dialect->name()));
    const classifier::Headers head = {{"Content-Type", "text/event-stream"}};
    for (const std::string_view event : kEvents) {
      const auto reader = dialect->stream_reader(endpoint, {}, head, false);
      reader->feed("event: error\ndata: " + std::string{event} + "\n\n");
      if (!reader->error() || !reader->error()->unexplained) continue;
      ++unexplained;
      const auto made = fingerprint_of(dialect->name(), 200, nullptr, reader->error_said());
      expect_same(made, *dialect, 200, *reader->error());
    }
  }
  EXPECT_GT(unexplained, 20);
}

TEST(CaseLine, has_the_verdict_of_every_recorded_answer_that_no_rule_knew) {
  int unexplained = 0;
  for (const char* name : {"errors.jsonl", "fresh.jsonl"}) {
    std::istringstream lines{classifier_tests::fixture(name)};
    for (std::string line; std::getline(lines, line);) {
      const auto recorded = classifier::read_verdict_case(line);
      if (!recorded || recorded->stream) continue;
      const classifier::Verdict verdict = classifier::judge(*recorded);
      if (!verdict.unexplained || verdict.cls == classifier::Class::MalformedResponse) continue;
      ++unexplained;
      SCOPED_TRACE(recorded->id);
      expect_same(fingerprint_of(recorded->dialect->name(), recorded->status, &recorded->headers, recorded->body),
                  *recorded->dialect,
                  recorded->status,
                  verdict);
    }
  }
  EXPECT_GT(unexplained, 0);
}

}  // namespace fingerprint_test
