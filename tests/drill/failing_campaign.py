#!/usr/bin/env python3
"""Trains the main job while things fail, under every sampler, and compares it with itself.

    python3 tests/drill/failing_campaign.py build/release/examples/weir/weir [--steps 60] [--seeds 3]

Each sampler trains once per seed without failures. With failures, by the same seeds: one rollout in
twenty ends in an infra failure, and one of the two generators is killed every twenty steps or more
often. in_order trains with one prompt in a hundred that can never be scored as well, in both ways of
dealing with it. All runs of a seed begin with the same warmed-up weights.

Prints a line per run, and exits with 1 unless every run got to its last step, every audit is clean,
and the rewards with failures are within noise of those without: their means differ by no more than
three standard errors, which the spread over seeds and steps gives.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = ROOT / "examples/arithmetic/grpo.yaml"
JUDGE = ROOT / "tests/drill/failing_reward.py"
SAMPLERS = ["in_order", "weight_fifo", "ready_first", "windowed"]
GENERATORS = 2
INFRA_FAILURES = "rollout.produced=error%20"
# Turns of both generators that make some twenty steps; the table says how many died in fact.
GENERATOR_DEATHS = "generator.decoded=error%{turns}"
UNSCORABLE = ["env.kind=command", f"env.command=[python3, {JUDGE}]",
              "async_rl.rollout_failure.max_skipped_prompts=1000",
              "async_rl.rollout_failure.max_consecutive_dropped_prompts=100"]


class Run:
    """One run of the program in a directory of its own."""

    def __init__(self, weir, home, name, seed, steps, settings=(), failpoints=None):
        self.name, self.seed, self.steps = name, seed, steps
        self.directory = Path(home) / f"{name}-{seed}".replace(" ", "_")
        self.checkpoints = self.directory / "checkpoints"
        self.command = [weir, "run", str(JOB)]
        if failpoints:
            self.command += ["--failpoints", failpoints]
        for setting in [f"checkpointing.checkpoint_dir={self.checkpoints}", f"grpo.seed={seed}",
                        f"grpo.max_num_steps={steps}", f"policy.generation.generators={GENERATORS}",
                        "async_rl.rollout_failure.backoff_base_s=0.05",
                        "async_rl.rollout_failure.max_backoff_s=0.5", *settings]:
            self.command += ["--set", setting]
        self.weir = weir

    def begin_at(self, warmed_up):
        """Where another run was killed, this one goes on."""
        shutil.copytree(warmed_up.directory, self.directory)

    def live(self):
        ended = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, timeout=1800)
        self.output = ended.stdout
        self.ended = ended.returncode == 0 and f"step {self.steps}/{self.steps}" in self.output
        audit = subprocess.run([self.weir, "audit", str(self.directory)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.clean = audit.returncode == 0 and "clean: 0 problems" in audit.stdout
        self.rewards = self.steps_of("reward")
        return self

    def steps_of(self, key):
        metrics = self.directory / "metrics.jsonl"
        lines = map(json.loads, metrics.read_text().splitlines()) if metrics.exists() else ()
        return [line[key] for line in lines if line.get("event") == "step"]

    def last_half(self):
        return self.rewards[len(self.rewards) // 2:]

    def mean(self):
        return statistics.fmean(self.last_half()) if self.rewards else math.nan

    def line(self):
        retried = len(re.findall(r"rollout\.produced was armed to fail", self.output))
        died = len(re.findall(r"generator\.decoded was armed to fail", self.output))
        drops = self.steps_of("dropped")
        stale = sum(step["stale"] for step in drops)
        dropped = sum(sum(step.values()) for step in drops) - stale
        return (f"{self.name:32} seed {self.seed}  steps {len(self.rewards):4}  "
                f"reward {self.mean():.3f}  infra {retried:4}  deaths {died:3}  "
                f"dropped {dropped:3}  stale {stale:4}  {'ended' if self.ended else 'NOT ENDED'}  "
                f"{'clean' if self.clean else 'NOT CLEAN'}")


def difference(plain, failing):
    """Of the mean rewards of two kinds of run, and its standard error."""
    ours = [run.mean() for run in failing]
    theirs = [run.mean() for run in plain]

    def variance(runs, means):
        # Between runs; a mean of one run is as uncertain as its steps say.
        between = statistics.variance(means) / len(means) if len(means) > 1 else 0.0
        within = statistics.fmean(
            statistics.variance(run.last_half()) / len(run.last_half()) for run in runs)
        return max(between, within / len(runs))

    error = math.sqrt(variance(plain, theirs) + variance(failing, ours))
    return statistics.fmean(ours) - statistics.fmean(theirs), error


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("weir")
    parse.add_argument("--steps", type=int, default=60)
    parse.add_argument("--seeds", type=int, default=3)
    parse.add_argument("--turns", type=int, default=450, help="turns from death to death")
    parse.add_argument("--keep", help="a directory for the runs, kept")
    asked = parse.parse_args()
    weir = str(Path(asked.weir).resolve())
    home = asked.keep or tempfile.mkdtemp(prefix="weir-failing-")
    seeds = range(1, asked.seeds + 1)
    failing = f"{INFRA_FAILURES},{GENERATOR_DEATHS.format(turns=asked.turns)}"
    fine = True

    # Killed when its first bundle is there, which is the end of the warm-up.
    warmed_up = {seed: Run(weir, home, "warm-up", seed, asked.steps,
                           failpoints="bundle.published=kill@1").live() for seed in seeds}

    def all_seeds(name, settings, failpoints=None):
        nonlocal fine
        runs = []
        for seed in seeds:
            run = Run(weir, home, name, seed, asked.steps, settings, failpoints)
            run.begin_at(warmed_up[seed])
            runs.append(run.live())
            print(run.line(), flush=True)
            fine = fine and run.ended and run.clean
            if not (run.ended and run.clean):
                print(run.output[-2000:])
        return runs

    def compare(name, plain, others):
        nonlocal fine
        if not all(run.rewards for run in plain + others):
            return
        off, error = difference(plain, others)
        within = abs(off) <= 3 * error
        fine = fine and within
        print(f"{name:32} {off:+.3f} +- {error:.3f}: {'within noise' if within else 'NOT WITHIN NOISE'}")

    for sampler in SAMPLERS:
        settings = [f"async_rl.sampler.name={sampler}"]
        plain = all_seeds(sampler, settings)
        compare(sampler, plain, all_seeds(f"{sampler} failing", settings, failing))
        if sampler != "in_order":
            continue
        for action in ["shrink", "replace"]:
            drops = [*UNSCORABLE, f"async_rl.rollout_failure.on_dropped_prompt={action}"]
            compare(f"in_order {action}", plain, all_seeds(f"in_order {action}", settings + drops))

    if not asked.keep:
        shutil.rmtree(home)
    print("all runs ended, clean and within noise" if fine else "FAILED")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
