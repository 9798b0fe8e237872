/// The command line of weir. Reading it is all that happens here.
#include "examples/weir/commands.hpp"
#include "examples/weir/config_text.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace {

using weir::exit_code;

/// Everything that the command line can say.
struct command_line {
  weir::run_arguments run;
  weir::drill_arguments drill;
  std::string from;
  std::string config_path;
  std::vector<std::string> overrides;
  std::string bundle;
  std::string other_bundle;
  std::string export_directory;
  std::string run_directory;
  bool keys = false;
};

void add_config(CLI::App* command, std::string& path, std::vector<std::string>& overrides) {
  command->add_option("CONFIG", path, "the YAML file of the run")->required();
  command->add_option("--set", overrides, "override a key: a.b=c (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

void add_bundle_commands(CLI::App& app, command_line& line) {
  const auto add = [&](const char* name, const char* what, const char* argument,
                       std::string& bundle) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option(argument, bundle, "the directory of the bundle")->required();
    return command;
  };
  add("inspect", "print what a bundle holds", "BUNDLE", line.bundle);
  add("verify", "verify every byte of a bundle, and that its parts agree", "BUNDLE", line.bundle);
  add("export", "write rows as safetensors and JSON Lines", "BUNDLE", line.bundle)
      ->add_option("DIR", line.export_directory, "where to, made if it is missing")
      ->required();
  add("diff", "print what differs between two bundles", "A", line.bundle)
      ->add_option("B", line.other_bundle, "the directory of the other bundle")
      ->required();
}

void describe(CLI::App& app, command_line& line) {
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "run, or resume from the newest valid bundle");
  add_config(run, line.run.config_path, line.run.overrides);
  CLI::Option* fresh = run->add_flag("--fresh", line.run.fresh,
                                     "set aside what the run directory holds, start anew");
  run->add_flag("--drop-replay", line.run.drop_replay,
                "generate the finished groups of the bundle again, with fresh samples")
      ->excludes(fresh);
  run->add_option("--from", line.from, "restore this bundle instead of the newest")
      ->type_name("step_N")
      ->excludes(fresh);
  run->add_option("--failpoints", line.run.failpoints, "make named points fail: name=kill@3,...")
      ->type_name("LIST");

  CLI::App* check = app.add_subcommand("check", "print the resolved configuration");
  CLI::Option* keys = check->add_flag("--keys", line.keys, "print the reference of all keys");
  check->add_option("CONFIG", line.config_path, "the YAML file of the run")->excludes(keys);
  check->add_option("--set", line.overrides, "override a key: a.b=c (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");

  CLI::App* graph = app.add_subcommand("graph", "print the graph of actors, for Graphviz");
  add_config(graph, line.config_path, line.overrides);

  add_bundle_commands(app, line);

  CLI::App* audit = app.add_subcommand("audit", "check that no prompt was lost or trained twice");
  audit->add_option("RUN_DIR", line.run_directory, "the run directory")->required();

  CLI::App* drill = app.add_subcommand("drill", "kill the run at random instants, and compare");
  add_config(drill, line.drill.config_path, line.drill.overrides);
  drill->add_option("--kills", line.drill.kills, "how often (10)")->check(CLI::Range(1, 100'000));
  drill->add_option("--seed", line.drill.seed, "seed of the instants (1)");
}

exit_code dispatch(const CLI::App& app, command_line& line) {
  if (app.got_subcommand("run")) {
    if (!line.from.empty()) line.run.from = line.from;
    return weir::run(line.run);
  }
  if (app.got_subcommand("check")) {
    if (line.keys) {
      std::fputs(weir::config_reference().c_str(), stdout);
      return exit_code::done;
    }
    if (line.config_path.empty()) {
      std::fputs("weir check: name a CONFIG, or give --keys for the reference\n", stderr);
      return exit_code::bad_usage;
    }
    return weir::check(line.config_path, line.overrides);
  }
  if (app.got_subcommand("graph")) return weir::print_graph(line.config_path, line.overrides);
  if (app.got_subcommand("inspect")) return weir::inspect(line.bundle);
  if (app.got_subcommand("verify")) return weir::verify(line.bundle);
  if (app.got_subcommand("export")) return weir::export_bundle(line.bundle, line.export_directory);
  if (app.got_subcommand("diff")) return weir::diff(line.bundle, line.other_bundle);
  if (app.got_subcommand("audit")) return weir::print_audit(line.run_directory);
  return weir::drill(line.drill);
}

} // namespace

int main(int argument_count, char** arguments) {
  CLI::App app("weir: asynchronous RL post-training whose rollouts survive kill -9", "weir");
  command_line line;
  describe(app, line);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& refused) {
    const bool asked_for_help = app.exit(refused) == 0;
    return static_cast<int>(asked_for_help ? exit_code::done : exit_code::bad_usage);
  }
  return static_cast<int>(dispatch(app, line));
}
