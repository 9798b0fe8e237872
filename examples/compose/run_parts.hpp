/// What the actors of a run are made of besides themselves: the run directory with its lock and
/// incarnation, the event log, the store of bundles. Errors end the program: this is an example.
#pragma once

#include "actors/audit/event_log.hpp"
#include "actors/checkpoint/checkpoint.hpp"
#include "dataplane/posix_disk.hpp"

struct run_parts {
  run_parts(weir::dataplane::disk& storage, const std::string& path)
      : directory(std::make_shared<weir::dataplane::run_directory>(
            *weir::dataplane::run_directory::acquire(storage, path,
                                                     {weir::dataplane::this_process(), "now"}))),
        life(*directory->raise_incarnation(weir::incarnation(0))),
        log(std::make_shared<weir::event_log>(
            life, *weir::dataplane::append_log::open(storage, directory->events_path(life)))) {
    std::ignore = storage.make_directory(path + "/checkpoints");
    weir::bundle_store_options options;
    options.checkpoint_directory = path + "/checkpoints";
    options.run_id = "reader";
    options.life = life;
    services.store = std::make_shared<weir::bundle_store>(
        storage, directory, options, std::vector<weir::dataplane::bundle>(), std::nullopt);
    services.log = log;
    services.counters = std::make_shared<weir::run_counters>();
  }
  std::shared_ptr<weir::dataplane::run_directory> directory;
  weir::incarnation life;
  std::shared_ptr<weir::event_log> log;
  weir::checkpoint_services services;
};
