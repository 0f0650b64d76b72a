// Goal: answers that differ only in what differs from call to call have one fingerprint, others have another, and
// nothing that could be somebody's is left in it.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "classifier/cases.h"
#include "classifier/fingerprint.h"

namespace {

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
}

TEST(Fingerprint, becomes_a_case_that_can_be_read_back) {
  const classifier::Headers none;
  const auto made = fingerprint_of("groq", 418, &none, said("odd_thing", "Key sk-abc123 is 'not mine'"));
  const std::string line = classifier::case_line(made, "groq", 418);
  EXPECT_EQ(line.find("abc123"), std::string::npos);
  EXPECT_EQ(line.find("mine"), std::string::npos);
  const auto recorded = classifier::read_verdict_case(line);
  ASSERT_TRUE(recorded) << line;
  EXPECT_EQ(recorded->dialect->name(), "groq");
  EXPECT_TRUE(classifier::judge(*recorded).unexplained);
}

}  // namespace
