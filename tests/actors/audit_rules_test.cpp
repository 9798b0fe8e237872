/// Planted violations: for each rule of the audit a sound run with one thing wrong.
#include "actors/audit/audit.hpp"
#include "tests/actors/run_log.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace weir {
namespace {

using testing::run_log;

/// Two steps of two groups were trained, two groups are ready.
run_log sound_run() {
  run_log run(1000);
  run.start();
  for (int step = 0; step < 2; ++step) {
    const std::uint64_t first = run.make(2);
    run.train({first, first + 1});
  }
  run.make(2);
  return run;
}

/// The text of the only problem of a rule; "" when there is none, "several" when there are more.
std::string only(const audit_report& report, audit_rule rule) {
  std::string text;
  for (const audit_problem& each : report.problems)
    if (each.rule == rule) text = text.empty() ? each.text : "several";
  return text;
}

std::string only_problem(const audit_report& report) {
  if (report.problems.size() != 1) {
    std::string all = std::to_string(report.problems.size());
    for (const audit_problem& each : report.problems)
      all.append(" | ").append(to_string(each));
    return all;
  }
  return to_string(report.problems.front());
}

group_event moved(std::uint64_t group, group_state from, group_state to) {
  return {.group = group_id(group), .from = from, .to = to};
}

bool has_part(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_SUITE("actors/audit/ownership") {
  TEST_CASE("a group that is consumed twice is named with both lines") {
    run_log run = sound_run();
    auto twice = moved(1, group_state::claimed, group_state::consumed);
    twice.step = 0;
    run.append("replay", twice);
    CHECK(only_problem(run.audited()) ==
          "events-1.jsonl:33: ownership: group 1 is consumed twice; before: events-1.jsonl:12");
  }

  TEST_CASE("a group that is trained twice, once in an older incarnation's kept part") {
    run_log run = sound_run();
    run.train({4, 5});
    const auto bundle = run.save();
    run.restore(bundle);
    run.now.groups[4] = group_state::ready; // the restore forgot that it was consumed
    run.claim(4);
    const auto report = run.audited();
    has_part(only(report, audit_rule::ownership), "group 4 is consumed, not ready");
  }

  TEST_CASE("a transition from another state than the group's") {
    run_log run = sound_run();
    run.append("replay", moved(4, group_state::admitted, group_state::ready));
    has_part(only(run.audited(), audit_rule::ownership), "group 4 is ready, not admitted");
  }

  TEST_CASE("a transition that is not legal") {
    run_log run = sound_run();
    run.reserve(1);
    run.append("replay", moved(6, group_state::reserved, group_state::ready));
    has_part(only(run.audited(), audit_rule::ownership),
             "group 6: reserved -> ready is no legal transition");
  }

  TEST_CASE("every pair of states is legal or not as the table says") {
    std::size_t legal = 0;
    for (std::size_t from = 0; from < group_states; ++from)
      for (std::size_t to = 0; to < group_states; ++to) {
        run_log run;
        run.start();
        auto what = moved(0, static_cast<group_state>(from), static_cast<group_state>(to));
        what.reason = event_reason::stale;
        run.append("a", what);
        const auto report = run.audited();
        legal += std::ranges::none_of(report.problems, [](const audit_problem& each) {
          return each.text.find("no legal transition") != std::string::npos;
        });
      }
    CHECK(legal == 19);
  }

  TEST_CASE("two owners write one kind of transition") {
    run_log run = sound_run();
    run.reserve(1);
    auto what = moved(6, group_state::reserved, group_state::dropped);
    what.reason = event_reason::stale;
    run.append("replay", what);
    has_part(only(run.audited(), audit_rule::ownership),
             "reserved -> dropped is written by replay, such transitions are those of sampler");
  }

  TEST_CASE("a drop without a reason") {
    run_log run = sound_run();
    run.reserve(1);
    run.drop(6, event_reason::none);
    has_part(only(run.audited(), audit_rule::ownership), "group 6 is dropped without a reason");
  }

  TEST_CASE("groups that are skipped, doubled, or another sample") {
    run_log run = sound_run();
    SUBCASE("skipped group") {
      run.append("dataloader", handed_out_event{group_id(7), 1, {0, 6}});
      has_part(only(run.audited(), audit_rule::ownership),
               "group 7 is handed out, the next one is 6: skipped");
    }
    SUBCASE("doubled group") {
      run.append("dataloader", handed_out_event{group_id(5), 1, {0, 6}});
      has_part(only(run.audited(), audit_rule::ownership), "the next one is 6: doubled");
    }
    SUBCASE("skipped sample") {
      run.append("dataloader", handed_out_event{group_id(6), 1, {0, 7}});
      has_part(only(run.audited(), audit_rule::ownership), "sample 0/7 follows sample 0/5");
    }
    SUBCASE("doubled sample") {
      run.append("dataloader", handed_out_event{group_id(6), 1, {0, 5}});
      has_part(only(run.audited(), audit_rule::ownership), "sample 0/5 follows sample 0/5");
    }
    SUBCASE("an epoch is skipped") {
      run.append("dataloader", handed_out_event{group_id(6), 1, {2, 0}});
      has_part(only(run.audited(), audit_rule::ownership), "sample 2/0 follows sample 0/5");
    }
    SUBCASE("a batch of nothing, and one that no batch can be") {
      run.append("dataloader", handed_out_event{group_id(6), 0, {0, 6}});
      run.append("dataloader", handed_out_event{group_id(6), ~std::uint64_t{0}, {0, 6}});
      CHECK(run.audited().problems_total == 2);
    }
    SUBCASE("reserved as another sample") {
      run.append("dataloader", handed_out_event{group_id(6), 1, {0, 6}});
      auto what = moved(6, group_state::none, group_state::reserved);
      what.sample = sample_id{0, 9};
      run.append("sampler", what);
      has_part(only(run.audited(), audit_rule::ownership),
               "group 6 is sample 0/9, it was handed out as sample 0/6");
    }
  }

  TEST_CASE("epochs are equally long, across restarts too") {
    run_log run(4);
    run.start();
    run.reserve(6); // epoch 0, and two of epoch 1
    const auto bundle = run.save();
    run.restore(bundle);
    run.reserve(2);
    CHECK(run.audited().clean());
    SUBCASE("a short epoch after a resume") {
      run_log cut_short = run;
      cut_short.append("dataloader", handed_out_event{group_id(8), 1, {2, 0}});
      cut_short.append("dataloader", handed_out_event{group_id(9), 1, {3, 0}});
      has_part(only(cut_short.audited(), audit_rule::ownership),
               "epoch 2 had 1 samples, an earlier one 4");
    }
    SUBCASE("a long one") {
      run.append("dataloader", handed_out_event{group_id(8), 5, {2, 0}});
      has_part(only(run.audited(), audit_rule::ownership), "epochs have 4");
    }
  }

  TEST_CASE("a claim and its consumption are of one step") {
    run_log run = sound_run();
    run.claim(4);
    auto what = moved(4, group_state::claimed, group_state::consumed);
    what.step = 3;
    run.append("replay", what);
    has_part(only(run.audited(), audit_rule::ownership),
             "group 4 is consumed by step 3, claimed by 2");
  }
}

TEST_SUITE("actors/audit/staleness") {
  TEST_CASE("a group that is older than its window") {
    run_log run = sound_run();
    auto what = moved(4, group_state::ready, group_state::ready);
    what.reason = event_reason::restamped; // no stamp any more
    what.window = 1;
    run.append("replay", what);
    run.finish_step();
    run.finish_step();
    run.claim(4);
    has_part(only_problem(run.audited()), "group 4 is 2 versions stale, its window is 1");
  }

  TEST_CASE("a sampler that promises no bound is not held to one") {
    run_log run = sound_run();
    auto what = moved(4, group_state::ready, group_state::ready);
    what.reason = event_reason::restamped;
    run.append("replay", what);
    run.finish_step();
    run.finish_step();
    run.claim(4);
    CHECK(run.audited().clean());
  }

  TEST_CASE("a group that is within its window, after a restart as before") {
    run_log run = sound_run();
    run.reserve(1);
    run.admit(6, 3);
    run.finish(6);
    run.train({4, 5});
    const auto bundle = run.save();
    run.restore(bundle);
    run.train({6});
    const auto report = run.audited();
    CHECK(report.clean());
    CHECK(report.staleness_max == 1);
  }

  TEST_CASE("a stamped group is trained in the step of its stamp") {
    run_log run = sound_run();
    run.finish_step();
    run.train({4, 5});
    const auto report = run.audited();
    CHECK(std::ranges::count(report.problems, audit_rule::staleness, &audit_problem::rule) == 4);
    has_part(report.problems.front().text, "group 4 is trained in step 3, stamped for 2");
  }
}

TEST_SUITE("actors/audit/versions") {
  TEST_CASE("a label that precedes its weights") {
    run_log run = sound_run();
    run.reserve(1);
    run.admit(6, 3);
    auto what = moved(6, group_state::admitted, group_state::ready);
    what.start_version = weight_version(2);
    what.end_version = weight_version(3);
    run.append("replay", what);
    CHECK(only(run.audited(), audit_rule::versions) ==
          "group 6: its end version is 3, the newest that a step had published is 2");
  }

  TEST_CASE("labels that are missing or in the wrong order") {
    run_log run = sound_run();
    run.reserve(1);
    run.admit(6, 3);
    auto what = moved(6, group_state::admitted, group_state::ready);
    SUBCASE("missing") {
      run.append("replay", what);
      has_part(only(run.audited(), audit_rule::versions), "without a start and an end version");
    }
    SUBCASE("started before its admission") {
      what.start_version = weight_version(1);
      what.end_version = weight_version(2);
      run.append("replay", what);
      has_part(only(run.audited(), audit_rule::versions),
               "admission version 2, start version 1, end version 2 are not in this order");
    }
  }

  TEST_CASE("pinned weights: the step of a group says which version makes all of it") {
    run_log run(1000);
    run.start(generation_terms{.window = 1, .oldest_pin = weight_version(0)});
    for (int step = 0; step < 2; ++step) {
      run.reserve(1);
      const auto group = static_cast<std::uint64_t>(step);
      run.admit(group, step);
      auto what = moved(group, group_state::admitted, group_state::ready);
      what.start_version = what.end_version = weight_version(0); // max(0, step - 1)
      run.now.groups[group] = group_state::ready;
      run.append("replay", what);
      run.train({group});
    }
    run.reserve(1);
    run.admit(2, 2); // At version 2: by version 1.
    auto what = moved(2, group_state::admitted, group_state::ready);
    SUBCASE("by that one, below its admission version") {
      what.start_version = what.end_version = weight_version(1);
      run.append("replay", what);
      CHECK(run.audited().clean());
    }
    SUBCASE("by the one that was live") {
      what.start_version = what.end_version = weight_version(2);
      run.append("replay", what);
      CHECK(only(run.audited(), audit_rule::versions) ==
            "group 2 was made by versions 2 to 2, and step 2 with a window of 1 pins it to 1");
    }
    SUBCASE("by two") {
      what.start_version = weight_version(1);
      what.end_version = weight_version(2);
      run.append("replay", what);
      has_part(only(run.audited(), audit_rule::versions), "was made by versions 1 to 2");
    }
  }

  TEST_CASE("pinned weights after a resume: the oldest version that exists, where it is later") {
    run_log run(1000);
    run.start(generation_terms{.window = 3, .oldest_pin = weight_version(1)});
    run.reserve(1);
    run.finish_step();
    run.admit(0, 1);
    auto what = moved(0, group_state::admitted, group_state::ready);
    what.start_version = what.end_version = weight_version(1);
    run.append("replay", what);
    CHECK(run.audited().clean());
  }

  TEST_CASE("without pins one version does not excuse a start before the admission") {
    run_log run(1000);
    run.start(generation_terms{.window = 1});
    run.finish_step();
    run.finish_step();
    run.reserve(1);
    run.admit(0, 2);
    auto what = moved(0, group_state::admitted, group_state::ready);
    what.start_version = what.end_version = weight_version(1);
    run.append("replay", what);
    CHECK(only(run.audited(), audit_rule::versions) ==
          "group 0: admission version 2, start version 1, end version 1 are not in this order");
  }

  TEST_CASE("a new stamp demands no weights that its step could not wait for") {
    run_log run(1000);
    run.start(generation_terms{.window = 1});
    run.reserve(1);
    run.admit(0, 0);
    auto what = moved(0, group_state::admitted, group_state::admitted);
    what.reason = event_reason::restamped;
    what.target_step = 3;
    what.admission_version = weight_version(2); // With one version of look-ahead.
    run.append("sampler", what);
    CHECK(run.audited().clean());
    what.admission_version = weight_version(3);
    run.append("sampler", what);
    CHECK(only(run.audited(), audit_rule::versions) ==
          "group 0 may start on version 3 at the earliest, for step 3 with a window of 1");
  }

  TEST_CASE("a claim names the version that the trainer has") {
    run_log run = sound_run();
    auto what = moved(4, group_state::ready, group_state::claimed);
    what.step = 2;
    SUBCASE("another") {
      what.trainer_version = weight_version(1);
      run.append("replay", what);
      has_part(only(run.audited(), audit_rule::versions),
               "group 4 is claimed at version 1, the trainer has published 2");
    }
    SUBCASE("none") {
      run.append("replay", what);
      has_part(only(run.audited(), audit_rule::versions), "without the trainer's version");
    }
  }

  TEST_CASE("versions rise by one") {
    run_log run = sound_run();
    run.append("trainer", step_finished_event{.step = 2, .version = weight_version(4)});
    has_part(only(run.audited(), audit_rule::versions), "step 2 makes version 4 of version 2");
  }
}

TEST_SUITE("actors/audit/conservation") {
  TEST_CASE("the owners' tallies are those of their events") {
    run_log run = sound_run();
    cut_event cut = run.cut_now();
    cut.tallies.of(group_state::ready).remove(group_id(4));
    cut.tallies.of(group_state::ready).add(group_id(3)); // the count alone would hide it
    run.publish(cut);
    const auto text = only_problem(run.audited());
    has_part(text, "conservation: cut 1.1.1: ready: the owners said 2 groups");
  }

  TEST_CASE("a cut between a hand-out and its reservation") {
    run_log run = sound_run();
    run.append("dataloader", handed_out_event{group_id(6), 2, {0, 6}});
    const cut_event torn = run.cut_now();
    run.append("sampler", moved(6, group_state::none, group_state::reserved));
    run.append("sampler", moved(7, group_state::none, group_state::reserved));
    run.publish(torn);
    const auto report = run.audited();
    CHECK(report.problems_total == 2);
    has_part(report.problems.back().text, "handed out 8 groups");
  }

  TEST_CASE("a cut between the consumption of a batch and the trainer's step") {
    run_log run = sound_run();
    run.claim(4);
    run.consume(4);
    SUBCASE("consumed first") {
      run.save();
      has_part(only_problem(run.audited()),
               "groups claimed at version 2 are consumed, and the step that trained on them is "
               "not finished");
    }
    SUBCASE("finished first") {
      run.claim(5);
      run.finish_step();
      run.save();
      has_part(only_problem(run.audited()), "group 5 is still claimed, and the step that trained "
                                            "on it, at version 2, is finished");
    }
  }
}

TEST_SUITE("actors/audit/leak") {
  TEST_CASE("what may be left depends on how the run ended") {
    const auto ended = [](finish_reason reason) {
      run_log run = sound_run();
      run.claim(4);
      run.end(reason);
      return only_problem(run.audited());
    };
    has_part(ended(finish_reason::steps_reached),
             "leak: the run ended (steps_reached) with 1 groups claimed");
    CHECK(ended(finish_reason::stopped).starts_with("0"));
    CHECK(ended(finish_reason::failed).starts_with("0"));
    const std::string all = ended(finish_reason::end_of_data);
    CHECK(all.starts_with("2 | "));
    has_part(all, "with 1 groups ready");
    has_part(all, "with 1 groups claimed");
  }

  TEST_CASE("a handed-out group that is nowhere at the end") {
    run_log run = sound_run();
    run.append("dataloader", handed_out_event{group_id(6), 1, {0, 6}});
    run.end(finish_reason::steps_reached);
    has_part(only_problem(run.audited()),
             "the run ended with 7 groups handed out and 6 accounted for");
  }
}

TEST_SUITE("actors/audit/log") {
  TEST_CASE("a bundle's MANIFEST and the log say the same") {
    run_log run = sound_run();
    run.save();
    CHECK(run.audited().clean());
    bundle_facts& bundle = run.bundles.front();
    SUBCASE("sequences") {
      bundle.owners.front().sequence = sequence_number(2);
      has_part(only_problem(run.audited()), "dataloader is at event 2, the log says 3");
    }
    SUBCASE("owners") {
      bundle.owners.pop_back();
      has_part(only_problem(run.audited()), "it names 3 owners, the log 4");
    }
    SUBCASE("parent") {
      bundle.parent = "step_1";
      has_part(only_problem(run.audited()), "MANIFEST says \"step_1\"");
    }
    SUBCASE("a cut that is not logged") {
      bundle.epoch.number = 9;
      has_part(only_problem(run.audited()), "its cut 1.1.9 is not in events-1.jsonl");
    }
    SUBCASE("a log that is gone") {
      bundle.epoch.incarnation = 8;
      has_part(only_problem(run.audited()), "no log of incarnation 8");
    }
    SUBCASE("two bundles of one cut") {
      run.bundles.push_back(bundle);
      has_part(only_problem(run.audited()), "epoch 1.1.1 is also that of step_2.101");
    }
  }

  TEST_CASE("a cut holds only what the log holds, of every owner, and later ones hold more") {
    run_log run = sound_run();
    SUBCASE("more than the log") {
      cut_event cut = run.cut_now();
      cut.owners[1].sequence = sequence_number(99);
      run.publish(cut);
      has_part(only_problem(run.audited()), "holds event 99 of sampler, its log ends with 12");
    }
    SUBCASE("not every owner") {
      cut_event cut = run.cut_now();
      cut.owners.erase(cut.owners.begin() + 2);
      run.append("checkpoint", cut);
      has_part(only(run.audited(), audit_rule::log), "does not hold replay, which writes events");
    }
    SUBCASE("an older epoch") {
      const cut_event first = run.cut_now();
      run.append("checkpoint", run.cut_now());
      run.append("checkpoint", first);
      has_part(only_problem(run.audited()), "cut 1.1.1 follows cut 1.1.2");
    }
    SUBCASE("an owner that goes back") {
      run.append("checkpoint", run.cut_now());
      cut_event back = run.cut_now();
      back.owners[2].sequence = sequence_number(3);
      run.append("checkpoint", back);
      has_part(only(run.audited(), audit_rule::log),
               "replay is at event 3, in the cut before it was at 14");
    }
  }

  TEST_CASE("publications are in order, of logged cuts, with their parents") {
    run_log run = sound_run();
    const auto first = run.save();
    SUBCASE("twice") {
      run.append("checkpoint", published_event{"step_9", first.epoch, first.bundle});
      has_part(only_problem(run.audited()), "is published after 1.1.1");
    }
    SUBCASE("of no cut") {
      run.append("checkpoint", published_event{"step_9", {1, 1, 9}, first.bundle});
      has_part(only_problem(run.audited()), "no cut 1.1.9 is logged");
    }
    SUBCASE("with another parent") {
      run.append("checkpoint", run.cut_now());
      run.append("checkpoint", published_event{"step_9", {1, 1, 2}, "step_1"});
      has_part(only_problem(run.audited()),
               "its parent is \"step_1\", the history says \"step_2.101\"");
    }
  }

  TEST_CASE("a restore names a cut of an earlier incarnation, before anything else happens") {
    run_log run = sound_run();
    auto bundle = run.save();
    SUBCASE("unknown cut: nothing is believed about what follows") {
      bundle.epoch.number = 7;
      run.restore(bundle);
      run.make(1);
      const auto report = run.audited();
      has_part(only_problem(report), "no log has its cut 1.1.7");
      CHECK_FALSE(report.incarnations[1].survives);
    }
    SUBCASE("its own or a later incarnation") {
      bundle.epoch.incarnation = 2;
      run.restore(bundle);
      has_part(only_problem(run.audited()), "no log has its cut 2.1.1");
    }
    SUBCASE("twice") {
      run.restore(bundle);
      run.append("checkpoint", restored_event{bundle.bundle, bundle.epoch});
      has_part(only_problem(run.audited()), "restored twice in one incarnation");
    }
    SUBCASE("late") {
      run.append("checkpoint", restored_event{bundle.bundle, {0, 1, 1}});
      has_part(only(run.audited(), audit_rule::log), "several");
    }
  }
}

} // namespace weir
