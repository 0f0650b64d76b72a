#pragma once
// How does the classifier read an operator's verdict rows?

#include <string>
#include <vector>

#include "classifier/rules.h"
#include "gateway/config.h"

namespace gateway {

/// `name` is what Verdict::rule will say. The row must have passed the configuration's checks, or its class is
/// unknown.
[[nodiscard]] classifier::ExtraRule classifier_rule(const RuleConfig& rule, std::string name);
/// All rows of an upstream, named by file and line.
[[nodiscard]] std::vector<classifier::ExtraRule> classifier_rules(const UpstreamConfig& upstream);

}  // namespace gateway
