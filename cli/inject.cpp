#include "cli/inject.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "cli/manifest.h"
#include "cli/plain_output.h"
#include "cli/table.h"
#include "gateway/config.h"
#include "gateway/config_values.h"
#include "gateway/config_yaml.h"

namespace cli {
namespace {

using gateway::YamlNode;
using Form = YamlNode::Form;
using Lines = Sidecar::Lines;

constexpr std::string_view kName = "callgate";
constexpr std::size_t kLongestOwner = 200;  // Of a name's 253.
constexpr int kDefaultGrace = 30;           // Kubernetes' own.
constexpr int kNeededGrace = 25 + 5;        // shutdown.drain, and a moment to be told.

/// What a document's pods asked for beside themselves, and what was found in all of them.
struct Seen {
  std::set<std::string, std::less<>> containers{};  // Of --container, those that there are.
  std::set<std::string, std::less<>> spaces{};      // That need a ConfigMap.
  std::size_t workloads = 0;
};

std::string name_of(const PodPlace& pod) { return pod.kind + " " + (pod.name.empty() ? "without a name" : pod.name); }

bool has_named(const YamlNode* list, std::string_view name) {
  return list && list->form == Form::List &&
         std::ranges::any_of(list->items, [&](const YamlNode* one) { return text_at(one, "name") == name; });
}

Lines joined(const std::vector<Lines>& items) {
  Lines made;
  for (const Lines& item : items) made.insert(made.end(), item.begin(), item.end());
  return made;
}

class Injection {
 public:
  Injection(const InjectWishes& wishes, const Sidecar& sidecar, Seen& seen, std::vector<std::string>& notes)
      : wishes_(wishes), sidecar_(sidecar), seen_(seen), notes_(notes) {}

  /// False: it stands there in a style to which nothing can be added. The error says what is wrong with it.
  std::expected<bool, std::string> into(const PodPlace& pod, Additions& additions) {
    const YamlNode* spec = find(pod.owner, "spec");
    const YamlNode* containers = find(spec, "containers");
    if (!containers || containers->form != Form::List || containers->items.empty())
      return std::unexpected(name_of(pod) + " has no containers");
    if (!wishes_.sidecar.native && (pod.kind == "Job" || pod.kind == "CronJob"))
      return std::unexpected(name_of(pod) + " would never complete with --mode container; use native");
    ++seen_.workloads;
    const YamlNode* init = find(spec, "initContainers");
    for (const YamlNode* list : {init, containers}) {
      if (!list) continue;
      for (const YamlNode* one : list->items) {
        if (const std::string name = text_at(one, "name"); std::ranges::count(wishes_.containers, name) > 0)
          seen_.containers.insert(name);
      }
    }
    if (has_named(init, kName) || has_named(containers, kName)) {
      note(name_of(pod) + " has a container named callgate already; it stays as it is");
      return true;
    }
    seen_.spaces.insert(pod.space);
    say_what_fits_badly(pod, *spec);
    return add_metadata(pod, additions) && add_env(pod, init, *containers, additions) &&
           add_container(pod, *spec, additions) && add_volumes(pod, *spec, additions);
  }

 private:
  void note(std::string text) {
    if (std::ranges::count(notes_, text) == 0) notes_.push_back(std::move(text));
  }

  void say_what_fits_badly(const PodPlace& pod, const YamlNode& spec) {
    int grace = kDefaultGrace;
    if (const std::string said = text_at(&spec, "terminationGracePeriodSeconds");
        !said.empty() && said.size() < 8 &&
        std::ranges::all_of(said, [](unsigned char c) { return std::isdigit(c); }))
      grace = std::stoi(said);
    if (grace < kNeededGrace)
      note(name_of(pod) + ": terminationGracePeriodSeconds " + std::to_string(grace) + " is less than the " +
           std::to_string(kNeededGrace) + " s that calls in flight may need (shutdown.drain and 5 s)");
    if (text_at(&spec, "hostNetwork") == "true")
      note(name_of(pod) + ": with hostNetwork every process of the node reaches callgate, and two pods collide");
  }

  bool add_metadata(const PodPlace& pod, Additions& additions) {
    const YamlNode* metadata = find(pod.owner, "metadata");
    Lines made;
    for (const auto& [key, lines] : {std::pair{"annotations", &sidecar_.annotations}, {"labels", &sidecar_.labels}}) {
      const YamlNode* map = find(metadata, key);
      Lines wanted;
      for (const std::string& line : *lines) {
        const std::string name = line.substr(0, line.find(':'));
        if (!find(map, name))
          wanted.push_back(line);
        else if (line != name + ": " + text_at(map, name) && line != name + ": \"" + text_at(map, name) + '"')
          note(name_of(pod) + " has a " + name + " of its own, which is kept");
      }
      if (wanted.empty()) continue;
      if (map) {
        if (!additions.to_key(*metadata, key, wanted)) return false;
        continue;
      }
      made.push_back(std::string{key} + ":");
      for (const std::string& line : wanted) made.push_back("  " + line);
    }
    return additions.to_key(*pod.owner, "metadata", made);
  }

  bool add_env(const PodPlace& pod, const YamlNode* init, const YamlNode& containers, Additions& additions) {
    for (const YamlNode* list : {init, &containers}) {
      if (!list) continue;
      for (const YamlNode* one : list->items) {
        const std::string name = text_at(one, "name");
        const bool named = std::ranges::count(wishes_.containers, name) > 0;
        if (wishes_.containers.empty() ? list == init : !named) continue;
        const YamlNode* env = find(one, "env");
        Lines wanted;
        for (const Lines& entry : sidecar_.app_env) {
          if (!has_named(env, name_in(entry)))
            wanted.insert(wanted.end(), entry.begin(), entry.end());
          else
            note(name_of(pod) + ": container " + name + " sets " + name_in(entry) + " itself, which is kept" +
                 (name_in(entry).ends_with("_BASE_URL") ? "; such calls do not go through callgate"
                                                        : "; callgate holds that key, so it can go"));
        }
        const bool by_proxy = has_named(env, "HTTP_PROXY") || has_named(env, "http_proxy");
        if (by_proxy && !has_named(env, "NO_PROXY") && !has_named(env, "no_proxy"))
          note(name_of(pod) + ": container " + name +
               " sets HTTP_PROXY; clients that send local calls there, too, need NO_PROXY=127.0.0.1,localhost");
        if (!additions.to_key(*one, "env", wanted)) return false;
      }
    }
    return true;
  }

  bool add_container(const PodPlace& pod, const YamlNode& spec, Additions& additions) {
    // First, so that init containers have it as well; started is what it has to be before they begin.
    if (wishes_.sidecar.native) return additions.to_key(spec, "initContainers", sidecar_.container);
    // Last, since the first one is what `kubectl logs` shows.
    const int limit = limit_of(spec, "containers", limit_of(*pod.owner, "spec", pod.limit));
    return additions.to_end_of_list(*find(&spec, "containers"), sidecar_.container, limit);
  }

  bool add_volumes(const PodPlace& pod, const YamlNode& spec, Additions& additions) {
    const YamlNode* volumes = find(&spec, "volumes");
    std::vector<Lines> wanted;
    for (const Lines& volume : sidecar_.volumes) {
      if (has_named(volumes, name_in(volume))) {
        note(name_of(pod) + " has a volume " + name_in(volume) + " of its own, which is kept");
        continue;
      }
      wanted.push_back(volume);
    }
    // A StatefulSet's claims are volumes of its pods.
    if (const YamlNode* claims = find(find(pod.workload, "spec"), "volumeClaimTemplates");
        claims && claims->form == Form::List) {
      for (const YamlNode* claim : claims->items) {
        const std::string name = text_at(find(claim, "metadata"), "name");
        std::erase_if(wanted, [&](const Lines& volume) { return name_in(volume) == name; });
      }
    }
    return additions.to_key(spec, "volumes", joined(wanted));
  }

  const InjectWishes& wishes_;
  const Sidecar& sidecar_;
  Seen& seen_;
  std::vector<std::string>& notes_;
};

std::expected<gateway::YamlDocument, std::string> read(const std::string& body, int first_line) {
  std::vector<gateway::Problem> problems;
  gateway::YamlDocument document = gateway::read_yaml(body, problems);
  if (problems.empty()) return document;
  const gateway::Problem& first = problems.front();
  return std::unexpected("line " + std::to_string(first.line + first_line - 1) + ": " + first.message);
}

std::string config_map_text(const Sidecar& sidecar, const std::string& name, const std::string& space) {
  std::string text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + yaml_name(name) + '\n';
  if (!space.empty()) text += "  namespace: " + yaml_name(space) + '\n';
  text += "  labels:\n    app.kubernetes.io/name: callgate\n    app.kubernetes.io/component: sidecar\n";
  text += "data:\n  config.yaml: |\n";
  for (const std::string& line : sidecar.config) text += "    " + line + '\n';
  return text;
}

/// A lower-case name as Kubernetes has them.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 && name.front() != '-' && name.back() != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == name.npos;
}
bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 && !name.starts_with("..") &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == name.npos;
}

bool has_merge(const YamlNode& root) {
  return std::ranges::any_of(root.items, [](const YamlNode* one) { return has_merge(*one); }) ||
         std::ranges::any_of(root.entries, [](const YamlNode::Entry& one) {
           return one.key == "<<" || (one.value && has_merge(*one.value));
         });
}

/// Named after the first workload, since each file's sidecars may be configured in their own way.
std::string map_for(const std::vector<ManifestPart>& parts) {
  for (const ManifestPart& part : parts) {
    if (!may_have_pod(part.body)) continue;
    const auto document = read(part.body, part.first_line);
    if (!document || !document->root) continue;
    for (const PodPlace& pod : pods_in(document->root)) {
      if (is_name(pod.name)) return pod.name.substr(0, kLongestOwner) + "-" + std::string{kName};
    }
  }
  return std::string{kName};
}

}  // namespace

std::expected<Injected, std::string> inject_into(std::string_view manifest, InjectWishes wishes) {
  std::vector<ManifestPart> parts = parts_of(manifest);
  if (wishes.make_config_map) wishes.sidecar.config_map = map_for(parts);
  const Sidecar sidecar = sidecar_of(wishes.sidecar);
  Injected made;
  Seen seen;
  std::set<std::string> noted;
  std::set<std::string, std::less<>> there;  // Namespaces with a ConfigMap of that name.
  for (ManifestPart& part : parts) {
    made.text += part.lead;
    const bool is_map = part.body.find("ConfigMap") != std::string::npos;
    if (!may_have_pod(part.body) && !is_map) {
      made.text += part.body;
      continue;
    }
    int first_line = part.first_line;
    auto document = read(part.body, first_line);
    if (!document && !may_have_pod(part.body)) {
      made.text += part.body;
      continue;
    }
    if (!document) return std::unexpected(document.error());
    const YamlNode* root = document->root;
    if (text_at(root, "kind") == "ConfigMap" && text_at(find(root, "metadata"), "name") == wishes.sidecar.config_map)
      there.insert(text_at(find(root, "metadata"), "namespace"));

    // In block style at the second try, if it has to be.
    bool written_anew = root && !pods_in(root).empty() && has_alias(*root);
    for (bool done = false; !done;) {
      if (written_anew) {
        if (has_merge(*document->root))
          return std::unexpected("line " + std::to_string(first_line) +
                                 ": the document would have to be written anew, and has a merge key (<<), whose "
                                 "meaning would be lost; write out what it merges");
        part.body = block_style(*document->root);
        document = read(part.body, first_line);
        if (!document) return std::unexpected("a document cannot be written in block style: " + document.error());
        root = document->root;
      }
      Additions additions{part.body};
      const std::vector<PodPlace> pods = pods_in(root);
      Seen of_this;
      std::vector<std::string> notes;
      Injection injection{wishes, sidecar, of_this, notes};
      done = true;
      for (const PodPlace& pod : pods) {
        const auto added = injection.into(pod, additions);
        if (!added) return std::unexpected(added.error());
        done = done && *added;
      }
      if (done) {
        seen.containers.merge(of_this.containers);
        seen.spaces.merge(of_this.spaces);
        seen.workloads += of_this.workloads;
        for (std::string& note : notes) {
          if (noted.insert(note).second) made.notes.push_back(std::move(note));
        }
        if (!pods.empty()) part.body = additions.text();
      } else if (std::exchange(written_anew, true)) {
        return std::unexpected(name_of(pods.front()) + " is written in a way to which nothing can be added");
      }
    }
    if (written_anew)
      made.notes.push_back("the document at line " + std::to_string(first_line) +
                           " is written anew, without comments: its lists, maps or aliases left no place to add to");
    made.text += part.body;
  }
  made.workloads = seen.workloads;
  // Where nothing was found it may be no manifest at all.
  for (const ManifestPart& part : parts) {
    if (made.workloads > 0) break;
    if (const auto document = read(part.body, part.first_line); !document) return std::unexpected(document.error());
  }
  for (const std::string& name : wishes.containers) {
    if (!seen.containers.contains(name) && made.workloads > 0)
      return std::unexpected("no workload has a container named " + name);
  }
  if (wishes.make_config_map) {
    for (const std::string& space : seen.spaces) {
      if (there.contains(space)) continue;
      if (!made.text.ends_with('\n')) made.text += '\n';
      made.text += "---\n" + config_map_text(sidecar, wishes.sidecar.config_map, space);
    }
  }
  return made;
}

namespace {

/// With the ConfigMap that is made here callgate would not start.
std::vector<std::string> unknown_upstreams(const SidecarWishes& sidecar) {
  std::vector<std::string> known;
  for (const auto& upstream : gateway::default_config().upstreams) known.push_back(upstream.name);
  std::vector<std::string> notes;
  for (const auto& [upstream, key] : sidecar.keys) {
    if (std::ranges::count(known, upstream) > 0) continue;
    const std::string near = gateway::nearest(upstream, known);
    notes.push_back("the upstream " + upstream + " is not built in" +
                    (near.empty() ? std::string{} : " (did you mean " + near + "?)") +
                    ": callgate starts only when the ConfigMap gives it a dialect and a url");
  }
  return notes;
}

}  // namespace

int inject(const Arguments& arguments, Terminal& terminal) {
  const auto fail = [&](ExitCode code, const std::string& why) {
    terminal.err << "callgate inject: " << why << '\n';
    if (code == kUsage) terminal.err << "See \"callgate inject --help\".\n";
    return code;
  };
  const std::string file = arguments.get("-f");
  if (file.empty()) return fail(kUsage, "needs -f FILE, or -f - for standard input");

  InjectWishes wishes;
  SidecarWishes& sidecar = wishes.sidecar;
  sidecar.image = arguments.get("--image");
  if (std::ranges::any_of(sidecar.image,
                          [](unsigned char c) { return c <= ' ' || c == '"' || c == '\\' || c > '~'; }))
    return fail(kUsage, "--image must be the name of an image");
  const std::string mode = arguments.get("--mode", "native");
  if (mode != "native" && mode != "container")
    return fail(kUsage, "--mode must be native or container (is " + gateway::say(mode) + ")");
  sidecar.native = mode == "native";
  wishes.make_config_map = !arguments.has("--config-map");
  sidecar.config_map = arguments.get("--config-map", kName);
  sidecar.keys_secret = arguments.get("--keys-secret");
  if (!is_name(sidecar.config_map)) return fail(kUsage, "--config-map must be the name of a ConfigMap");
  if (arguments.has("--keys-secret") && !is_name(sidecar.keys_secret))
    return fail(kUsage, "--keys-secret must be the name of a Secret");
  for (const std::string& key : arguments.all("--key")) {
    const std::size_t at = key.find('=');
    const std::string upstream = key.substr(0, at);
    const std::string name = at == std::string::npos ? std::string{} : key.substr(at + 1);
    if (!is_name(upstream) || !is_file_name(name))
      return fail(kUsage, "--key must be UPSTREAM=KEY, such as openai=OPENAI_API_KEY (is " + gateway::say(key) + ")");
    if (std::ranges::any_of(sidecar.keys, [&](const auto& one) { return one.first == upstream; }))
      return fail(kUsage, "--key names " + upstream + " twice");
    sidecar.keys.emplace_back(upstream, name);
  }
  if (sidecar.keys_secret.empty() != sidecar.keys.empty())
    return fail(kUsage, "--keys-secret SECRET and --key UPSTREAM=KEY belong together");
  wishes.containers = arguments.all("--container");

  std::string manifest;
  if (file == "-") {
    manifest.assign(std::istreambuf_iterator<char>{terminal.in}, {});
  } else {
    std::ifstream in{file, std::ios::binary};
    if (!in || std::filesystem::is_directory(file)) return fail(kNotFound, "cannot read " + cell(file, 400));
    manifest.assign(std::istreambuf_iterator<char>{in}, {});
  }
  const auto made = inject_into(manifest, wishes);
  if (!made) return fail(kInvalid, (file == "-" ? "standard input" : file) + ": " + made.error());
  for (const std::string& note : made->notes) terminal.err << "callgate inject: " << note << '\n';
  if (wishes.make_config_map) {
    for (const std::string& note : unknown_upstreams(sidecar)) terminal.err << "callgate inject: " << note << '\n';
  }
  if (made->workloads == 0)
    return fail(kNotFound,
                "there is no Deployment, StatefulSet, DaemonSet, Job, CronJob or Pod in " +
                    (file == "-" ? "standard input" : file));
  if (!sidecar.image.empty() && !sidecar.image.contains('@') &&
      (sidecar.image.ends_with(":latest") ||
       sidecar.image.find(':', sidecar.image.rfind('/') + 1) == std::string::npos))
    terminal.err << "callgate inject: --image " << sidecar.image << " has no version; what runs will change unseen\n";
  as_is(terminal.out) << made->text;
  return kDone;
}

}  // namespace cli
