"""No test reaches a network, a home directory's caches, or anybody's statistics."""

import os
import signal

# Where the shell has started the tests in the background, Ctrl-C is ignored, and every process that a test starts would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    ORT_DISABLE_TELEMETRY="1",
    DVC_NO_ANALYTICS="1",
    DO_NOT_TRACK="1",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    TOKENIZERS_PARALLELISM="false",
    # Several test files run at once: more threads would only wait for each other.
    OMP_NUM_THREADS="1",
)
