#include "gateway/verdict_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gateway {

classifier::ExtraRule classifier_rule(const RuleConfig& rule, std::string name) {
  classifier::ExtraRule read = classifier::rule_for_code(rule.code).value_or(classifier::ExtraRule{});
  read.status = rule.status;
  std::ranges::transform(rule.text, std::back_inserter(read.text), classifier::lower);
  const auto cls = std::ranges::find(classifier::kClassNames, rule.cls);
  read.cls = cls == classifier::kClassNames.end()
                 ? classifier::Class::Unknown
                 : static_cast<classifier::Class>(cls - classifier::kClassNames.begin());
  read.retryable = rule.retryable;
  read.name = std::move(name);
  return read;
}

std::vector<classifier::ExtraRule> classifier_rules(const UpstreamConfig& upstream) {
  std::vector<classifier::ExtraRule> rules;
  rules.reserve(upstream.rules.size());
  for (const RuleConfig& rule : upstream.rules) {
    rules.push_back(classifier_rule(rule,
                                    rule.file + ":" + std::to_string(rule.line) + ": upstreams." + upstream.name +
                                        ".classifier.rules[" + std::to_string(rules.size()) + "]"));
  }
  return rules;
}

}  // namespace gateway
