"""Tests on a machine that has little time for them: a share of a core, or frozen now and then, as a busy host's are.

    python -m tests.stress share 25 bin/test --only sqlite tests/process
    python -m tests.stress frozen 1.1 1.2 bin/test --only sqlite tests/process

The first gives the command and all that it starts, servers included, a quarter of a core. The second freezes them for
1.1 seconds, again and again, with 1.2 seconds between on average. Both need Linux and root.
"""
