"""The SDK's first import: it reads its limits then, and a word in place of a number would be the end of all telemetry.

So it is imported where the variables that are not for it are out of sight (see environment.py).
"""

import os

from sidecar.telemetry.environment import sdk_environ

with sdk_environ(os.environ):
    import opentelemetry.sdk.trace  # noqa: F401 - for what its import reads
