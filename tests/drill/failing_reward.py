#!/usr/bin/env python3
"""The rewards of the main job, but one prompt in a hundred can never be scored."""

import json
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/arithmetic"))
from reward import reward  # noqa: E402

for line in sys.stdin:
    asked = json.loads(line)
    broken = zlib.crc32(asked["prompt"].encode()) % 100 == 0
    score = None if broken else reward(asked["completion"], asked["answer"])
    print(json.dumps({"id": asked["id"], "reward": score}), flush=True)
