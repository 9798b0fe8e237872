#!/usr/bin/env python3
"""Scores the answers of the main job as a program of one's own: the same rewards as grpo.yaml's
`env.exact_answer`, so that one can be compared with the other.

weir starts one process of it per `env.workers`, writes one JSON object a line to its standard input
and reads one a line from its standard output, in any order:

    -> {"id": 7, "prompt": "3 + 4 = ?", "answer": "7", "completion": "7"}
    <- {"id": 7, "reward": 1.0, "done": true, "observation": ""}

Nothing else may be written to the standard output. What is printed to the standard error stream
goes to weir's log. At the end of its input the program ends; when it fails it is started again.
"""

import json
import re
import sys

EXACT = 1.0  # The right number.
CONCISE = 0.1  # A number and nothing else.
DIGITS = 0.2  # Times the share of digits that are right, in their places.


def reward(completion: str, answer: str) -> float:
    text = completion.split("\n")[0]
    numbers = re.findall(r"(?<![\w)])-?\d+|\d+", text)
    if not numbers:
        return 0.0
    found, expected = str(int(numbers[-1])), answer.strip()
    if found == expected:
        return EXACT
    concise = CONCISE if text.strip() == numbers[-1] else 0.0
    equal = sum(ours == right for ours, right in zip(found, expected))
    return concise + DIGITS * (equal / max(len(found), len(expected)))


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        scored = {"id": asked["id"], "reward": reward(asked["completion"], asked["answer"])}
        print(json.dumps(scored), flush=True)


if __name__ == "__main__":
    main()
