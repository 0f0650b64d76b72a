#include "gateway/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gateway {
namespace trace_context_test {

using classifier::Headers;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";
const std::string kParent = "00-" + kTrace + "-" + kSpan + "-01";
constexpr TraceChance kChance{.trace_high = 0x0123456789abcdef, .trace_low = 0xfedcba9876543210, .span = 0x1122};

TEST(TraceContext, reads_a_traceparent_as_the_recommendation_has_it) {
  struct Case {
    std::string value;
    std::optional<TraceParent> read;
  };
  const auto good = [](std::uint8_t flags) { return TraceParent{kTrace, kSpan, flags}; };
  const std::string ids = kTrace + "-" + kSpan;
  const Case kCases[] = {
      {kParent, good(1)},
      {"00-" + ids + "-00", good(0)},
      {"00-" + ids + "-03", good(3)},
      {"00-" + ids + "-ff", good(3)},  // Flags that we do not know are not passed on.
      {"00-" + ids + "-fe", good(2)},
      // Later versions: what we know stands at their begin.
      {"01-" + ids + "-01", good(1)},
      {"cc-" + ids + "-01-what-the-future-brings", good(1)},
      {"cc-" + ids + "-01-", good(1)},
      {"cc-" + ids + "-01.", std::nullopt},
      {"cc-" + ids + "-011", std::nullopt},
      {"ff-" + ids + "-01", std::nullopt},
      // Version 00 has no more than that.
      {kParent + "-00", std::nullopt},
      {kParent + "-", std::nullopt},
      {kParent + "0", std::nullopt},
      {kParent.substr(0, 54), std::nullopt},
      {"", std::nullopt},
      {"00", std::nullopt},
      {std::string(55, '-'), std::nullopt},
      {std::string(55, '0'), std::nullopt},
      {"00-" + std::string(32, '0') + "-" + kSpan + "-01", std::nullopt},
      {"00-" + kTrace + "-" + std::string(16, '0') + "-01", std::nullopt},
      {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + kSpan + "-01", std::nullopt},
      {"00-" + kTrace + "-00F067AA0BA902B7-01", std::nullopt},
      {"0A-" + ids + "-01", std::nullopt},
      {"00-" + ids + "-0A", std::nullopt},
      {"00-" + ids + "-1 ", std::nullopt},
      {"0x-" + ids + "-01", std::nullopt},
      {"00_" + ids + "-01", std::nullopt},
      {"00-" + kTrace + "_" + kSpan + "-01", std::nullopt},
      {"00-" + ids + "_01", std::nullopt},
      {"00-" + kTrace.substr(0, 31) + "g-" + kSpan + "-01", std::nullopt},
      {std::string("00-" + kTrace.substr(0, 31)) + '\0' + "-" + kSpan + "-01", std::nullopt},
      {"00-\xc3\xbc" + kTrace.substr(2) + "-" + kSpan + "-01", std::nullopt},
      {std::string(100'000, 'a'), std::nullopt},
  };
  for (const Case& one : kCases) EXPECT_EQ(read_traceparent(one.value), one.read) << one.value.substr(0, 200);
  EXPECT_EQ(traceparent_of(kTrace, kSpan, 1), kParent);
  EXPECT_EQ(traceparent_of(kTrace, kSpan, 0xff), "00-" + ids + "-03");
}

TEST(TraceContext, keeps_a_tracestate_that_is_well_formed_whole_and_no_other) {
  struct Case {
    Headers headers;
    std::string state;
  };
  std::string many;
  for (int i = 0; i < 33; ++i) many += "k" + std::to_string(i) + "=v,";
  const Case kCases[] = {
      {{}, ""},
      {{{"tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}}, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
      {{{"TraceState", "a=1"}, {"tracestate", " b=2 , ,c=3\t"}}, "a=1,b=2,c=3"},
      {{{"tracestate", "tenant@vendor=x,0a_-*/=y"}}, "tenant@vendor=x,0a_-*/=y"},
      {{{"tracestate", "a=1,a=2"}}, ""},
      {{{"tracestate", "a=1,b"}}, ""},
      {{{"tracestate", "A=1"}}, ""},
      {{{"tracestate", "a=1=2"}}, ""},
      {{{"tracestate", "=1"}}, ""},
      {{{"tracestate", "a="}}, ""},
      {{{"tracestate", "a=\xc3\xbc"}}, ""},
      {{{"tracestate", "a=1\r\nx: y"}}, ""},
      {{{"tracestate", std::string(257, 'a') + "=1"}}, ""},
      {{{"tracestate", "a=" + std::string(257, 'b')}}, ""},
      {{{"tracestate", many}}, ""},
      {{{"tracestate", many.substr(0, many.rfind("k32"))}}, many.substr(0, many.rfind("k32") - 1)},
  };
  for (const Case& one : kCases)
    EXPECT_EQ(tracestate_in(one.headers), one.state) << (one.headers.empty() ? "" : one.headers[0].value);
}

TEST(TraceContext, continues_the_callers_trace_and_else_begins_one) {
  const auto continued = begin_trace({{"Traceparent", kParent}, {"tracestate", "a=1"}}, {}, kChance);
  EXPECT_EQ(continued->trace_id, kTrace);
  EXPECT_EQ(continued->parent_id, kSpan);
  EXPECT_EQ(continued->span_id, "0000000000001122");
  EXPECT_EQ(continued->state, "a=1");
  EXPECT_TRUE(continued->sampled());

  const Headers kNone[] = {{},
                           {{"tracestate", "a=1"}},
                           {{"traceparent", "00-nonsense"}, {"tracestate", "a=1"}},
                           {{"traceparent", kParent}, {"traceparent", kParent}, {"tracestate", "a=1"}}};
  for (const Headers& headers : kNone) {
    const auto begun = begin_trace(headers, {}, kChance);
    EXPECT_EQ(begun->trace_id, "0123456789abcdeffedcba9876543210");
    EXPECT_EQ(begun->parent_id, "");
    EXPECT_EQ(begun->state, "") << "a tracestate means nothing without its traceparent";
    EXPECT_TRUE(begun->sampled());
  }
  const auto unlucky = begin_trace({}, {}, {});
  EXPECT_TRUE(read_traceparent(traceparent_of(unlucky->trace_id, unlucky->span_id, 1))) << "ids of zeros are none";
}

TEST(TraceContext, samples_as_the_caller_says_or_by_the_ratio) {
  const Headers yes = {{"traceparent", kParent}};
  const Headers no = {{"traceparent", kParent.substr(0, 53) + "00"}};
  const auto sampled = [](const Headers& headers, bool by_caller, double ratio) {
    return begin_trace(headers, {by_caller, ratio}, kChance)->sampled();
  };
  EXPECT_TRUE(sampled(yes, true, 0));
  EXPECT_FALSE(sampled(no, true, 1));
  EXPECT_TRUE(sampled({}, true, 1));
  EXPECT_FALSE(sampled({}, true, 0));
  EXPECT_FALSE(sampled(yes, false, 0));
  EXPECT_TRUE(sampled(no, false, 1));

  int kept = 0;
  std::uint64_t low = 0;
  for (int i = 0; i < 10'000; ++i) {
    low = low * 6364136223846793005U + 1442695040888963407U;
    kept += begin_trace({}, {true, 0.1}, {.trace_high = 1, .trace_low = low, .span = 1})->sampled();
  }
  EXPECT_NEAR(kept, 1'000, 150);
}

TEST(TraceContext, gives_every_attempt_a_span_of_its_own) {
  const auto trace = begin_trace({{"traceparent", kParent}, {"tracestate", "a=1"}}, {}, kChance);
  std::set<std::string> ids{trace->span_id};
  for (int number = 1; number <= 1'000; ++number) ids.insert(attempt_span_id(*trace, number));
  EXPECT_EQ(ids.size(), 1'001U);
  Headers headers;
  add_trace_headers(headers, *trace, 2);
  ASSERT_EQ(headers.size(), 2U);
  EXPECT_EQ(headers[0].value, "00-" + kTrace + "-" + attempt_span_id(*trace, 2) + "-01");
  EXPECT_EQ(headers[1], (classifier::Header{"tracestate", "a=1"}));
  EXPECT_TRUE(is_trace_header("TraceParent"));
  EXPECT_FALSE(is_trace_header("tracestates"));
}

}  // namespace trace_context_test
}  // namespace gateway
