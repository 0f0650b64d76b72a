// Goal: words are compared as providers vary them, and texts are found where they stand as words.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "classifier/error_reader.h"
#include "classifier/rules.h"

namespace rules_test {

using classifier::has_text;
using classifier::letters_of;
using classifier::own_words;
using classifier::Word;

TEST(Word, does_not_look_at_case_separators_and_a_last_error) {
  EXPECT_EQ(letters_of("rateLimitExceeded"), "ratelimitexceeded");
  EXPECT_EQ(letters_of("RATE-LIMIT_EXCEEDED"), "ratelimitexceeded");
  EXPECT_EQ(letters_of("overloaded_error"), "overloaded");
  EXPECT_EQ(letters_of("ThrottlingException"), "throttling");
  EXPECT_EQ(letters_of("error"), "error") << "all that is left is kept";
  static_assert(Word{"not_found_error"}.fits("notfound"));
  static_assert(!Word{"rate_limit"}.fits("ratelimitexceeded"));
  static_assert(!Word{"limit"}.fits("ratelimit"));
}

TEST(Word, with_a_star_looks_at_one_end) {
  static_assert(Word{"*_not_found"}.fits("modelnotfound"));
  static_assert(Word{"*_not_found"}.fits("notfound"));
  static_assert(!Word{"*_not_found"}.fits("notfoundincache"));
  static_assert(Word{"invalid_*"}.fits("invalidvalue"));
  static_assert(!Word{"invalid_*"}.fits("isinvalid"));
  EXPECT_TRUE(Word{"*_not_found"}.fits(letters_of("DeploymentNotFound")));
}

TEST(HasText, finds_words_and_gaps_between_them) {
  EXPECT_TRUE(has_text("limit: 0", "quota, limit: 0, model"));
  EXPECT_FALSE(has_text("limit: 0", "quota, limit: 05"));
  EXPECT_FALSE(has_text("at capacity", "that capacity"));
  EXPECT_TRUE(has_text("exceed", "it exceeds all"));
  EXPECT_TRUE(has_text("model*not found", "the model `x` was not found"));
  EXPECT_TRUE(has_text("model*not found", "models are many" + std::string(200, ' ') + "this model was not found"));
  EXPECT_FALSE(has_text("model*not found", "the model" + std::string(200, ' ') + "not found"));
  EXPECT_FALSE(has_text("model*not found", "not found: model"));
}

TEST(OwnWords, leave_out_what_is_quoted_with_blanks_in_it) {
  EXPECT_EQ(own_words("Model's 'gpt-5' Can't \"rate limit\" `a b` end"), "model's 'gpt-5' can't \"\" `` end");
  EXPECT_EQ(own_words("an 'unclosed quote"), "an 'unclosed quote");
  EXPECT_EQ(own_words("'it isn't closed inside' x"), "'' x");
  EXPECT_EQ(own_words(std::string(10'000, 'a')).size(), 4'096U);
}

TEST(AsksMoreThanLimit, compares_the_two_numbers) {
  EXPECT_TRUE(classifier::asks_more_than_limit("limit 30000, requested 36278."));
  EXPECT_FALSE(classifier::asks_more_than_limit("limit 30000, used 29000, requested 2000."));
  EXPECT_FALSE(classifier::asks_more_than_limit("limit x, requested 5"));
  EXPECT_FALSE(classifier::asks_more_than_limit("limit 99999999999999999999999, requested 5"));
}

TEST(Retryable, follows_the_class_and_some_classes_never_are) {
  for (std::size_t i = 0; i < classifier::kClassNames.size(); ++i) {
    const auto cls = static_cast<classifier::Class>(i);
    EXPECT_FALSE(classifier::retryable_by_class(cls) && classifier::never_retryable(cls)) << name_of(cls);
  }
}

}  // namespace rules_test
