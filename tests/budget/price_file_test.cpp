#include "budget/price_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "budget/price_book.h"
#include "budget/price_json.h"

namespace price_file_test {

using budget::Meter;
using budget::Price;
using budget::PriceFile;
using budget::PriceProblem;
using budget::read_price_file;
using budget::Tier;

constexpr std::size_t kDeepest = budget::kMostJsonDepth;

std::string own(const std::string& models) { return "{\"callgate_prices\": 1, \"models\": [\n" + models + "\n]}"; }

std::string problems_of(const PriceFile& file) {
  std::string all;
  for (const PriceProblem& problem : file.problems) all += text_of(problem, "p.json") + "\n";
  return all;
}

std::optional<std::int64_t> rate(const Price& price, Tier tier, std::int64_t over, Meter meter) {
  for (const budget::RateTable& table : price.tables) {
    if (table.tier != tier || table.over != over) continue;
    if (const auto found = table.rates.at(meter)) return found->value;
  }
  return std::nullopt;
}

TEST(OwnPriceFile, says_all_that_a_price_is_made_of) {
  const PriceFile file = read_price_file(R"({
    "callgate_prices": 1, "version": "v7", "note": "ours", "sources": {"A": "the list"},
    "models": [
      {"model": "m", "provider": "groq", "aliases": ["m1", "m2"], "from": "2026-09-01", "as_of": "2026-08-30",
       "sources": ["A", "B"], "note": "why",
       "usd_per_mtok": {"input": 1.25, "cached_input": "0.125", "cache_write": 0, "output": 1e1},
       "usd_per_unit": {"web_search": 0.01},
       "long": [{"above": 200000, "usd_per_mtok": {"input": 2.5}}, {"at_least": 400000, "usd_per_mtok": {"input": 5}}],
       "tiers": {"flex": 0.5, "priority": {"usd_per_mtok": {"input": 3}, "long": [{"above": 200000, "usd_per_mtok": {"input": 4}}]}},
       "multipliers": {"us": 1.1}}
    ]})",
                                         "p.json");
  ASSERT_EQ(problems_of(file), "");
  ASSERT_EQ(file.table.prices.size(), 1U);
  const Price& price = file.table.prices[0];
  EXPECT_EQ(file.table.name, "p.json");
  EXPECT_EQ(file.table.version, "v7");
  EXPECT_EQ(price.model, "m");
  EXPECT_EQ(price.provider, "groq");
  EXPECT_EQ(price.aliases, (std::vector<std::string>{"m1", "m2"}));
  EXPECT_EQ(price.from, budget::price_date("2026-09-01"));
  EXPECT_EQ(price.as_of, "2026-08-30");
  EXPECT_EQ(price.sources, "A B");
  EXPECT_EQ(price.note, "why");
  EXPECT_EQ(rate(price, Tier::Standard, -1, Meter::Input), 1'250'000);
  EXPECT_EQ(rate(price, Tier::Standard, -1, Meter::CachedInput), 125'000);
  EXPECT_EQ(rate(price, Tier::Standard, -1, Meter::CacheWrite), 0);
  EXPECT_EQ(rate(price, Tier::Standard, -1, Meter::CacheWrite1h), std::nullopt);
  EXPECT_EQ(rate(price, Tier::Standard, -1, Meter::Output), 10'000'000);
  EXPECT_EQ(rate(price, Tier::Standard, -1, Meter::WebSearch), 10'000'000'000);
  EXPECT_EQ(rate(price, Tier::Standard, 200'000, Meter::Input), 2'500'000);
  EXPECT_EQ(rate(price, Tier::Standard, 399'999, Meter::Input), 5'000'000);
  EXPECT_EQ(rate(price, Tier::Priority, -1, Meter::Input), 3'000'000);
  EXPECT_EQ(rate(price, Tier::Priority, 200'000, Meter::Input), 4'000'000);
  EXPECT_EQ(price.factors, (std::vector<budget::Factor>{{"flex", 500'000}, {"us", 1'100'000}}));
}

TEST(OwnPriceFile, names_place_and_mend_of_each_error_and_is_then_refused_whole) {
  struct Case {
    std::string models;
    std::string said;
  };
  const std::string kGood = R"({"model": "good", "usd_per_mtok": {"input": 1}})";
  const Case kCases[] = {
      {R"({"model": "m", "usd_per_mtok": {"input": -1}})",
       "2:42: error: m: usd_per_mtok.input: must be a number in USD, 0 or more, such as 0.25 (is -1)"},
      {R"({"model": "m", "usd_per_mtok": {"input": "free"}})",
       "must be a number in USD, 0 or more, such as 0.25 (is free)"},
      {R"({"model": "m", "usd_per_mtok": {"input": "NaN"}})", "(is NaN)"},
      {R"({"model": "m", "usd_per_mtok": {"input": null}})", "(is null)"},
      {R"({"model": "m", "usd_per_mtok": {"input": 0.0000001}})", "must have at most 6 digits behind the point"},
      {R"({"model": "m", "usd_per_unit": {"page": 1e-13}})", "must have at most 12 digits behind the point"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1e300}})", "must be a number"},
      {R"({"model": "m", "usd_per_unit": {"page": 1001}})", "is more than 1000 USD for one unit"},
      {R"({"model": "m", "usd_per_mtok": {"inptu": 1}})",
       "m: usd_per_mtok.inptu: unknown key; known are input, cached_input"},
      {R"({"model": "m", "usd_per_mtok": {"page": 1}})", "usd_per_mtok.page: unknown key"},
      {R"({"model": "m", "usd_per_unit": {"input": 1}})", "usd_per_unit.input: unknown key; known are input_second"},
      {R"({"model": "m", "usd_per_mtok": {}})", "is empty; leave it out, or say a price"},
      {R"({"model": "m"})", "2:1: error: m: has no price; it needs usd_per_mtok"},
      {R"({"usd_per_mtok": {"input": 1}})", "models[0]: model: is missing"},
      {R"({"model": 5, "usd_per_mtok": {"input": 1}})", "models[0]: model: must be a text in quotes (is 5)"},
      {R"({"model": "", "usd_per_mtok": {"input": 1}})", "must have 1 to 200 characters"},
      {R"(7)", "models[0]: must be a map such as"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "form": "2026-09-01"})",
       "m: form: unknown key; known are model"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "from": "01.09.2026"})",
       "must be a date such as \"2026-09-01\""},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "from": "2026-02-30"})",
       "must be a date such as \"2026-09-01\""},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "provider": "vertex_ai"})",
       "provider: must be written vertex"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "long": [{"usd_per_mtok": {"input": 1}}]})",
       "long[0]: needs either above or at_least"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "long": [{"above": 1, "at_least": 1, "usd_per_mtok": {"input": 1}}]})",
       "long[0]: needs either above or at_least"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "long": [{"above": 0.5, "usd_per_mtok": {"input": 1}}]})",
       "long[0].above: must be a whole number of tokens, 1 or more (is 0.5)"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "long": [{"above": 5}]})", "long[0]: needs usd_per_mtok"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "tiers": {"felx": 0.5}})",
       "tiers.felx: unknown key; known are flex, priority and batch"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "tiers": {"flex": 0}})",
       "must be a factor above 0 and up to 100"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "multipliers": {"us": 101}})",
       "must be a factor above 0 and up to 100"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}, "multipliers": {"batch": 0.5}})", "write tiers under tiers"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1, "input": 2}})", "input: stands twice in its map"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}}, {"model": "m", "usd_per_mtok": {"input": 2}})",
       "m: stands twice with the same date"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}}, {"model": "n", "aliases": ["m"], "usd_per_mtok": {"input": 2}})",
       "n: its alias m belongs to m"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.models);
    const PriceFile file = read_price_file(own(c.models + ", " + kGood), "p.json");
    EXPECT_FALSE(file.usable());
    EXPECT_TRUE(file.table.prices.empty());
    EXPECT_NE(problems_of(file).find(c.said), std::string::npos) << problems_of(file);
  }
}

TEST(OwnPriceFile, must_say_what_it_is) {
  struct Case {
    std::string text;
    std::string said;
  };
  const Case kCases[] = {
      {R"({"callgate_prices": 2, "models": []})", "1:21: error: callgate_prices: must be 1"},
      {R"({"callgate_prices": 1})", "models: must be a list of entries (is missing)"},
      {R"({"callgate_prices": 1, "models": {}})", "models: must be a list of entries (is a map)"},
      {R"({"callgate_prices": 1, "models": [], "modells": []})", "modells: unknown key; known are"},
      {R"({"callgate_prices": 1, "models": [], "version": 3})", "version: must be a text in quotes"},
      {R"([])", "must be a map"},
      {R"({})", "no model with a price"},
      {R"({"model": "m", "usd_per_mtok": {"input": 1}})", "no model with a price"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text);
    EXPECT_FALSE(read_price_file(c.text, "p.json").usable());
    EXPECT_NE(problems_of(read_price_file(c.text, "p.json")).find(c.said), std::string::npos)
        << problems_of(read_price_file(c.text, "p.json"));
  }
}

TEST(OwnPriceFile, may_have_one_model_at_several_dates) {
  EXPECT_EQ(problems_of(read_price_file(own(R"({"model": "m", "aliases": ["n"], "usd_per_mtok": {"input": 1}},
                                               {"model": "m", "aliases": ["n"], "from": "2026-09-01", "usd_per_mtok": {"input": 2}})"),
                                        "p.json")),
            "");
}

TEST(OwnPriceFile, is_named_by_its_bytes) {
  const auto digest = [](const std::string& text) { return read_price_file(text, "p.json").table.digest; };
  EXPECT_EQ(digest("{}"), digest("{}"));
  EXPECT_NE(digest("{}"), digest("{} "));
}

TEST(PriceFile, that_is_no_JSON_is_refused_with_place_and_mend) {
  struct Case {
    std::string text;
    std::string said;
  };
  const std::string kDeep(100'000, '[');
  const Case kCases[] = {
      {"", "p.json:1:1: error: a JSON value must stand here"},
      {"{\"a\": 1", "1:8: error: a , or a } must stand here (has the end of the file)"},
      {"{\"a\": \n  {\"b", "2:4: error: this text has no end"},
      {"{\"a\": 1,}", "1:9: error: a name in quotes must stand here, and no comma before a } (has })"},
      {"{a: 1}", "a name in quotes must stand here"},
      {"{\"a\" 1}", "a : must follow the name (has 1)"},
      {"[1 2]", "a , or a ] must stand here (has 2)"},
      {"{\"a\": NaN}", "1:7: error: a JSON value must stand here: {…}, […], a \"text\", a number such as 0.25"},
      {"{\"a\": Infinity}", "(has Infinity)"},
      {"{\"a\": truely}", "(has truely)"},
      {"{\"a\": 1e}", "a digit must stand here (has })"},
      {"{\"a\": 01}", "a , or a } must stand here (has 1)"},
      {"{\"a\": -}", "a digit must stand here"},
      {"{\"a\": 1." + std::string(100, '0') + "}", "a number of more than 64 characters"},
      {"{\"a\": \"\\x\"}", "no escape that JSON knows: \\x"},
      {"{\"a\": \"\\u12g4\"}", "four hexadecimal digits must follow"},
      {"{\"a\": \"x\ny\"}", "a text must end on its line"},
      {"{} {}", "the file must end here (has {)"},
      {std::string("{\0}", 3), "byte 0x00"},
      {"\xFF\xFE{", "byte 0xff"},
      {kDeep, "nested deeper than 32 levels"},
      {std::string(10'000'000, 'x'), "a JSON value must stand here"},
      {std::string(17 << 20, ' '), "larger than 16 MiB"},
      {"prices:\n  - model: m\n", "a JSON value must stand here"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text.substr(0, 40));
    const PriceFile file = read_price_file(c.text, "p.json");
    EXPECT_FALSE(file.usable());
    EXPECT_NE(problems_of(file).find(c.said), std::string::npos) << problems_of(file);
  }
}

TEST(PriceFile, of_very_many_values_is_refused) {
  std::string text = "[0";
  for (std::size_t i = 0; i < budget::kMostJsonValues; ++i) text += ",0";
  EXPECT_NE(problems_of(read_price_file(text + "]", "p.json")).find("more than 500000 values"), std::string::npos);
}

TEST(PriceFile, cut_or_changed_anywhere_is_read_without_harm) {
  // Method: the shipped file, cut at every 97th byte and with bytes changed by chance; what counts is that it returns
  // and that what it takes for a price is one.
  const std::string whole{budget::shipped_prices_text()};
  for (std::size_t length = 0; length < whole.size() - 2; length += 97) {
    EXPECT_FALSE(read_price_file(whole.substr(0, length), "p.json").usable()) << length;
  }
  constexpr std::string_view kBytes = "{}[]\",:-0e.\\u\xFF\n9";
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    std::string text = whole;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = kBytes[random() % kBytes.size()];
    const PriceFile file = read_price_file(text, "p.json");
    EXPECT_EQ(file.usable(), !file.table.prices.empty());
    for (const Price& price : file.table.prices) {
      for (const budget::RateTable& table : price.tables) {
        for (std::size_t meter = 0; meter < budget::kMeters; ++meter) {
          EXPECT_GE(table.rates.at(static_cast<Meter>(meter)).value_or(budget::PicoUsd{0}).value, 0);
        }
      }
    }
  }
}

TEST(PriceJson, keeps_numbers_as_they_are_written_and_decodes_texts) {
  const auto document = budget::read_json(
      "\xEF\xBB\xBF {\"n\": [0, -1.50e+3, 2.8E-09], \"t\": \"a\\u00e9\\n\\ud83d\\ude00\\ud800\\/\", \"w\": [true, "
      "null]}");
  ASSERT_TRUE(document);
  const budget::Json& numbers = *document->root.find("n");
  EXPECT_EQ(numbers.members[1].value.text, "-1.50e+3");
  EXPECT_EQ(numbers.members[2].value.text, "2.8E-09");
  EXPECT_EQ(document->root.find("t")->text, "a\xC3\xA9\n\xF0\x9F\x98\x80\xEF\xBF\xBD/");
  EXPECT_EQ(document->root.find("w")->members[1].value.kind, budget::Json::Kind::Null);
  EXPECT_EQ(document->root.find("x"), nullptr);
  EXPECT_TRUE(budget::read_json(std::string(kDeepest, '[') + std::string(kDeepest, ']')));
}

TEST(PriceJson, lets_the_last_of_two_values_with_one_name_count_and_tells) {
  const auto document = budget::read_json(R"({"a": 1, "b": 2, "a": 3})");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.members.size(), 2U);
  EXPECT_EQ(document->root.find("a")->text, "3");
  ASSERT_EQ(document->repeated.size(), 1U);
  EXPECT_EQ(document->repeated[0].message, "a");
  EXPECT_EQ(document->repeated[0].at, 1U);
}

TEST(Suspicions, name_what_no_list_price_looks_like_and_leave_others_alone) {
  struct Case {
    std::string usd;
    std::string said;
  };
  const Case kCases[] = {
      {R"("usd_per_mtok": {"input": 1, "cached_input": 0.1, "cache_write": 1.25, "cache_write_1h": 2, "output": 5})",
       ""},
      {R"("usd_per_mtok": {"input": 0, "output": 0})", ""},
      {R"("usd_per_mtok": {"input": 0.05}, "tiers": {"priority": {"usd_per_mtok": {"input": 2.5}}})",
       "priority input is 50.00 times input"},
      {R"("usd_per_mtok": {"input": 1}, "tiers": {"flex": {"usd_per_mtok": {"input": 1.5}}})",
       "flex input is 1.50 times input"},
      {R"("usd_per_mtok": {"input": 1, "cached_input": 1.2})", "cached_input is 1.20 times input"},
      {R"("usd_per_mtok": {"input": 1, "cache_write": 2, "cache_write_1h": 1})",
       "cache_write_1h is 0.50 times cache_write"},
      {R"("usd_per_mtok": {"input": 0, "cached_input": 1})", "cached_input has a price where input is free"},
      {R"("usd_per_mtok": {"input": 2001})", "input is more than 2000 USD per million tokens"},
      {R"("usd_per_mtok": {"input": 2}, "long": [{"above": 9, "usd_per_mtok": {"input": 1}}])",
       "input above 9 tokens is 0.50 times input"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.usd);
    const PriceFile file = read_price_file(own("{\"model\": \"m\", " + c.usd + "}"), "p.json");
    EXPECT_TRUE(file.usable()) << problems_of(file);
    EXPECT_EQ(problems_of(file), c.said.empty() ? "" : "p.json:2:1: warning: m: " + c.said + "\n");
  }
}

}  // namespace price_file_test
